"""One path for every build: absolute paths enter the compiler's output, so they must not differ.

Where a mount namespace can be had, the folder of a build is mounted at ``ROOT`` for its
commands alone, and builds run side by side. Elsewhere the folder is made at ``ROOT`` itself,
which must then be this user's alone, and one build runs at a time.
"""

from __future__ import annotations

import os
import stat
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from forkwheel.children import CHILDREN, Children
from forkwheel.errors import ToolchainError
from forkwheel.store import Store, lock_descriptor, remove_tree

ROOT = Path("/var/tmp/forkwheel-build")  # noqa: S108 - checked to be a folder of this user's own
"""Where every command finds its files; part of the bytes, so never changed lightly."""

_MOUNTED = Path(__file__).with_name("mounted.py")
_NAMESPACES = (
    ("unshare", "--user", "--map-root-user", "--mount"),
    ("unshare", "--mount"),
)


@dataclass(frozen=True)
class BuildRoot:
    """A folder to fill at ``stage``, which the commands that it runs see at ``ROOT``: ``prefix`` mounts it there.

    ``descriptors`` are inherited by the commands: one that outlives this process still holds
    the folder against the next build.
    """

    stage: Path
    prefix: tuple[str, ...]
    descriptors: tuple[int, ...] = ()

    def run(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str],
        errors: int = subprocess.PIPE,
        children: Children = CHILDREN,
    ) -> subprocess.CompletedProcess[str]:
        """Run a command, one of ``children``, where it sees ``ROOT``, in the stage."""
        return children.run(
            [*self.prefix, *command],
            folder=self.stage,
            environment=environment,
            errors=errors,
            descriptors=self.descriptors,
        )

    def staged(self, path: str) -> Path:
        """Translate a path below ``ROOT`` to where this process finds the file."""
        return self.stage / Path(path).relative_to(ROOT)

    def visible(self, name: str) -> Path:
        """Return where the commands see a file of the stage."""
        return ROOT / name

    @property
    def is_mounted(self) -> bool:
        """Tell whether the commands run in a mount namespace."""
        return bool(self.prefix)


@contextmanager
def build_root(
    store: Store, *, root: Path = ROOT, namespaces: bool = True, waiting: Callable[[], None] | None = None
) -> Iterator[BuildRoot]:
    """Give an empty build root, which is gone afterwards.

    Raise ToolchainError where neither a namespace nor a folder at ``root`` of our own can be had.
    """
    prefix = _namespace(root, store) if namespaces else None
    if prefix is not None:
        with store.temporary() as stage:
            yield BuildRoot(stage, (*prefix, sys.executable, "-I", "-S", str(_MOUNTED), str(stage), str(root)))
        return
    _check_own(root)
    with _held(root, waiting) as descriptor:
        _empty(root)
        try:
            yield BuildRoot(root, (), (descriptor,))
        finally:
            _empty(root)


def _namespace(root: Path, store: Store) -> tuple[str, ...] | None:
    """Return the first way of making a mount namespace that really mounts at ``root``."""
    if not _make_mount_point(root):
        return None
    with store.temporary() as probe:
        (probe / "seen").touch()
        for prefix in _NAMESPACES:
            command = [*prefix, sys.executable, "-I", "-S", str(_MOUNTED), str(probe), str(root)]
            result = CHILDREN.run([*command, "ls", str(root)])
            if result.returncode == 0 and result.stdout.split() == ["seen"]:
                return prefix
    return None


def _make_mount_point(root: Path) -> bool:
    try:
        root.mkdir(mode=0o700)
    except FileExistsError:
        return stat.S_ISDIR(root.lstat().st_mode)
    except OSError:
        return False
    return True


def _check_own(root: Path) -> None:
    """Refuse a folder at ``root`` that another user made or may write to."""
    try:
        root.mkdir(mode=0o700)
    except FileExistsError:
        pass
    except OSError as error:
        raise ToolchainError(
            f"the build folder {root} cannot be made: {error.strerror}", hint=f"make {root.parent} writable"
        ) from error
    found = root.lstat()
    if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077:
        return
    raise ToolchainError(
        f"{root} has owner {found.st_uid} and mode {stat.filemode(found.st_mode)}; "
        f"it must be a folder of user {os.getuid()} with mode drwx------",
        hint="remove it, or allow user namespaces, where builds need no such folder",
    )


@contextmanager
def _held(root: Path, waiting: Callable[[], None] | None) -> Iterator[int]:
    descriptor = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        lock_descriptor(descriptor, waiting)
        yield descriptor
    finally:
        os.close(descriptor)


def _empty(root: Path) -> None:
    for path in root.iterdir():
        remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
