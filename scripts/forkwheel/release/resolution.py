"""Resolve build requirements into the inputs' lock: pip chooses the versions, the index tells the files.

One choice of versions serves every Python and machine: pip resolves for the oldest Python,
and what other Pythons need beside that is added until nothing is missing.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

from forkwheel.console import Log
from forkwheel.errors import BuildError
from forkwheel.recipe import Package
from forkwheel.release.hosts import EVERY_HOST, PYTHONS, Host, described, holds, marker_of, usable
from forkwheel.release.inputs import Inputs, LockedRequirement, PackageInputs
from forkwheel.store import Store
from forkwheel.wheels.build import build_requires, open_project
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.pip import pip_environment, run_pip

_ROUNDS = 10
_OTHER_VERSION = "choose another version with the lock's `constraints`"


@dataclass(frozen=True)
class _Chosen:
    """A distribution that pip chose, and what it requires in turn."""

    name: str
    version: str
    requires: tuple[Requirement, ...]
    requires_python: str


def resolve_package(
    package: Package, tree: Path, *, version: str, constraints: Sequence[str], store: Store, log: Log
) -> PackageInputs:
    """Pin the build requirements of the project in ``tree``, which is left as it is.

    ``constraints`` narrow the choice. Backends may ask for more than pyproject.toml says: they
    are asked, in an environment of what was pinned so far. Raise FetchError where the index
    has no version or no file that serves.
    """
    requires = build_system_requires(tree, package)
    with store.temporary() as temporary:
        requirements = _pinned(requires, constraints=constraints, folder=temporary, log=log)
        python = build_environment(requirements, store=store, log=log)
        copy = temporary / "tree"
        shutil.copytree(tree, copy, symlinks=True)
        more = build_requires(copy, package, version=version, python=python, dest=temporary)
        if not more <= set(requires):
            log.info(f"the build backend asks for more: {', '.join(sorted(more))}")
            requirements = _pinned([*requires, *sorted(more)], constraints=constraints, folder=temporary, log=log)
    return PackageInputs(package.name, requires, tuple(constraints), requirements)


def resolve_inputs(
    projects: Iterable[tuple[Package, Path, str]], *, previous: Inputs | None, store: Store, log: Log
) -> tuple[PackageInputs, ...]:
    """Pin the build requirements of each (package, tree, version) anew.

    The constraints of ``previous`` are kept. ``inputs.lock_text`` turns the result into the lock's text.
    """
    kept = {canonicalize_name(part.package): part.constraints for part in previous.parts} if previous else {}
    return tuple(
        resolve_package(
            package,
            tree,
            version=version,
            constraints=kept.get(canonicalize_name(package.name), ()),
            store=store,
            log=log,
        )
        for package, tree, version in projects
    )


def resolve_toolchain(lock: Inputs, *, store: Store, log: Log) -> tuple[PackageInputs, ...]:
    """Pin every part of a toolchain's lock anew, as its own ``requires`` and ``constraints`` ask.

    Raise FetchError where the index has no version or no file that serves, BuildError where it
    has none for one of the Pythons and machines.
    """
    with store.temporary() as folder:
        pinned = partial(_pinned, folder=folder, log=log, everywhere=True)
        return tuple(
            replace(part, requirements=pinned(part.requires, constraints=part.constraints)) for part in lock.parts
        )


def resolve_here(requires: Sequence[str], *, machine: str, store: Store, log: Log) -> tuple[LockedRequirement, ...]:
    """Pin ``requires`` for every Python on one kind of machine; raise as ``resolve_package`` does."""
    hosts = [(python, machine) for python in PYTHONS]
    with store.temporary() as folder:
        return _pinned(requires, constraints=(), folder=folder, log=log, hosts=hosts)


def build_system_requires(tree: Path, package: Package | None = None) -> tuple[str, ...]:
    """Return what a tree's pyproject.toml needs for its build, sorted; raise BuildError where it is unsound.

    ``package``, where it is known, is named in the error.
    """
    return tuple(sorted(open_project(tree, package).build_system_requires))


def _pinned(
    requires: Sequence[str],
    *,
    constraints: Sequence[str],
    folder: Path,
    log: Log,
    everywhere: bool = False,
    hosts: Sequence[Host] = EVERY_HOST,
) -> tuple[LockedRequirement, ...]:
    from forkwheel.release.index_files import index_files  # its HTTP client is slow to import

    chosen, needing = _resolve(requires, constraints=constraints, folder=folder, hosts=hosts)
    needed = {name: distribution for name, distribution in chosen.items() if name in needing}
    versions = {name: distribution.version for name, distribution in needed.items()}
    files = index_files(
        versions,
        usable=lambda name, filename: any(usable(filename, host) for host in needing[name]),
    )
    locked = []
    for name, distribution in sorted(needed.items()):
        _check_pythons(distribution)
        unserved = [host for host in needing[name] if not any(usable(file, host) for file, _ in files[name])]
        if unserved:
            lacking = f"{name} {distribution.version} has no wheel for {described(unserved)}"
            if everywhere:
                raise BuildError(lacking, hint=_OTHER_VERSION)
            log.warning(f"{lacking}: no build there")
        locked.append(LockedRequirement(name, distribution.version, marker_of(needing[name], hosts), files[name]))
    return tuple(locked)


def _resolve(
    requires: Sequence[str], *, constraints: Sequence[str], folder: Path, hosts: Sequence[Host]
) -> tuple[dict[str, _Chosen], dict[str, set[Host]]]:
    """Have pip choose versions until they satisfy every host, and say which host needs what."""
    roots = [_parsed(text) for text in requires]
    extra: set[str] = set()
    environment = pip_environment()
    for _ in range(_ROUNDS):
        wanted = [*(_bare(root) for root in roots), *sorted(extra)]
        chosen = _ask_pip(wanted, constraints=constraints, folder=folder, environment=environment)
        needing: dict[str, set[Host]] = {}
        missing: set[str] = set()
        for host in hosts:
            for requirement in _closure(roots, chosen, host=host):
                name = canonicalize_name(requirement.name)
                needing.setdefault(name, set()).add(host)
                if name not in chosen:
                    missing.add(_bare(requirement))
        if not missing:
            return chosen, needing
        extra |= missing
    raise BuildError(
        f"the build requirements {', '.join(requires)} cannot be resolved", hint="narrow them with `constraints`"
    )


def _parsed(text: str) -> Requirement:
    try:
        return Requirement(text)
    except (InvalidRequirement, RecursionError) as error:
        raise BuildError(
            f"the build requirement {text!r} is malformed: {error}",
            hint="correct it in the project's pyproject.toml, with a patch or the recipe's `substitute`",
        ) from error


def _bare(requirement: Requirement) -> str:
    """Spell a requirement without its marker, so that pip resolves it on any host."""
    extras = f"[{','.join(sorted(requirement.extras))}]" if requirement.extras else ""
    return f"{requirement.name}{extras}{requirement.specifier}"


def _closure(roots: Iterable[Requirement], chosen: Mapping[str, _Chosen], *, host: Host) -> Iterator[Requirement]:
    """Yield all that ``roots`` require on a host, each (name, extra) once."""
    waiting = [root for root in roots if holds(root.marker, host, extra="")]
    seen: set[tuple[str, str]] = set()
    while waiting:
        requirement = waiting.pop()
        name = canonicalize_name(requirement.name)
        yield requirement
        for extra in ("", *sorted(requirement.extras)):
            if (name, extra) in seen or name not in chosen:
                continue
            seen.add((name, extra))
            waiting += [child for child in chosen[name].requires if holds(child.marker, host, extra=extra)]


def _ask_pip(
    requirements: Sequence[str], *, constraints: Sequence[str], folder: Path, environment: Mapping[str, str]
) -> dict[str, _Chosen]:
    """Return what pip would install for the oldest Python, by canonical name."""
    if not requirements:
        return {}
    working, report = folder / "empty", folder / "report.json"
    working.mkdir(exist_ok=True)
    (folder / "requires.txt").write_text("\n".join(requirements), encoding="utf-8")
    (folder / "constraints.txt").write_text("\n".join(constraints), encoding="utf-8")
    options = ["--dry-run", "--ignore-installed", "--only-binary", ":all:", "--target", str(folder / "target")]
    python = ["--python-version", "{}.{}".format(*PYTHONS[0]), "--report", str(report), "--quiet"]
    files = ["-r", str(folder / "requires.txt"), "-c", str(folder / "constraints.txt")]
    run_pip(["install", *options, *python, *files], folder=working, environment=environment)
    return {chosen.name: chosen for chosen in _report(json.loads(report.read_bytes()))}


def _report(report: Mapping[str, list[dict[str, dict[str, list[str] | str]]]]) -> Iterator[_Chosen]:
    for item in report["install"]:
        metadata = item["metadata"]
        yield _Chosen(
            name=canonicalize_name(str(metadata["name"])),
            version=str(metadata["version"]),
            requires=tuple(Requirement(text) for text in metadata.get("requires_dist", [])),
            requires_python=str(metadata.get("requires_python", "")),
        )


def _check_pythons(chosen: _Chosen) -> None:
    specifier = SpecifierSet(chosen.requires_python)
    for major, minor in PYTHONS:
        if not specifier.contains(f"{major}.{minor}.99"):
            raise BuildError(
                f"{chosen.name} {chosen.version} requires Python {chosen.requires_python}, "
                f"which excludes {major}.{minor}",
                hint=_OTHER_VERSION,
            )
