"""The git work tree of a port: the series as commits on the old source, rebased on the new one.

Commits depend on their content alone: identity and dates are fixed, so that the same port has
the same commit ids everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from forkwheel.errors import ToolchainError
from forkwheel.patching.apply import apply_patch
from forkwheel.patching.git import run_git
from forkwheel.patching.names import decode
from forkwheel.patching.overlay import File, Overlay
from forkwheel.patching.series import Patch, Series
from forkwheel.projection import copy_tree
from forkwheel.store import remove_tree
from forkwheel.tree import EXECUTABLE, Tree

_ATTRIBUTES = "* -text -eol -filter -ident -working-tree-encoding\n"
_MARK = re.compile(rb"(<{7} |>{7} |\|{7} |={7}\r?$)")


class PortTree:
    """A repository with a work tree; ``epoch`` dates its commits."""

    def __init__(self, folder: Path, *, epoch: int) -> None:
        self.folder = folder
        date = f"{epoch} +0000"
        self._environment = {
            f"GIT_{role}_{key}": value
            for role in ("AUTHOR", "COMMITTER")
            for key, value in (("NAME", "forkwheel"), ("EMAIL", "forkwheel@localhost"), ("DATE", date))
        }

    def _git(self, *arguments: str, accept: int = 0) -> bytes:
        return run_git(*arguments, folder=self.folder, environment=self._environment, accept=accept)

    def build(self, series: Series, old: Tree, new: Tree, *, package: str) -> list[str]:
        """Make the repository, with the new source checked out; return the commit of each patch."""
        copy_tree(old, self.folder)
        self._git("init", "--quiet")
        for name, value in (("core.autocrlf", "false"), ("core.excludesFile", "/dev/null")):
            self._git("config", name, value)
        (self.folder / ".git/info").mkdir(exist_ok=True)
        (self.folder / ".git/info/attributes").write_text(_ATTRIBUTES)
        base = self._commit(f"{package}: the old source")
        commits = []
        overlay = Overlay(old)
        for patch in series.patches:
            apply_patch(overlay, patch, folder=series.folder)
            self._write(overlay, patch)
            commits.append(self._commit(f"{patch.name}\n\n{patch.header.description}"))
        self._git("branch", "series")
        self._git("reset", "--quiet", "--soft", base)
        for path in self.folder.iterdir():
            if path.name != ".git":
                remove_tree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
        copy_tree(new, self.folder)
        self._commit(f"{package}: the new source")
        return commits

    def _write(self, overlay: Overlay, patch: Patch) -> None:
        for path in {path for file in patch.files for path in (file.old_path, file.new_path) if path is not None}:
            target = self.folder / path
            if path not in overlay:
                target.unlink(missing_ok=True)
                continue
            found = overlay.read(path)
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_bytes(found.content)
            target.chmod(0o755 if found.mode == EXECUTABLE else 0o644)

    def _commit(self, message: str) -> str:
        self._git("add", "--all", "--force")
        self._git("commit", "--quiet", "--allow-empty", "--no-verify", "-m", message)
        return self.head()

    def is_there(self) -> bool:
        """Tell whether there is still a repository in the folder."""
        return (self.folder / ".git/HEAD").is_file()

    def head(self, *, back: int = 0) -> str:
        """Return the commit that is checked out, or one that many before it."""
        return self._git("rev-parse", f"HEAD~{back}").decode().strip()

    def pick(self, commit: str) -> list[str]:
        """Bring a patch's commit over, three-way; return the paths in conflict, and leave them in the work tree."""
        before = self.head()
        self._git("cherry-pick", "--allow-empty", "--keep-redundant-commits", commit, accept=1)
        if not (conflicts := self.unmerged()) and self.head() == before:
            raise ToolchainError(
                f"git cherry-pick made nothing of {commit[:12]} in {self.folder}",
                hint="see `git status` there; undo what was changed by hand, and run --continue",
            )
        return conflicts

    def unmerged(self) -> list[str]:
        """List the paths that are in conflict."""
        return self._names("diff", "--name-only", "--diff-filter=U", "-z")

    def undecided(self) -> list[str]:
        """List the paths that one side removed and the other changed, and nobody has decided on."""
        sides: dict[str, set[bytes]] = {}
        for record in self._git("ls-files", "--unmerged", "-z").split(b"\0")[:-1]:
            head, _, name = record.partition(b"\t")
            sides.setdefault(decode(name), set()).add(head.split()[2])
        return [path for path, found in sides.items() if not found >= {b"2", b"3"}]

    def marks(self, head: str, commit: str) -> tuple[str, int] | None:
        """Return the first file and line that holds a mark of a conflict, or None.

        All files that differ from ``head`` are looked at. Lines that the file has there, or
        that the patch's ``commit`` has, are not git's.
        """
        patched = [file.content for file in self.changed(f"{commit}^", commit).values() if file is not None]
        own = {line for content in patched for line in content.split(b"\n")}
        for path in sorted({*self._names("diff", "--name-only", "--no-renames", "-z", head), *self.untracked()}):
            file = self.folder / path
            if file.is_symlink() or not file.is_file():
                continue
            found = [line for line in enumerate(file.read_bytes().split(b"\n"), start=1) if _MARK.match(line[1])]
            known = (
                own | set(self._git("cat-file", "blob", f"{head}:{path}", accept=128).split(b"\n")) if found else own
            )
            if left := [number for number, line in found if line not in known]:
                return path, left[0]
        return None

    def edited(self) -> list[str]:
        """List the tracked files that differ from the commit that is checked out."""
        return sorted(set(self._names("diff", "--name-only", "--no-renames", "-z", "HEAD")))

    def untracked(self) -> list[str]:
        """List the files that git does not know, those that the source's own settings ignore included."""
        return self._names("ls-files", "--others", "-z")

    def _names(self, *arguments: str) -> list[str]:
        return [decode(name) for name in self._git(*arguments).split(b"\0")[:-1]]

    def settle(self, commit: str, new: Sequence[str]) -> None:
        """Commit the tracked files as they are, and the ``new`` ones, in the place of a patch's commit."""
        self._git("add", "--update")
        if new:
            self._git("--literal-pathspecs", "add", "--force", "--", *new)
        self._git("commit", "--quiet", "--allow-empty", "--no-verify", "-C", commit)

    def undo(self, commit: str) -> None:
        """Go back to a commit, and forget what was begun after it."""
        self._git("reset", "--quiet", "--hard", commit)
        self._git("clean", "--quiet", "-d", "--force", "-x")

    def is_pending(self) -> bool:
        """Tell whether a patch's commit was begun and not ended."""
        return (self.folder / ".git/CHERRY_PICK_HEAD").exists() or bool(self.unmerged())

    def changed(self, before: str, after: str) -> dict[str, File | None]:
        """Return the files that differ between two commits as they are in the second, None where they are gone."""
        output = self._git("diff", "--raw", "--no-renames", "--no-abbrev", "-z", before, after).split(b"\0")[:-1]
        found: dict[str, File | None] = {}
        for head, name in zip(output[::2], output[1::2], strict=True):
            _, mode, _, blob, status = head.decode().removeprefix(":").split()
            content = None if status == "D" else self._git("cat-file", "blob", blob)
            found[decode(name)] = None if content is None else File(mode, content)
        return found
