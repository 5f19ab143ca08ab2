"""The git work tree in which a person edits one patch.

It holds the package's source with a commit for it and one for each earlier patch; the edited
patch is what is not committed, so that ``git diff`` there shows it. Git serves the person
alone: what is exported is read from the files. ``.git/forkwheel.json`` records what was
opened, on which series, and what the files were when they were last saved.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import PatchError, UsageError
from forkwheel.patching.apply import DoesNotApply, apply_patch
from forkwheel.patching.git import run_git
from forkwheel.patching.lenient import apply_what_fits
from forkwheel.patching.model import FilePatch
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Patch, Series
from forkwheel.projection import copy_tree
from forkwheel.store import remove_tree, write_whole
from forkwheel.tree import EXECUTABLE, Tree, read_entry, walk

FORMAT = 1
_RECORD = ".git/forkwheel.json"
REJECTED = ".git/rejected.patch"
"""Where a work tree keeps the hunks of its patch that did not fit."""

_OPEN_AGAIN = "keep your change (`git diff` there), remove the folder, and open the patch again"
_ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding\n"


@dataclass(frozen=True)
class Work:
    """An open work tree: its folder, the patch that is edited there, and what it was opened on.

    ``series`` are the states of the series (a name and the SHA-256 of the diff, per patch) that
    the work may be written back to; ``base`` is the source's digest, ``saved`` that of the
    files as they were opened or last written back.
    """

    folder: Path
    package: str
    patch: str
    is_new: bool
    base: str
    series: tuple[str, ...]
    saved: str


def open_work(
    series: Series, tree: Tree, folder: Path, *, package: str, name: str, epoch: int
) -> tuple[Work, tuple[str, ...]]:
    """Open a work tree for the patch ``name``, new where the series has none of that name.

    ``epoch`` dates the commits. Returns the work and, for a patch that no longer applies, the
    hunks that did not fit, as text. A work tree that is there already is replaced if nothing in
    it is unsaved, and refused otherwise.
    """
    is_new = all(patch.name != name for patch in series.patches)
    index = len(series.patches) if is_new else series.index(name)
    _check_replaceable(folder)
    folder = folder.resolve()
    made, replaced = (folder.with_name(f".{folder.name}.{state}") for state in ("new", "old"))
    for rest in (made, replaced):
        if rest.exists():
            remove_tree(rest)
    made.parent.mkdir(parents=True, exist_ok=True)
    copy_tree(tree, made)
    _start_repository(made, package, epoch)
    overlay = Overlay(tree)
    for patch in series.patches[:index]:
        apply_patch(overlay, patch, folder=series.folder)
        _write_files(made, overlay, patch.files)
        _commit(made, f"{patch.name}\n\n{patch.header.description}", epoch)
    rejected = () if is_new else _open_patch(made, overlay, series, series.patches[index])
    work = Work(folder, package, name, is_new, tree.digest, (fingerprint(series),), scan_work(made).digest)
    _write_record(made, work)
    if folder.exists():
        folder.rename(replaced)
    made.rename(folder)
    if replaced.exists():
        remove_tree(replaced)
    return work, rejected


def _open_patch(made: Path, overlay: Overlay, series: Series, patch: Patch) -> tuple[str, ...]:
    try:
        apply_patch(overlay, patch, folder=series.folder)
        rejected: tuple[str, ...] = ()
    except DoesNotApply:
        rejected = apply_what_fits(overlay, patch)
        (made / REJECTED).write_text("\n".join(rejected), encoding="utf-8", errors="surrogateescape")
    _write_files(made, overlay, patch.files)
    return rejected


def _check_replaceable(folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    work = read_work(folder)
    if scan_work(folder).digest != work.saved:
        raise PatchError(
            f"{folder} holds unsaved work on {work.patch}",
            hint="write it back with `patches --refresh`, or remove the folder to throw it away",
        )


def read_work(folder: Path) -> Work:
    """Read the record of an open work tree; raise UsageError where the folder is none."""
    try:
        record: dict[str, Any] = json.loads((folder / _RECORD).read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise UsageError(
            f"{folder} is no open work tree", hint="open one with `patches --edit NAME`, or give another --worktree"
        ) from None
    except ValueError as error:
        raise UsageError(f"{folder / _RECORD} is damaged: {error}", hint=_OPEN_AGAIN) from error
    if record.pop("format", None) != FORMAT:
        raise UsageError(f"{folder} was opened by another version of forkwheel", hint=_OPEN_AGAIN)
    return Work(folder=folder, series=tuple(record.pop("series")), **record)


def save_work(work: Work) -> None:
    """Record a work tree's state anew."""
    _write_record(work.folder, work)


def _write_record(folder: Path, work: Work) -> None:
    record = {name: value for name, value in asdict(work).items() if name != "folder"}
    write_whole(folder / _RECORD, json.dumps({"format": FORMAT, **record}, indent=2).encode())


def scan_work(folder: Path) -> Tree:
    """Describe the files of a work tree, without git's own."""
    names = [name for name in walk(folder) if not name.startswith(".git/")]
    return Tree(folder, tuple(read_entry(folder / name, name) for name in names))


def fingerprint(series: Series) -> str:
    """Name a series by its patches' order, names and diffs; headers may be edited meanwhile."""
    return json.dumps([[patch.name, patch.diff_sha256] for patch in series.patches])


def _start_repository(folder: Path, package: str, epoch: int) -> None:
    run_git("init", "--quiet", folder=folder)
    for name, value in (("core.autocrlf", "false"), ("core.excludesFile", "/dev/null")):
        run_git("config", name, value, folder=folder)
    (folder / ".git/info").mkdir(exist_ok=True)
    (folder / ".git/info/attributes").write_text(_ATTRIBUTES)
    _commit(folder, f"{package}: the unpatched source", epoch)


def _commit(folder: Path, message: str, epoch: int) -> None:
    date = f"{epoch} +0000"
    identity = {f"GIT_{role}_{key}": value for role in ("AUTHOR", "COMMITTER") for key, value in _IDENTITY}
    dates = {"GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
    run_git("add", "--all", "--force", folder=folder)
    run_git("commit", "--quiet", "--allow-empty", "-m", message, folder=folder, environment=identity | dates)


_IDENTITY = (("NAME", "forkwheel"), ("EMAIL", "forkwheel@localhost"))


def _write_files(folder: Path, overlay: Overlay, files: tuple[FilePatch, ...]) -> None:
    for path in {path for file in files for path in (file.old_path, file.new_path) if path is not None}:
        target = folder / path
        if path not in overlay:
            target.unlink(missing_ok=True)
        else:
            found = overlay.read(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(found.content)
            target.chmod(0o755 if found.mode == EXECUTABLE else 0o644)
