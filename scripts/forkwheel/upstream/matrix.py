"""A series against many revisions: the matrix of patches and revisions, and what it tells of each patch."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

from forkwheel.fetch import FetchContext
from forkwheel.patching.judge import ALREADY_APPLIED
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Series
from forkwheel.recipe import Package
from forkwheel.tree import Tree
from forkwheel.upstream.judged import APPLIES, GONE, JudgedFile, JudgedPatch
from forkwheel.upstream.project import check_project
from forkwheel.upstream.revisions import open_revision
from forkwheel.upstream.verdict import APPLIED_UPSTREAM, changed_paths, judge_series

SCHEMA = 1


@dataclass(frozen=True)
class Column:
    """One revision, and the verdicts on the series' patches, in order."""

    revision: str
    version: str | None
    patches: tuple[JudgedPatch, ...]


@dataclass(frozen=True)
class Course:
    """How one patch fared over the revisions, in their order; names of revisions, or None.

    ``applied_until`` is the last that it applies to (clean or with an offset), ``changed_in``
    the first after that. ``taken_in`` is the first that has its very content: what was
    changed or taken was so by then, as of those that were judged it is the first. ``header``
    is the field by which its header says that upstream has it.
    """

    patch: str
    applied_until: str | None
    changed_in: str | None
    taken_in: str | None
    header: str | None


def judge_revisions(
    package: Package,
    series: Series,
    base: Tree,
    specifications: Sequence[str],
    *,
    context: FetchContext,
    repository: str | None = None,
) -> tuple[Column, ...]:
    """Judge a series against each revision that ``--to`` names."""
    paths = changed_paths(series)

    def judge(text: str) -> Column:
        revision = open_revision(text, package, wanted=paths, context=context, repository=repository)
        check_project(series, Overlay(base), revision.files, name=revision.name)
        judged = judge_series(series, base, revision.files, version=revision.version)
        return Column(revision.name, revision.version, judged)

    with ThreadPoolExecutor(max_workers=2) as pool:
        return tuple(pool.map(judge, specifications))


def courses(series: Series, columns: Sequence[Column]) -> tuple[Course, ...]:
    """Tell for each patch how far it applies, and where upstream took it."""
    rows = [[(column.revision, judged) for judged in column.patches] for column in columns]
    return tuple(_course(patch.name, [row[number] for row in rows]) for number, patch in enumerate(series.patches))


def _course(name: str, row: Sequence[tuple[str, JudgedPatch]]) -> Course:
    applying = [index for index, (_, judged) in enumerate(row) if judged.verdict in APPLIES]
    after = applying[-1] + 1 if applying else 0
    return Course(
        patch=name,
        applied_until=row[applying[-1]][0] if applying else None,
        changed_in=row[after][0] if after < len(row) else None,
        taken_in=next((revision for revision, judged in row if judged.verdict == ALREADY_APPLIED), None),
        header=next((judged.expired for _, judged in row if judged.expired), None),
    )


def needs_work(column: Column) -> bool:
    """Tell whether a patch needs a person: it neither applies, nor is taken, nor has its header say so."""
    return any(judged.verdict not in (*APPLIES, ALREADY_APPLIED) and not judged.expired for judged in column.patches)


def summary_line(column: Column) -> tuple[str, bool]:
    """Say in one line what is to be done with the patches at a revision, and whether there is anything."""
    parts: dict[str, list[str]] = {"expired, drop": [], "taken by upstream": [], "to be reworked": []}
    for judged in column.patches:
        if judged.expired:
            parts["expired, drop"].append(judged.name)
        elif judged.verdict == ALREADY_APPLIED:
            parts["taken by upstream"].append(judged.name)
        elif judged.verdict not in APPLIES:
            parts["to be reworked"].append(judged.name)
    due = [f"{what}: {', '.join(names)}" for what, names in parts.items() if names]
    applying = len(column.patches) - sum(map(len, parts.values()))
    count = "every patch applies" if not due else f"{applying} of {len(column.patches)} patches apply"
    port = ["`port` carries the series over"] if due else []
    return "; ".join([f"{column.revision}: {count}", *due, *port]), bool(due)


def _claim(expired: str) -> str:
    field, _, release = expired.partition(": ")
    return f"{'taken' if field == APPLIED_UPSTREAM else 'expired'} {release}"


def cell(judged: JudgedPatch) -> str:
    """Return a patch's verdict for a table; in brackets what its header says of this release."""
    known = f" [{_claim(judged.expired)}]" if judged.expired else ""
    moved = next((str(file) for file in judged.files if file.target and file.verdict not in (GONE,)), None)
    return (moved if moved and judged.verdict not in (ALREADY_APPLIED,) else str(judged)) + known


def document(package: Package, series: Series, columns: Sequence[Column]) -> dict[str, Any]:
    """Return the matrix for JSON."""
    return {
        "package": package.name,
        "base": package.version,
        "revisions": [
            {
                "revision": column.revision,
                "version": column.version,
                "needs_work": needs_work(column),
                "patches": [_patch_document(judged) for judged in column.patches],
            }
            for column in columns
        ],
        "patches": [
            {
                "name": course.patch,
                "applied_until": course.applied_until,
                "changed_in": course.changed_in,
                "taken_in": course.taken_in,
                "header": course.header,
            }
            for course in courses(series, columns)
        ],
    }


def _patch_document(judged: JudgedPatch) -> dict[str, Any]:
    return {
        "name": judged.name,
        "verdict": str(judged),
        "expired": judged.expired,
        "files": [_file_document(file) for file in judged.files],
    }


def _file_document(file: JudgedFile) -> dict[str, Any]:
    return {
        "path": file.path,
        "operation": file.operation,
        "verdict": str(file),
        "target": file.target,
        "reason": file.reason or None,
        "hunks": [
            {
                "line": hunk.line,
                "old_start": hunk.old_start,
                "verdict": str(hunk.verdict),
                "reason": hunk.verdict.reason or None,
            }
            for hunk in file.hunks
        ],
    }
