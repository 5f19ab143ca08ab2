"""What a port is told: the new version of each package, and where its git revisions are."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from packaging.version import Version

from forkwheel.errors import UsageError
from forkwheel.fetch.mirrors import is_local
from forkwheel.recipe import GitSource, Package, Recipe
from forkwheel.upstream.history import home_path, is_version

TO = "--to PACKAGE=VERSION[@REVISION]"
REPOSITORY = "--repository PACKAGE=FOLDER-or-URL"


@dataclass(frozen=True)
class Goal:
    """A new version, of the package index or, where ``revision`` is not empty, at that git revision.

    ``repository`` is where the revision is, None for the recipe's own.
    """

    version: str
    revision: str
    repository: str | None = None


def parse_goals(targets: Iterable[str], repositories: Iterable[str], recipe: Recipe) -> dict[str, Goal]:
    """Read the values of ``--to`` and ``--repository``; raise UsageError at the first that makes no sense.

    With a repository of its own, a version without a revision is that of its tag there.
    """
    goals = {name: _goal(name, text) for name, text in _by_package(targets, recipe, form=TO).items()}
    for name, place in _by_package(repositories, recipe, form=REPOSITORY).items():
        if name not in goals:
            raise UsageError(f"{name} is given a repository and no version", hint=f"add --to {name}=VERSION")
        goals[name] = replace(goals[name], revision=goals[name].revision or goals[name].version, repository=place)
    for name, goal in goals.items():
        _check_git(recipe.package(name), goal)
    _check_required(recipe, goals)
    return goals


def _check_required(recipe: Recipe, goals: Mapping[str, Goal]) -> None:
    """Refuse to move a package away from under one that stays and pins it."""
    moved: dict[str, str] = {canonicalize_name(name): name for name in goals}
    for package in recipe.packages:
        for text in () if package.name in goals else package.requires:
            requirement = Requirement(text)
            name = moved.get(canonicalize_name(requirement.name))
            if name is not None and not requirement.specifier.contains(goals[name].version, prereleases=True):
                raise UsageError(
                    f"{package.name} {package.version} requires {text}, not {goals[name].version}",
                    hint=f"add --to {package.name}=VERSION, with a version that requires {name} {goals[name].version}",
                )


def mirrors_of(goals: Mapping[str, Goal], recipe: Recipe) -> tuple[tuple[str, str], ...]:
    """Return the repositories that are used in the place of the recipe's own, as pairs of URLs or folders."""
    found = []
    for name, goal in goals.items():
        if goal.repository is not None:
            (url,) = (source.url for source in recipe.package(name).sources if isinstance(source, GitSource))
            is_path = is_local(goal.repository) and "://" not in goal.repository
            place = str(home_path(goal.repository).absolute()) if is_path else goal.repository
            found.append((url, place))
    return tuple(found)


def _by_package(texts: Iterable[str], recipe: Recipe, *, form: str) -> dict[str, str]:
    """Part each text at its first ``=``; return what follows by the package before it."""
    option = form.partition(" ")[0]
    found: dict[str, str] = {}
    for text in texts:
        name, _, value = (part.strip() for part in text.partition("="))
        if not name or not value:
            names = ", ".join(package.name for package in recipe.packages)
            raise UsageError(f"{option} {text!r} is not {form.partition(' ')[2]}", hint=f"the packages are: {names}")
        package = recipe.package(name)
        if package.name in found:
            raise UsageError(f"{option} names {package.name} twice", hint="remove one of them")
        found[package.name] = value
    return found


def _goal(name: str, text: str) -> Goal:
    version, at, revision = text.partition("@")
    if not is_version(version) or Version(version).local:
        raise UsageError(f"--to {name}={text}: {version!r} is no version of {name}", hint=f"write {TO}")
    if at and not revision:
        raise UsageError(f"--to {name}={text}: no revision follows the `@`", hint=f"write {TO}")
    return Goal(version, revision)


def _check_git(package: Package, goal: Goal) -> None:
    if goal.revision and not any(isinstance(source, GitSource) for source in package.sources):
        raise UsageError(f"{package.name} has no git source", hint="port it to a version of the package index")
