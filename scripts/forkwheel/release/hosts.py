"""The Pythons and machines that a lock serves: what is needed on each, and which wheels install there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from packaging.markers import Marker
from packaging.tags import compatible_tags, cpython_tags
from packaging.utils import parse_wheel_filename

from forkwheel.release.inputs import LockedRequirement

PYTHONS = ((3, 10), (3, 11), (3, 12), (3, 13))
MACHINES = ("x86_64", "aarch64")

Host = tuple[tuple[int, int], str]
EVERY_HOST = tuple(product(PYTHONS, MACHINES))


def served_pythons(requirements: Sequence[LockedRequirement], *, machine: str) -> tuple[tuple[int, int], ...]:
    """Return the Pythons on which every one of ``requirements`` that is needed there has a file."""
    return tuple(python for python in PYTHONS if all(_serves(item, (python, machine)) for item in requirements))


def _serves(item: LockedRequirement, host: Host) -> bool:
    needed = holds(Marker(item.marker) if item.marker else None, host, extra="")
    return not needed or any(usable(filename, host) for filename, _ in item.files)


def usable(filename: str, host: Host) -> bool:
    """Say whether a wheel installs on some Linux of that Python and machine."""
    python, machine = host
    tags = parse_wheel_filename(filename)[3]
    linux = [tag.platform for tag in tags if "linux" in tag.platform and tag.platform.endswith(f"_{machine}")]
    supported = {*cpython_tags(python, platforms=linux)}
    supported |= {*compatible_tags(python, interpreter=f"cp{python[0]}{python[1]}", platforms=linux)}
    return bool(tags & supported)


def holds(marker: Marker | None, host: Host, *, extra: str) -> bool:
    """Evaluate a marker for a host; one that holds for some patch release of its Python holds."""
    if marker is None:
        return not extra
    (major, minor), machine = host
    for micro in (0, 99):
        environment = {
            "implementation_name": "cpython",
            "implementation_version": f"{major}.{minor}.{micro}",
            "os_name": "posix",
            "platform_machine": machine,
            "platform_python_implementation": "CPython",
            "platform_system": "Linux",
            "python_full_version": f"{major}.{minor}.{micro}",
            "python_version": f"{major}.{minor}",
            "sys_platform": "linux",
            "extra": extra,
        }
        if marker.evaluate(environment):
            return True
    return False


def marker_of(needing: set[Host], hosts: Sequence[Host]) -> str | None:
    """Say in a marker on which of ``hosts`` something is needed; None means on all of them."""
    if needing == set(hosts):
        return None
    clauses = []
    for python in PYTHONS:
        every = [machine for other, machine in hosts if other == python]
        machines = [machine for machine in every if (python, machine) in needing]
        clause = f'python_version == "{python[0]}.{python[1]}"'
        if machines == every:
            clauses.append(clause)
        elif machines:
            clauses.append(f'{clause} and platform_machine == "{machines[0]}"')
    return " or ".join(clauses)


def described(hosts: Iterable[Host]) -> str:
    """Name hosts in a message."""
    return ", ".join(f"Python {major}.{minor} on {machine}" for (major, minor), machine in sorted(hosts))
