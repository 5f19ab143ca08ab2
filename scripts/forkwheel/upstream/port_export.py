"""The result of a port: patches, series and recipe, written the same way every time."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
from forkwheel.upstream.port import PortSettings
from forkwheel.upstream.port_recipe import ported_text
from forkwheel.upstream.port_state import PackageState, PortState
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


def series_folder(package: Package, version: str, out: Path, recipe: Recipe) -> Path:
    """Return where a package's ported series goes: as the old one is kept, below ``out``."""
    assert package.series is not None
    root = recipe.folder.parent.parent
    try:
        kept = package.series.relative_to(root).parent
    except ValueError:
        kept = Path("patches") / package.name
    return out / kept / version


def finish(recipe: Recipe, state: PortState, *, settings: PortSettings, context: FetchContext) -> Ported:
    """Export what the work trees hold, check it, and put it in its place; the work folder goes last."""
    out = Path(state.out)
    target = out / "recipes" / state.name
    moves: list[tuple[Path, Path]] = []
    out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=out, prefix=".port-") as staging:
        folders: dict[str, Path] = {}
        for package in state.packages:
            old = recipe.package(package.new.name)
            if old.series is None:
                continue
            folders[old.name] = series_folder(old, package.new.version, out, recipe)
            made = Path(staging) / old.name
            _export_series(old, package, made, settings=settings, context=context)
            moves.append((made, folders[old.name]))
        made = Path(staging) / "recipe"
        _write_recipe(recipe, state, made, target=target, folders=folders)
        moves.append((made, target))
        for source, place in moves:
            _check_place(source, place)
        for source, place in moves:
            if not place.exists():
                place.parent.mkdir(parents=True, exist_ok=True)
                source.rename(place)
                place.chmod(0o755)
    load_recipe(target / "recipe.toml")
    ported = _ported(recipe, state, target, folders)
    remove_tree(settings.work)
    return ported


def check_free(recipe: Recipe, targets: Mapping[str, str], *, settings: PortSettings) -> None:
    """Raise UsageError where the result's place is taken, before any work is done."""
    places = [settings.out / "recipes" / settings.name]
    for name, text in targets.items():
        package = recipe.package(name)
        if package.series is not None:
            places.append(series_folder(package, text.partition("@")[0], settings.out, recipe))
    for place in places:
        if place.exists():
            raise UsageError(
                f"{place} exists already", hint="give another --name, or write the result elsewhere with --out"
            )


def _export_series(
    old: Package, package: PackageState, made: Path, *, settings: PortSettings, context: FetchContext
) -> None:
    series = load_series(old.series)
    base = base_tree(package.new, context)
    tree = PortTree(settings.work / old.name, epoch=old.epoch)
    before, original = Overlay(base), Overlay(base_tree(old, context))
    dropped = {name for name, _ in package.dropped}
    commits = dict(package.kept)
    made.mkdir()
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


def _write_recipe(recipe: Recipe, state: PortState, made: Path, *, target: Path, folders: Mapping[str, Path]) -> None:
    series = {
        package.name: os.path.relpath(folders.get(package.name, package.series), target)
        for package in recipe.packages
        if package.series is not None
    }
    packages = {item.new.name: item.new for item in state.packages}
    made.mkdir()
    (made / "recipe.toml").write_text(
        ported_text(recipe, name=state.name, packages=packages, series=series), encoding="utf-8"
    )
    if (recipe.folder / _INPUTS).exists():
        (made / _INPUTS).write_bytes((recipe.folder / _INPUTS).read_bytes())


def _check_place(source: Path, place: Path) -> None:
    """Accept a place that holds the same files already, as a killed run leaves it."""
    if not place.exists():
        return
    mine = {file.name: file.read_bytes() for file in source.iterdir()}
    there = {file.name: file.read_bytes() for file in place.iterdir() if file.is_file()}
    if mine != there:
        raise UsageError(f"{place} was made meanwhile, with other content", hint="move it away, and run --continue")


def _ported(recipe: Recipe, state: PortState, target: Path, folders: Mapping[str, Path]) -> Ported:
    left = sorted(
        path.name
        for path in recipe.folder.iterdir()
        if path.name not in ("recipe.toml", _INPUTS, "wheels.lock.toml", "evidence")
    )
    notes = [note for item in state.packages for note in item.notes]
    notes += [f"not carried over from {recipe.folder.name}: {', '.join(left)}"] if left else []
    if (target / _INPUTS).exists():
        notes.append(
            f"the build requirements are those of {recipe.name}: if the build says that they changed,"
            f" run `nox -s lock -- --recipe {state.name} --inputs`"
        )
    return Ported(
        recipe=target / "recipe.toml",
        series=tuple(folders.items()),
        kept=tuple(name for item in state.packages for name, _ in item.kept),
        dropped=tuple(pair for item in state.packages for pair in item.dropped),
        notes=tuple(notes),
    )
