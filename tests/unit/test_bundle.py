"""What goes into a bundle, and whom it serves."""

from __future__ import annotations

import hashlib
import platform
from collections.abc import Sequence
from pathlib import Path

import pytest
from wheels_support import quiet_log, write_wheel

from forkwheel.release.bundle import installable
from forkwheel.release.bundle_making import _needs
from forkwheel.release.hosts import served_pythons
from forkwheel.release.inputs import LockedRequirement
from forkwheel.release.resolution import resolve_here
from forkwheel.store import Store

LINUX = ("manylinux_2_28_x86_64", "musllinux_1_2_x86_64", "manylinux_2_28_aarch64", "macosx_11_0_arm64")


def requirement(*tags: str, marker: str | None = None) -> LockedRequirement:
    return LockedRequirement("demo", "1.0", marker, tuple((f"demo-1.0-{tag}.whl", "0" * 64) for tag in tags))


@pytest.mark.parametrize(("libc", "kept"), [("glibc", "manylinux_2_28_x86_64"), ("", "musllinux_1_2_x86_64")])
def test_only_wheels_for_this_machine_and_its_libc_are_collected(
    monkeypatch: pytest.MonkeyPatch, libc: str, kept: str
) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(platform, "libc_ver", lambda: (libc, ""))
    given = requirement(*(f"cp312-cp312-{tag}" for tag in LINUX), "cp39-cp39-manylinux_2_28_x86_64", "py3-none-any")

    (item,) = installable([given])

    assert [name for name, _ in item.files] == [f"demo-1.0-cp312-cp312-{kept}.whl", "demo-1.0-py3-none-any.whl"]


def test_a_python_is_served_by_what_it_needs() -> None:
    some = requirement("cp311-abi3-manylinux_2_28_x86_64", "cp310-cp310-manylinux_2_28_aarch64")
    oldest = requirement("cp310-cp310-manylinux_2_28_aarch64", marker='python_version == "3.10"')

    assert served_pythons([some], machine="x86_64") == ((3, 11), (3, 12), (3, 13))
    assert served_pythons([oldest], machine="x86_64") == ((3, 11), (3, 12), (3, 13))
    assert served_pythons([oldest], machine="aarch64") == ((3, 10), (3, 11), (3, 12), (3, 13))


def test_the_needs_of_every_python_are_chosen_on_any(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Pip itself asks the markers of the Python that runs it, whichever it is told to choose for."""
    write_index(tmp_path / "index", ("tool", ['Requires-Dist: old; python_version < "3.11"']), ("old", []))
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", (tmp_path / "index").as_uri())
    monkeypatch.delenv("PIP_FIND_LINKS", raising=False)

    chosen = resolve_here(["tool"], machine="x86_64", store=Store(tmp_path / "cache"), log=quiet_log())

    assert [(item.name, item.marker) for item in chosen] == [("old", 'python_version == "3.10"'), ("tool", None)]


def write_index(root: Path, *projects: tuple[str, Sequence[str]]) -> None:
    for name, metadata in projects:
        head = "\n".join(["Metadata-Version: 2.1", f"Name: {name}", "Version: 1.0", *metadata, ""])
        files = {
            f"{name}-1.0.dist-info/METADATA": head.encode(),
            f"{name}-1.0.dist-info/WHEEL": b"Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        }
        (root / name).mkdir(parents=True)
        wheel = write_wheel(root / name, files, name=name, version="1.0")
        digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
        (root / name / "index.html").write_text(f'<a href="{wheel.name}#sha256={digest}">{wheel.name}</a>\n')


def test_the_needs_are_forkwheels_own_whatever_project_it_is_run_in(tmp_path: Path) -> None:
    (tmp_path / "pyproject.toml").write_text('[project]\nname = "other"\ndependencies = ["theirs"]\n')
    needs = _needs(tmp_path)
    assert "theirs" not in needs
    assert any(need.startswith("unearth") for need in needs)
