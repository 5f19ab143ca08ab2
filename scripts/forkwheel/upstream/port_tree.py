"""The git work tree of a port: the series as commits on the old source, rebased on the new one.

Commits depend on their content alone: identity and dates are fixed, so that the same port has
the same commit ids everywhere.
"""

from __future__ import annotations

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
_MARKERS = (b"<<<<<<< ", b">>>>>>> ")


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
        output = self._git("diff", "--name-only", "--diff-filter=U", "-z")
        return [decode(name) for name in output.split(b"\0")[:-1]]

    def undecided(self) -> list[str]:
        """List the paths that one side removed and the other changed, and nobody has decided on."""
        stages: dict[str, int] = {}
        for record in self._git("ls-files", "--unmerged", "-z").split(b"\0")[:-1]:
            path = decode(record.partition(b"\t")[2])
            stages[path] = stages.get(path, 0) + 1
        return [path for path, count in stages.items() if count < 3]

    def marked(self, paths: list[str]) -> list[str]:
        """List those of the paths that still hold the marks of a conflict."""
        found = []
        for path in paths:
            file = self.folder / path
            if file.is_file() and any(line.startswith(_MARKERS) for line in file.read_bytes().split(b"\n")):
                found.append(path)
        return found

    def settle(self, commit: str) -> None:
        """Commit the work tree as it is, in the place of a patch's commit."""
        self._git("add", "--all", "--force")
        self._git("commit", "--quiet", "--allow-empty", "--no-verify", "-C", commit)

    def undo(self, commit: str) -> None:
        """Go back to a commit, and forget what was begun after it."""
        self._git("reset", "--quiet", "--hard", commit)
        self._git("clean", "--quiet", "-d", "--force", "-x")

    def is_pending(self) -> bool:
        """Tell whether a patch's commit was begun and not ended."""
        return (self.folder / ".git/CHERRY_PICK_HEAD").exists()

    def changed(self, before: str, after: str) -> dict[str, File | None]:
        """Return the files that differ between two commits as they are in the second, None where they are gone."""
        output = self._git("diff", "--raw", "--no-renames", "--no-abbrev", "-z", before, after).split(b"\0")[:-1]
        found: dict[str, File | None] = {}
        for head, name in zip(output[::2], output[1::2], strict=True):
            _, mode, _, blob, status = head.decode().removeprefix(":").split()
            content = None if status == "D" else self._git("cat-file", "blob", blob)
            found[decode(name)] = None if content is None else File(mode, content)
        return found
