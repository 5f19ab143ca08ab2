"""An optional compile cache: ccache, local or shared by many builders through a Redis server.

It is no part of any key: with it and without it the objects are the same.
"""

from __future__ import annotations

import platform
import re
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from forkwheel.console import Log
from forkwheel.cuda.toolchain import Toolchain
from forkwheel.errors import UsageError
from forkwheel.release.inputs import Inputs
from forkwheel.store import Store
from forkwheel.wheels.environment import build_environment

URL_VARIABLE = "FORKWHEEL_COMPILE_CACHE_URL"
"""Where the shared cache is. In the environment, since it may hold a password."""

_URL = re.compile(r"redis(?:\+unix)?:(?://)?\S+")
_HITS = ("direct_cache_hit", "preprocessed_cache_hit")
_ERRORS = ("remote_storage_error", "remote_storage_timeout")


@dataclass(frozen=True)
class CompileCache:
    """What goes before a compiler's command, and into its environment; ``log_file`` is ccache's own account."""

    prefix: tuple[str, ...]
    environment: tuple[tuple[str, str], ...]
    shared: bool


@dataclass(frozen=True)
class CacheUse:
    """How many compilations the cache answered, how many it did not, and failures of the shared one."""

    hits: int
    misses: int
    errors: int


def open_compile_cache(
    toolchain: Toolchain,
    *,
    lock: Inputs,
    store: Store,
    log: Log,
    environment: Mapping[str, str],
    offline: bool = False,
) -> CompileCache:
    """Return the local compile cache, which asks the shared one that ``FORKWHEEL_COMPILE_CACHE_URL`` names."""
    url = environment.get(URL_VARIABLE, "")
    if url and not _URL.fullmatch(url):
        raise UsageError(f"{URL_VARIABLE} is not the address of a Redis server", hint="write it like redis://HOST:6379")
    python = build_environment(lock.of("compile-cache"), store=store, log=log, offline=offline)
    folder = store.path("ccache", "x").parent
    store.used(folder)
    settings = {
        "CCACHE_DIR": str(folder),
        "CCACHE_CONFIGPATH": str(folder / "no-settings-of-others"),
        "CCACHE_TEMPDIR": str(folder / "tmp"),
        "CCACHE_COMPILERCHECK": f"string:{platform.machine()} {toolchain.digest} {toolchain.host.label}",
        # The files' content is compared; their times are those of this build's own links.
        "CCACHE_SLOPPINESS": "include_file_ctime,include_file_mtime",
        "CCACHE_MAXSIZE": "5G",
    }
    if url:
        settings["CCACHE_REMOTE_STORAGE"] = url
    return CompileCache((str(python.with_name("ccache")),), tuple(settings.items()), bool(url))


def account(cache: CompileCache, file: Path) -> CacheUse:
    """Read ccache's own account of one build, which it wrote to ``file`` (its CCACHE_STATSLOG)."""
    lines = file.read_text().split() if file.exists() else []
    counts = Counter(lines)
    return CacheUse(
        hits=sum(counts[name] for name in _HITS),
        misses=counts["cache_miss"],
        errors=sum(counts[name] for name in _ERRORS) if cache.shared else 0,
    )
