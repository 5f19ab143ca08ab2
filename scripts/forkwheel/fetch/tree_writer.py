"""Write a tree that others made, so that nothing lands outside of its folder."""

from __future__ import annotations

import os
import re
import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from forkwheel.errors import FetchError
from forkwheel.store import remove_tree

HINT = "the source is damaged or hostile: check where it comes from, and its pin"

MAX_DEPTH = 100
"""Folders within folders. Sources have about 15; what removes a tree fails at some hundreds."""

_CONTROL = re.compile(r"[\x00-\x1f\x7f\\]")


def check_path(path: str, origin: str) -> str:
    """Return a path that is safe to create below a folder; raise FetchError for any other.

    Refused: absolute paths, empty, ``.`` and ``..`` components, control characters and
    backslashes (which other systems take for separators), more than ``MAX_DEPTH`` components,
    and every spelling of ``.git``.
    """
    if path.count("/") >= MAX_DEPTH:
        raise FetchError(f"{origin}: the path {path[:80]!r}… is deeper than {MAX_DEPTH} folders", hint=HINT)
    for part in path.split("/"):
        if part in ("", ".", ".."):
            raise FetchError(f"{origin}: the path {path!r} does not stay in the tree", hint=HINT)
        if part.casefold().rstrip(" .") in (".git", "git~1"):
            raise FetchError(f"{origin}: the path {path!r} would write to a .git folder", hint=HINT)
    if _CONTROL.search(path):
        raise FetchError(f"{origin}: the path {path!r} holds a control character or a backslash", hint=HINT)
    return path


class TreeWriter:
    """Create files and links below ``root``, each path once, modes 0644 or 0755.

    Symbolic links are created by ``finish``, after all files, so that nothing can be
    written through one.
    """

    def __init__(self, root: Path, origin: str) -> None:
        self._root = root
        self._origin = origin
        self._links: dict[str, str] = {}
        self._folders: set[str] = set()
        root.chmod(0o755)

    def add_folder(self, path: str) -> None:
        """Create a folder and those above it; one that exists is left as it is."""
        self._make_folder(check_path(path, self._origin))

    def add_file(self, path: str, chunks: Iterable[bytes], *, executable: bool) -> None:
        """Create a file; raise FetchError if the path is unsafe or taken."""
        check_path(path, self._origin)
        self._make_folder(path.rpartition("/")[0])
        with self._explained(path):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            file = os.fdopen(os.open(self._root / path, flags, 0o600), "wb")
        with file:
            for chunk in chunks:
                with self._explained(path):
                    file.write(chunk)
            with self._explained(path):
                file.flush()
                os.fchmod(file.fileno(), 0o755 if executable else 0o644)

    def content_of(self, path: str) -> Iterator[bytes]:
        """Read back a file that was added; raise FetchError if there is none."""
        file = self._root / path
        if not file.is_file():
            raise FetchError(f"{self._origin}: a link leads to {path!r}, which no file precedes", hint=HINT)
        with file.open("rb") as opened:
            while chunk := opened.read(1 << 18):
                yield chunk

    def add_link(self, path: str, target: str) -> None:
        """Note a symbolic link; raise FetchError if its target is absolute or no path."""
        check_path(path, self._origin)
        if not target or target.startswith("/") or _CONTROL.search(target):
            self._refuse_link(path, target)
        if path in self._links:
            raise FetchError(f"{self._origin}: {path!r} is there twice", hint=HINT)
        self._links[path] = target

    def finish(self) -> None:
        """Create the links; raise FetchError for one that leads out of the tree."""
        for path, target in self._links.items():
            self._make_folder(path.rpartition("/")[0])
            with self._explained(path):
                (self._root / path).symlink_to(target)
        inside = os.path.realpath(self._root)
        for path, target in self._links.items():
            resolved = os.path.realpath(self._root / path)
            if os.path.commonpath([inside, resolved]) != inside:
                self._refuse_link(path, target)

    def _refuse_link(self, path: str, target: str) -> None:
        raise FetchError(f"{self._origin}: the link {path!r} to {target!r} leaves the tree", hint=HINT)

    def _make_folder(self, path: str) -> None:
        missing = []
        while path and path not in self._folders:
            missing.append(path)
            path = path.rpartition("/")[0]
        for folder in reversed(missing):
            with self._explained(folder):
                (self._root / folder).mkdir()
                (self._root / folder).chmod(0o755)
            self._folders.add(folder)

    @contextmanager
    def _explained(self, path: str) -> Iterator[None]:
        try:
            yield
        except FileExistsError as error:
            raise FetchError(f"{self._origin}: {path!r} is there twice", hint=HINT) from error
        except (OSError, UnicodeError) as error:
            reason = error.strerror if isinstance(error, OSError) else str(error)
            hint = "check the free space and the permissions of the folder"
            raise FetchError(f"{self._origin}: {path!r} cannot be written: {reason}", hint=hint) from error


@contextmanager
def whole_tree(dest: Path, origin: str) -> Iterator[Path]:
    """Give a folder to fill, which becomes ``dest``/tree at the end, or is gone after a fault."""
    target = dest / "tree"
    dest.mkdir(parents=True, exist_ok=True)
    if os.path.lexists(target):
        raise FetchError(f"{origin}: {target} exists already", hint="give an empty folder to unpack into")
    folder = Path(tempfile.mkdtemp(dir=dest, prefix=".unpacking-"))
    try:
        yield folder
        folder.rename(target)
    except BaseException:
        remove_tree(folder)
        raise
