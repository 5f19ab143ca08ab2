"""Run git so that nobody's configuration, hooks, templates or environment changes what it does."""

from __future__ import annotations

import os
import subprocess
import tempfile
from pathlib import Path

from forkwheel.errors import ToolchainError
from forkwheel.patching.diff import read_diff
from forkwheel.patching.export import Run, runs_of

_SETTINGS = {
    "core.autocrlf": "false",
    "core.attributesFile": os.devnull,
    "core.excludesFile": os.devnull,
    "core.hooksPath": os.devnull,
    "core.fileMode": "true",
    "core.fsmonitor": "false",
    "commit.gpgSign": "false",
    "gc.auto": "0",
    "init.defaultBranch": "patches",
    "init.templateDir": "",
}
_DIFF = (
    *("diff", "--no-index", "--no-color", "--no-ext-diff", "--no-textconv", "--no-renames", "--text"),
    *("--diff-algorithm=myers", "--indent-heuristic", "--unified=3", "--inter-hunk-context=0"),
    *("--src-prefix=a/", "--dst-prefix=b/"),
)


def run_git(*arguments: str, folder: Path, environment: dict[str, str] | None = None, accept: int = 0) -> bytes:
    """Run git in a folder and return its output; exit codes up to ``accept`` are no failure.

    Raises ToolchainError where git is missing or fails.
    """
    settings = [part for name, value in _SETTINGS.items() for part in ("-c", f"{name}={value}")]
    clean = {name: value for name, value in os.environ.items() if not name.startswith("GIT_")}
    clean |= {"GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_GLOBAL": os.devnull, "GIT_TERMINAL_PROMPT": "0", "LC_ALL": "C"}
    command = ["git", *settings, *arguments]
    try:
        done = subprocess.run(command, cwd=folder, env=clean | (environment or {}), capture_output=True, check=False)
    except FileNotFoundError as error:
        raise ToolchainError(
            "git is not installed", hint="install git: patches are edited in a git work tree"
        ) from error
    if not 0 <= done.returncode <= accept:
        reason = done.stderr.decode("utf-8", "replace").strip()
        raise ToolchainError(f"git {arguments[0]} failed: {reason}", hint="check that git works on this machine")
    return done.stdout


def diff_runs(before: bytes, after: bytes) -> tuple[Run, ...]:
    """Find what turns one content into another, as git's own diff does with every option fixed."""
    with tempfile.TemporaryDirectory(prefix="forkwheel-diff-") as folder:
        (Path(folder) / "before").write_bytes(before)
        (Path(folder) / "after").write_bytes(after)
        output = run_git(*_DIFF, "--", "before", "after", folder=Path(folder), accept=1)
    lines = [line + b"\n" for line in output.split(b"\n")[:-1]]
    start = next((number for number, line in enumerate(lines) if line.startswith(b"@@")), None)
    if start is None:
        return ()
    diff = [b"--- a/file\n", b"+++ b/file\n", *lines[start:]]
    return runs_of(read_diff(diff, file=Path("diff"), first_line=1)[0].hunks)
