"""Git mirrors: remotes that are fetched from another URL or from a folder."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from pathlib import Path

from forkwheel.errors import UsageError
from forkwheel.fetch.masking import mask
from forkwheel.toml_file import shown

VARIABLE = "FORKWHEEL_GIT_MIRRORS"

_SCP_LIKE = re.compile(r"[^/:]+:(?!:)")


def parse_mirrors(options: Sequence[str], environment: Mapping[str, str]) -> tuple[tuple[str, str], ...]:
    """Read the ``--mirror URL=PATH`` options and the environment's mirrors.

    ``FORKWHEEL_GIT_MIRRORS`` holds the same pairs, separated by white space. An option
    outranks the environment, and an earlier pair a later one. Raise UsageError for a pair
    without ``=`` and for a folder that does not exist or cannot be looked up.
    """
    pairs = [_parse(text, "--mirror") for text in options]
    pairs += [_parse(text, VARIABLE) for text in environment.get(VARIABLE, "").split()]
    return tuple(pairs)


def apply_mirrors(url: str, mirrors: Sequence[tuple[str, str]]) -> str:
    """Return what is fetched in place of ``url``: the first mirror of it, or the URL itself."""
    for remote, replacement in mirrors:
        if _same(remote) == _same(url):
            return replacement
    return url


def is_local(url: str) -> bool:
    """Tell whether a remote is a folder of this machine."""
    return url.startswith("file://") or ("://" not in url and not _SCP_LIKE.match(url))


def _parse(text: str, origin: str) -> tuple[str, str]:
    url, equals, replacement = text.partition("=")
    if not (url and equals and replacement):
        raise UsageError(
            f"{origin}: {_shown(text)} is not URL=PATH", hint="write the remote's URL, '=' and a path or URL"
        )
    for part in (url, replacement):
        if part.startswith("-") or "::" in part.split("/")[0]:
            raise UsageError(
                f"{origin}: {_shown(part)} is not a git remote", hint="a remote is a URL, HOST:PATH or a folder"
            )
    return url, _absolute(replacement, origin)


def _absolute(replacement: str, origin: str) -> str:
    if "://" in replacement:
        return replacement
    hint = "give the path of a clone, bare or not"
    try:
        path = Path(replacement).expanduser()
    except RuntimeError as error:
        raise UsageError(f"{origin}: {_shown(replacement)} names a user that this machine lacks", hint=hint) from error
    reason = "there is no such folder"
    try:
        if path.exists():
            return str(path.absolute())
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
    if _SCP_LIKE.match(replacement):
        return replacement
    raise UsageError(f"{origin}: {_shown(replacement)} cannot be used: {reason}", hint=hint)


def _shown(text: str) -> str:
    return shown(mask(text))


def _same(url: str) -> str:
    return url.rstrip("/").removesuffix(".git")
