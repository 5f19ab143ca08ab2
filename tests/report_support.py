"""A report made on the spot, with texts that a page must not take at their word."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from publish_support import make_set
from support import PACKAGE

from forkwheel.patching.series import Series, parse_patch
from forkwheel.recipe import GitSource, Recipe, Submodule
from forkwheel.release.carried import Carried
from forkwheel.release.manifest import manifest_source
from forkwheel.release.page.record import Part, Record, Report

EVIL = "<script>alert(1)</script>"
BIDI = "\N{RIGHT-TO-LEFT OVERRIDE}"

PATCH = f"""\
Description: let {EVIL} & "quotes" pass
 A reason of its own, with <b>markup</b>.
Origin: forkwheel's tests
Forwarded: no
Last-Update: 2026-11-29

--- a/demo.py
+++ b/demo.py
@@ -1,2 +1,2 @@
 first = "{EVIL}"
-second = 1
+second = 2  # {BIDI}hidden{BIDI} {"long " * 1000}
"""

GIT = GitSource(
    url="https://example.com/demo.git",
    commit="a" * 40,
    tag="v1.0",
    subdirectory="",
    submodules=(Submodule("3rdparty/part", "b" * 40),),
)


def make_report(folder: Path, *records: Record, lock: str = "locked", signed: bool = False) -> Report:
    wheels = make_set(folder / "dist")
    package = replace(PACKAGE, sources=(GIT, *PACKAGE.sources))
    recipe = Recipe("fork", "fork", 1, "sm_120a", "", (package,), folder / "recipe.toml")
    sources = [manifest_source(source) for source in package.sources]
    series = Series(folder, (parse_patch(PATCH.encode(), folder / "evil.patch"),))
    parts = tuple(
        Part({**entry, "sources": sources}, Carried(wheel.path, recipe, {}), series)
        for entry, wheel in zip(wheels.document["packages"], wheels.wheels, strict=True)
    )
    return Report(wheels, parts, records, lock, signed)


def smoke(**more: Any) -> Record:
    checks = [
        {"name": f"fusion {number} ranks {EVIL}", "status": status, "detail": f"detail {EVIL}"}
        for number, status in enumerate(("PASS", "FAIL", "SKIP"))
    ]
    document = {"verdict": "FAIL", "checks": checks, "counts": {"PASS": 1, "FAIL": 1, "SKIP": 1}, "driver": EVIL}
    return Record("fork.smoke.json", "smoke", document | more, more.pop("current", True))


def bench() -> Record:
    def timing(value: float) -> dict[str, float]:
        return {"median": value, "low": value, "high": value, "noise": 0.01}

    points = [
        {
            "world_size": 2,
            "hidden": hidden,
            "tokens": tokens,
            "fused": {"one-shot": timing(5.0 + tokens / 20)},
            "others": {"nccl": timing(15.0 + tokens / 40)},
            "ratio": 0.5,
            "wins": True,
        }
        for hidden in (4096, 7168)
        for tokens in (1, 16, 256, 2048)
    ]
    document = {
        "statement": "ran on 2 x a GPU",
        "dtype": "bfloat16",
        "points": points,
        "crossovers": [{"world_size": 2, "hidden": 4096, "tokens": 400}],
        "advice": {"line": f"leave it off {EVIL}"},
        "failures": [],
    }
    return Record("fork.bench.json", "bench", document, True)


def census() -> Record:
    limits = {key: [1, 2] for key in ("instructions", "registers", "shared", "stack")}
    family = {"kernels": 3, **limits, "spilling": 0, "waiting": 3, "launching": 3}
    name = f"demo::{'very_' * 20}long_kernel{EVIL}"
    changes = [{"family": name, "what": "instructions", "before": "16", "after": "184"}]
    document = {"targets": ["sm_120a"], "families": {name: family}, "changes": changes, "changed_kernels": ["a"]}
    return Record("fork.census.json", "census", document, None)


def audit() -> Record:
    gate = {"admits": {"12.0": "no", "9.0": "yes"}}
    open_gate = {"admits": {"12.0": "yes", "9.0": "yes"}}
    step = [{"gate": 0, "layer": "layer", "distance": 1, "counts": True}]
    part = {"target": "12.0", "references": ["9.0"], "path": step}
    difference = [{"change": "opened", "layer": "layer", "place": "demo.py:2", "condition": f"is_sm90() {EVIL}"}]
    document = {
        "before": part | {"gates": [gate]},
        "after": part | {"gates": [open_gate]},
        "difference": difference,
    }
    return Record("fork.audit.json", "audit", document, None)
