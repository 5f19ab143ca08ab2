import sys
from pathlib import Path

import pytest

from forkwheel.gpu.environment import Environment
from forkwheel.gpu.hardware import probe_hardware


@pytest.fixture
def environment() -> Environment:
    """The probes need nothing but Python and the driver."""
    return Environment(Path(sys.executable), Path(sys.executable), Path(), "", "", "")


def test_every_probe_passes_here(machine, environment, tmp_path):
    found = probe_hardware(machine, environment, tmp_path)

    assert "FAIL" not in [check.status for check in found], [check.detail for check in found]


def test_stores_that_are_lost_fail_the_probe(machine, environment, tmp_path):
    found = probe_hardware(machine, environment, tmp_path, lost=True)

    assert found[-1].status == "FAIL"
    assert "never arrived" in found[-1].detail
