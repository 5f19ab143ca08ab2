import pytest

from forkwheel.errors import NoGpuError
from forkwheel.gpu.devices import Machine, find_machine


@pytest.fixture(scope="session")
def machine() -> Machine:
    """The GPUs of this machine; a test that asks for them is skipped, with the reason, where there are none."""
    try:
        return find_machine()
    except NoGpuError as error:
        pytest.skip(error.message)
