"""Credentials kept out of everything that is shown or recorded."""

from __future__ import annotations

import re

_HTTP_USER = re.compile(r"(https?://)[^/\s'\"]+@", re.IGNORECASE)
_PASSWORD = re.compile(r"(\b[a-z][a-z0-9+.-]*://[^/\s:@'\"]*):[^/\s'\"]+@", re.IGNORECASE)
_QUERY = re.compile(r"(https?://[^\s?#'\"]+)[?#][^\s'\"]*", re.IGNORECASE)


def mask(text: str) -> str:
    """Replace the credentials of every URL in a text.

    Over HTTP the user's name goes too, because it may be a token, and so does what follows
    ``?`` or ``#``, because links of artefact stores are signed there. What servers say may
    also hold control characters, which become spaces.
    """
    text = "".join(character if character.isprintable() else " " for character in text)
    return _QUERY.sub(r"\1", _PASSWORD.sub(r"\1:***@", _HTTP_USER.sub(r"\1***@", text)))
