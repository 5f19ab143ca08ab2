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
