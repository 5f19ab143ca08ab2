"""The state of a port, kept in its work folder so that it can be gone on with."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from forkwheel.canonical import canonical_recipe
from forkwheel.errors import PatchError, RecipeError, UsageError
from forkwheel.recipe import Package, load_recipe
from forkwheel.store import write_whole

FORMAT = 2
_FILE = "port.json"
_AGAIN = "remove {}, and begin again"


class PortStoppedError(PatchError):
    """A patch is in conflict with the new source: a person has to go on in the work tree."""


@dataclass(frozen=True)
class PackageState:
    """How far one package is: the patches' commits on the old source, and what became of them.

    ``series`` is the fingerprint of the series as it was, ``base`` the new source's commit.
    ``kept`` are pairs of a patch and its commit on the new source, ``dropped`` pairs of a
    patch and the reason; together they are as many as were looked at.
    """

    new: Package
    notes: tuple[str, ...]
    series: str
    base: str
    commits: tuple[tuple[str, str], ...]
    kept: tuple[tuple[str, str], ...]
    dropped: tuple[tuple[str, str], ...]

    @property
    def current(self) -> tuple[str, str] | None:
        """The patch, with its commit, that is next; None where all are done."""
        done = len(self.kept) + len(self.dropped)
        return self.commits[done] if done < len(self.commits) else None

    @property
    def head(self) -> str:
        """The commit that the next patch goes on."""
        return self.kept[-1][1] if self.kept else self.base

    def keep(self, commit: str) -> PackageState:
        """Note that the current patch is over."""
        assert self.current is not None
        return replace(self, kept=(*self.kept, (self.current[0], commit)))

    def drop(self, reason: str) -> PackageState:
        """Note that the current patch is dropped."""
        assert self.current is not None
        return replace(self, dropped=(*self.dropped, (self.current[0], reason)))


@dataclass(frozen=True)
class PortState:
    """A whole port: the old recipe's file, the new one's name, and what else the command was given.

    ``out`` is the folder that gets the result, None where that goes beside what it was made of.
    ``mirrors`` are pairs of a git remote's URL and the repository that is used in its place.
    """

    recipe: str
    name: str
    out: str | None
    mirrors: tuple[tuple[str, str], ...]
    packages: tuple[PackageState, ...]

    def with_package(self, index: int, package: PackageState) -> PortState:
        """Return the state with one package's replaced."""
        return replace(self, packages=(*self.packages[:index], package, *self.packages[index + 1 :]))


def save_state(work: Path, state: PortState) -> None:
    """Write a state; each package is kept as a recipe of its own, in the work folder."""
    record: dict[str, Any] = {
        "format": FORMAT,
        "recipe": state.recipe,
        "name": state.name,
        "out": state.out,
        "mirrors": state.mirrors,
    }
    kept_fields = ("notes", "series", "base", "commits", "kept", "dropped")
    record["packages"] = [
        {"new": item.new.name} | {name: getattr(item, name) for name in kept_fields} for item in state.packages
    ]
    for item in state.packages:
        versions = {text: text.rpartition("=")[2] for text in item.new.requires}
        text = canonical_recipe(item.new, name="port", local="port", revision=0, target="sm_100", required=versions)
        write_whole(_package_file(work, item.new.name), text.encode())
    write_whole(work / _FILE, json.dumps(record, indent=2).encode())


def is_port(work: Path) -> bool:
    """Tell whether a folder holds the state of a port, sound or not."""
    return (work / _FILE).exists()


def load_state(work: Path) -> PortState:
    """Read a state; raise UsageError where the folder holds none."""
    try:
        record = json.loads((work / _FILE).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(f"no port is open in {work}", hint="begin one with --to") from None
    except ValueError as error:
        raise UsageError(f"{work / _FILE} is damaged: {error}", hint=_AGAIN.format(work)) from error
    if not isinstance(record, dict):
        raise UsageError(f"{work / _FILE} is damaged: it is no object", hint=_AGAIN.format(work))
    if record.get("format") != FORMAT:
        raise UsageError(f"{work} was made by another version of forkwheel", hint=_AGAIN.format(work))
    try:
        packages = tuple(_package(item, work) for item in record["packages"])
        mirrors = tuple((url, place) for url, place in record["mirrors"])
        return PortState(record["recipe"], record["name"], record["out"], mirrors, packages)
    except RecipeError as error:
        raise UsageError(f"the state of the port is damaged: {error.message}", hint=_AGAIN.format(work)) from error
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise UsageError(f"{work / _FILE} is damaged: {error}", hint=_AGAIN.format(work)) from error


def _package(item: dict[str, Any], work: Path) -> PackageState:
    (new,) = load_recipe(_package_file(work, item["new"])).packages

    def pairs(key: str) -> tuple[tuple[str, str], ...]:
        return tuple((name, value) for name, value in item[key])

    return PackageState(
        new=replace(new, required_versions=()),
        notes=tuple(item["notes"]),
        series=item["series"],
        base=item["base"],
        commits=pairs("commits"),
        kept=pairs("kept"),
        dropped=pairs("dropped"),
    )


def _package_file(work: Path, name: str) -> Path:
    return work / f"{name}.port.toml"
