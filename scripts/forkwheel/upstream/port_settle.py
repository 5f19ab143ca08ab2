"""What a person left in a port's work tree: taken over whole, or refused by name; never lost."""

from __future__ import annotations

from collections.abc import Sequence

from forkwheel.upstream.port_state import PackageState, PortStoppedError
from forkwheel.upstream.port_tree import PortTree

_SHOWN = 5


def settle(tree: PortTree, package: PackageState, commit: str) -> None:
    """Commit what a person mended, unless it is committed already.

    ``commit`` is the patch's on the old source. Raises PortStoppedError where the files aren't
    mended, or hold what would be lost or does not belong to the patch.
    """
    if marked := tree.marks(package.head, commit):
        path, line = marked
        raise PortStoppedError(
            f"{tree.folder / path}:{line} still holds the marks of a conflict",
            hint="decide what stands between <<<<<<< and >>>>>>>, and remove the marks; commit that if you committed",
        )
    if undecided := tree.undecided():
        raise PortStoppedError(
            f"{tree.folder / undecided[0]} was removed by one side and changed by the other",
            hint=f"in {tree.folder}, `git rm` it, or bring the change where it belongs now and `git add` that",
        )
    if tree.is_pending():
        made = set(tree.changed(f"{commit}^", commit))
        strays = tree.untracked()
        _refuse_strays(tree, [path for path in strays if path not in made])
        tree.settle(commit, [path for path in strays if path in made])
    else:
        check_clean(tree)
    if tree.head() != package.head and tree.head(back=1) != package.head:
        raise PortStoppedError(
            f"{tree.folder} is not one commit after {package.head[:12]}, where the patch belongs",
            hint=f"make it one commit, or go back with `git reset --hard {package.head[:12]}`",
        )


def check_untouched(tree: PortTree, package: PackageState) -> None:
    """Raise PortStoppedError where the work tree of a package that did not stop was changed by a person."""
    check_clean(tree)
    if tree.head() != package.head:
        raise PortStoppedError(
            f"{tree.folder} is at {tree.head()[:12]}, but no patch of {package.new.name} waits for a commit",
            hint=f"keep those commits elsewhere, then go back with `git reset --hard {package.head[:12]}`",
        )


def check_clean(tree: PortTree) -> None:
    """Raise PortStoppedError where files differ from the commit that is checked out."""
    if edited := tree.edited():
        raise PortStoppedError(
            f"{tree.folder} holds edits that are not committed: {_listed(edited)}",
            hint="commit them (`git commit --all --amend` where they belong to the last patch),"
            " or undo them with `git checkout HEAD -- FILE`",
        )
    _refuse_strays(tree, tree.untracked())


def _refuse_strays(tree: PortTree, paths: Sequence[str]) -> None:
    if paths:
        raise PortStoppedError(
            f"{tree.folder} holds files that are not part of the patch: {_listed(paths)}",
            hint="remove them, or `git add --force` what belongs to the patch",
        )


def _listed(paths: Sequence[str]) -> str:
    more = f" and {len(paths) - _SHOWN} more" if len(paths) > _SHOWN else ""
    return ", ".join(paths[:_SHOWN]) + more
