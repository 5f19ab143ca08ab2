"""Where two wheels differ: order, mode, time, compression, which member, and how."""

from __future__ import annotations

import difflib
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from zipfile import ZipFile, ZipInfo

from forkwheel.release.elf import code_digests, is_elf
from forkwheel.tree import sha256_file
from forkwheel.wheels.record import open_wheel

_SHOWN_LINES = 24
_LONGEST_TEXT = 1 << 20  # bytes; a longer member's difference is described, not shown
_DIFFOSCOPE_SECONDS = 300


@dataclass(frozen=True)
class Difference:
    """One kind of difference; ``member`` is empty where it is the archive's, ``detail`` may have several lines."""

    kind: str
    member: str
    detail: str


def compare_wheels(expected: Path, found: Path) -> tuple[Difference, ...]:
    """Return how ``found`` differs from ``expected``; nothing where they are the same bytes.

    RECORD follows from the other members, so it is named only where it alone differs.
    """
    if sha256_file(expected) == sha256_file(found):
        return ()
    with open_wheel(expected) as left, open_wheel(found) as right:
        differences = (*_names(left, right), *_contents(left, right), *_fields(left, right))
    if differences:
        return differences
    return (Difference("archive", "", _first_byte(expected.read_bytes(), found.read_bytes())),)


def _infos(archive: ZipFile) -> dict[str, ZipInfo]:
    return {info.filename: info for info in archive.infolist()}


def _names(left: ZipFile, right: ZipFile) -> Iterator[Difference]:
    old, new = left.namelist(), right.namelist()
    for name in old:
        if name not in new:
            yield Difference("missing", name, "the rebuilt wheel lacks it")
    for name in new:
        if name not in old:
            yield Difference("added", name, "only the rebuilt wheel has it")
    shared, others = [name for name in old if name in new], [name for name in new if name in old]
    for position, (name, other) in enumerate(zip(shared, others, strict=True)):
        if name != other:
            yield Difference("order", name, f"at position {position} the rebuilt wheel has {other}")
            return


def _contents(left: ZipFile, right: ZipFile) -> list[Difference]:
    new = _infos(right)
    found = [
        Difference("content", name, _described(before, after))
        for name in left.namelist()
        if name in new and (before := left.read(name)) != (after := right.read(name))
    ]
    others = [item for item in found if not item.member.endswith(".dist-info/RECORD")]
    changed_names = set(left.namelist()) != set(new)
    return others if others or changed_names else found


def _described(before: bytes, after: bytes) -> str:
    if is_elf(before) and is_elf(after):
        return _objects(before, after)
    if max(len(before), len(after)) <= _LONGEST_TEXT:
        try:
            return _text_diff(before.decode(), after.decode())
        except UnicodeDecodeError:
            pass
    return _first_byte(before, after)


def _objects(before: bytes, after: bytes) -> str:
    try:
        (device, host), (new_device, new_host) = code_digests(before), code_digests(after)
    except ValueError as error:
        return f"{_first_byte(before, after)}; {error}"
    verdicts = [("device code", device == new_device), ("host code", host == new_host)]
    return ", ".join(f"{name} {'identical' if same else 'differs'}" for name, same in verdicts)


def _text_diff(before: str, after: str) -> str:
    lines = list(difflib.unified_diff(before.splitlines(), after.splitlines(), "expected", "rebuilt", lineterm="", n=1))
    more = len(lines) - _SHOWN_LINES
    shown = [line if len(line) <= 200 else f"{line[:200]}…" for line in lines[:_SHOWN_LINES]]
    if not lines:
        return "the ends of lines differ"
    return "\n".join([*shown, f"({more} more lines)"] if more > 0 else shown)


def _first_byte(before: bytes, after: bytes) -> str:
    position = next((at for at, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), None)
    sizes = f"{len(before)} bytes" if len(before) == len(after) else f"{len(before)} bytes, rebuilt {len(after)}"
    if position is None:
        return f"{sizes}; one is the beginning of the other"
    return f"{sizes}; first different at byte {position}: {before[position]:#04x}, rebuilt {after[position]:#04x}"


def _fields(left: ZipFile, right: ZipFile) -> Iterator[Difference]:
    old, new = _infos(left), _infos(right)
    for kind, describe in (("mode", _mode), ("time", _time), ("compression", _compression)):
        changed = {
            name: (describe(info), describe(new[name]))
            for name, info in old.items()
            if name in new and describe(info) != describe(new[name])
        }
        if changed:
            yield _summed_up(kind, changed)


def _summed_up(kind: str, changed: Mapping[str, tuple[str, str]]) -> Difference:
    name, (before, after) = next(iter(changed.items()))
    more = f", and so for {len(changed) - 1} more" if len(changed) > 1 else ""
    return Difference(kind, name, f"{before}, rebuilt {after}{more}")


def _mode(info: ZipInfo) -> str:
    return f"{info.external_attr >> 16:o}"


def _time(info: ZipInfo) -> str:
    year, month, day, hour, minute, second = info.date_time
    return f"{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"


def _compression(info: ZipInfo) -> str:
    return {0: "stored", 8: "deflated"}.get(info.compress_type, f"method {info.compress_type}")


def diffoscope(expected: Path, found: Path) -> str | None:
    """Return what diffoscope says of two wheels, or None where it is not installed."""
    program = shutil.which("diffoscope")
    if program is None:
        return None
    options = ["--text", "-", "--no-progress", "--max-text-report-size", "20000"]
    try:
        done = subprocess.run(
            [program, *options, str(expected), str(found)],
            capture_output=True,
            text=True,
            errors="replace",
            check=False,
            timeout=_DIFFOSCOPE_SECONDS,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"diffoscope failed: {error}"
    return done.stdout or done.stderr
