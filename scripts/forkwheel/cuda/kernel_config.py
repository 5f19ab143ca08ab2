"""What a recipe compiles ahead of time, packs and expects, read from ``kernels.toml``."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from packaging.requirements import InvalidRequirement, Requirement

from forkwheel.cuda.census_rules import CensusRules, read_rules
from forkwheel.cuda.unit_config import Prelude, Split, read_preludes, read_splits
from forkwheel.errors import RecipeError
from forkwheel.recipe import ANY_TARGET, Recipe
from forkwheel.toml_file import Section, read_toml

FORMAT = 1
FILENAME = "kernels.toml"

_DOTTED = r"[A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*"
_GENERATOR = rf"{_DOTTED}:[A-Za-z_]\w*"
_DISTRIBUTION = r"[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?"
_REPLACED = ("targets", "work", "cuda_home")


@dataclass(frozen=True)
class Evaluation:
    """How the package's own specification of a module is evaluated without its run-time needs.

    ``package`` is imported without its ``__init__`` (which imports all of its parts);
    ``first`` are imported before the stand-ins exist; ``stand_ins`` are modules that need only
    be importable, with the ``values`` (dotted name, value) that are read from them.
    ``environment`` is set while it runs; ``{targets}``, ``{work}`` and ``{cuda_home}`` are replaced.
    """

    package: str
    first: tuple[str, ...]
    stand_ins: tuple[str, ...]
    values: tuple[tuple[str, Any], ...]
    environment: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class PrebuiltWheel:
    """The wheel that carries the objects; ``{version}`` in its files is replaced.

    ``objects`` is the folder for ``MODULE/MODULE.so``; ``license_files`` are paths in the tree.
    """

    distribution: str
    summary: str
    tag: str
    objects: str
    requires: tuple[str, ...]
    license: str
    license_files: tuple[str, ...]
    files: tuple[tuple[str, str], ...]


@dataclass(frozen=True)
class Kernels:
    """The modules that are compiled ahead of time, by name, and all that goes with them.

    ``package`` names the recipe's package that they belong to; ``links`` lay out the tree as
    the installed package is (path in the package, path in the tree); ``longest_first`` orders
    the sources; ``memory`` is what one compilation takes at most, in MiB.
    """

    file: Path
    package: str
    modules: tuple[tuple[str, str], ...]
    links: tuple[tuple[str, str], ...]
    evaluation: Evaluation
    longest_first: tuple[str, ...]
    memory: int
    splits: tuple[Split, ...]
    preludes: tuple[Prelude, ...]
    wheel: PrebuiltWheel
    rules: CensusRules


def kernels_file(recipe_folder: Path) -> Path:
    """Return where a recipe's kernels are described."""
    return recipe_folder / FILENAME


def load_kernels(file: Path) -> Kernels:
    """Read and check the description; raise RecipeError, with file and line, at the first fault."""
    top = read_toml(file)
    number = top.integer("format", minimum=1)
    if number > FORMAT:
        top.fail(f"format {number} is newer than {FORMAT}", key="format", hint="use a newer forkwheel")
    modules = _modules(top)
    compile_ = _required(top, "compile")
    kernels = Kernels(
        file=file,
        package=top.string("package"),
        modules=modules,
        links=tuple((_inside(top, "links", name), _inside(top, "links", path)) for name, path in top.mapping("links")),
        evaluation=_evaluation(_required(top, "evaluation")),
        longest_first=compile_.strings("longest_first"),
        memory=compile_.integer("memory", minimum=1),
        splits=read_splits(compile_),
        preludes=read_preludes(compile_),
        wheel=_wheel(_required(top, "wheel")),
        rules=read_rules(_required(top, "census")),
    )
    compile_.finish()
    top.finish()
    return kernels


def load_recipe_kernels(recipe: Recipe) -> Kernels:
    """Read a recipe's kernels; raise RecipeError where they do not fit it, so that a rule would never be checked."""
    file = kernels_file(recipe.folder)
    if not file.is_file():
        raise RecipeError(f"the recipe {recipe.name} has no kernels: there is no {file}", hint="describe them there")
    kernels = load_kernels(file)
    if recipe.target not in (ANY_TARGET, kernels.rules.target):
        raise RecipeError(
            f"{file}: the census rules are for {kernels.rules.target}, and the recipe is for {recipe.target}",
            hint="write the same `target` in both",
        )
    series = recipe.package(kernels.package).series
    for patch in sorted({rule.patch for rule in kernels.rules.rules if rule.patch}):
        if series is None or not (series / patch).is_file():
            raise RecipeError(f"{file}: a rule names {patch}, which is not in the series", hint="correct its name")
    return kernels


def _required(section: Section, key: str) -> Section:
    child = section.section(key)
    assert child is not None
    return child


def _modules(top: Section) -> tuple[tuple[str, str], ...]:
    section = _required(top, "modules")
    names = tuple(section.table)
    if not names:
        section.fail("no module", hint='name one: NAME = "package.module:function"')
    what = "package.module:function"
    modules = tuple((name, section.string(name, pattern=_GENERATOR, what=what)) for name in names)
    for name in names:
        if PurePosixPath(name).name != name:
            section.fail(f"{name!r} is not a module's name", key=name, hint="use letters, digits and '_'")
    return modules


def _inside(section: Section, key: str, path: str) -> str:
    if path.startswith("/") or "\\" in path or any(part in ("", ".", "..") for part in path.split("/")):
        section.fail(f"{path!r} is not a plain relative path", key=key, hint="write it like folder/file, without '..'")
    return path


def _evaluation(section: Section) -> Evaluation:
    values, stand_ins = [], section.strings("stand_ins")
    for name, text in section.mapping("values"):
        if name.partition(".")[0] not in stand_ins:
            section.fail(f"`values.{name}` is of no stand-in", key="values", hint="name its module in `stand_ins`")
        try:
            values.append((name, json.loads(text)))
        except ValueError:
            section.fail(f"`values.{name}` is {text!r}, not JSON", key="values", hint="write a number, true or false")
    environment = section.mapping("environment")
    for name, text in environment:
        if unknown := next((word for word in re.findall(r"{(\w*)}", text) if word not in _REPLACED), None):
            known = ", ".join(f"{{{word}}}" for word in _REPLACED)
            section.fail(
                f"`environment.{name}` has {{{unknown}}}, which is not replaced", key="environment", hint=f"use {known}"
            )
    evaluation = Evaluation(
        package=section.string("package", pattern=_DOTTED, what="a package's import name"),
        first=section.strings("first"),
        stand_ins=stand_ins,
        values=tuple(values),
        environment=environment,
    )
    section.finish()
    return evaluation


def _wheel(section: Section) -> PrebuiltWheel:
    wheel = PrebuiltWheel(
        distribution=section.string("distribution", pattern=_DISTRIBUTION, what="a distribution's name"),
        summary=section.string("summary", pattern=r"[^\r\n]*", what="a text of one line"),
        tag=section.string("tag", pattern=r"\w+-\w+", what="a Python and an ABI tag, such as cp39-abi3"),
        objects=_inside(section, "objects", section.string("objects")),
        requires=_requirements(section),
        license=section.string("license", pattern=r"[^\r\n]*", what="an SPDX expression"),
        license_files=tuple(_inside(section, "license_files", name) for name in section.strings("license_files")),
        files=tuple((_inside(section, "files", name), text) for name, text in section.mapping("files")),
    )
    section.finish()
    return wheel


def _requirements(section: Section) -> tuple[str, ...]:
    texts = section.strings("requires")
    for text in texts:
        try:
            Requirement(text.replace("{version}", "1"))
        except InvalidRequirement as error:
            section.fail(f"{text!r} is not a requirement: {error}", key="requires", hint="write it as NAME=={version}")
    return texts
