"""What an environment holds: listed when it is complete, and compared before it is used again.

Sizes are compared and no content, so that it takes milliseconds. What was added later is no
fault, and compiled modules (``__pycache__``) are anybody's to write.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from forkwheel.store import write_whole

_COMPILED = "__pycache__"


def write_listing(environment: Path, file: Path) -> None:
    """Record in ``file`` every folder, file and link of an environment, the last two with their sizes in bytes."""
    sizes: dict[str, int | None] = {}
    for folder, folders, names in os.walk(environment):
        folders[:] = [name for name in folders if name != _COMPILED]
        place = Path(folder)
        prefix = place.relative_to(environment).as_posix()
        sizes[f"{prefix}/"] = None
        links = [name for name in folders if (place / name).is_symlink()]
        sizes |= {f"{prefix}/{name}": (place / name).lstat().st_size for name in [*names, *links]}
    write_whole(file, json.dumps(sizes).encode())


def is_whole(environment: Path, file: Path) -> bool:
    """Tell whether all that ``file`` lists is in the environment, each with its size.

    Without a sound listing it is not.
    """
    try:
        sizes = json.loads(file.read_bytes())
        prefix = f"{environment}/"
        return bool(sizes) and all(
            os.lstat(prefix + name).st_size == size or (size is None and name.endswith("/"))
            for name, size in sizes.items()
        )
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False
