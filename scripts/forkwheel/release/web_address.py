"""Web addresses that a person gives, which may hold a password: one that cannot be read is not shown."""

from __future__ import annotations

from urllib.parse import SplitResult, urlsplit

from forkwheel.errors import UsageError
from forkwheel.fetch.masking import mask

_HINT = "write it like https://HOST/PATH/, and spell '/', '?', '#' and '@' in a user or password as %2F, %3F, %23, %40"


def read_web_address(address: str, *, what: str) -> SplitResult:
    """Split a web address; raise UsageError where it is none, or where a password would be read as another part."""
    try:
        parts = urlsplit(address)
        port, host = parts.port, parts.hostname
    except ValueError:
        raise UsageError(f"{what} is no web address that can be read", hint=_HINT) from None
    if "@" in parts.path + parts.query + parts.fragment or not address.isprintable() or port == 0:
        raise UsageError(f"{what} is no web address that can be read", hint=_HINT)
    if parts.scheme not in ("http", "https") or not host:
        raise UsageError(f"{what}, {mask(address)}, is no web address", hint=_HINT)
    return parts
