from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from forkwheel.cuda.kernels_lock import KernelsLock, LockedKernels, LockedModule, load_kernels_lock
from forkwheel.errors import RecipeError, UsageError, VerificationError

ONE = LockedKernels(
    version="1.0+wide.1",
    key="1" * 64,
    host="gcc 12.2.0, ld 2.40",
    filename="demo_kernels-1.0+wide.1-cp39-abi3-manylinux_2_34_x86_64.whl",
    sha256="2" * 64,
    modules=(LockedModule("demo_ops", "3" * 64, ("4" * 64, "5" * 64)),),
)
OTHER_HOST = replace(
    ONE, host="gcc 11.3.0, ld 2.38", sha256="6" * 64, modules=(replace(ONE.modules[0], sha256="7" * 64),)
)


@pytest.fixture
def lock(tmp_path: Path) -> KernelsLock:
    return KernelsLock(tmp_path / "kernels.lock.toml", (ONE,))


def test_it_is_read_back_as_it_was_written(lock: KernelsLock) -> None:
    written = lock.with_build(OTHER_HOST)
    written.write()

    assert load_kernels_lock(lock.file.parent) == written
    assert [build.host for build in written.builds] == [OTHER_HOST.host, ONE.host]


def test_a_missing_lock_is_an_empty_one(tmp_path: Path) -> None:
    assert load_kernels_lock(tmp_path).builds == ()


def test_the_same_build_is_equal(lock: KernelsLock) -> None:
    assert lock.compared(ONE) == "equal to the kernels' lock"


def test_another_host_compiler_is_named_with_what_is_identical(lock: KernelsLock) -> None:
    assert (
        lock.compared(OTHER_HOST)
        == "device code identical, host code differs: gcc 12.2.0, ld 2.40 / gcc 11.3.0, ld 2.38"
    )


@pytest.mark.parametrize("host", [ONE.host, OTHER_HOST.host])
def test_other_device_code_is_refused_from_any_host(lock: KernelsLock, host: str) -> None:
    module = replace(ONE.modules[0], device=("4" * 64, "8" * 64))

    with pytest.raises(VerificationError, match="device code of demo_ops is not that"):
        lock.compared(replace(ONE, host=host, modules=(module,)))


def test_other_host_code_from_the_same_compiler_is_refused(lock: KernelsLock) -> None:
    module = replace(ONE.modules[0], sha256="9" * 64)

    with pytest.raises(VerificationError, match="device code identical, but gcc") as caught:
        lock.compared(replace(ONE, sha256="8" * 64, modules=(module,)))

    assert f"demo_ops.so is {'9' * 64}, not {'3' * 64}" in caught.value.message


def test_other_packing_of_the_same_objects_is_refused(lock: KernelsLock) -> None:
    with pytest.raises(VerificationError, match="the objects are those of the lock") as caught:
        lock.compared(replace(ONE, sha256="9" * 64))

    assert "2" * 64 in caught.value.message
    assert "9" * 64 in caught.value.message


def test_another_key_is_not_compared(lock: KernelsLock) -> None:
    assert "does not know" in lock.compared(replace(ONE, key="0" * 64, sha256="9" * 64))


def test_another_key_replaces_all_of_its_version(lock: KernelsLock) -> None:
    changed = replace(ONE, key="0" * 64)

    assert lock.with_build(OTHER_HOST).with_build(changed).builds == (changed,)


@pytest.mark.parametrize(
    ("platform", "machine"),
    [("manylinux_2_34_aarch64", "aarch64"), ("linux_aarch64", "aarch64"), ("manylinux_2_34_x86_64", "x86_64")],
)
def test_a_wheel_tells_its_machine(platform: str, machine: str) -> None:
    assert replace(ONE, filename=f"demo_kernels-1.0+wide.1-cp39-abi3-{platform}.whl").machine == machine


def test_another_machine_has_its_own_place(lock: KernelsLock) -> None:
    """The machine is part of the key, so that every machine's is another one."""
    filename = ONE.filename.replace("x86_64", "aarch64")
    other = replace(ONE, key="a" * 64, filename=filename, sha256="b" * 64)

    both = lock.with_build(other)

    assert both.builds == (other, ONE)
    assert lock.compared(other) == "the kernels' lock does not know this build of 1.0+wide.1"
    assert not lock.knows(other)
    assert both.knows(other)
    assert both.with_build(replace(other, key="c" * 64)).builds == (replace(other, key="c" * 64), ONE)


def test_what_changed_is_told_where_the_version_is_known() -> None:
    said = KernelsLock(Path("lock"), (ONE,)).compared(replace(ONE, key="0" * 64))

    assert "its sources, its toolkit or kernels.toml changed since" in said


def test_a_released_version_keeps_its_inputs(lock: KernelsLock) -> None:
    with pytest.raises(UsageError, match="is released") as caught:
        lock.with_build(replace(ONE, key="0" * 64), released=True)

    assert "0" * 12 in caught.value.message
    assert ONE.key[:12] in caught.value.message
    assert lock.with_build(OTHER_HOST, released=True).builds == (OTHER_HOST, ONE)


def test_other_versions_stay(lock: KernelsLock) -> None:
    later = replace(ONE, version="1.0+wide.2")

    assert lock.with_build(later).builds == (ONE, later)


def test_a_development_build_is_not_locked(lock: KernelsLock) -> None:
    with pytest.raises(UsageError, match="development build"):
        lock.with_build(replace(ONE, version="1.0+wide.dev.k1234567"))


def test_a_fault_is_told_with_its_line(lock: KernelsLock) -> None:
    lock.file.write_text(lock.text().replace("2" * 64, "none"))

    with pytest.raises(RecipeError, match=r"kernels\.lock\.toml:10: `sha256`"):
        load_kernels_lock(lock.file.parent)
