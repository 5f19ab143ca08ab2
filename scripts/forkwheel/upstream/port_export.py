"""The result of a port: patches, series and recipe, written the same way every time."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from forkwheel.errors import PatchError, UsageError
from forkwheel.fetch import FetchContext
from forkwheel.patching.apply import DoesNotApply, apply_patch, check_series
from forkwheel.patching.compare import compare
from forkwheel.patching.export import render
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.renumber import renumber
from forkwheel.patching.series import SERIES, Patch, load_series, parse_patch
from forkwheel.recipe import Package, Recipe, load_recipe
from forkwheel.store import remove_tree
from forkwheel.upstream.port import PortSettings, of_package
from forkwheel.upstream.port_gates import GATES, carry_gates
from forkwheel.upstream.port_local import choose_local
from forkwheel.upstream.port_places import Places, find_places
from forkwheel.upstream.port_recipe import check_portable, ported_text
from forkwheel.upstream.port_state import PackageState, PortState
from forkwheel.upstream.port_substitute import carried_substitutions
from forkwheel.upstream.port_tree import PortTree
from forkwheel.upstream.revisions import base_tree

_INPUTS = "inputs.lock.toml"
_REQUIRES = re.compile(rb"(?m)^Requires:[^\n]*\n(?: [^\n]*\n)*")


@dataclass(frozen=True)
class Ported:
    """What a port wrote: the recipe, each package's series folder, and what a person should know."""

    recipe: Path
    series: tuple[tuple[str, Path], ...]
    kept: tuple[str, ...]
    dropped: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]


def finish(recipe: Recipe, state: PortState, *, settings: PortSettings, context: FetchContext) -> Ported:
    """Export what the work trees hold, check it, and put it in its place; the work folder goes last."""
    versions = {package.new.name: package.new.version for package in state.packages}
    places = find_places(recipe, versions, name=state.name, out=Path(state.out) if state.out else None)
    local, renamed = choose_local(recipe, versions, folder=places.recipe, name=state.name)
    with ExitStack() as stack:
        staged = {place: _staging(place, stack) for place in places.all if not _is_inside(place, places.recipe)}
        staged[places.recipe] = _staging(places.recipe, stack)
        exported = []
        folders = {}
        for package in state.packages:
            old = recipe.package(package.new.name)
            if old.series is not None:
                place = places.series[old.name]
                made = staged.get(place, staged[places.recipe] / os.path.relpath(place, places.recipe))
                folders[old.name] = made
                mine = of_package(context, old)
                with mine.log.stage("series"):
                    package = _export_series(old, package, made, settings=settings, context=mine)
            exported.append(package)
        with context.store.temporary() as folder:
            new = {item.new.name: item.new for item in exported}
            check_portable(recipe, packages=new, folder=folder)
        made = staged[places.recipe]
        _write_recipe(recipe, state.name, local, new, made, places)
        lost = carry_gates(recipe, new, folders, made, context=context)
        for place, made in staged.items():
            _check_place(made, place)
        for place, made in staged.items():
            if not place.exists():
                made.rename(place)
                place.chmod(0o755)
    load_recipe(places.recipe / "recipe.toml")
    notes = (*([renamed] if renamed else []), *lost)
    ported = _ported(recipe, replace(state, packages=tuple(exported)), places, notes)
    remove_tree(settings.work)
    return ported


def _is_inside(place: Path, folder: Path) -> bool:
    return place.is_relative_to(folder)


def _staging(place: Path, stack: ExitStack) -> Path:
    """Make a folder beside a place, to be moved there."""
    place.parent.mkdir(parents=True, exist_ok=True)
    made = Path(stack.enter_context(tempfile.TemporaryDirectory(dir=place.parent, prefix=".port-"))) / place.name
    made.mkdir()
    return made


def _export_series(
    old: Package, package: PackageState, made: Path, *, settings: PortSettings, context: FetchContext
) -> PackageState:
    """Write a package's series to the folder ``made``; return its state with what the recipe substitutes renewed."""
    series = load_series(old.series)
    base = base_tree(package.new, context)
    tree = PortTree(settings.work / old.name, epoch=old.epoch)
    before, original = Overlay(base), Overlay(base_tree(old, context))
    dropped = {name for name, _ in package.dropped}
    commits = dict(package.kept)
    made.mkdir(parents=True, exist_ok=True)
    for patch in series.patches:
        if patch.name in commits:
            after = _after(before, tree.changed(f"{commits[patch.name]}^", commits[patch.name]))
            content = _exported(patch, before, after, original, dropped=dropped, folder=made)
            (made / patch.name).write_bytes(content)
            before = after[0]
        apply_patch(original, patch, folder=series.folder)
    assert old.series is not None
    (made / SERIES).write_bytes(_series_text((old.series / SERIES).read_bytes(), dropped))
    check_series(load_series(made), base)
    substitutions, notes = carried_substitutions(old, package.new, before)
    return replace(package, new=replace(package.new, substitutions=substitutions), notes=(*package.notes, *notes))


def _after(before: Overlay, changed: Mapping[str, File | None]) -> tuple[Overlay, list[str]]:
    after = before.copy()
    for path, file in changed.items():
        after.remove(path) if file is None else after.put(path, file)
    return after, sorted(changed)


def _exported(
    patch: Patch,
    before: Overlay,
    after: tuple[Overlay, list[str]],
    original: Overlay,
    *,
    dropped: set[str],
    folder: Path,
) -> bytes:
    """Write a patch for the new source; where its changes only moved, its choice of lines is kept."""
    result, paths = after
    header = _without_requires(patch.header.text, dropped & set(patch.header.requires), patch.header.requires)
    moved = before.copy()
    try:
        files = renumber(patch, old=original.copy(), new=moved, folder=folder).files
    except (DoesNotApply, KeyError):
        files = ()
    if not files or any(_differs(path, moved, result) for path in {*paths, *(file.path for file in files)}):
        files = tuple(compare(before, result, paths, earlier=patch.files))
    content = header + render(files)
    made = before.copy()
    apply_patch(made, parse_patch(content, folder / patch.name), folder=folder)
    if any(_differs(path, made, result) for path in paths):
        raise PatchError(f"{patch.name} does not lead to the work tree's files", hint="report this with the work tree")
    return content


def _differs(path: str, left: Overlay, right: Overlay) -> bool:
    if (path in left) != (path in right):
        return True
    return path in left and left.read(path) != right.read(path)


def _without_requires(text: bytes, gone: set[str], required: Sequence[str]) -> bytes:
    """Take dropped patches out of a header's ``Requires``."""
    if not gone:
        return text
    left = [name for name in required if name not in gone]
    field = f"Requires: {', '.join(left)}\n".encode() if left else b""
    return _REQUIRES.sub(lambda _: field, text, count=1)


def _series_text(text: bytes, dropped: set[str]) -> bytes:
    lines = text.decode().split("\n")
    return "\n".join(line for line in lines if re.sub(r"(^|\s)#.*", "", line).strip() not in dropped).encode()


def _write_recipe(
    recipe: Recipe, name: str, local: str, packages: Mapping[str, Package], made: Path, places: Places
) -> None:
    series = {
        package.name: os.path.relpath(places.series.get(package.name, package.series), places.recipe)
        for package in recipe.packages
        if package.series is not None
    }
    text = ported_text(recipe, name=name, local=local, packages=packages, series=series)
    (made / "recipe.toml").write_text(text, encoding="utf-8")
    if (recipe.folder / _INPUTS).exists():
        (made / _INPUTS).write_bytes((recipe.folder / _INPUTS).read_bytes())


def _check_place(made: Path, place: Path) -> None:
    """Accept a place that holds the same files already, as a killed run leaves it."""
    if place.exists() and _contents(made) != _contents(place):
        raise UsageError(f"{place} was made meanwhile, with other content", hint="move it away, and run --continue")


def _contents(folder: Path) -> dict[str, bytes]:
    return {str(file.relative_to(folder)): file.read_bytes() for file in folder.rglob("*") if file.is_file()}


def _ported(recipe: Recipe, state: PortState, places: Places, more: Sequence[str]) -> Ported:
    series = [package.series for package in recipe.packages if package.series is not None]
    left = sorted(
        path.name
        for path in recipe.folder.iterdir()
        if path.name not in ("recipe.toml", _INPUTS, GATES, "wheels.lock.toml", "evidence")
        and not any(folder.is_relative_to(path) or folder == path.parent for folder in series)
    )
    notes = [*(note for item in state.packages for note in item.notes), *more]
    notes += [f"not carried over from {recipe.folder.name}: {', '.join(left)}"] if left else []
    if (places.recipe / _INPUTS).exists():
        notes.append(
            f"the build requirements are those of {recipe.name}: if `lock` says that they changed, add --inputs to it"
        )
    return Ported(
        recipe=places.recipe / "recipe.toml",
        series=tuple(places.series.items()),
        kept=tuple(name for item in state.packages for name, _ in item.kept),
        dropped=tuple(pair for item in state.packages for pair in item.dropped),
        notes=tuple(notes),
    )
