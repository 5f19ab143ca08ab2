"""What ``doctor`` finds missing or in the way, and how it ends."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from publish_support import make_wheel

from forkwheel import doctor_host
from forkwheel.cli import run
from forkwheel.doctor_fork import fork_findings
from forkwheel.doctor_host import BUILD, KERNELS, SMOKE, Finding
from forkwheel.errors import NoGpuError
from forkwheel.gpu import devices
from forkwheel.recipe import Recipe, load_recipe

RECIPE = Path(__file__).resolve().parents[2] / "recipes" / "sm120" / "recipe.toml"


@pytest.fixture
def recipe() -> Recipe:
    return load_recipe(RECIPE)


def by_name(findings: object) -> dict[str, Finding]:
    return {finding.name: finding for finding in findings}  # type: ignore[attr-defined]


def doctor(*arguments: str) -> int:
    return run(["doctor", "--recipe", str(RECIPE), "--offline", *arguments])


def test_a_finding_is_a_failure_only_for_what_it_is_needed_for() -> None:
    finding = Finding("C++ compiler", (KERNELS,), False, "none", "install g++")
    assert finding.status((KERNELS, SMOKE)) == "FAIL"
    assert finding.status((BUILD,)) == "WARN"
    assert Finding("index", (BUILD,), None, "not asked").status((BUILD,)) == "SKIP"


def test_a_machine_without_tools_is_told_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert doctor() == 6
    said = capsys.readouterr()
    assert "FAIL  git" in said.out
    assert "apt install git" in said.out
    assert "WARN  C++ compiler" in said.out
    assert said.err.startswith("error: not ready for build: git\nhint: apt install git")


def test_a_compiler_is_needed_for_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert doctor() == 0
    assert doctor("--for", "kernels") == 6


def test_too_little_disk_is_a_failure_for_what_needs_more(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_host.shutil, "disk_usage", lambda _: type("usage", (), {"free": 3_000_000_000}))
    (finding, _) = doctor_host.disk(tmp_path)
    assert finding.status((BUILD,)) == "WARN"
    assert finding.status((KERNELS,)) == "FAIL"
    assert "FORKWHEEL_CACHE" in finding.hint


def test_a_password_in_a_proxy_is_not_shown() -> None:
    finding = doctor_host.proxy({"https_proxy": "http://me:secret@proxy.example:3128"})
    assert "secret" not in finding.found
    assert "proxy.example:3128" in finding.found


def test_an_index_that_cannot_be_reached_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:1/simple/")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    finding = doctor_host.index()
    assert finding.holds is False
    assert "127.0.0.1:1" in finding.found


def test_refused_namespaces_are_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = tmp_path / "unshare"
    program.write_text("#!/bin/sh\necho 'unshare: Operation not permitted' >&2\nexit 1\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    finding = doctor_host.namespaces()
    assert finding.found == "unshare: Operation not permitted"
    assert finding.status((BUILD, KERNELS)) == "WARN"


def test_what_the_jit_compiled_for_the_fork_is_stale_and_for_others_foreign(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    for version in ("0.6.3", "0.6.3+sm120.1"):
        folder = tmp_path / ".cache/flashinfer" / version / "120a" / "cached_ops" / "op"
        folder.mkdir(parents=True)
        (folder / "op.so").write_bytes(b"x" * 100)
    finding = by_name(fork_findings(recipe, python=None, home=tmp_path))["JIT cache of flashinfer-python"]
    assert "0.6.3 100 B (foreign)" in finding.found
    assert "0.6.3+sm120.1 100 B" in finding.found
    assert finding.holds is False
    assert "clear-jit-cache" in finding.hint


def environment(folder: Path, *packages: tuple[str, str]) -> Path:
    """Make an environment with packages in it and return its python."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder / "env")], check=True)
    site = next((folder / "env").glob("lib/python*/site-packages"))
    for name, version in packages:
        wheel = make_wheel(folder, name, version)
        subprocess.run([sys.executable, "-m", "zipfile", "-e", str(wheel), str(site)], check=True)
    return folder / "env" / "bin" / "python"


def test_packages_that_would_be_used_instead_of_the_fork_are_named(
    recipe: Recipe, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    python = environment(
        tmp_path, ("flashinfer_python", "0.6.4"), ("flashinfer_jit_cache", "0.6.3"), ("sglang", "0.5.9+sm120.1")
    )
    found = by_name(fork_findings(recipe, python=python, home=tmp_path))
    assert found["flashinfer-python"].holds is False
    assert found["flashinfer-python"].found == "0.6.4 is installed there"
    assert "sm120.requirements.txt" in found["flashinfer-python"].hint
    assert found["sglang"].holds is True
    outranks = found["what outranks flashinfer-python"]
    assert outranks.holds is False
    assert outranks.hint.startswith("pip uninstall flashinfer")


def test_a_python_that_cannot_be_asked_is_a_finding(recipe: Recipe, tmp_path: Path) -> None:
    found = by_name(fork_findings(recipe, python=tmp_path / "python", home=tmp_path))
    assert found["installed packages"].holds is False


@pytest.fixture
def no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse() -> None:
        raise NoGpuError("there is no NVIDIA GPU here", hint="run this on a machine with an NVIDIA GPU")

    monkeypatch.setattr(devices, "find_machine", refuse)


def test_an_install_is_not_called_ready_before_its_python_was_looked_at(
    recipe: Recipe, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FLASHINFER_WORKSPACE_BASE", str(tmp_path))
    assert doctor("--for", "install") == 0
    last = capsys.readouterr().out.splitlines()[-1]
    assert "but for what was not checked: installed packages: not looked at; give --python PATH" in last
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--offline", "--for", "install"]) == 0
    assert "but for what was not checked: fork: there is no recipe here" in capsys.readouterr().out
    python = environment(tmp_path)
    assert doctor("--for", "install", "--python", str(python)) == 0
    assert capsys.readouterr().out.splitlines()[-1] == "ready for install"


def test_a_python_that_is_not_there_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor("--python", str(tmp_path / "python")) == 2
    assert capsys.readouterr().out == ""


@pytest.mark.usefixtures("no_gpu")
def test_a_smoke_run_without_a_gpu_ends_as_the_smoke_run_itself_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert doctor("--for", "smoke") == 10
    assert "hint: run this on a machine with an NVIDIA GPU; a build needs none" in capsys.readouterr().err


@pytest.mark.usefixtures("no_gpu")
def test_a_missing_gpu_hides_nothing_that_something_else_lacks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CXX", "no-such-compiler")
    assert doctor("--for", "smoke", "--for", "kernels") == 6


def test_the_report_is_one_document(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "none" / "cache"))
    code = doctor("--json")
    document = json.loads(capsys.readouterr().out)
    assert code in (0, 6)
    assert {"name", "status", "needed_for", "found", "hint"} == set(document["checks"][0])
    assert "package index" in [check["name"] for check in document["checks"]]
    assert not (tmp_path / "none").exists(), "looking changes nothing"


def test_it_fits_one_screen(capsys: pytest.CaptureFixture[str]) -> None:
    doctor()
    assert len(capsys.readouterr().out.splitlines()) <= 24


def test_a_machine_without_a_checkout_is_checked_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert run(["doctor", "--offline"]) == 0
    assert "there is no recipe here" in capsys.readouterr().out
