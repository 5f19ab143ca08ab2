"""A bundle builds the same bytes where there is no network at all."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from small import SHA256, command_environment, forkwheel, write_recipe

WHEEL = "tomli_w-1.2.0+wide.1-py3-none-any.whl"
REPOSITORY = Path(__file__).resolve().parents[2]


def can_unshare() -> bool:
    """Tell whether a process may have a network of its own, with nothing in it."""
    program = shutil.which("unshare")
    return (
        program is not None
        and not subprocess.run([program, "-rn", "true"], capture_output=True, check=False).returncode
    )


pytestmark = pytest.mark.skipif(not can_unshare(), reason="`unshare -rn` does not work here: no network to take away")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a locked recipe and its bundle, with the needs of nox and forkwheel."""
    folder = tmp_path_factory.mktemp("bundle")
    recipe = write_recipe(folder / "recipe")
    for arguments in (["lock", "--inputs"], ["fetch", "--bundle", str(folder / "a bundle")]):
        run = forkwheel(arguments[0], "--recipe", recipe, *arguments[1:], cache=folder / "cache", cwd=REPOSITORY)
        assert run.returncode == 0, run.stdout + run.stderr
    return folder


def offline(
    *command: str | Path, cache: Path, cwd: Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run a command without a network."""
    return subprocess.run(
        ["unshare", "-rn", *map(str, command)],
        env=command_environment(cache) | (environment or {}),
        cwd=cwd,
        capture_output=True,
        text=True,
        check=False,
    )


def build(made: Path, tmp_path: Path, *more: str | Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "forkwheel", "build", "--recipe", made / "recipe", "--out", tmp_path / "dist"]
    return offline(*command, *more, cache=tmp_path / "cache", cwd=tmp_path)


def locked_sha256(made: Path) -> str:
    text = (made / "recipe" / "wheels.lock.toml").read_text()
    return next(line for line in text.splitlines() if line.startswith("sha256 = ")).split('"')[1]


def test_without_the_bundle_there_is_nothing_to_build_from(made: Path, tmp_path: Path) -> None:
    """The control: no network, an empty cache."""
    run = build(made, tmp_path)
    assert run.returncode == 3


def test_a_bundle_builds_the_locked_bytes_without_a_network(made: Path, tmp_path: Path) -> None:
    run = build(made, tmp_path, "--from-bundle", made / "a bundle", "--json")
    assert run.returncode == 0, run.stdout + run.stderr
    (package,) = json.loads(run.stdout)["packages"]
    assert package["wheel"]["sha256"] == locked_sha256(made)


def test_a_checkout_sets_itself_up_and_builds_without_a_network(made: Path, tmp_path: Path) -> None:
    """From the first command of the README on: nox and forkwheel are installed from the bundle too."""
    clone = tmp_path / "clone"
    clone.mkdir()
    (tmp_path / "a bundle").symlink_to(made / "a bundle")
    for name in ("scripts", "noxfile.py", "pyproject.toml", "README.md", "LICENSE"):
        source = REPOSITORY / name
        copy = shutil.copytree if source.is_dir() else shutil.copy
        copy(source, clone / name)
    command = [sys.executable, "noxfile.py", "-s", "build", "--", "--recipe", made / "recipe"]
    environment = {"HOME": str(tmp_path / "home"), "PYTHONPATH": ""}
    run = offline(
        *command, "--from-bundle", "../a bundle", cache=tmp_path / "cache", cwd=clone, environment=environment
    )
    assert run.returncode == 0, run.stdout + run.stderr
    assert (clone / "dist" / WHEEL).is_file()
    assert locked_sha256(made) in (clone / "dist" / "SHA256SUMS").read_text()
    command = [sys.executable, "clone/noxfile.py", *command[2:], "--explain", "--from-bundle=a bundle"]
    run = offline(*command, cache=tmp_path / "cache", cwd=tmp_path, environment=environment)
    assert run.returncode == 0, "seen from the caller's folder: " + run.stdout + run.stderr


@pytest.fixture
def damaged(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made / "a bundle", tmp_path / "damaged")


def flip(file: Path) -> None:
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.unlink()
    file.write_bytes(content)


def test_a_tampered_source_is_refused(made: Path, damaged: Path, tmp_path: Path) -> None:
    flip(damaged / "files" / "tomli_w-1.2.0.tar.gz")
    run = build(made, tmp_path, "--from-bundle", damaged)
    assert run.returncode == 3
    assert "tomli_w-1.2.0.tar.gz has the SHA-256" in run.stderr


def test_a_tampered_build_requirement_is_refused(made: Path, damaged: Path, tmp_path: Path) -> None:
    flip(next((damaged / "files").glob("flit_core-*.whl")))
    run = build(made, tmp_path, "--from-bundle", damaged)
    assert run.returncode in (3, 5)
    assert "Traceback" not in run.stderr


def test_a_bundle_that_lacks_a_file_names_it(made: Path, damaged: Path, tmp_path: Path) -> None:
    (damaged / "files" / "tomli_w-1.2.0.tar.gz").unlink()
    run = build(made, tmp_path, "--from-bundle", damaged)
    assert run.returncode == 3
    assert "lacks tomli_w-1.2.0.tar.gz" in run.stderr


OTHER = {"format": 1, "recipe": "other", "files": {}, "repositories": [], "tool_pythons": []}


@pytest.mark.parametrize("content", ["", "{}", '{"format": 2}', json.dumps(OTHER)])
def test_what_is_no_bundle_of_the_recipe_is_a_usage_error(made: Path, tmp_path: Path, content: str) -> None:
    folder = tmp_path / "bundle"
    folder.mkdir()
    (folder / "bundle.json").write_text(content)
    run = build(made, tmp_path, "--from-bundle", folder)
    assert run.returncode == 2
    assert os.fspath(folder) in run.stderr


def test_a_bundle_holds_the_tools_for_every_python_and_this_libc(made: Path) -> None:
    record = json.loads((made / "a bundle" / "bundle.json").read_text())
    assert record["tool_pythons"] == ["3.10", "3.11", "3.12", "3.13"]
    for start in ("tree_sitter-*-cp310-", "tree_sitter-*-cp313-", "tomli-", "setuptools-", "nox-"):
        assert list((made / "a bundle" / "files").glob(f"{start}*.whl"))
    kinds = {libc for libc in ("musllinux", "manylinux") if any(libc in name for name in record["files"])}
    assert len(kinds) == 1


def test_the_reports_of_fetch_are_json(made: Path) -> None:
    """A bundle's, and that of the cache."""
    cached, bundled = (
        json.loads(
            forkwheel(
                "fetch", "--recipe", made / "recipe", "--json", *more, cache=made / "cache", cwd=REPOSITORY
            ).stdout
        )
        for more in ([], ["--bundle", made / "a bundle", "--no-tools", "--offline"])
    )
    assert cached["schema"] == bundled["schema"] == 1
    (package,) = cached["packages"]
    assert package["source"] == {"kind": "sdist", "sha256": SHA256}
    assert "flit-core" in package["requirements"]
    assert bundled["files"]["tomli_w-1.2.0.tar.gz"] == SHA256
    assert bundled["tool_pythons"] == []


def test_the_needs_of_forkwheel_cannot_be_chosen_offline(made: Path, tmp_path: Path) -> None:
    run = forkwheel("fetch", "--recipe", made / "recipe", "--offline", "--bundle", tmp_path / "b", cache=made / "cache")
    assert run.returncode == 2
    assert "--no-tools" in run.stderr
    assert not (tmp_path / "b").exists()


def test_collecting_again_keeps_what_is_there(made: Path) -> None:
    files = made / "a bundle" / "files"
    before = {file.name: file.stat().st_mtime_ns for file in files.glob("tomli_w-*")}
    run = forkwheel(
        "fetch", "--recipe", made / "recipe", "--bundle", made / "a bundle", "--no-tools", cache=made / "cache"
    )
    assert run.returncode == 0, run.stderr
    assert before == {file.name: file.stat().st_mtime_ns for file in files.glob("tomli_w-*")}
