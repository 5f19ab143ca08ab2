"""Signatures by ``ssh-keygen -Y``: made with a person's SSH key, checked against a list of allowed signers.

The key's file is named, never read here; its password is asked for by ssh-keygen itself, or not
at all where an agent holds the key.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from forkwheel.errors import PublishError, ToolchainError, VerificationError
from forkwheel.store import write_whole

NAMESPACE = "forkwheel"
"""What signatures are for: one made for another purpose is not accepted."""


def signature_of(file: Path) -> Path:
    """Return where the signature of a file lies, or would."""
    return file.with_name(f"{file.name}.sig")


def sign(file: Path, *, key: Path) -> Path:
    """Sign a file with an SSH key, or with the agent's key where ``key`` is a public one; return the signature."""
    if not key.is_file():
        raise PublishError(f"there is no key {key}", hint="name the file of an SSH key, such as ~/.ssh/id_ed25519")
    done = _ssh_keygen(["sign", "-q", "-f", str(key), "-n", NAMESPACE], content=file.read_bytes())
    if done.returncode:
        raise PublishError(
            f"{file.name} could not be signed with {key}: {_last(done.stderr)}",
            hint="see that the key can be used: `ssh-add` loads it into an agent, which needs no password",
        )
    target = signature_of(file)
    write_whole(target, done.stdout)
    return target


def check_signature(file: Path, *, allowed_signers: Path) -> str:
    """Check the signature beside a file and return the signer; raise VerificationError unless it is an allowed one."""
    signature = signature_of(file)
    if not signature.is_file():
        raise VerificationError(
            f"{file.name} is unsigned: there is no {signature.name}",
            hint="ask for a signed set, or verify without --allowed-signers",
        )
    if not allowed_signers.is_file():
        raise VerificationError(f"there is no {allowed_signers}", hint="name a file as ssh-keygen(1) describes it")
    options = ["-s", str(signature.absolute()), "-f", str(allowed_signers.absolute())]
    found = _ssh_keygen(["find-principals", *options], content=b"")
    if found.returncode:
        raise VerificationError(
            f"{signature.name} was made by no signer in {allowed_signers}: {_last(found.stderr)}",
            hint="the signature or the list is not the one you expect; do not use the set before you know why",
        )
    signer = found.stdout.decode().splitlines()[0]
    checked = _ssh_keygen(["verify", *options, "-n", NAMESPACE, "-I", signer], content=file.read_bytes())
    if checked.returncode:
        raise VerificationError(
            f"{signature.name} is no valid signature of {file.name} by {signer}: "
            f"{_last(checked.stdout + checked.stderr)}",
            hint="the statement was changed after it was signed, or the signature is for another one",
        )
    return signer


def _ssh_keygen(arguments: Sequence[str], *, content: bytes) -> subprocess.CompletedProcess[bytes]:
    program = shutil.which("ssh-keygen")
    if program is None:
        raise ToolchainError(
            "ssh-keygen is not on PATH", hint="install OpenSSH's client (Debian and Ubuntu: apt install openssh-client)"
        )
    return subprocess.run([program, "-Y", *arguments], input=content, capture_output=True, check=False)


def _last(output: bytes) -> str:
    lines = [line for line in output.decode(errors="replace").splitlines() if line.strip()]
    return lines[-1].strip() if lines else "no reason given"
