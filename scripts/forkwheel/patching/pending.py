"""Replace several files of a series at once: a kill leaves all of the old or all of the new.

What is to be written is first recorded whole in one file, whose appearance is the moment of
change; whoever reads the series next finishes what was recorded. Recorded files are written
again in full, so it does no harm when two do it.
"""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from pathlib import Path

from forkwheel.errors import PatchError
from forkwheel.patching.header import PATCH_NAME
from forkwheel.store import write_whole

FORMAT = 1
_RECORD = ".pending.json"
_SERIES = "series"


def replace_files(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write the files of ``folder`` named by ``contents``, all or none."""
    if len(contents) == 1:
        for name, content in contents.items():
            write_whole(folder / name, content)
        return
    encoded = {name: base64.b64encode(content).decode() for name, content in contents.items()}
    write_whole(folder / _RECORD, json.dumps({"format": FORMAT, "files": encoded}).encode())
    finish_pending(folder)


def finish_pending(folder: Path) -> None:
    """Finish the replacement that a killed run has recorded, if there is one.

    Raise PatchError, and write nothing, where the record is damaged: it can name only the
    series and the patches of its own folder.
    """
    record = folder / _RECORD
    try:
        content = record.read_bytes()
    except (FileNotFoundError, NotADirectoryError):
        return
    except OSError as error:
        raise _damaged(record, f"it cannot be read: {error.strerror or error}") from error
    files = _files(record, content)
    try:
        for name, text in files.items():
            write_whole(folder / name, text)
        record.unlink(missing_ok=True)
    except OSError as error:
        raise PatchError(
            f"what {record} records cannot be written to {folder}: {error.strerror or error}",
            hint="see that the disk has room and that the folder can be written to; then run again",
        ) from error


def _files(record: Path, content: bytes) -> dict[str, bytes]:
    """Read a record whole before anything of it is written."""
    try:
        document = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise _damaged(record, f"it is no JSON: {error}") from error
    number = document.get("format") if isinstance(document, dict) else None
    if isinstance(number, int) and number > FORMAT:
        raise PatchError(f"{record} has format {number}, not {FORMAT}", hint="use a newer forkwheel")
    if number is not True and number == FORMAT and isinstance(document.get("files"), dict):
        return {name: _decoded(record, name, text) for name, text in document["files"].items()}
    raise _damaged(record, f"it is no record of format {FORMAT} with `files`")


def _decoded(record: Path, name: str, text: object) -> bytes:
    if name != _SERIES and not PATCH_NAME.fullmatch(name):
        raise _damaged(record, f"it names {name!r}, which is neither {_SERIES} nor a plain patch name")
    if not isinstance(text, str):
        raise _damaged(record, f"the content of {name} is no text")
    try:
        return base64.b64decode(text, validate=True)
    except ValueError as error:
        raise _damaged(record, f"the content of {name} is no base64: {error}") from error


def _damaged(record: Path, reason: str) -> PatchError:
    return PatchError(
        f"{record} is damaged: {reason}",
        hint=f"a run was killed while it wrote the series: compare the patches in {record.parent} with those in "
        f"version control, put right what differs, then delete {record.name}",
    )
