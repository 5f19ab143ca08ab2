"""What a series is and how it stands: for the table, the JSON document and the check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import PatchError
from forkwheel.patching.apply import DoesNotApply, apply_patch, is_applied
from forkwheel.patching.compare import export
from forkwheel.patching.judge import CLEAN
from forkwheel.patching.model import split_lines
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Patch, Series, check_expiry, load_series
from forkwheel.tree import Tree

SCHEMA = 1
NOT_CHECKED = "not checked"
"""The verdict on what comes after a patch that does not apply."""


@dataclass(frozen=True)
class HunkReport:
    """A hunk's line in the patch file, its first line in the old file, and the verdict on it."""

    line: int
    old_start: int
    verdict: str


@dataclass(frozen=True)
class FileReport:
    """What a patch does to one file; ``verdict`` is on the file as a whole."""

    path: str
    operation: str
    verdict: str
    hunks: tuple[HunkReport, ...]


@dataclass(frozen=True)
class PatchReport:
    """One patch in its series; ``fault`` says what is wrong unless the verdict is ``clean``.

    ``todo`` are the header's fields that are yet to be filled in.
    """

    name: str
    sha256: str
    description: str
    forwarded: str
    todo: tuple[str, ...]
    verdict: str
    fault: str
    files: tuple[FileReport, ...]


def report_series(series: Series, tree: Tree) -> tuple[PatchReport, ...]:
    """Judge every patch in order; after one that does not apply, nothing can be said."""
    overlay = Overlay(tree)
    reports: list[PatchReport] = []
    fault: DoesNotApply | None = None
    for patch in series.patches:
        verdict = NOT_CHECKED
        if fault is None:
            verdict, fault = _judge(overlay, patch, series)
        mine = fault if fault is not None and fault.patch == patch.name else None
        reports.append(_patch_report(patch, verdict, mine))
    if fault is not None and is_applied(series, tree):
        return tuple(_patch_report(patch, "already-applied", None) for patch in series.patches)
    return tuple(reports)


def _judge(overlay: Overlay, patch: Patch, series: Series) -> tuple[str, DoesNotApply | None]:
    try:
        apply_patch(overlay, patch, folder=series.folder)
    except DoesNotApply as fault:
        return str(fault.verdict), fault
    return CLEAN, None


def _patch_report(patch: Patch, verdict: str, fault: DoesNotApply | None) -> PatchReport:
    return PatchReport(
        name=patch.name,
        sha256=patch.sha256,
        description=patch.header.description.split("\n")[0],
        forwarded=patch.header.forwarded,
        todo=patch.header.todo,
        verdict=verdict,
        fault=fault.message if fault else "",
        files=tuple(_file_reports(patch, verdict, fault)),
    )


def _file_reports(patch: Patch, verdict: str, fault: DoesNotApply | None) -> Iterator[FileReport]:
    """Files and hunks before the one at fault are clean, those after it were not checked."""
    current = CLEAN if fault else verdict
    for file in patch.files:
        is_here = fault is not None and fault.path == file.path
        if fault is not None and is_here and fault.hunk is None:
            current = NOT_CHECKED
        hunks = []
        for hunk in file.hunks:
            at_fault = fault is not None and fault.hunk is hunk
            hunks.append(HunkReport(hunk.line, hunk.old_start, verdict if at_fault else current))
            current = NOT_CHECKED if at_fault else current
        yield FileReport(file.path, file.operation, verdict if is_here else current, tuple(hunks))


def package_document(package: str, version: str, series: Series, reports: tuple[PatchReport, ...]) -> dict[str, Any]:
    """Return a package's part of the JSON document of ``patches``."""
    return {
        "package": package,
        "version": version,
        "series": str(series.folder) if series.patches else None,
        "patches": [
            {
                "name": report.name,
                "sha256": report.sha256,
                "description": report.description,
                "forwarded": report.forwarded,
                "todo": list(report.todo),
                "verdict": report.verdict,
                "fault": report.fault or None,
                "files": [
                    {
                        "path": file.path,
                        "operation": file.operation,
                        "verdict": file.verdict,
                        "hunks": [asdict(hunk) for hunk in file.hunks],
                    }
                    for file in report.files
                ],
            }
            for report in reports
        ],
    }


def check_folder(folder: Path, tree: Tree, *, version: str) -> list[PatchError]:
    """Lint a series, check that it has not expired and applies, and that it is as exported.

    Returns what is wrong; where patches do not apply, those after them are not looked at.
    """
    try:
        series = load_series(folder)
    except PatchError as error:
        return [error]
    faults: list[PatchError] = []
    try:
        check_expiry(series, version)
    except PatchError as error:
        faults.append(error)
    overlay = Overlay(tree)
    for patch in series.patches:
        before = overlay.copy()
        try:
            apply_patch(overlay, patch, folder=folder)
        except DoesNotApply as error:
            return [*faults, error]
        if (drift := _drift(patch, export(patch, before), folder)) is not None:
            faults.append(drift)
    return faults


def _drift(patch: Patch, exported: bytes, folder: Path) -> PatchError | None:
    if exported == patch.content:
        return None
    found, due = split_lines(patch.content), split_lines(exported)
    same = next((n for n, (a, b) in enumerate(zip(found, due, strict=False)) if a != b), min(len(found), len(due)))
    texts = [repr(lines[same].rstrip(b"\n"))[2:-1] if same < len(lines) else "(end)" for lines in (found, due)]
    return PatchError(
        f"{folder / patch.name}:{same + 1}: the patch is not as it would be exported: `{texts[0]}` is there,"
        f" `{texts[1]}` is due",
        hint=f"run `patches --edit {patch.name}` and then `patches --refresh`",
    )
