"""Publish a set into a static index: refuse what must not go out, then add all of it or nothing."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from pathlib import Path

from packaging.utils import canonicalize_name

from forkwheel.errors import PublishError, UsageError, VerificationError
from forkwheel.release import provenance
from forkwheel.release.index import Pages, held, is_index, read_pages, switch, write_pages
from forkwheel.release.index_pages import IndexedFile, IndexedSet
from forkwheel.release.install_files import constraints_text, requirements_text
from forkwheel.release.signing import signature_of
from forkwheel.release.wheel_set import SetWheel, WheelSet, check_bytes
from forkwheel.tree import sha256_file
from forkwheel.wheels.metadata import fields
from forkwheel.wheels.verify import read_wheel

_LICENCES = ("licen", "notice", "copying")


@dataclass(frozen=True)
class NewFile:
    """A wheel to be added: its entry, its project, and what lies beside it."""

    wheel: Path
    project: str
    version: str
    entry: IndexedFile
    metadata: bytes
    licences: Mapping[str, bytes]


@dataclass(frozen=True)
class Published:
    """What publishing did; ``present`` were there before, with the same bytes."""

    added: tuple[str, ...]
    present: tuple[str, ...]


def new_file(wheel: Path, *, sha256: str) -> NewFile:
    """Describe a wheel of a verified set for the index."""
    records = read_wheel(wheel)
    metadata = records.files["METADATA"]
    entry = IndexedFile(
        filename=wheel.name,
        sha256=sha256,
        size=records.size,
        requires_python=next(iter(fields(metadata).get("requires-python", [])), None),
        metadata_sha256=_digest(metadata),
    )
    licences = dict(_licences(records.files))
    return NewFile(wheel, canonicalize_name(records.name), records.version, entry, metadata, licences)


def _digest(content: bytes) -> str:
    return sha256(content).hexdigest()


def _licences(files: Mapping[str, bytes]) -> Iterator[tuple[str, bytes]]:
    for path, content in files.items():
        if path.startswith("licenses/"):
            yield path.removeprefix("licenses/"), content
        elif "/" not in path and path.lower().startswith(_LICENCES):
            yield path, content


def publish_set(root: Path, wheels: WheelSet, *, more: Sequence[SetWheel] = ()) -> Published:
    """Add a verified set, and ``more`` wheels that belong to it, to the index in ``root``.

    Raise PublishError where the index has a file of the same name with other bytes. A kill at
    any moment leaves the pages as they were, or as they are afterwards.
    """
    new = [new_file(wheel.path, sha256=wheel.sha256) for wheel in (*wheels.wheels, *more)]
    records = _set_records(wheels)
    one = IndexedSet(wheels.recipe, wheels.revision, sha256_file(wheels.manifest))
    with held(root) as incoming:
        pages = read_pages(root)
        added = [file for file in new if not _is_present(root, pages, file)]
        _check_set(root, one, pages)
        stored = _stage(incoming, added) + _stage_set(root, incoming, one, records)
        for file in added:
            pages = pages.with_file(file.project, file.entry)
        generation = write_pages(root, pages.with_set(one), changed=frozenset(file.project for file in added))
        for source, target in stored:
            _move(root, source, target)
        switch(root, generation)
    names = {file.entry.filename for file in added}
    return Published(tuple(sorted(names)), tuple(f.entry.filename for f in new if f.entry.filename not in names))


def _is_present(root: Path, pages: Pages, file: NewFile) -> bool:
    """Tell whether the index lists a file already; refuse one that is there with other bytes."""
    path = root / file.entry.filename
    known = pages.file(file.entry.filename)
    there = known[1].sha256 if known else sha256_file(path) if path.is_file() else file.entry.sha256
    if there != file.entry.sha256:
        raise PublishError(
            f"the index has {file.entry.filename} with the SHA-256 {there}, not {file.entry.sha256}",
            hint="a published file never changes: make the next revision with `nox -s lock -- --recipe RECIPE`",
        )
    if known and not path.is_file():
        raise VerificationError(f"the index lists {path.name}, but the file is gone", hint="restore it in the index")
    return known is not None


def _set_records(wheels: WheelSet) -> list[Path]:
    statement = wheels.beside(provenance.SUFFIX)
    files = [wheels.manifest, statement, signature_of(statement)]
    files += [wheels.beside("requirements.txt"), wheels.beside("constraints.txt")]
    return [file for file in files if file.is_file()]


def _check_set(root: Path, one: IndexedSet, pages: Pages) -> None:
    known = next((other for other in pages.sets if other.folder == one.folder), None)
    if known is not None and known.sha256 != one.sha256:
        raise PublishError(
            f"the index has revision {one.revision} of {one.recipe} with another manifest, {known.sha256}",
            hint="a published revision never changes: make the next one with `nox -s lock -- --recipe RECIPE`",
        )


def _stage(incoming: Path, added: Sequence[NewFile]) -> list[tuple[Path, str]]:
    """Copy what is added to the index's own disk, checking it on the way; return where each file goes."""
    stored = []
    for number, file in enumerate(added):
        folder = incoming / str(number)
        folder.mkdir()
        contents = {f"licenses/{file.project}/{file.version}/{path}": text for path, text in file.licences.items()}
        contents[f"{file.entry.filename}.metadata"] = file.metadata
        for index, (target, content) in enumerate(contents.items()):
            (folder / str(index)).write_bytes(content)
            stored.append((folder / str(index), target))
        copied = folder / file.entry.filename
        shutil.copyfile(file.wheel, copied)
        check_bytes(copied, sha256=file.entry.sha256, said_by="the manifest")
        stored.append((copied, file.entry.filename))
    return stored


def _stage_set(root: Path, incoming: Path, one: IndexedSet, records: Sequence[Path]) -> list[tuple[Path, str]]:
    folder = incoming / "set"
    folder.mkdir()
    stored = []
    for file in records:
        target = f"{one.folder}/{file.name}"
        if not (root / target).is_file() or (root / target).read_bytes() != file.read_bytes():
            shutil.copyfile(file, folder / file.name)
            stored.append((folder / file.name, target))
    return stored


def _move(root: Path, source: Path, target: str) -> None:
    for folder in reversed(Path(target).parents[:-1]):
        (root / folder).mkdir(exist_ok=True)
        (root / folder).chmod(0o755)
    source.chmod(0o644)
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    source.replace(root / target)


def yank(root: Path, filename: str, *, reason: str) -> None:
    """Mark a file of an index as one that is chosen only where it is pinned exactly (PEP 592)."""
    if not reason.isprintable():
        raise UsageError(f"the reason {reason!a} holds characters that hide", hint="write it as one plain line")
    if not is_index(root):
        raise UsageError(f"{root} is no index", hint="give the folder of one with --to")
    with held(root):
        pages = read_pages(root)
        found = pages.file(filename)
        if found is None:
            raise UsageError(f"the index lists no {filename}", hint="name a wheel as the index does")
        name, entry = found
        pages = pages.with_file(name, replace(entry, yanked=reason))
        switch(root, write_pages(root, pages, changed=frozenset({name})))


def verify_index(root: Path, pages: Pages | None = None) -> Pages:
    """Check every page, wheel, metadata file and set of an index; raise VerificationError at the first fault.

    ``pages`` is what to check of it, where that is not all.
    """
    pages = pages or read_pages(root)
    if not pages.projects:
        raise UsageError(f"{root} is no index: it has no folder simple", hint="name the folder that was published to")
    for files in pages.projects.values():
        for file in files:
            check_bytes(root / file.filename, sha256=file.sha256, said_by="the index page")
            check_bytes(root / f"{file.filename}.metadata", sha256=file.metadata_sha256, said_by="the index page")
            if _digest(read_wheel(root / file.filename).files["METADATA"]) != file.metadata_sha256:
                raise VerificationError(
                    f"{file.filename}.metadata is not the METADATA of the wheel", hint="publish the wheel anew"
                )
    for one in pages.sets:
        check_bytes(root / one.manifest, sha256=one.sha256, said_by="the index page")
    return pages


def check_install_files(wheels: WheelSet) -> None:
    """Raise VerificationError where the set's install files are not those that its manifest gives."""
    for suffix, text in (
        ("requirements.txt", requirements_text(wheels.document)),
        ("constraints.txt", constraints_text(wheels.document)),
    ):
        file = wheels.beside(suffix)
        if not file.is_file() or file.read_bytes() != text.encode():
            raise VerificationError(
                f"{file.name} is not what {wheels.manifest.name} gives", hint="build the set again: it writes the file"
            )
