"""Read and check a ``recipe.toml``; every fault is a RecipeError that names the file and the line."""

from __future__ import annotations

import re
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name
from packaging.version import InvalidVersion, Version

from forkwheel import recipe_keys
from forkwheel.plain_path import name_fault
from forkwheel.recipe import ANY_TARGET, FORMAT, LONGEST_NAME, NAME, Package, Recipe
from forkwheel.recipe_tables import (
    optional_tree_path,
    patterns,
    read_generated,
    read_jit_cache,
    read_sources,
    read_substitutions,
)
from forkwheel.toml_file import Section, read_toml, shown

_LOCAL = r"[a-z](?:[a-z0-9]*)"
_TARGET = r"sm_[1-9][0-9]{1,2}[af]?|any"
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_EARLIEST = 315532800  # 1980-01-01T00:00:00Z, the first time that a zip can hold
_LATEST = 4354819198  # 2107-12-31T23:59:58Z, the last one
_LONGEST_WHEEL_NAME = 160  # of the 255 bytes of a file's name: the rest is for revision and tags

_LONGEST_REQUIREMENT = 500


def read_recipe(file: Path, *, series_root: Path | None = None) -> Recipe:
    """Read and check a recipe; a series outside of ``series_root`` is refused, if that is given."""
    top = read_toml(file)
    _check_format(top)
    top.expect(recipe_keys.TOP)
    head = top.section("recipe")
    assert head is not None
    head.expect(recipe_keys.RECIPE)
    head.integer("format", default=FORMAT, minimum=1)
    name = _name(head, "name", pattern=NAME, what="a name of letters, digits, '.', '_' and '-'")
    local = _name(head, "local", pattern=_LOCAL, what="one lower-case word of letters and digits")
    sections = top.sections("package")
    packages = [_package(section, series_root=series_root) for section in sections]
    if not packages:
        top.fail("no package", hint="add a [[package]] table")
    _check_distinct(sections, packages)
    _check_requires(sections, packages)
    _check_lengths(sections, packages, local)
    return Recipe(
        name=name,
        local=local,
        revision=head.integer("revision"),
        target=head.string("target", default=ANY_TARGET, pattern=_TARGET, what="a target such as sm_120a, or any"),
        summary=head.string("summary", default=""),
        packages=tuple(packages),
        file=file,
    )


def _check_format(top: Section) -> None:
    """Refuse a newer format before anything else: what it adds would be reported as unknown keys."""
    table = top.table.get("recipe")
    number = table.get("format") if isinstance(table, dict) else None
    if isinstance(number, int) and number > FORMAT:
        head = top.section("recipe")
        assert head is not None
        head.fail(
            f"format {head.integer('format')} is newer than {FORMAT}, the newest known here",
            key="format",
            hint="use a newer forkwheel",
        )


def _name(section: Section, key: str, *, pattern: str, what: str) -> str:
    name = section.string(key, pattern=pattern, what=what)
    _check_length(section, key, name)
    return name


def _check_length(section: Section, key: str, text: str) -> None:
    if len(text) > LONGEST_NAME:
        section.fail(
            f"`{key}` has {len(text)} characters, over {LONGEST_NAME}: {shown(text)}",
            key=key,
            hint="it becomes part of file names, which hold 255 bytes: write a shorter one",
        )


def _check_distinct(sections: list[Section], packages: list[Package]) -> None:
    seen: set[str] = set()
    for section, package in zip(sections, packages, strict=True):
        name = canonicalize_name(package.name)
        if name in seen:
            section.fail(f"package {package.name!r} is given twice", key="name", hint="remove one of them")
        seen.add(name)


def _check_requires(sections: list[Section], packages: list[Package]) -> None:
    """Refuse a pin that the recipe's own package does not meet: its wheel would require what it was not made for."""
    own = {canonicalize_name(package.name): package for package in packages}
    for section, package in zip(sections, packages, strict=True):
        for text in package.requires:
            if text in dict(package.required_versions):
                continue
            requirement = Requirement(text)
            required = own.get(canonicalize_name(requirement.name))
            if required is None:
                section.fail(
                    f"`requires` names {text!r}, which is no package of this recipe",
                    key="requires",
                    hint="only requirements on the recipe's own packages are rewritten",
                )
            if not requirement.specifier.contains(required.version, prereleases=True):
                section.fail(
                    f"{package.name} {package.version} requires {text}, and this recipe has {required.version}",
                    key="requires",
                    hint=f"`requires` repeats what upstream's {package.name} {package.version} pins:"
                    " give the two packages versions that go together",
                )


def _check_lengths(sections: list[Section], packages: list[Package], local: str) -> None:
    for section, package in zip(sections, packages, strict=True):
        stem = f"{package.name}-{package.version}+{local}"
        if len(stem) > _LONGEST_WHEEL_NAME:
            section.fail(
                f"name, version and `local` have {len(stem)} characters together, over {_LONGEST_WHEEL_NAME}",
                key="name",
                hint="with a revision and tags they are a wheel's file name, which holds 255 bytes: shorten one",
            )


def _package(section: Section, *, series_root: Path | None) -> Package:
    section.expect(recipe_keys.PACKAGE)
    name = _name(section, "name", pattern=NAME, what="a distribution's name")
    version = _version(section)
    return Package(
        name=name,
        version=version,
        epoch=section.integer("epoch", minimum=_EARLIEST, maximum=_LATEST),
        sources=read_sources(section, name, version),
        series=_series(section, root=series_root),
        include=patterns(section, "include"),
        exclude=patterns(section, "exclude"),
        executable=patterns(section, "executable"),
        generated=read_generated(section),
        substitutions=read_substitutions(section),
        manifest_file=optional_tree_path(section, "manifest_file"),
        version_file=optional_tree_path(section, "version_file"),
        requires=_requires(section),
        required_versions=_required_versions(section),
        must_contain=patterns(section, "must_contain"),
        not_shipped=patterns(section, "not_shipped"),
        environment=_environment(section),
        config_settings=section.mapping("config_settings"),
        jit_cache=read_jit_cache(section.section("jit_cache", required=False)),
        place=section.place(),
    )


def _version(section: Section) -> str:
    version = section.string("version")
    _check_length(section, "version", version)
    try:
        parsed = Version(version)
    except InvalidVersion:
        section.fail(f"{version!r} is not a version", key="version", hint="write it as PEP 440 says")
    if parsed.local or str(parsed) != version:
        section.fail(
            f"{version!r} is not a normalised public version",
            key="version",
            hint=f"write {parsed.public!r}; the local part is the recipe's",
        )
    return version


def _series(section: Section, *, root: Path | None) -> Path | None:
    text = section.optional("series")
    if text is None:
        return None
    hint = "`series` is a folder, relative to the recipe, that holds a file named series"
    if fault := name_fault(text):
        section.fail(f"the series {shown(text)} cannot exist: {fault}", key="series", hint=hint)
    try:
        folder = (section.file.parent / text).resolve()
        leaves = root is not None and not folder.is_relative_to(root.resolve())
        exists = not leaves and (folder / "series").is_file()
    except (OSError, RuntimeError) as error:  # RuntimeError is what a loop of links was before Python 3.13
        section.fail(f"the series {shown(text)} cannot be looked up: {error}", key="series", hint=hint)
    if leaves:
        section.fail(
            f"the series {shown(text)} lies outside of what the recipe came with",
            key="series",
            hint="a recipe inside an artefact has its series beside it",
        )
    if not exists:
        section.fail(f"the series {shown(text)} does not exist", key="series", hint=f"{hint} ({folder})")
    return folder


def _requires(section: Section) -> tuple[str, ...]:
    requirements = section.strings("requires")
    for text in requirements:
        if len(text) > _LONGEST_REQUIREMENT:
            section.fail(f"{shown(text)} is too long for a requirement", key="requires", hint="write NAME==VERSION")
        try:
            specifiers = list(Requirement(text).specifier)
        except (InvalidRequirement, RecursionError) as error:
            reason = str(error).split("\n", 1)[0]
            section.fail(f"{shown(text)} is not a requirement: {reason}", key="requires", hint="write NAME==VERSION")
        if len(specifiers) != 1 or specifiers[0].operator != "==" or "*" in specifiers[0].version:
            section.fail(f"{shown(text)} does not pin one version", key="requires", hint="write NAME==VERSION")
    return requirements


def _required_versions(section: Section) -> tuple[tuple[str, str], ...]:
    versions = section.mapping("required_versions")
    for requirement, version in versions:
        if requirement not in section.strings("requires"):
            section.fail(
                f"`required_versions` names {shown(requirement)}, which `requires` does not list",
                key="required_versions",
                hint="add it to `requires`, or remove it",
            )
        _check_length(section, "required_versions", version)
        try:
            Version(version)
        except InvalidVersion:
            section.fail(f"{version!r} is not a version", key="required_versions", hint="write it as PEP 440 says")
    return versions


def _environment(section: Section) -> tuple[tuple[str, str], ...]:
    variables = section.mapping("environment")
    for name, _ in variables:
        if not _VARIABLE.fullmatch(name):
            child = section.section("environment")
            assert child is not None
            child.fail(
                f"{shown(name)} of `environment` is not a variable's name",
                key=name,
                hint="write letters, digits and '_', with no digit at its start",
            )
    return variables
