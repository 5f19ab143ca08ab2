"""Download one pinned file: with progress, resumed where it broke off, checked before it gets its name."""

from __future__ import annotations

import os
import re
from pathlib import Path

import httpx2

from forkwheel.errors import FetchError, PinMismatchError, UnreachableError
from forkwheel.fetch.context import FetchContext
from forkwheel.fetch.http_client import TRIES, IndexClient, explain_http, explain_status, is_dropped, pause
from forkwheel.fetch.masking import mask
from forkwheel.recipe import FileSource
from forkwheel.tree import sha256_file

MAX_BYTES = 8 << 30
"""The longest download: above the largest wheels, below a full disk."""

_RANGE = re.compile(r"bytes (\d+)-(\d+)/(\d+|\*)")


def download(url: str, target: Path, *, source: FileSource, client: IndexClient, context: FetchContext) -> None:
    """Fetch ``url`` to ``target``, through a ``.part`` that a later try or run resumes.

    Raise PinMismatchError, and remove the part, unless its SHA-256 is the source's.
    """
    part = target.with_name(target.name + ".part")
    if not (part.is_file() and sha256_file(part) == source.sha256):
        _Transfer(url, part, client, context).run()
    found = sha256_file(part)
    if found != source.sha256:
        part.unlink()
        message = f"{source.at}{mask(url)} has the SHA-256 {found}; the recipe pins {source.sha256}"
        raise PinMismatchError(message, hint="the file was replaced or the pin is wrong: do not use it before you know")
    part.chmod(0o644)
    part.replace(target)


class _Transfer:
    """The tries at one file; ``_offset`` bytes of it are in the part."""

    def __init__(self, url: str, part: Path, client: IndexClient, context: FetchContext) -> None:
        self._url = url
        self._part = part
        self._client = client
        self._context = context
        self._offset = part.stat().st_size if part.is_file() else 0
        hint = "run again: the download goes on where it broke off"
        self._failure: FetchError = UnreachableError(f"the connection to {mask(url)} broke {TRIES} times", hint=hint)

    def run(self) -> None:
        for attempt in range(TRIES):
            pause(attempt)
            try:
                if self._try():
                    return
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                if not is_dropped(error):
                    raise explain_http(error, self._url) from error
            except OSError as error:
                message = f"{self._part} cannot be written: {error.strerror or error}"
                raise FetchError(message, hint="check the free space and the permissions of the cache") from error
        raise self._failure

    def _try(self) -> bool:
        """Ask for what is missing; tell whether all of it came."""
        headers = {"Accept-Encoding": "identity"}  # the file's own bytes, whatever its name ends in
        if self._offset:
            headers["Range"] = f"bytes={self._offset}-"
        with self._client.stream("GET", self._url, headers=headers) as response:
            if response.status_code >= 500:
                self._failure = explain_status(response, self._url)
                return False
            if response.status_code == 416 and self._offset:
                self._offset = 0
                return False
            if not response.is_success:
                raise explain_status(response, self._url)
            length = self._expected_length(response)
            return length is not None and self._receive(response, length)

    def _expected_length(self, response: httpx2.Response) -> int | None:
        """Return the whole file's length (0: unknown), or None if the range is not the one asked for."""
        if response.status_code != 206:
            self._offset = 0
            return int(response.headers.get("Content-Length", "0"))
        match = _RANGE.fullmatch(response.headers.get("Content-Range", ""))
        if match is None or int(match[1]) != self._offset:
            self._offset = 0
            return None
        return 0 if match[3] == "*" else int(match[3])

    def _receive(self, response: httpx2.Response, length: int) -> bool:
        with self._part.open("r+b" if self._offset else "wb") as file:
            file.seek(self._offset)
            file.truncate()
            for block in response.iter_raw(1 << 16):
                file.write(block)
                self._offset += len(block)
                if self._offset > MAX_BYTES:
                    raise FetchError(f"{mask(self._url)} is longer than {MAX_BYTES >> 30} GiB", hint="check the pin")
                self._show(length)
            file.flush()
            os.fsync(file.fileno())
        return not length or self._offset >= length

    def _show(self, length: int) -> None:
        total = f" of {length / 1e6:.1f}" if length else ""
        self._context.log.progress(f"{self._part.stem}: {self._offset / 1e6:.1f}{total} MB")
