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
from forkwheel.store import write_whole

FORMAT = 1
_RECORD = ".pending.json"


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
    """Finish the replacement that a killed run has recorded, if there is one."""
    try:
        record = json.loads((folder / _RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        return
    if record.get("format") != FORMAT:
        raise PatchError(
            f"{folder / _RECORD} has format {record.get('format')}, not {FORMAT}", hint="use a newer forkwheel"
        )
    for name, content in record["files"].items():
        write_whole(folder / Path(name).name, base64.b64decode(content))
    (folder / _RECORD).unlink(missing_ok=True)
