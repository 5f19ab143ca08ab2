"""Wheels made of upstream's wheels: patched in place, or taken as they are."""

from __future__ import annotations

import shutil
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from forkwheel.console import Log
from forkwheel.fetch import FetchContext
from forkwheel.fetch.index import cached_archive
from forkwheel.patching.apply import Change
from forkwheel.plan import Plan
from forkwheel.projection import write_generated
from forkwheel.recipe import FileSource, Recipe
from forkwheel.release.records import wheel_records
from forkwheel.tree import EXECUTABLE, Entry, Tree
from forkwheel.wheels.archive import Member
from forkwheel.wheels.finish import Wheel
from forkwheel.wheels.repack import renamed_members, repack_wheel, untouched_members
from forkwheel.wheels.verify import verify_wheel


def make_from_wheel(
    recipe: Recipe,
    plan: Plan,
    changes: tuple[Change, ...],
    *,
    context: FetchContext,
    work: Path,
    made: Path,
    log: Log,
) -> Wheel:
    """Make a plan's wheel in the folder ``made``, and verify it; ``changes`` is what the series makes of its source."""
    source = plan.source.source
    assert isinstance(source, FileSource)
    archive, _ = cached_archive(plan.package, source, context=context)
    if plan.package.is_taken:
        return _take(archive, plan, made=made, log=log)
    with log.stage("patch"):
        replaced = _replaced(plan, changes, work / "generated")
    with log.stage("pack"):
        wheel = repack_wheel(
            archive,
            package=plan.package,
            version=plan.version,
            replaced=replaced,
            requires=dict(plan.required),
            records=wheel_records(recipe, plan),
            dest=made,
        )
    with log.stage("verify"):
        expected: dict[str, str | None] = dict.fromkeys(plan.package.must_contain)
        expected |= untouched_members(archive, replaced=replaced)
        expected |= {path: sha256(new.content).hexdigest() for path, new in replaced.items() if new is not None}
        verify_wheel(wheel.path, must_contain=renamed_members(archive, expected, version=plan.version))
    return wheel


def _take(archive: Path, plan: Plan, *, made: Path, log: Log) -> Wheel:
    with log.stage("verify"):
        verify_wheel(archive, must_contain=dict.fromkeys(plan.package.must_contain))
        target = made / archive.name
        shutil.copyfile(archive, target)
    source = plan.source.source
    assert isinstance(source, FileSource)
    return Wheel(target, target.name, source.sha256, target.stat().st_size)


def _replaced(plan: Plan, changes: tuple[Change, ...], folder: Path) -> Mapping[str, Member | None]:
    """Return what the series and the recipe's generated texts put in the place of members."""
    entries = plan.source.tree.by_path()
    contents: dict[str, bytes] = {}
    for change in changes:
        if change.after is None or change.content is None:
            entries.pop(change.path)
        else:
            entries[change.path] = change.after
            contents[change.path] = change.content
    generated = _generated(plan, entries, contents, folder)
    replaced: dict[str, Member | None] = {change.path: None for change in changes if change.after is None}
    for path, content in (contents | generated).items():
        executable = path in entries and entries[path].mode == EXECUTABLE
        replaced[path] = Member(path, content, executable=executable)
    return replaced


def _generated(
    plan: Plan, entries: Mapping[str, Entry], contents: Mapping[str, bytes], folder: Path
) -> dict[str, bytes]:
    """Write the generated files, and those with substitutions, to a folder of their own, and read them back."""
    folder.mkdir()
    for path in {item.path for item in plan.package.substitutions if item.path in entries}:
        content = contents.get(path) or (plan.source.tree.root / path).read_bytes()
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_bytes(content)
    tree = write_generated(Tree(folder, tuple(sorted(entries.values()))), plan.package, version=plan.version)
    return {path: (folder / path).read_bytes() for path, entry in tree.by_path().items() if entries.get(path) != entry}
