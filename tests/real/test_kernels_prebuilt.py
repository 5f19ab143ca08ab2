"""Which prebuilt objects the patched FlashInfer takes: the rules of its own ``jit/prebuilt.py``."""

from __future__ import annotations

import ctypes
import importlib.util
import json
from pathlib import Path
from types import ModuleType

import pytest


@pytest.fixture(scope="module")
def prebuilt(patched_trees: dict[str, Path]) -> ModuleType:
    file = patched_trees["flashinfer-python"] / "flashinfer" / "jit" / "prebuilt.py"
    specification = importlib.util.spec_from_file_location("prebuilt", file)
    assert specification is not None
    assert specification.loader is not None
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


@pytest.fixture
def driver(prebuilt: ModuleType, monkeypatch: pytest.MonkeyPatch):
    """Return a function that pretends a driver's version; None is a machine without one."""

    def pretend(version: int | None) -> None:
        monkeypatch.setattr(prebuilt, "driver_version", lambda: version)

    pretend(None)
    return pretend


def library(folder: Path, record: object) -> Path:
    (folder / "ops.json").write_text(record if isinstance(record, str) else json.dumps(record))
    return folder / "ops.so"


@pytest.mark.parametrize(
    ("compiled", "wanted", "expected"),
    [
        ("sm_120a", "sm_120a", True),
        ("sm_120a", "sm_120", True),
        ("sm_120a", "sm_120f", False),
        ("sm_120a", "sm_121a", False),
        ("sm_120a", "sm_90a", False),
        ("sm_90a", "sm_90a", True),
        ("sm_90a", "sm_100a", False),
        ("sm_120f", "sm_120a", True),
        ("sm_120f", "sm_121a", True),
        ("sm_121f", "sm_120a", False),
        ("sm_100f", "sm_120a", False),
        ("sm_100f", "sm_103a", True),
        ("sm_80", "sm_89", True),
        ("sm_89", "sm_80", False),
        ("native", "native", True),
        ("native", "sm_120a", False),
    ],
)
def test_code_for_one_target_covers_another(prebuilt: ModuleType, compiled: str, wanted: str, expected: bool) -> None:
    assert prebuilt.covers(compiled, wanted) is expected


def test_the_wanted_targets_are_those_of_the_compiler_flags(prebuilt: ModuleType) -> None:
    flags = ["-O3", "-gencode=arch=compute_120a,code=sm_120a", "-gencode=arch=compute_90a,code=sm_90a", "-DX"]

    assert prebuilt.wanted_targets(flags) == ["sm_120a", "sm_90a"]


@pytest.mark.usefixtures("driver")
def test_an_object_without_a_record_is_taken(prebuilt: ModuleType, tmp_path: Path) -> None:
    assert prebuilt.unfit_reason(tmp_path / "ops.so", ["sm_90a"]) is None


@pytest.mark.usefixtures("driver")
def test_every_gpu_of_a_mixed_box_must_be_covered(prebuilt: ModuleType, tmp_path: Path) -> None:
    one = library(tmp_path, {"targets": ["sm_120a"], "driver": 13000})

    assert prebuilt.unfit_reason(one, ["sm_120a"]) is None
    assert prebuilt.unfit_reason(one, ["sm_120a", "sm_90a"]) == "it was compiled for sm_120a and not for sm_90a"
    both = library(tmp_path, {"targets": ["sm_120a", "sm_90a"], "driver": 13000})
    assert prebuilt.unfit_reason(both, ["sm_120a", "sm_90a"]) is None


@pytest.mark.parametrize(
    ("version", "fits"), [(12080, False), (12090, False), (13000, True), (13020, True), (None, True)]
)
def test_an_older_driver_is_told(prebuilt: ModuleType, driver, tmp_path: Path, version: int | None, fits: bool) -> None:
    driver(version)

    reason = prebuilt.unfit_reason(library(tmp_path, {"targets": ["sm_120a"], "driver": 13000}), ["sm_120a"])

    assert (reason is None) is fits
    if not fits:
        assert reason == (f"it needs a driver for CUDA 13.0 or later, and this one is for CUDA 12.{version // 10 % 10}")


@pytest.mark.usefixtures("driver")
@pytest.mark.parametrize(
    "record", ["", "no json", "[]", '{"targets": ["sm_120a"]}', '{"targets": 3, "driver": 1}', "null"]
)
def test_a_record_that_cannot_be_read_is_a_reason(prebuilt: ModuleType, tmp_path: Path, record: str) -> None:
    assert "cannot be read" in prebuilt.unfit_reason(library(tmp_path, record), ["sm_120a"])


def test_the_driver_is_asked_and_its_absence_is_no_error(prebuilt: ModuleType, monkeypatch: pytest.MonkeyPatch) -> None:
    class Driver:
        @staticmethod
        def cuDriverGetVersion(pointer: object) -> int:  # noqa: N802 - CUDA's own name
            pointer._obj.value = 12080  # type: ignore[attr-defined]
            return 0

    def absent(name: str) -> None:
        raise OSError(name)

    for library_of, expected in ((lambda _: Driver, 12080), (absent, None)):
        prebuilt.driver_version.cache_clear()
        monkeypatch.setattr(ctypes, "CDLL", library_of)
        assert prebuilt.driver_version() == expected
    prebuilt.driver_version.cache_clear()
