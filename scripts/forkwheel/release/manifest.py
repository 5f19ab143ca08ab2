"""The manifest of a build (inputs and hashes only), and what was observed of one run."""

from __future__ import annotations

import json
import platform
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from forkwheel import __version__
from forkwheel.patching.apply import Change
from forkwheel.plan import Plan
from forkwheel.recipe import GitSource, Recipe, Source
from forkwheel.wheels.finish import Wheel

SCHEMA = 1


@dataclass(frozen=True)
class Built:
    """One package's wheel: what it was planned from, and how this run came by it.

    ``seconds`` is what this run spent on it; ``reused`` tells that it was built before.
    """

    plan: Plan
    wheel: Wheel
    changes: tuple[Change, ...]
    reused: bool
    seconds: float


def manifest(recipe: Recipe, built: tuple[Built, ...]) -> dict[str, Any]:
    """Describe a set of wheels; the same inputs give the same document on every machine."""
    return {
        "schema": SCHEMA,
        "recipe": {
            "name": recipe.name,
            "local": recipe.local,
            "revision": recipe.revision,
            "target": recipe.target,
        },
        "packages": [_package(items) for items in _by_package(built)],
        **_taken(built),
    }


def _by_package(built: tuple[Built, ...]) -> list[list[Built]]:
    """Group what was built by package; what was taken as it is is left out."""
    groups: dict[str, list[Built]] = {}
    for item in built:
        if not item.plan.package.is_taken:
            groups.setdefault(item.plan.package.name, []).append(item)
    return list(groups.values())


def _taken(built: tuple[Built, ...]) -> dict[str, Any]:
    """List the wheels of upstream that go with the set, where there are any."""
    taken = [
        {"name": item.plan.package.name, "version": item.plan.version, "wheel": _wheel(item)}
        for item in built
        if item.plan.package.is_taken
    ]
    return {"taken": taken} if taken else {}


def _wheel(item: Built) -> dict[str, Any]:
    return {"filename": item.wheel.filename, "sha256": item.wheel.sha256, "size": item.wheel.size}


def _wheels(items: list[Built]) -> dict[str, Any]:
    """Describe the one wheel of a package, or each of several, which have keys of their own."""
    if len(items) == 1:
        plan = items[0].plan
        keys = {"key": plan.key.digest, "parts": dict(plan.key.parts), "tree": plan.source.tree.digest}
        return {
            "wheel": _wheel(items[0]),
            **keys,
            "sources": [manifest_source(source) for source in plan.package.sources],
        }
    wheels = [
        {
            **_wheel(item),
            "tags": item.plan.tags,
            "key": item.plan.key.digest,
            "parts": dict(item.plan.key.parts),
            "tree": item.plan.source.tree.digest,
        }
        for item in items
    ]
    first = items[0].plan.key.parts
    return {
        "wheels": wheels,
        "key": _joined(wheel["key"] for wheel in wheels),
        "parts": dict(part for part in first if all(part in item.plan.key.parts for item in items)),
        "tree": _joined(wheel["tree"] for wheel in wheels),
        "sources": [manifest_source(source) for item in items for source in item.plan.package.sources],
    }


def _joined(digests: Iterable[str]) -> str:
    return sha256(" ".join(digests).encode()).hexdigest()


def _package(items: list[Built]) -> dict[str, Any]:
    item = items[0]
    plan = item.plan
    return {
        **_wheels(items),
        "name": plan.package.name,
        "version": plan.version,
        "upstream_version": plan.package.version,
        "epoch": plan.package.epoch,
        "development": plan.revision == 0,
        "requires": dict(plan.required),
        "patches": [_patch(patch) for patch in plan.series.patches],
        "patched_files": {change.path: change.after.sha256 if change.after else None for change in item.changes},
        "inputs": [
            {"name": requirement.name, "version": requirement.version, "hashes": sorted(requirement.hashes)}
            for requirement in plan.inputs.requirements
        ],
    }


def manifest_source(source: Source) -> dict[str, Any]:
    """Describe a pinned source."""
    if not isinstance(source, GitSource):
        return {"kind": source.kind, "filename": source.filename, "sha256": source.sha256}
    return {
        "kind": "git",
        "url": source.url,
        "commit": source.commit,
        "tag": source.tag,
        "subdirectory": source.subdirectory,
        "submodules": {submodule.path: submodule.commit for submodule in source.submodules},
    }


def _patch(patch: Any) -> dict[str, Any]:
    return {
        "name": patch.name,
        "sha256": patch.sha256,
        "description": patch.header.description,
        "files": [file.path for file in patch.files],
    }


def observed(recipe: Recipe, built: tuple[Built, ...], *, started: str, finished: str) -> dict[str, Any]:
    """Describe what differs from run to run: sources that served, host, times (ISO 8601, seconds)."""
    return {
        "schema": SCHEMA,
        "recipe": recipe.name,
        "started": started,
        "finished": finished,
        "host": {"platform": platform.platform(), "python": sys.version.split()[0], "forkwheel": __version__},
        "packages": {
            item.plan.label: {
                "source": item.plan.source.source.kind,
                "fetched": dict(item.plan.source.observed),
                "reused": item.reused,
                "seconds": round(item.seconds, 3),
            }
            for item in built
        },
    }


def write_json(document: dict[str, Any]) -> bytes:
    """Write a document in the one form that all records have."""
    return (json.dumps(document, indent=2, sort_keys=True, ensure_ascii=True) + "\n").encode()


def read_manifest(file: Path) -> dict[str, Any] | None:
    """Read a manifest that an earlier run wrote; None where there is none that can be read."""
    try:
        document = json.loads(file.read_bytes())
        return document if document["schema"] == SCHEMA and _is_sound(document) else None
    except (OSError, ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def wheels_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """List the wheels of a manifest, with those taken from upstream as they are and the kernels'."""
    kernels = [document["kernels"]] if "kernels" in document else []
    entries = [*document["packages"], *document.get("taken", ()), *kernels]
    return [wheel for entry in entries for wheel in entry.get("wheels") or [entry["wheel"]]]


def _is_sound(document: Mapping[str, Any]) -> bool:
    plain = all(Path(wheel["filename"]).name == wheel["filename"] != ".." for wheel in wheels_of(document))
    texts = [wheel["sha256"] for wheel in wheels_of(document)]
    for package in document["packages"]:
        texts += [package["name"], package["version"], *package["parts"], *package["parts"].values()]
    return plain and all(isinstance(text, str) for text in texts)
