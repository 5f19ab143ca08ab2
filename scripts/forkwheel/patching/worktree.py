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
from forkwheel.patching.left import LEFT, write_left
from forkwheel.patching.lenient import Left, apply_what_fits
from forkwheel.patching.model import FilePatch
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Patch, Series
from forkwheel.projection import copy_tree
from forkwheel.store import remove_tree, write_whole
from forkwheel.tree import EXECUTABLE, Tree, read_entry, walk

FORMAT = 2
_RECORD = ".git/forkwheel.json"
_OPEN_AGAIN = "keep your change (`git diff` there), remove the folder, and open the patch again"
_ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding\n"


@dataclass(frozen=True)
class Work:
    """An open work tree: its folder, the patch that is edited there, and what it was opened on.

    ``series`` are the states of the series (a name and the SHA-256 of the diff, per patch) that
    the work may be written back to; ``base`` is the source's digest, ``saved`` that of the
    files as they were opened or last written back. ``is_due`` says that it is to be written back
    even as it was opened, since the patch did not apply exactly.
    """

    folder: Path
    package: str
    patch: str
    is_new: bool
    base: str
    series: tuple[str, ...]
    saved: str
    is_due: bool


def open_work(
    series: Series, tree: Tree, folder: Path, *, package: str, name: str, epoch: int
) -> tuple[Work, tuple[Left, ...]]:
    """Open a work tree for the patch ``name``, new where the series has none of that name.

    ``epoch`` dates the commits. Returns the work and, for a patch that no longer applies, what
    did not fit, which the file LEFT there holds too. A work tree that is there already is replaced if nothing in
    it is unsaved, and refused otherwise.
    """
    is_new = all(patch.name != name for patch in series.patches)
    index = len(series.patches) if is_new else series.index(name)
    _check_replaceable(folder)
    folder = folder.resolve()
    made, replaced = _beside(folder)
    made.parent.mkdir(parents=True, exist_ok=True)
    copy_tree(tree, made)
    _start_repository(made, package, epoch)
    overlay = Overlay(tree)
    for patch in series.patches[:index]:
        apply_patch(overlay, patch, folder=series.folder)
        _write_files(made, overlay, patch.files)
        _commit(made, f"{patch.name}\n\n{patch.header.description}", epoch)
    is_due, left = (False, ()) if is_new else _open_patch(made, overlay, series, series.patches[index])
    if LEFT in overlay:
        raise PatchError(f"{LEFT} is a file of the source", hint="a patch of such a source cannot be edited here")
    saved = scan_work(made).digest
    work = Work(folder, package, name, is_new, tree.digest, (fingerprint(series),), saved, is_due)
    _write_record(made, work)
    if folder.exists():
        folder.rename(replaced)
    made.rename(folder)
    if replaced.exists():
        remove_tree(replaced)
    return work, left


def _beside(folder: Path) -> tuple[Path, Path]:
    """Return where a work tree is made, and where one goes to be removed; rests of killed runs are cleared."""
    made, replaced = (folder.with_name(f".{folder.name}.{state}") for state in ("new", "old"))
    for rest in (made, replaced):
        if rest.exists():
            remove_tree(rest)
    return made, replaced


def _open_patch(made: Path, overlay: Overlay, series: Series, patch: Patch) -> tuple[bool, tuple[Left, ...]]:
    """Bring a patch into the files; return whether it did not apply exactly, and what did not fit."""
    left: tuple[Left, ...] = ()
    try:
        apply_patch(overlay, patch, folder=series.folder)
        is_due = False
    except DoesNotApply:
        is_due = True
        left = apply_what_fits(overlay, patch, folder=series.folder)
    _write_files(made, overlay, patch.files)
    if left:
        write_left(made, patch.name, left)
    return is_due, left


def _check_replaceable(folder: Path) -> None:
    if not folder.exists() or (folder.is_dir() and not any(folder.iterdir())):
        return
    check_saved(read_work(folder))


def has_changes(work: Work) -> bool:
    """Tell whether files differ from what was opened or last written back."""
    return scan_work(work.folder).digest != work.saved


def check_saved(work: Work) -> None:
    """Raise PatchError where removing a work tree would lose what a person did in it."""
    if has_changes(work):
        raise PatchError(
            f"{work.folder} holds unsaved work on {work.patch}",
            hint=f"write it back with `patches --package {work.package} --refresh`,"
            " or remove the folder to throw it away",
        )


def close_work(work: Work) -> None:
    """Remove a work tree; raise PatchError where it holds unsaved work."""
    check_saved(work)
    folder = work.folder.resolve()
    _, replaced = _beside(folder)
    folder.rename(replaced)
    remove_tree(replaced)


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
    """Describe the files of a work tree, without git's own and what is left to bring in."""
    names = [name for name in walk(folder) if name != LEFT and not name.startswith(".git/")]
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
    (folder / ".git/info/exclude").write_text(f"/{LEFT}\n")
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
