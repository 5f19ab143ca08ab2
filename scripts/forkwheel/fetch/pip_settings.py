"""The package indexes that the person's pip is configured with."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass

from forkwheel.errors import FetchError
from forkwheel.fetch.masking import mask

_LINE = re.compile(r"(?P<section>:env:|[\w-]+)\.(?P<key>[\w-]+)=(?P<value>['\"].*)")
_SECTIONS = ("global", "download", ":env:")  # in the order in which pip lets one outrank another
_ALIASES = {"default-timeout": "timeout", "pypi-url": "index-url"}
_READ = (
    "PIP_CERT",
    "PIP_CLIENT_CERT",
    "PIP_CONFIG_FILE",
    "PIP_DEFAULT_TIMEOUT",
    "PIP_EXTRA_INDEX_URL",
    "PIP_FIND_LINKS",
    "PIP_INDEX_URL",
    "PIP_NO_INDEX",
    "PIP_PROXY",
    "PIP_PYPI_URL",
    "PIP_TIMEOUT",
    "PIP_TRUSTED_HOST",
)
_WHOLE_LISTING = {
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    "PIP_QUIET": "0",
    "PIP_USER": "0",
    "PIP_GLOBAL": "0",
    "PIP_SITE": "0",
    "_PIP_RUNNING_IN_SUBPROCESS": "1",
}
"""What makes pip list all of its settings: with `user` set, in a file too, it would list that file alone.

The last keeps pip from going over to another Python, which `python` in a file asks for: it is
how pip tells that it has done so.
"""
_TRUE = ("1", "true", "yes", "on", "y", "t")


@dataclass(frozen=True)
class PipSettings:
    """What pip would use: where it looks, and how it gets there; ``timeout`` in seconds.

    ``index_url`` is None where nothing is configured, which means pip's own default.
    """

    index_url: str | None = None
    extra_index_urls: tuple[str, ...] = ()
    find_links: tuple[str, ...] = ()
    no_index: bool = False
    trusted_hosts: tuple[str, ...] = ()
    cert: str | None = None
    client_cert: str | None = None
    proxy: str | None = None
    timeout: float = 15.0


def read_pip_settings() -> PipSettings:
    """Ask pip for its settings, from its files and the environment.

    Raise FetchError if pip can't read its own configuration.
    """
    command = [sys.executable, "-m", "pip", "config", "list"]
    own = {name: value for name, value in os.environ.items() if not name.startswith("PIP_") or name in _READ}
    environment = {**own, **_WHOLE_LISTING, "PYTHONUTF8": "1", "NO_COLOR": "1"}
    # `-m` puts the working folder first on the path: it must not be one where a person keeps a pip.py.
    completed = subprocess.run(
        command, capture_output=True, text=True, encoding="utf-8", check=False, env=environment, cwd=sys.prefix
    )
    if completed.returncode:
        reason = mask((completed.stderr.strip().splitlines() or ["no reason given"])[-1])
        raise FetchError(f"pip cannot read its configuration: {reason}", hint="run `python -m pip config debug`")
    return parse_pip_settings(completed.stdout, os.environ)


def parse_pip_settings(listing: str, environment: Mapping[str, str]) -> PipSettings:
    """Read the output of ``pip config list``.

    ``environment`` gives the certificates that pip takes from variables not its own.
    """
    values = _values(listing)
    cert = values.get("cert") or environment.get("REQUESTS_CA_BUNDLE") or environment.get("CURL_CA_BUNDLE")
    return PipSettings(
        index_url=values.get("index-url"),
        extra_index_urls=tuple(values.get("extra-index-url", "").split()),
        find_links=tuple(values.get("find-links", "").split()),
        no_index=values.get("no-index", "").lower() in _TRUE,
        trusted_hosts=tuple(values.get("trusted-host", "").split()),
        cert=cert or None,
        client_cert=values.get("client-cert") or None,
        proxy=values.get("proxy") or None,
        timeout=_seconds(values.get("timeout", "15")),
    )


def _values(listing: str) -> dict[str, str]:
    values: dict[str, str] = {}
    matches = [match for match in map(_LINE.fullmatch, listing.splitlines()) if match]
    for section in _SECTIONS:
        for match in matches:
            if match["section"] == section:
                value = str(ast.literal_eval(match["value"])).strip()
                key = _ALIASES.get(match["key"], match["key"])
                values.update({key: value} if value else {})
    return values


def _seconds(text: str) -> float:
    try:
        return max(1.0, float(text))
    except ValueError as error:
        raise FetchError(f"pip's timeout {text!r} is not a number", hint="correct it in pip's configuration") from error
