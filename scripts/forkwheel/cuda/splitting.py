"""Compile one unit as several, so that the longest compilation is shorter.

What a unit instantiates for each of some types is instantiated in a unit of its own
instead (``template``), and only declared in the unit itself (``extern template``). The
kernels are the same, each in one of the units, behind the same exported functions; unlike
nvcc's own ``--split-compile`` it gives the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from forkwheel.cuda.build_root import ROOT, BuildRoot
from forkwheel.cuda.kernel_config import Split
from forkwheel.cuda.module import Module, Unit, random_seed
from forkwheel.errors import RecipeError

_GENERATED = ROOT / "generated"


def split_units(root: BuildRoot, module: Module, splits: Sequence[Split]) -> Module:
    """Return the module with its units split, and write the sources of the parts into the build root.

    Headers may define functions that are neither templates nor inline: each part has them, and the
    linker is told to take the first.
    """
    chosen = {split.unit: split for split in splits if any(unit.name == split.unit for unit in module.units)}
    if not chosen:
        return module
    (root.stage / "generated").mkdir(exist_ok=True)
    units: list[Unit] = []
    objects: dict[str, list[str]] = {}
    for unit in module.units:
        parts = list(_parts(root, unit, chosen[unit.name])) if unit.name in chosen else [unit]
        units += parts
        objects[unit.output] = [part.output for part in parts]
    link: list[str] = []
    for word in module.link:
        link += objects.get(word, [word])
    by_nvcc = Path(link[0]).name == "nvcc"
    link[1:1] = ["-Xlinker", "-z", "-Xlinker", "muldefs"] if by_nvcc else ["-Wl,-z,muldefs"]
    return replace(module, units=tuple(units), link=tuple(link))


def check_splits(splits: Sequence[Split], modules: Sequence[Module], *, file: Path) -> None:
    """Raise RecipeError for a split of a unit that no module has."""
    names = {unit.name for module in modules for unit in module.units}
    for split in splits:
        if split.unit not in names:
            raise RecipeError(
                f"{file}: a split names the unit {split.unit}, which no module has",
                hint=f"the units are: {', '.join(sorted(names))}",
            )


def check_order(order: Sequence[str], modules: Sequence[Module], *, file: Path) -> None:
    """Raise RecipeError where ``longest_first`` names a unit that no module has, so that it orders nothing."""
    names = {unit.name for module in modules for unit in module.units}
    if unknown := next((name for name in order if name not in names), None):
        raise RecipeError(
            f"{file}: `longest_first` names the unit {unknown}, which no module has",
            hint=f"the units are: {', '.join(sorted(names))}",
        )


def _parts(root: BuildRoot, unit: Unit, split: Split) -> Iterator[Unit]:
    # The source comes first: it includes its header, which may have no guard against a second time.
    rest = f'#include "{unit.source}"\n\n{split.declarations(split.types, keyword="extern template")}'
    yield _part(root, unit, split.unit, rest)
    for name in split.types:
        text = f'#include "{split.header}"\n\n{split.declarations([name], keyword="template")}'
        yield _part(root, unit, split.part(name), text)


def _part(root: BuildRoot, unit: Unit, name: str, text: str) -> Unit:
    source = str(_GENERATED / name)
    root.staged(source).write_text(text)
    ending = unit.output.removeprefix(unit.output.rsplit("/", 1)[0] + "/").removeprefix(Path(unit.name).stem)
    output = f"{unit.output.rsplit('/', 1)[0]}/{Path(name).stem}{ending}"
    replaced = {unit.source: source, random_seed(unit.name): random_seed(name)}
    command = [replaced.get(word, word.replace(unit.output, output)) for word in unit.command]
    return Unit(source, output, tuple(command))
