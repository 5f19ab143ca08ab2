"""The HTTP client of the package index, and what its failures mean."""

from __future__ import annotations

import logging
import ssl
import time
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx2
from unearth.auth import MultiDomainBasicAuth
from unearth.fetchers.sync import PyPIClient
from unearth.utils import parse_netloc

from forkwheel.errors import FetchError, UnreachableError
from forkwheel.fetch.git_errors import PROXY_HINT, TLS_HINT
from forkwheel.fetch.masking import mask
from forkwheel.fetch.pip_settings import PipSettings

TRIES = 5
"""Attempts at one page or file whose connection drops or whose server fails."""

BACKOFF_SECONDS = 0.5
"""Wait before the second attempt; it doubles with each further one."""

_AUTH_HINT = "give the index's user and password in pip's index-url, in ~/.netrc or in a keyring"
_DROPPED = (httpx2.NetworkError, httpx2.RemoteProtocolError)


class IndexClient(PyPIClient):
    """Fetches index pages: tries again where that helps, and fails with errors of ours.

    A page that does not exist is left to the caller, since another index may have it.
    """

    def get(self, url: str, *, headers: Mapping[str, str] | None = None, **_: Any) -> Any:  # type: ignore[override]
        """Get a page; raise FetchError if the server can't be reached or refuses."""
        for attempt in range(TRIES):
            pause(attempt)
            try:
                response = super().get(url, headers=headers)
            except (httpx2.HTTPError, httpx2.InvalidURL) as error:
                if not is_dropped(error) or attempt + 1 == TRIES:
                    raise explain_http(error, url) from error
                continue
            if response.status_code < 500 or attempt + 1 == TRIES:
                break
        if response.status_code in (404, 405, 410) or response.is_success:
            return response
        raise explain_status(response, url)


def open_client(settings: PipSettings, urls: Sequence[str], *, silence: float) -> IndexClient:
    """Return a client with pip's certificates, proxy, trusted hosts and credentials for ``urls``.

    ``silence`` bounds pip's timeout, in seconds. It never prompts for a password.
    """
    logger = logging.getLogger("unearth")
    if not logger.handlers:
        logger.addHandler(logging.NullHandler())  # else its warnings reach the terminal
    try:
        mounts = {f"all://{host}": _unverified(host, settings) for host in settings.trusted_hosts}
        return IndexClient(
            trusted_hosts=settings.trusted_hosts,
            verify=_verify(settings),
            timeout=min(settings.timeout, silence),
            follow_redirects=True,
            proxy=_proxy_url(settings.proxy),
            auth=MultiDomainBasicAuth(prompting=False, index_urls=urls),
            mounts=mounts,
        )
    except (ImportError, ValueError, httpx2.InvalidURL) as error:
        raise FetchError(
            f"the proxy or a trusted host cannot be used: {mask(str(error))}", hint="correct the proxy settings"
        ) from error


def pause(attempt: int) -> None:
    """Wait before an attempt that isn't the first."""
    if attempt:
        time.sleep(BACKOFF_SECONDS * 2 ** (attempt - 1))


def is_dropped(error: Exception) -> bool:
    """Tell whether a connection broke after it was made."""
    return isinstance(error, _DROPPED) and not isinstance(error, httpx2.ConnectError)


def explain_http(error: Exception, url: str) -> FetchError:
    """Turn a failed request into the error that says what to do."""
    where, reason = mask(url), mask(str(error)) or type(error).__name__
    if isinstance(error, httpx2.ProxyError):
        if reason.startswith(("502", "503", "504")):
            hint = "check the network behind the proxy"
            return UnreachableError(f"the proxy cannot reach {where}: {reason}", hint=hint)
        return FetchError(f"the proxy refuses the way to {where}: {reason}", hint=PROXY_HINT)
    if _is_tls(error):
        return FetchError(f"no trusted TLS connection to {where}: {reason}", hint=TLS_HINT)
    if isinstance(error, httpx2.TimeoutException):
        hint = "check the network, or raise pip's timeout"
        return UnreachableError(f"{where} does not answer: timeout", hint=hint)
    if isinstance(error, _DROPPED):
        hint = "check the network, pip's index-url and its proxy"
        return UnreachableError(f"{where} cannot be reached: {reason}", hint=hint)
    return FetchError(f"{where} cannot be fetched: {reason}", hint="check pip's index-url")


def explain_status(response: httpx2.Response, url: str) -> FetchError:
    """Turn an HTTP status into the error that says what to do."""
    where, status = mask(url), f"{response.status_code} {response.reason_phrase}".strip()
    if response.status_code == 407:
        return FetchError(f"the proxy refuses the way to {where}: {status}", hint=PROXY_HINT)
    if response.status_code in (401, 403):
        return FetchError(f"{where} does not let us in: {status}", hint=_AUTH_HINT)
    if response.status_code in (404, 410):
        hint = "check the file name in the recipe, and pip's index-url"
        return FetchError(f"{where} does not exist: {status}", hint=hint)
    return FetchError(f"{where} answers {status}", hint="try again later; it is the server that fails")


def _is_tls(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, ssl.SSLError):
            return True
        error = error.__cause__ or error.__context__
    return False


def _verify(settings: PipSettings) -> ssl.SSLContext | bool:
    if settings.cert is None and settings.client_cert is None:
        return True
    try:
        context = ssl.create_default_context()
        if settings.cert is not None:
            context = _trusting(Path(settings.cert).expanduser())
        if settings.client_cert is not None:
            context.load_cert_chain(Path(settings.client_cert).expanduser())
    except OSError as error:
        message = (
            f"pip's certificates cannot be read ({settings.cert or settings.client_cert}): {error.strerror or error}"
        )
        raise FetchError(message, hint="correct `cert` and `client-cert` in pip's configuration") from error
    return context


def _trusting(authorities: Path) -> ssl.SSLContext:
    if authorities.is_dir():
        return ssl.create_default_context(capath=authorities)
    return ssl.create_default_context(cafile=authorities)


def _unverified(host: str, settings: PipSettings) -> httpx2.HTTPTransport:
    """Return the transport of a trusted host: any certificate, and the proxy of the others."""
    name = parse_netloc(host)[0]
    proxy = settings.proxy
    if proxy is None and not urllib.request.proxy_bypass(name):
        proxies = urllib.request.getproxies()
        proxy = proxies.get("https") or proxies.get("all")
    return httpx2.HTTPTransport(verify=False, proxy=_proxy_url(proxy))


def _proxy_url(proxy: str | None) -> str | None:
    return f"http://{proxy}" if proxy and "://" not in proxy else proxy
