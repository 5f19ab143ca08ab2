"""A static index: a folder of wheels and pages that any web server serves, and pip's ``--find-links`` reads.

``ROOT/*.whl``       the wheels, each with its ``.metadata`` (PEP 658)
``ROOT/simple``      a link to the current generation of the pages
``ROOT/sets``        the records of each published set: manifest, provenance, install files
``ROOT/licenses``    upstream's licence files, by project and version
``ROOT/.pages``      the generations of the pages: a new one is made whole, then the link is replaced

The pages of all projects change at one moment, when the link does. What a killed run left is
removed by the next one; a wheel that it left is whole, and listed nowhere.
"""

from __future__ import annotations

import fcntl
import os
import re
import shutil
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TypeVar

from forkwheel.errors import PublishError, VerificationError
from forkwheel.release.index_pages import (
    IndexedFile,
    IndexedSet,
    project_html,
    project_json,
    read_project,
    read_root,
    root_html,
    root_json,
)
from forkwheel.store import remove_tree

_T = TypeVar("_T")

SIMPLE = "simple"
_PAGES = ".pages"
_INCOMING = ".incoming"
_HINT = "do not use the index before you know who changed it; publish it anew into an empty folder"


@dataclass(frozen=True)
class Pages:
    """What an index lists."""

    projects: Mapping[str, tuple[IndexedFile, ...]]
    sets: tuple[IndexedSet, ...]

    def file(self, filename: str) -> tuple[str, IndexedFile] | None:
        """Return the project and the entry of a file, or None."""
        for name, files in self.projects.items():
            for file in files:
                if file.filename == filename:
                    return name, file
        return None

    def only(self, filenames: Collection[str], sets: Iterable[IndexedSet]) -> Pages:
        """Return what the pages list of some files and sets."""
        chosen = {
            name: tuple(file for file in files if file.filename in filenames) for name, files in self.projects.items()
        }
        return Pages({name: files for name, files in chosen.items() if files}, tuple(sets))

    def with_file(self, name: str, file: IndexedFile) -> Pages:
        """Return the pages with an entry added, or replaced by one of the same name."""
        others = tuple(other for other in self.projects.get(name, ()) if other.filename != file.filename)
        return replace(self, projects={**self.projects, name: (*others, file)})

    def with_set(self, one: IndexedSet) -> Pages:
        """Return the pages with a set added or replaced."""
        others = tuple(other for other in self.sets if other.folder != one.folder)
        return replace(self, sets=(*others, one))


def is_index(root: Path) -> bool:
    """Tell whether a folder is an index, or what is left of one."""
    return os.path.lexists(root / SIMPLE)


def read_pages(root: Path) -> Pages:
    """Read what an index lists; raise VerificationError where a page is not what forkwheel wrote."""
    simple = root / SIMPLE
    if not is_index(root):
        return Pages({}, ())
    if simple.is_symlink():
        current(root)
    names, sets = _read(simple / "index.json", read_root)
    _check_page(simple / "index.json", root_json(names, sets))
    _check_page(simple / "index.html", root_html(names))
    return Pages({name: _read_project(simple / name) for name in names}, sets)


def _read_project(folder: Path) -> tuple[IndexedFile, ...]:
    _, files = _read(folder / "index.json", read_project)
    _check_page(folder / "index.json", project_json(folder.name, files))
    _check_page(folder / "index.html", project_html(folder.name, files))
    return files


def _read(file: Path, reader: Callable[[bytes], _T]) -> _T:
    try:
        return reader(file.read_bytes())
    except (OSError, ValueError) as error:
        raise VerificationError(f"{file} is no page of an index: {error}", hint=_HINT) from error


def _check_page(file: Path, wanted: bytes) -> None:
    if not file.is_file() or file.read_bytes() != wanted:
        raise VerificationError(f"{file} was altered: it is not the page that its project's list gives", hint=_HINT)


@contextmanager
def held(root: Path) -> Iterator[Path]:
    """Hold an index against other runs that write to it; give a folder for what is about to be added."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(root / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise PublishError(
            f"the index {root} cannot be written: {error.strerror}", hint="give another folder with --to"
        ) from error
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        incoming = _emptied(root)
        try:
            yield incoming
        finally:
            remove_tree(incoming)
    except OSError as error:
        raise PublishError(
            f"the index {root} cannot be written: {error.strerror or error}",
            hint="see that its disk has room and that all in it is yours; what was published before is as it was",
        ) from error
    finally:
        os.close(descriptor)


def _emptied(root: Path) -> Path:
    """Remove what a killed run left, and make the folder for what is about to be added."""
    kept = current(root)
    for name in (_INCOMING, _PAGES):
        if (root / name).is_symlink():
            raise PublishError(f"{root / name} is a link, which an index never has there", hint=_HINT)
    incoming = root / _INCOMING
    if incoming.exists():
        remove_tree(incoming)
    _remove_old_pages(root, kept)
    incoming.mkdir()
    return incoming


def _remove_old_pages(root: Path, kept: str) -> None:
    for folder in (root / _PAGES).glob("*"):
        if folder.name != kept:
            remove_tree(folder)


def current(root: Path) -> str:
    """Return the number of the pages that are shown, or nothing where there are none yet.

    Raise PublishError where ``simple`` is something else than a link to pages that are there.
    """
    link = root / SIMPLE
    if not link.is_symlink():
        if link.exists():
            raise PublishError(f"{link} is a folder, and no index of forkwheel's", hint="give another folder with --to")
        return ""
    folder, _, number = str(link.readlink()).partition("/")
    if folder != _PAGES or not re.fullmatch("[1-9][0-9]{0,9}", number) or not link.is_dir():
        raise VerificationError(f"{link} leads to {link.readlink()}, which is no page of this index", hint=_HINT)
    return number


def write_pages(root: Path, pages: Pages, *, changed: frozenset[str]) -> Path:
    """Make a new generation of the pages beside the current one, and return its folder.

    Only the pages of the projects in ``changed`` are written; the others are linked.
    """
    old = current(root)
    number = int(old or 0) + 1
    folder = root / _PAGES / str(number)
    folder.mkdir(parents=True)
    (root / _PAGES).chmod(0o755)
    folder.chmod(0o755)
    _write(folder / "index.json", root_json(pages.projects, pages.sets))
    _write(folder / "index.html", root_html(pages.projects))
    for name, files in pages.projects.items():
        (folder / name).mkdir()
        (folder / name).chmod(0o755)
        if old and name not in changed:
            _link_pages(root / _PAGES / old / name, folder / name)
        else:
            _write(folder / name / "index.json", project_json(name, files))
            _write(folder / name / "index.html", project_html(name, files))
    return folder


def _link_pages(old: Path, new: Path) -> None:
    for name in ("index.json", "index.html"):
        try:
            os.link(old / name, new / name)
        except OSError:
            shutil.copyfile(old / name, new / name)


def _write(file: Path, content: bytes) -> None:
    with file.open("xb") as opened:
        opened.write(content)
        opened.flush()
        os.fsync(opened.fileno())
    file.chmod(0o644)


def switch(root: Path, pages: Path) -> None:
    """Make a generation the current one: the moment at which the index changes."""
    link = root / _INCOMING / SIMPLE
    link.symlink_to(f"{_PAGES}/{pages.name}")
    link.replace(root / SIMPLE)
    _remove_old_pages(root, pages.name)
