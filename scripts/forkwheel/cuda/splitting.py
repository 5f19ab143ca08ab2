"""Compile one unit as several, so that the longest compilation is shorter, and put texts before units.

What a unit instantiates for some types is instantiated in a unit of its own for each instead
(``template``), and only declared in the unit itself (``extern template``). The kernels are the
same, each in one of the units, behind the same exported functions; unlike nvcc's own
``--split-compile`` it gives the same bytes each time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from forkwheel.cuda.build_root import ROOT, BuildRoot
from forkwheel.cuda.kernel_config import Kernels
from forkwheel.cuda.module import Module, Unit, random_seed
from forkwheel.cuda.unit_config import Prelude, Split
from forkwheel.errors import RecipeError

_GENERATED = ROOT / "generated"


def split_units(root: BuildRoot, module: Module, splits: Sequence[Split], preludes: Sequence[Prelude] = ()) -> Module:
    """Return the module with its units split, and write what is generated for them into the build root.

    Headers may define functions that are neither templates nor inline: each part has them, and the
    linker is told to take the first.
    """
    chosen = {split.unit: split for split in splits}
    before = {name: f"{prelude.text}\n" for prelude in preludes for name in prelude.units}
    units: list[Unit] = []
    objects: dict[str, list[str]] = {}
    for unit in module.units:
        texts = _texts(unit, chosen.get(unit.name))
        if len(texts) == 1 and unit.name not in before:
            made = [unit]
        else:
            made = [_generate(root, unit, name, before.get(name, "") + text) for name, text in texts.items()]
        units += made
        objects[unit.output] = [part.output for part in made]
    link: list[str] = []
    for word in module.link:
        link += objects.get(word, [word])
    if len(units) > len(module.units):
        by_nvcc = Path(link[0]).name == "nvcc"
        link[1:1] = ["-Xlinker", "-z", "-Xlinker", "muldefs"] if by_nvcc else ["-Wl,-z,muldefs"]
    return replace(module, units=tuple(units), link=tuple(link))


def check_splits(splits: Sequence[Split], modules: Sequence[Module], *, file: Path) -> None:
    """Raise RecipeError for a split of a unit that no module has."""
    _check("a split", [split.unit for split in splits], modules, file=file)


def check_names(kernels: Kernels, modules: Sequence[Module]) -> None:
    """Raise RecipeError where an order or a prelude names a unit that no module has, so that it does nothing."""
    _check("`longest_first`", kernels.longest_first, modules, file=kernels.file)
    for prelude in kernels.preludes:
        _check("a prelude", prelude.units, modules, file=kernels.file)


def _check(what: str, names: Sequence[str], modules: Sequence[Module], *, file: Path) -> None:
    known = {unit.name for module in modules for unit in module.units}
    if unknown := next((name for name in names if name not in known), None):
        raise RecipeError(
            f"{file}: {what} names the unit {unknown}, which no module has",
            hint=f"the units are: {', '.join(sorted(known))}",
        )


def _texts(unit: Unit, split: Split | None) -> dict[str, str]:
    """Return what the unit is compiled from, by name: itself first, then its parts."""
    whole = f'#include "{unit.source}"\n'
    if split is None:
        return {unit.name: whole}
    # The source comes first: it includes its header, which may have no guard against a second time.
    texts = {unit.name: f"{whole}\n{split.declarations(split.types, keyword='extern template')}"}
    for name in split.types:
        texts[split.part(name)] = f'#include "{split.header}"\n\n{split.declarations([name], keyword="template")}'
    return texts


def _generate(root: BuildRoot, unit: Unit, name: str, text: str) -> Unit:
    source = _GENERATED / name
    staged = root.staged(str(source))
    staged.parent.mkdir(exist_ok=True)
    staged.write_text(text)
    folder, _, file = unit.output.rpartition("/")
    output = f"{folder}/{Path(name).stem}{file.removeprefix(Path(unit.name).stem)}"
    replaced = {unit.source: str(source), random_seed(unit.name): random_seed(name)}
    command = [replaced.get(word, word.replace(unit.output, output)) for word in unit.command]
    return Unit(str(source), output, tuple(command))
