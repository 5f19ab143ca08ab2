"""What a failed git means: which of its complaints are told apart, and what to do about each."""

from __future__ import annotations

import re

from forkwheel.errors import FetchError, UnreachableError
from forkwheel.fetch.masking import mask

PROXY_HINT = "the proxy refused: check the proxy's address and account, and that it admits this host"
TLS_HINT = "give the certificate authority that signs here: git's http.sslCAInfo, pip's cert, or SSL_CERT_FILE"
AUTH_HINT = "give git access without a prompt: a credential helper, a key in ssh-agent and a known host, or a mirror"

# In this order: a lost connection is also what git says after a refused login.
_KINDS: tuple[tuple[str, type[FetchError], str, str], ...] = (
    (
        r"CONNECT tunnel failed, response 50[234]|HTTP code 50[234] from proxy",
        UnreachableError,
        "the proxy cannot reach {remote}",
        "check the network behind the proxy, or name a mirror with --mirror URL=PATH",
    ),
    (
        r"from proxy|proxy.{0,40}(?:refus|denied|40[37])|CONNECT tunnel failed|could not resolve proxy"
        r"|error: 407|HTTP 407|proxy authentication",
        FetchError,
        "the proxy refuses the way to {remote}",
        PROXY_HINT,
    ),
    (
        r"SSL certificate|certificate verif|certificate problem|issuer cert|TLS connect|gnutls_handshake|SSL_connect"
        r"|SSL routines|OpenSSL|error setting certificate|SSL: ",
        FetchError,
        "no trusted TLS connection to {remote}",
        TLS_HINT,
    ),
    (
        r"authentication failed|could not read (?:username|password)|permission denied|host key verification failed"
        r"|error: 40[13]\b|HTTP 40[13]\b|access denied|terminal prompts disabled|no supported authentication",
        FetchError,
        "{remote} does not let us in",
        AUTH_HINT,
    ),
    (
        r"error: 4(?:04|10)\b|not found|does not exist|no such file|not appear to be a git repository"
        r"|access .* or the repo",
        FetchError,
        "{remote} is no git repository",
        "check the recipe's url, or its mirror",
    ),
    (
        r"remote: fatal|upload-pack: aborting|remote: aborting",
        FetchError,
        "{remote} fails to serve the commit",
        "the repository there is damaged or incomplete: repair it, or name another with --mirror URL=PATH",
    ),
    (
        r"could not resolve host|failed to connect|couldn't connect|connection refused|timed out|time-?out"
        r"|no route to host"
        r"|network is unreachable|name resolution|name or service not known|nodename nor servname|unable to connect"
        r"|unable to look ?up|connection reset|connection closed|hung up unexpectedly|early EOF"
        r"|RPC failed|operation too slow"
        r"|empty reply|unexpected disconnect|transfer closed|could not read from remote",
        UnreachableError,
        "{remote} cannot be reached",
        "check the network, or name a mirror with --mirror URL=PATH",
    ),
)

_REFUSED_WANT = re.compile(
    r"not our ref|unadvertised object|couldn't find remote ref|no such remote ref"
    r"|does not support (?:shallow|server option)"
    r"|dumb http transport|allow request for|want .* not valid|no matching remote head|upload-pack: not",
    re.IGNORECASE,
)


def is_refused_want(errors: str) -> bool:
    """Tell whether a server only refuses to serve what was asked for in this way."""
    return bool(_REFUSED_WANT.search(errors))


def explain(errors: str, remote: str) -> FetchError:
    """Turn git's complaint about a remote into the error that says what to do."""
    remote = mask(remote)
    for pattern, kind, message, hint in _KINDS:
        if re.search(pattern, errors, re.IGNORECASE):
            return kind(f"{message.format(remote=remote)}: {_reason(errors)}", hint=hint)
    return FetchError(f"git could not fetch from {remote}: {_reason(errors)}", hint="try the same with git itself")


def hung(remote: str, seconds: float) -> UnreachableError:
    """Return the error for a remote that says nothing any more."""
    hint = "check the network and the host, or name a mirror with --mirror URL=PATH"
    return UnreachableError(f"{mask(remote)} was silent for {seconds:g} seconds", hint=hint)


def _reason(errors: str) -> str:
    """Pick git's own reason: its first complaint, which the later ones only repeat."""
    lines = [line.strip() for line in re.split(r"[\r\n]+", errors) if line.strip()]
    telling = [
        line
        for line in lines
        if re.match(r"(?:fatal|error|ssh|remote: (?:fatal|error))\b|.*denied|.*failed", line, re.I)
    ]
    return mask((telling or lines or ["no reason given"])[0])[:300]
