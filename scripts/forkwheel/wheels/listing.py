"""What an environment holds: listed when it is complete, and compared before it is used again.

Sizes are compared and no content, so that it takes milliseconds. What was added later is no
fault, and compiled modules (``__pycache__``) are anybody's to write.
"""

from __future__ import annotations

import json
import os
from pathlib import Path

from forkwheel.store import write_whole
from forkwheel.tree import walk


def write_listing(environment: Path, file: Path) -> None:
    """Record in ``file`` every file and link of an environment with its size in bytes."""
    names = [name for name in walk(environment) if "__pycache__/" not in name]
    sizes = {name: os.lstat(environment / name).st_size for name in names}
    write_whole(file, json.dumps(sizes).encode())


def is_whole(environment: Path, file: Path) -> bool:
    """Tell whether all that ``file`` lists is in the environment, each with its size.

    Without a sound listing it is not.
    """
    try:
        sizes = json.loads(file.read_bytes())
        prefix = f"{environment}/"
        return bool(sizes) and all(os.lstat(prefix + name).st_size == size for name, size in sizes.items())
    except (OSError, ValueError, AttributeError, TypeError, RecursionError):
        return False
