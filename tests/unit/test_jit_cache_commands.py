from __future__ import annotations

import fcntl
import json
import subprocess
import sys
from pathlib import Path

import pytest

from forkwheel.cli import run
from forkwheel.errors import RecipeError
from forkwheel.recipe import load_recipe

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPE = REPOSITORY / "recipes" / "sm120" / "recipe.toml"
FORK = ("0.6.3+sm120.1", "0.6.3+sm120.dev.k1a2b3c4")


@pytest.fixture(autouse=True)
def root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a JIT cache with four versions; the working folder is the repository."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("FLASHINFER_WORKSPACE_BASE", raising=False)
    monkeypatch.chdir(REPOSITORY)
    root = tmp_path / ".cache" / "flashinfer"
    for version in (*FORK, "0.6.3", "0.6.4+sm120.1"):
        for name in ("cached_ops/comm/comm.so", "generated/comm/comm.cu", "cached_ops/tmp/comm.lock"):
            (root / version / "120a" / name).parent.mkdir(parents=True)
            (root / version / "120a" / name).write_bytes(b"" if name.endswith(".lock") else bytes(500))
    return root


def left(root: Path) -> list[str]:
    return sorted(path.parts[-5] for path in root.glob("*/*/cached_ops/comm/comm.so"))


def test_clears_the_versions_of_the_recipe(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clear-jit-cache"]) == 0

    output = capsys.readouterr().out
    assert left(root) == ["0.6.3", "0.6.4+sm120.1"]
    for version in FORK:
        assert f"removed from {root / version}: 2 files, 1.0 kB" in output
    assert "removed 2.0 kB in all" in output


def test_all_clears_every_version(root: Path) -> None:
    assert run(["clear-jit-cache", "--all", "--recipe", str(RECIPE)]) == 0

    assert left(root) == []


def test_a_dry_run_removes_nothing(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clear-jit-cache", "--dry-run"]) == 0

    output = capsys.readouterr().out
    assert len(left(root)) == 4
    assert f"would remove from {root / FORK[0]}: 2 files, 1.0 kB" in output
    assert "would remove 2.0 kB in all" in output


def test_an_empty_cache_is_no_fault(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run(["clear-jit-cache"])
    capsys.readouterr()

    assert run(["clear-jit-cache"]) == 0
    assert "holds nothing to remove" in capsys.readouterr().out


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_version_in_use_is_named(dry_run: bool, root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    lock = root / FORK[0] / "120a" / "cached_ops" / "tmp" / "comm.lock"
    with lock.open("r+b") as opened:
        fcntl.flock(opened, fcntl.LOCK_EX)
        code = run(["clear-jit-cache", *(["--dry-run"] if dry_run else [])])

    shown = capsys.readouterr()
    assert code == (0 if dry_run else 2)
    assert FORK[0] in left(root)
    assert (FORK[1] in left(root)) is dry_run
    assert f"a process holds {lock}" in (shown.out if dry_run else shown.err)


def test_the_json_document(root: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["clear-jit-cache", "--json", "--python", sys.executable]) == 0

    document = json.loads(capsys.readouterr().out)
    (package,) = document.pop("packages")
    assert document == {"schema": 1, "dry_run": False}
    assert package.pop("found") == package["removed"]
    assert package == {
        "package": "flashinfer-python",
        "removed": [
            {"path": str(root / version), "version": version, "files": 2, "bytes": 1000, "held_lock": None}
            for version in FORK
        ],
        "in_use": [],
        "failed": [],
        "outranking": [],
    }


def test_what_outranks_the_cache_is_a_warning(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "env")], check=True)
    site_packages = next((tmp_path / "env" / "lib").glob("python3.*/site-packages"))
    (site_packages / "flashinfer_jit_cache-0.6.3+cu130.dist-info").mkdir()
    metadata = "Metadata-Version: 2.1\nName: flashinfer-jit-cache\nVersion: 0.6.3+cu130\n"
    (site_packages / "flashinfer_jit_cache-0.6.3+cu130.dist-info" / "METADATA").write_text(metadata)
    (site_packages / "flashinfer/data/aot/trtllm_comm").mkdir(parents=True)
    (site_packages / "flashinfer/data/aot/trtllm_comm/trtllm_comm.so").touch()

    assert run(["clear-jit-cache", "--dry-run", "--python", str(tmp_path / "env" / "bin" / "python")]) == 0

    output = capsys.readouterr().out
    assert "warning: flashinfer-jit-cache 0.6.3+cu130 in" in output
    assert f"warning: {site_packages / 'flashinfer/data/aot'}: 1 prebuilt" in output


def test_a_refused_interpreter_comes_before_the_first_removal(root: Path, tmp_path: Path) -> None:
    assert run(["clear-jit-cache", "--python", str(tmp_path / "none")]) == 2
    assert len(left(root)) == 4


def test_a_link_is_refused_before_the_first_removal(
    root: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (root / FORK[1]).rename(tmp_path / "target")
    (root / FORK[1]).symlink_to(tmp_path / "target")

    assert run(["clear-jit-cache"]) == 2
    assert f"{root / FORK[1]} is a symbolic link" in capsys.readouterr().err
    assert FORK[0] in left(root)


def test_a_home_that_is_no_folder_of_a_person_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    for home in ("", "/", "relative"):
        monkeypatch.setenv("HOME", home)
        assert run(["clear-jit-cache"]) == 2


def edited(tmp_path: Path, *, old: str, new: str) -> Path:
    text = RECIPE.read_text().replace("../../patches", str(REPOSITORY / "patches"))
    assert old in text
    file = tmp_path / "recipe.toml"
    file.write_text(text.replace(old, new))
    return file


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('clear = ["*/cached_ops/*", "*/generated/*"]', "clear = []", "`clear` names nothing"),
        ('"*/generated/*"', '"**/generated/*"', "spans folders"),
        ('"*/generated/*"', '"../generated"', "not a plain relative path"),
        ('"*/generated/*"', '"generated/*"', "stands where 'generated/\\*' of `clear` has none"),
        ("tmp/{name}.lock", "tmp/*.lock", "no place of a lock"),
        ("tmp/{name}.lock", "t?p/{name}.lock", "no place of a lock"),
        ("tmp/{name}.lock", "{name}/x.lock", "no place of a lock"),
        ("*/cached_ops/tmp/{name}.lock", "*/*/tmp/*/{name}.lock", "stands where"),
    ],
)
def test_a_faulty_table_is_an_error_with_its_line(old: str, new: str, message: str, tmp_path: Path) -> None:
    file = edited(tmp_path, old=old, new=new)

    with pytest.raises(RecipeError, match=message) as refused:
        load_recipe(file)
    assert refused.value.message.startswith(f"{file}:")
