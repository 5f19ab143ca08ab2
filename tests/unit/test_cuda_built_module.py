"""Shared objects in the cache: read back as they were, and made anew where they were damaged."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from forkwheel.console import Console
from forkwheel.cuda.built_module import BuiltModule, hand_out, read_slot, write_slot
from forkwheel.store import Store
from forkwheel.tree import sha256_file


class Slot:
    """A slot of the cache with one module."""

    def __init__(self, folder: Path) -> None:
        self.store = Store(folder / "cache")
        self.output = io.StringIO()
        self.path = self.store.path("kernels", "a" * 64)
        made = folder / "made"
        (made / "ops").mkdir(parents=True)
        file = made / "ops" / "ops.so"
        file.write_bytes(b"object")
        commands = (("a.cu", "nvcc -c a.cu"),)
        self.module = BuiltModule("ops", file, sha256_file(file), 6, ("1" * 64,), commands, "c++ -shared")
        write_slot(made, [self.module])
        self.store.publish(made, self.path)

    def read(self) -> tuple[BuiltModule, ...] | None:
        return read_slot(self.path, store=self.store, log=Console(stream=self.output).bind("demo"))


@pytest.fixture
def slot(tmp_path: Path) -> Slot:
    return Slot(tmp_path)


def test_a_module_is_read_back_and_handed_out(slot: Slot, tmp_path: Path) -> None:
    modules = slot.read()

    assert modules is not None
    assert [(module.name, module.device, module.units) for module in modules] == [
        ("ops", ("1" * 64,), (("a.cu", "nvcc -c a.cu"),))
    ]
    (handed,) = hand_out(modules, tmp_path / "out")
    assert handed.path == tmp_path / "out" / "ops" / "ops.so"
    assert handed.path.read_bytes() == b"object"


def test_nothing_is_read_where_nothing_is(slot: Slot) -> None:
    slot.store.discard(slot.path)

    assert slot.read() is None
    assert slot.output.getvalue() == ""


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("ops/ops.so", b"objecT"),
        ("ops/ops.so", None),
        ("build.json", b"{"),
        ("build.json", b"[]"),
        ("build.json", b'{"modules": [{"name": "ops"}]}'),
        ("build.json", None),
    ],
)
def test_a_damaged_slot_is_removed_with_a_word(slot: Slot, name: str, content: bytes | None) -> None:
    file = slot.path / name
    file.unlink() if content is None else file.write_bytes(content)

    assert slot.read() is None
    assert not slot.path.exists()
    assert "was damaged, and is made anew" in slot.output.getvalue()
