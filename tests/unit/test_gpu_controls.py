import zipfile
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_support import setting

from forkwheel.gpu import controls
from forkwheel.gpu.checks import failed, passed, skipped
from forkwheel.gpu.environment import Environment


@pytest.mark.parametrize(
    ("check", "status", "text"),
    [
        (failed("x", "an illegal memory access"), "PASS", "fails as it must: an illegal memory access"),
        (failed("x", "out of memory"), "FAIL", "failed for another reason: out of memory"),
        (passed("x", "fine"), "FAIL", "did not fail, but: PASS fine"),
        (skipped("x", "no GPU"), "FAIL", "did not fail, but: SKIP no GPU"),
    ],
)
def test_a_control_passes_only_where_its_check_fails_for_the_right_reason(check, status, text):
    found = controls._expect("c", check, ("illegal memory",))

    assert (found.status, found.detail) == (status, text)


def test_the_planted_object_is_found_and_removed_again(tmp_path):
    environment = Environment(Path("base"), Path("python"), tmp_path, "2", "13.0", "3.12")

    found = controls._planted(replace(setting(), environment=environment, wheels=()))

    assert found.status == "PASS"
    assert "flashinfer/data/aot/trtllm_comm/trtllm_comm.so" in found.detail
    assert not list(tmp_path.rglob("*.so"))


@pytest.mark.parametrize(
    ("check", "race", "status"),
    [
        (passed("x", ""), True, "SKIP"),
        (passed("x", ""), False, "FAIL"),
        (failed("x", "norm is off by 0.1"), True, "PASS"),
        (failed("x", "illegal memory access"), True, "FAIL"),
    ],
)
def test_only_a_race_may_fail_to_show(check, race, status):
    found = controls._limit("limit-x", check, {"error": "is off by", "calls": 200, "race": race})

    assert found.status == status


def test_the_stock_wheel_is_compiled_before_its_ranks_start(tmp_path, monkeypatch):
    stock = tmp_path / "stock-1-py3-none-any.whl"
    with zipfile.ZipFile(stock, "w"):
        pass
    environment = Environment(Path("base"), Path("python"), tmp_path, "2", "13.0", "3.12")
    monkeypatch.setattr(controls, "make_environment", lambda *_, **__: environment)
    monkeypatch.setattr(controls.preflight, "loaded_object", lambda *_: failed("object", "nvcc died"))

    found = controls._stock(replace(setting(), work=tmp_path), stock, {"failing": {}}, None)

    assert [(check.status, check.detail) for check in found] == [("FAIL", "nvcc died")]
