"""Write an edited patch back to its series, and carry the later patches along."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date

from forkwheel.errors import PatchError
from forkwheel.patching.apply import DoesNotApply, apply_patch
from forkwheel.patching.compare import compare
from forkwheel.patching.export import render
from forkwheel.patching.header import new_header, with_date
from forkwheel.patching.left import check_nothing_left
from forkwheel.patching.names import path_fault
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.pending import replace_files
from forkwheel.patching.renumber import renumber
from forkwheel.patching.series import SERIES, Patch, Series, parse_patch
from forkwheel.patching.worktree import Work, fingerprint, save_work, scan_work
from forkwheel.tree import SYMLINK, Entry, Tree

_LEFTOVERS = (".orig", ".rej", ".swp", ".swo", "~", ".pyc", ".bak")


@dataclass(frozen=True)
class Refreshed:
    """What writing a patch back did.

    ``files`` are the paths that the patch changes now, ``renumbered`` the later patches whose
    line numbers moved; ``broken`` says why a later patch no longer applies. ``todo`` are the
    fields of the header that are yet to be filled in.
    """

    patch: str
    changed: bool
    files: tuple[str, ...]
    renumbered: tuple[str, ...]
    broken: DoesNotApply | None
    todo: tuple[str, ...] = ()


def refresh(work: Work, series: Series, tree: Tree, *, today: date) -> Refreshed:
    """Write the work tree's patch back: only its file changes, and later ones that merely moved.

    Raises PatchError, and writes nothing, where the series or the source is not what the work
    tree was opened on, where hunks are left to bring in, or where the files cannot be a patch.
    """
    check_nothing_left(work.folder, work.patch)
    _check_unmoved(work, series, tree)
    index = len(series.patches) if work.is_new else series.index(work.patch)
    earlier = None if work.is_new else series.patches[index]
    before = Overlay(tree)
    for patch in series.patches[:index]:
        apply_patch(before, patch, folder=series.folder)
    found = scan_work(work.folder)
    after, paths = _edited(before, found)
    patch = _export(work, series, before, after, paths, earlier=earlier, today=today)
    _check_result(patch, before, after, paths, series)
    later, broken = _carry(series, index, before, after, earlier)
    contents = {item.name: item.content for item in (patch, *later) if _differs(item, series)}
    patches = list(series.patches)
    for position, item in enumerate((patch, *later), index):
        patches[position : position + 1] = [item]
    if work.is_new:
        contents[SERIES] = _with_line((series.folder / SERIES).read_bytes(), patch.name)
    _write(work, series, Series(series.folder, tuple(patches)), contents, saved=found.digest)
    return Refreshed(
        patch=patch.name,
        changed=patch.name in contents,
        files=tuple(file.path for file in patch.files),
        renumbered=tuple(item.name for item in later if item.name in contents),
        broken=broken,
        todo=patch.header.todo,
    )


def _check_unmoved(work: Work, series: Series, tree: Tree) -> None:
    hint = "keep your change (`git diff` in the work tree), then open the patch again and make it anew"
    if fingerprint(series) not in work.series:
        raise PatchError(f"{series.folder} changed since {work.folder} was opened; nothing was written", hint=hint)
    if tree.digest != work.base:
        raise PatchError(f"the source of {work.package} changed since {work.folder} was opened", hint=hint)


def _edited(before: Overlay, found: Tree) -> tuple[Overlay, list[str]]:
    """Return the state that the work tree's files make, and which paths differ."""
    old, new = before.entries(), found.by_path()
    paths = sorted(path for path in old.keys() | new.keys() if old.get(path) != new.get(path))
    after = before.copy()
    for path in paths:
        if path in new:
            _check_fit(path, old.get(path), new[path])
            content = (found.root / path).read_bytes()
            _check_text(path, content, is_new=path not in old)
            after.put(path, File(new[path].mode, content))
        else:
            _check_fit(path, old[path], old[path])
            after.remove(path)
    if not paths:
        raise PatchError(
            f"{found.root} differs in nothing from the tree without the patch",
            hint="edit the files there first; to drop a patch, remove its line from series and its file",
        )
    return after, paths


def _check_fit(path: str, old: Entry | None, new: Entry) -> None:
    if SYMLINK in (new.mode, old.mode if old else None):
        raise PatchError(f"{path} is a symbolic link", hint="a patch changes regular files only; undo this change")
    if (fault := path_fault(path)) is not None:
        raise PatchError(f"the path {path!r} {fault}", hint="rename or remove the file")


def _check_text(path: str, content: bytes, *, is_new: bool) -> None:
    if is_new and path.endswith(_LEFTOVERS):
        raise PatchError(f"{path} looks like something a tool left behind", hint="remove the file from the work tree")
    if b"\0" in content:
        raise PatchError(f"{path} is binary", hint="a patch changes text only; remove the file, or undo its change")


def _export(
    work: Work,
    series: Series,
    before: Overlay,
    after: Overlay,
    paths: list[str],
    *,
    earlier: Patch | None,
    today: date,
) -> Patch:
    files = compare(before, after, paths, earlier=earlier.files if earlier else ())
    header = earlier.header.text if earlier else new_header(today=today)
    diff = render(files)
    if earlier is not None and diff != earlier.diff:
        header = with_date(header, today=today)
    return parse_patch(header + diff, series.folder / work.patch, allow_todo=True)


def _check_result(patch: Patch, before: Overlay, after: Overlay, paths: list[str], series: Series) -> None:
    made = before.copy()
    apply_patch(made, patch, folder=series.folder)
    if any(
        (path in made) != (path in after) or (path in made and made.read(path) != after.read(path)) for path in paths
    ):
        raise PatchError(f"{patch.name} does not lead to the work tree's files", hint="report this with the work tree")


def _carry(
    series: Series, index: int, before: Overlay, after: Overlay, earlier: Patch | None
) -> tuple[list[Patch], DoesNotApply | None]:
    """Renumber the patches after ``index``, up to the first that no longer applies."""
    later: list[Patch] = []
    if earlier is None:
        return later, None
    old, new = before.copy(), after.copy()
    try:
        apply_patch(old, earlier, folder=series.folder)
    except DoesNotApply:
        old = after.copy()  # the earlier state is unknown: later patches must fit as they are
    for patch in series.patches[index + 1 :]:
        try:
            later.append(renumber(patch, old=old, new=new, folder=series.folder))
        except DoesNotApply as error:
            return later, error
    return later, None


def _differs(patch: Patch, series: Series) -> bool:
    return all((patch.name, patch.sha256) != (other.name, other.sha256) for other in series.patches)


def _with_line(content: bytes, name: str) -> bytes:
    ending = b"" if not content or content.endswith(b"\n") else b"\n"
    return content + ending + name.encode() + b"\n"


def _write(work: Work, old: Series, new: Series, contents: dict[str, bytes], *, saved: str) -> None:
    """Write the series; until that is done, the work tree belongs to the old and the new one."""
    if contents:
        save_work(replace(work, series=(fingerprint(old), fingerprint(new))))
        replace_files(new.folder, contents)
    save_work(replace(work, series=(fingerprint(new),), saved=saved, is_new=False, is_due=False))
