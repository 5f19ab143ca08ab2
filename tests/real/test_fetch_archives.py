"""The pinned archives, through the real index, then without any network."""

from __future__ import annotations

import io
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest

from forkwheel.console import Console
from forkwheel.fetch import FetchContext, fetch_source
from forkwheel.recipe import FileSource, Package
from forkwheel.store import Store
from forkwheel.tree import scan

PINNED = [
    (
        "flashinfer-python",
        FileSource(
            "sdist",
            "flashinfer_python-0.6.3.tar.gz",
            "84a762538247a86bc52ff31d9505d161ce1ec059174c1821c87c3ed1e44670fc",
        ),
        "include/flashinfer/comm/trtllm_allreduce.cuh",
    ),
    (
        "sglang",
        FileSource("sdist", "sglang-0.5.9.tar.gz", "11b1445bfb039c20217783850fda66a71b814391b2cf313f4e6cadc3b9fea41b"),
        "sglang.egg-info/SOURCES.txt",
    ),
    (
        "sglang",
        FileSource(
            "wheel",
            "sglang-0.5.9-py3-none-any.whl",
            "8a936c4d25fea605f44254e533cff2144c73ceffbc1f8738aba393461bbb64d1",
        ),
        "sglang/srt/server_args.py",
    ),
]


@pytest.mark.network
@pytest.mark.parametrize(("name", "source", "member"), PINNED, ids=[source.filename for _, source, _ in PINNED])
def test_pinned_archives_are_fetched_and_then_need_no_network(
    name: str, source: FileSource, member: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = cast(Package, SimpleNamespace(name=name, sources=(source,)))
    store, log = Store(tmp_path / "cache"), Console(stream=io.StringIO()).bind(name)

    online = fetch_source(package, source, tmp_path / "online", context=FetchContext(store, log))
    monkeypatch.setattr("socket.socket.connect", lambda *_: pytest.fail("the network was used"))
    monkeypatch.setattr("socket.getaddrinfo", lambda *_, **__: pytest.fail("the network was used"))
    cached = fetch_source(package, source, tmp_path / "cached", context=FetchContext(store, log, offline=True))

    assert (online.root / member).is_file()
    assert ("cached", "no") in online.observed
    assert ("cached", "yes") in cached.observed
    assert scan(cached.root).digest == scan(online.root).digest
