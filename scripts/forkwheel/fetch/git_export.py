"""Write the files of a commit, as they were committed, without a checkout."""

from __future__ import annotations

import posixpath
from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from forkwheel.errors import FetchError, PinMismatchError
from forkwheel.fetch.git_objects import FOLDER, GITLINK, GitEntry, Objects, open_objects
from forkwheel.fetch.masking import mask
from forkwheel.fetch.tree_writer import HINT, TreeWriter, whole_tree
from forkwheel.fetch.unpack import MAX_BYTES, MAX_MEMBERS
from forkwheel.recipe import GitSource
from forkwheel.tree import EXECUTABLE, SYMLINK

_FILES = ("100644", "100664", EXECUTABLE)


@dataclass(frozen=True)
class Checkout:
    """A source's repositories in the cache: its own at ``""``, and each submodule's by path."""

    source: GitSource
    repositories: Mapping[str, Path]


def export(checkout: Checkout, dest: Path) -> Path:
    """Write a source's folder and the submodules in it to ``dest``/tree.

    Links that stay in the folder are kept; one that leads to another file of the
    repository becomes that file, as it does in an sdist; any other is refused.
    """
    origin = mask(checkout.source.url)
    with whole_tree(dest, origin) as folder, ExitStack() as stack:
        opened = {path: stack.enter_context(open_objects(made)) for path, made in checkout.repositories.items()}
        _Export(checkout, opened, TreeWriter(folder, origin)).run()
    return dest / "tree"


class _Export:
    def __init__(self, checkout: Checkout, opened: Mapping[str, Objects], writer: TreeWriter) -> None:
        self._source = checkout.source
        self._objects = opened
        self._writer = writer
        self._commits = {submodule.path: submodule.commit for submodule in checkout.source.submodules}
        self._base = self._source.subdirectory
        self._files = self._bytes = 0
        self._root_tree = opened[""].tree_of(self._source.commit)

    def run(self) -> None:
        tree = self._root_tree
        if self._base:
            entry = self._objects[""].find(tree, self._base)
            if entry is None or entry.mode != FOLDER:
                message = f"{mask(self._source.url)} has no folder {self._base!r} at {self._source.commit}"
                raise FetchError(message, hint="correct the recipe's `subdirectory`")
            tree = entry.object_id
        self._write(self._objects[""], tree, self._base, repository="")
        self._writer.finish()

    def _write(self, objects: Objects, tree: str, folder: str, *, repository: str) -> None:
        for entry in objects.walk(tree, folder):
            if entry.mode in _FILES:
                self._write_file(objects, entry, self._below(entry.path))
            elif entry.mode == SYMLINK:
                self._write_link(objects, entry)
            elif entry.mode == GITLINK:
                self._write_submodule(entry, repository=repository)
            else:
                raise FetchError(f"{mask(self._source.url)}: {entry.path!r} has the mode {entry.mode!r}", hint=HINT)

    def _write_submodule(self, entry: GitEntry, *, repository: str) -> None:
        commit = self._commits.get(entry.path)
        if commit is None:
            if repository == "":
                message = (
                    f"{mask(self._source.url)} has a submodule {entry.path!r} at {entry.object_id}, which is not pinned"
                )
                raise PinMismatchError(message, hint="pin it in the recipe with [[package.source.submodule]]")
            return
        objects = self._objects[entry.path]
        self._write(objects, objects.tree_of(commit), entry.path, repository=entry.path)

    def _write_link(self, objects: Objects, entry: GitEntry) -> None:
        target = objects.read(entry.object_id, "blob").decode("utf-8", "surrogateescape")
        reached = posixpath.normpath(posixpath.join(posixpath.dirname(entry.path), target))
        if not self._base or target.startswith("/") or _is_below(reached, self._base) or reached.startswith("../"):
            self._writer.add_link(self._below(entry.path), target)
            return
        found = self._objects[""].find(self._root_tree, reached)
        if found is None or found.mode not in _FILES:
            message = (
                f"{mask(self._source.url)}: the link {entry.path!r} leads out of {self._base!r} to {target!r}, no file"
            )
            raise FetchError(message, hint="only links to files of the repository can be followed")
        self._write_file(self._objects[""], found, self._below(entry.path))

    def _write_file(self, objects: Objects, entry: GitEntry, path: str) -> None:
        content = objects.read(entry.object_id, "blob")
        self._files += 1
        self._bytes += len(content)
        if self._files > MAX_MEMBERS or self._bytes > MAX_BYTES:
            message = f"{mask(self._source.url)} holds more than {MAX_MEMBERS} files or {MAX_BYTES >> 30} GiB"
            raise FetchError(message, hint=HINT)
        self._writer.add_file(path, [content], executable=entry.mode == EXECUTABLE)

    def _below(self, path: str) -> str:
        return path.removeprefix(f"{self._base}/") if self._base else path


def _is_below(path: str, folder: str) -> bool:
    return path == folder or path.startswith(f"{folder}/")
