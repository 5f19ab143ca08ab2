"""The census as tables: its families, and what changed against another one."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from forkwheel.cuda.census import Census, Family, Kernel

COLUMNS = ("family", "kernels", "instructions", "registers", "shared", "stack", "local", "waits", "launches")

_READERS: tuple[tuple[str, Callable[[Kernel], int]], ...] = (
    ("instructions", lambda kernel: kernel.instructions),
    ("registers", lambda kernel: kernel.registers),
    ("shared", lambda kernel: kernel.shared),
    ("stack", lambda kernel: kernel.stack),
)


def family_rows(census: Census) -> list[tuple[str, ...]]:
    """Return a row a family: ranges over its instances, and in how many of them something is."""
    return [_row(family) for family in census.families]


def _row(family: Family) -> tuple[str, ...]:
    total = len(family.kernels)
    ranges = [_span(family.range(read)) for _, read in _READERS]
    counts = (
        family.count(lambda kernel: kernel.local > 0),
        family.count(lambda kernel: kernel.waits > 0),
        family.count(lambda kernel: kernel.launches > 0),
    )
    return (family.name, str(total), *ranges, *(f"{count}/{total}" for count in counts))


def _span(limits: tuple[int, int]) -> str:
    low, high = limits
    return str(low) if low == high else f"{low}-{high}"


def change_rows(before: Census, after: Census) -> list[tuple[str, str, str, str]]:
    """Return what differs, family by family: family, what, before, after."""
    old = {family.name: family for family in before.families}
    new = {family.name: family for family in after.families}
    rows = []
    for name in sorted({*old, *new}):
        left = _described(old.get(name))
        right = _described(new.get(name))
        rows += [(name, what, left[what], right[what]) for what in _WHAT if left[what] != right[what]]
    return rows


_WHAT = ("kernels", "targets", *COLUMNS[2:], "instructions in all")


def _described(family: Family | None) -> dict[str, str]:
    if family is None:
        return dict.fromkeys(_WHAT, "-")
    described = dict(zip(COLUMNS[1:], _row(family)[1:], strict=True))
    described["targets"] = ", ".join(sorted({kernel.target for kernel in family.kernels}))
    described["instructions in all"] = str(sum(kernel.instructions for kernel in family.kernels))
    return described


def changed_kernels(before: Census, after: Census) -> Sequence[str]:
    """Return the names of the kernels that are in one census only or whose counts differ.

    A name may be there several times: for several targets, or in several files.
    """
    old, new = _by_name(before), _by_name(after)
    return sorted(name for name in {*old, *new} if old.get(name) != new.get(name))


def _by_name(census: Census) -> dict[str, list[tuple[object, ...]]]:
    counts: dict[str, list[tuple[object, ...]]] = {}
    for kernel in census.kernels:
        counts.setdefault(kernel.name, []).append(_counts(kernel))
    return {name: sorted(found, key=repr) for name, found in counts.items()}


def _counts(kernel: Kernel) -> tuple[object, ...]:
    return tuple(value for field, value in vars(kernel).items() if field not in ("object", "name"))
