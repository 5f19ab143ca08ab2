"""unidiff as a second reader of every patch: it must see what the strict reader saw.

The bytes are read as Latin-1, so that each byte is one character and none is lost. Names
are compared only where git did not quote them, since unidiff leaves quoted names as they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unidiff.errors import UnidiffParseError
from unidiff.patch import PatchSet

from forkwheel.patching.fault import Place
from forkwheel.patching.model import FilePatch, Hunk
from forkwheel.patching.names import encode, quote

_HINT = "the patch is written in a way that tools read differently; make it again with `git diff`"


def check_agreement(patches: Sequence[FilePatch], lines: Sequence[bytes], *, file: Path, first_line: int) -> None:
    """Read the diff with unidiff, and raise PatchError where it differs in files, hunks or lines."""
    try:
        seen = PatchSet([line.decode("latin-1") for line in lines])
    except UnidiffParseError as error:
        reason = str(error).strip()
        Place(file, first_line).fail(f"unidiff cannot read the diff: {reason}", hint=_HINT)
    if len(seen) != len(patches):
        Place(file, first_line).fail(f"unidiff sees {len(seen)} files where there are {len(patches)}", hint=_HINT)
    for other, patch in zip(seen, patches, strict=True):
        place = Place(file, patch.line)
        if len(other) != len(patch.hunks):
            place.fail(f"unidiff sees {len(other)} hunks of {patch.path}, not {len(patch.hunks)}", hint=_HINT)
        name = encode(patch.path)
        if quote(name) == name and other.path.encode("latin-1") != name:
            place.fail(f"unidiff reads the name as {other.path!r}, not {patch.path!r}", hint=_HINT)
        for other_hunk, hunk in zip(other, patch.hunks, strict=True):
            _compare(other_hunk, hunk, Place(file, hunk.line))


def _compare(other: object, hunk: Hunk, place: Place) -> None:
    numbers = tuple(getattr(other, name) for name in ("source_start", "source_length", "target_start", "target_length"))
    if numbers != (hunk.old_start, hunk.old_count, hunk.new_start, hunk.new_count):
        place.fail(f"unidiff reads the hunk's numbers as {numbers}", hint=_HINT)
    seen = [
        (line.line_type, line.value.encode("latin-1").rstrip(b"\n"))
        for line in other  # type: ignore[attr-defined]
        if line.line_type in ("+", "-", " ")
    ]
    if seen != [(line.kind, line.content.rstrip(b"\n")) for line in hunk.lines]:
        place.fail("unidiff reads other lines in the hunk", hint=_HINT)
