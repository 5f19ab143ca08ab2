"""Whether a revision is of the project that a series is made for."""

from __future__ import annotations

from forkwheel.errors import UsageError
from forkwheel.patching.overlay import Overlay
from forkwheel.patching.series import Series
from forkwheel.upstream.files import Files
from forkwheel.upstream.moved import moved_to

_ALIKE = 0.5
"""The share of a project's file names that its revisions have in common, at least."""


def check_project(series: Series, base: Overlay, new: Files, *, name: str) -> None:
    """Raise UsageError where the revision ``name`` has nothing of the project that a series is made for.

    That is: no file of the name of one that the series changes, few other names of its source,
    and no file with the content of one that the series changes.
    """
    paths = set(base.paths())
    changed = {file.old_path for patch in series.patches for file in patch.files if file.old_path in paths}
    names = _names(new)
    if not series.patches or names & {_name(path) for path in changed if path}:
        return
    own = _names(base)
    if len(own & names) >= _ALIKE * len(own):
        return
    if any(path and moved_to(path, base.read(path).content, before=base, after=new) for path in changed):
        return
    raise UsageError(
        f"{name} has none of the files that {series.folder} changes: it is another project",
        hint="check --package and --to",
    )


def _names(files: Files) -> set[str]:
    return {_name(path) for path in files.paths()}


def _name(path: str) -> str:
    return path.rpartition("/")[2]
