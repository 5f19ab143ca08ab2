"""The record of a run on GPUs."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from forkwheel.gpu.checks import FAIL, PASS, Check, counts
from forkwheel.gpu.smoke import Setting

SCHEMA = 1


def architecture_of(target: str) -> str:
    """Return the architecture that a target such as sm_120a is for: SM120."""
    return "SM" + re.sub(r"[^0-9]", "", target)


def statement(setting: Setting) -> str:
    """Say in one line what the run was on, and what it was not."""
    device = setting.machine.devices[0]
    text = f"ran on {len(setting.machine.devices)} x {device.name} ({device.architecture})"
    text += ", fewer shapes" if setting.quick else ""
    wanted = architecture_of(setting.recipe.target)
    return text if device.architecture == wanted else f"{text}; {wanted} was not run"


def header(setting: Setting, *, date: str, kind: str) -> dict[str, Any]:
    """Return what every record of a run begins with; ``date`` is ISO 8601."""
    device, environment = setting.machine.devices[0], setting.environment
    return {
        "schema": SCHEMA,
        "kind": kind,
        "recipe": setting.recipe.name,
        "revision": setting.manifest["recipe"]["revision"],
        "date": date,
        "statement": statement(setting),
        "gpu": {
            "name": device.name,
            "architecture": device.architecture,
            "count": len(setting.machine.devices),
            "multiprocessors": device.multiprocessors,
        },
        "target": setting.recipe.target,
        "ran_on_target": device.architecture == architecture_of(setting.recipe.target),
        "driver": setting.machine.driver,
        "cuda": {"driver": ".".join(map(str, setting.machine.cuda)), "torch": environment.torch_cuda},
        "torch": environment.torch,
        "python": environment.python_version,
        "worlds": {str(size): list(devices) for size, devices in setting.worlds.items()},
        "wheels": [{"filename": wheel.file.name, "sha256": wheel.sha256} for wheel in setting.wheels],
    }


def smoke_document(setting: Setting, checks: Sequence[Check], *, date: str, kind: str) -> dict[str, Any]:
    """Return the verdict's document: ``PASS`` only where nothing failed and, for smoke, the matrix ran."""
    missing = unrun(setting, checks) if kind == "smoke" else []
    verdict = PASS if not missing and not counts(checks)[FAIL] else FAIL
    return header(setting, date=date, kind=kind) | {
        "verdict": verdict,
        "shapes": {"tokens": list(setting.plan.shapes.tokens), "hidden": list(setting.plan.shapes.hidden)},
        "counts": counts(checks),
        "not_run": missing,
        "checks": [without_paths(setting, check.document()) for check in checks],
    }


def without_paths(setting: Setting, document: dict[str, Any]) -> dict[str, Any]:
    """Return a document in which this machine's folders are named by what they are."""
    named = {
        str(setting.work): "WORK",
        str(setting.environment.base.parent.parent): "BASE",
        str(Path(__file__).resolve().parents[2]): "FORKWHEEL",
    }
    text = json.dumps(document)
    for path in sorted((path for path in named if len(path) > 1), key=len, reverse=True):
        text = text.replace(json.dumps(path)[1:-1], named[path])
    return dict(json.loads(text))


def unrun(setting: Setting, checks: Sequence[Check]) -> list[str]:
    """List the operations of which no case ran, for each world size."""
    missing = []
    for size in setting.worlds:
        for operation in setting.plan.operations:
            ran = (
                check.status != "SKIP" and check.name.startswith(f"{operation.name} ") and f"{size} ranks" in check.name
                for check in checks
            )
            if not any(ran):
                missing.append(f"{operation.name}, {size} ranks")
    return missing
