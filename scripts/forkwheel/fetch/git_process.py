"""Run git for its transport alone: nothing prompts, nothing hangs, no hook or setting alters content."""

from __future__ import annotations

import os
import re
import selectors
import shlex
import shutil
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit, urlunsplit

from forkwheel.children import CHILDREN, end_session
from forkwheel.errors import FetchError
from forkwheel.fetch.context import FetchContext
from forkwheel.fetch.git_errors import hung
from forkwheel.fetch.masking import mask
from forkwheel.fetch.mirrors import is_local

MINIMUM = (2, 31)
"""The first git that takes settings from GIT_CONFIG_COUNT, which keeps credentials out of
the process list."""

_FOREIGN = """
    GIT_ALTERNATE_OBJECT_DIRECTORIES GIT_COMMON_DIR GIT_CONFIG GIT_DIR GIT_GRAFT_FILE GIT_IMPLICIT_WORK_TREE
    GIT_INDEX_FILE GIT_INTERNAL_SUPER_PREFIX GIT_NAMESPACE GIT_OBJECT_DIRECTORY GIT_PREFIX GIT_QUARANTINE_PATH
    GIT_REPLACE_REF_BASE GIT_SHALLOW_FILE GIT_TEMPLATE_DIR GIT_WORK_TREE GIT_DEFAULT_HASH GIT_DEFAULT_REF_FORMAT
""".split()  # noqa: SIM905 - shorter than a list

_SETTINGS = {
    "core.hooksPath": "/dev/null",
    "fetch.fsckObjects": "false",  # old histories fail it; what is used is hashed again here
    "transfer.fsckObjects": "false",
    "fetch.writeCommitGraph": "false",
    "gc.auto": "0",
    "protocol.ext.allow": "never",
    "transfer.bundleURI": "false",
}

_HELPER = r"""!f() { printf 'username=%s\npassword=%s\n' "$FORKWHEEL_GIT_USERNAME" "$FORKWHEEL_GIT_PASSWORD"; }; f"""


def check_git() -> None:
    """Raise FetchError where git is missing or older than ``MINIMUM``."""
    program = os.environ.get("GIT_PYTHON_GIT_EXECUTABLE") or "git"
    if shutil.which(program) is None:
        raise FetchError(f"git is missing: there is no {program!r} on PATH", hint="install git, then run this again")
    completed = subprocess.run([program, "version"], capture_output=True, check=False, text=True)
    found = re.search(r"(\d+)\.(\d+)[.\d]*", completed.stdout)
    if found is None:
        raise FetchError(f"{program!r} does not say its version: {completed.stderr.strip()}", hint="install git anew")
    if (int(found[1]), int(found[2])) < MINIMUM:
        wanted = ".".join(map(str, MINIMUM))
        message = f"git {found[0]} is too old: {wanted} is the first that takes credentials outside of its arguments"
        raise FetchError(message, hint=f"install git {wanted} or newer")


@dataclass(frozen=True)
class GitCommand:
    """What git printed, and how it ended."""

    status: int
    output: bytes
    errors: str


def start_git(
    arguments: Sequence[str], *, repository: Path | None, environment: Mapping[str, str], **options: Any
) -> Any:
    """Start git through GitPython, in its own session, and return the process.

    GitPython passes this process's environment on, so what would point git elsewhere is
    taken out by ``env``.
    """
    try:
        from git import Git  # importing it runs git
    except ImportError as error:
        reason = " ".join(str(error).split())[:200]
        raise FetchError(f"git cannot be run: {reason}", hint="install git, then run this again") from error
    program = os.environ.get("GIT_PYTHON_GIT_EXECUTABLE") or "git"
    command = ["env", *(word for name in _FOREIGN for word in ("-u", name)), program]
    command += [word for name, value in _SETTINGS.items() for word in ("-c", f"{name}={value}")]
    if repository is not None:
        command.append(f"--git-dir={repository}")
    fixed = {
        "GIT_NO_REPLACE_OBJECTS": "1",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_ASKPASS": "",
        "SSH_ASKPASS_REQUIRE": "never",
    }
    environment = {**fixed, "GIT_OPTIONAL_LOCKS": "0", **environment}
    return Git(os.sep).execute(
        [*command, *arguments], as_process=True, env=environment, start_new_session=True, **options
    )


def run_git(
    arguments: Sequence[str],
    *,
    repository: Path | None,
    context: FetchContext,
    remote: str = "",
    environment: Mapping[str, str] | None = None,
) -> GitCommand:
    """Run git to its end, showing its progress; end it when it is silent for too long.

    Silence is no output and no growth of the repository. ``remote`` names the remote in
    the UnreachableError that a silent one ends in.
    """
    started = start_git(arguments, repository=repository, environment=environment or {})
    try:
        with CHILDREN.watched(started.proc):
            return _watch(started.proc, repository, context, remote)
    finally:
        end_git(started)


def remote_environment(url: str, context: FetchContext) -> tuple[str, dict[str, str]]:
    """Return a remote's URL without credentials, and the environment to reach it with."""
    variables: dict[str, str] = {}
    settings: list[tuple[str, str]] = []
    parts = urlsplit(url) if "://" in url else None
    ssh = "" if is_local(url) or (parts and parts.scheme in ("http", "https", "git")) else _ssh_command(context)
    if ssh:
        variables["GIT_SSH_COMMAND"] = ssh
    if parts is not None and parts.scheme in ("http", "https") and parts.username is not None:
        variables["FORKWHEEL_GIT_USERNAME"] = unquote(parts.username)
        variables["FORKWHEEL_GIT_PASSWORD"] = unquote(parts.password or "")
        url = urlunsplit(parts._replace(netloc=parts.netloc.rpartition("@")[2]))
        settings += [(f"credential.{url}.helper", ""), (f"credential.{url}.helper", _HELPER)]
    if is_local(url):
        url = url if "://" in url else str(Path(url).expanduser().absolute())
        settings.append(("protocol.file.allow", "always"))
    return url, {**variables, **_numbered(settings)}


def _numbered(settings: Sequence[tuple[str, str]]) -> dict[str, str]:
    """Add settings to those that the environment has already."""
    given = os.environ.get("GIT_CONFIG_COUNT", "")
    first = int(given) if given.isdigit() else 0
    variables = {"GIT_CONFIG_COUNT": str(first + len(settings))}
    for number, (name, value) in enumerate(settings, start=first):
        variables |= {f"GIT_CONFIG_KEY_{number}": name, f"GIT_CONFIG_VALUE_{number}": value}
    return variables if settings else {}


def _ssh_command(context: FetchContext) -> str:
    """Return the person's ssh command, told not to prompt; empty where it isn't OpenSSH."""
    command = os.environ.get("GIT_SSH_COMMAND", "")
    if not command and "GIT_SSH" in os.environ:
        command = shlex.quote(os.environ["GIT_SSH"])
    if not command:
        configured = run_git(["config", "--get", "core.sshCommand"], repository=None, context=context)
        command = configured.output.decode(errors="surrogateescape").strip() or "ssh"
    program = Path(command.split()[0]).name.removesuffix(".exe").lower()
    if "plink" in program or os.environ.get("GIT_SSH_VARIANT", "ssh") not in ("ssh", "auto"):
        return ""
    return f"{command} -o BatchMode=yes -o ConnectTimeout={max(1, int(context.silence / 2))}"


def _watch(process: subprocess.Popen[bytes], repository: Path | None, context: FetchContext, remote: str) -> GitCommand:
    assert process.stdout is not None
    assert process.stderr is not None
    received: dict[int, bytearray] = {process.stdout.fileno(): bytearray(), process.stderr.fileno(): bytearray()}
    last_sign, size = time.monotonic(), -1
    with selectors.DefaultSelector() as selector:
        for number in received:
            selector.register(number, selectors.EVENT_READ)
        while selector.get_map():
            ready = selector.select(timeout=min(1.0, context.silence / 4))
            for key, _ in ready:
                block = os.read(key.fd, 1 << 16)
                received[key.fd] += block
                if not block:
                    selector.unregister(key.fd)
                elif key.fd == process.stderr.fileno():
                    _show(block, context)
            grown = size if ready else _size(repository)
            if ready or grown != size:
                last_sign, size = time.monotonic(), grown
            elif process.poll() is not None:
                break  # a helper that stays, such as ssh's master, holds the pipes
            elif time.monotonic() - last_sign > context.silence:
                raise hung(remote or "git", context.silence)
    output, errors = (bytes(part) for part in received.values())
    return GitCommand(process.wait(), output, errors.decode(errors="replace"))


def _show(block: bytes, context: FetchContext) -> None:
    lines = [line.strip() for line in re.split(r"[\r\n]", block.decode(errors="replace")) if line.strip()]
    if lines:
        context.log.progress(mask(lines[-1].removeprefix("remote: "))[:80])


def _size(repository: Path | None) -> int:
    total = 0
    for top, _, names in os.walk(repository or os.devnull):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(top, name).lstat().st_size
    return total


def end_git(started: Any) -> None:
    """End a git with its children (ssh, git-remote-https), which share its session."""
    process = started.proc
    if process.poll() is None:
        end_session(process)
        process.wait()
    for stream in (process.stdin, process.stdout, process.stderr):
        if stream is not None:
            with suppress(BrokenPipeError):
                stream.close()
