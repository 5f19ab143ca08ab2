"""Bind-mount a folder and become a command: a script for the first process of a mount namespace.

Arguments: the folder, the mount point, and the command. It imports nothing of forkwheel, so
that it starts at once.
"""

from __future__ import annotations

import ctypes
import os
import sys

_MS_BIND_REC = 0x1000 | 0x4000


def main(arguments: list[str]) -> None:
    """Mount, enter and execute; exit 125 where the kernel refuses the mount."""
    source, target, *command = arguments
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.mount(os.fsencode(source), os.fsencode(target), None, _MS_BIND_REC, None):
        sys.stderr.write(f"cannot mount {source} at {target}: {os.strerror(ctypes.get_errno())}\n")
        sys.exit(125)
    os.chdir(target)
    os.execvp(command[0], command)  # noqa: S606 - there is no shell to start it with


if __name__ == "__main__":
    main(sys.argv[1:])
