"""Wheels of a real third project, built again from what they carry, elsewhere and by others."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from publish_support import served
from small import forkwheel, write_recipe

from forkwheel.wheels.archive import Member, archive
from forkwheel.wheels.record import open_wheel, read_members, write_record

WHEEL = "tomli_w-1.2.0+wide.1-py3-none-any.whl"
INFO = "tomli_w-1.2.0+wide.1.dist-info"
EPOCH = 1736899330
SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the locked recipe and its output folder."""
    folder = tmp_path_factory.mktemp("reproduce")
    recipe = write_recipe(folder / "recipes" / "small")
    for command in (["lock", "--inputs"], ["build", "--out", folder / "dist"]):
        run = forkwheel(command[0], "--recipe", recipe, *command[1:], cache=folder / "cache")
        assert run.returncode == 0, run.stdout + run.stderr
    return folder


@pytest.fixture
def dist(made: Path, tmp_path: Path) -> Path:
    return shutil.copytree(made / "dist", tmp_path / "dist")


def reproduce(
    subject: Path | str, *more: str | Path, tmp_path: Path, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in an empty folder, under a HOME and a cache that are empty."""
    empty = tmp_path / "empty"
    empty.mkdir(exist_ok=True)
    home = {"HOME": str(tmp_path / "elsewhere")}
    return forkwheel("reproduce", subject, *more, cache=tmp_path / "cache", cwd=cwd or empty, environment=home)


def identical(run: subprocess.CompletedProcess[str]) -> bool:
    return run.returncode == 0 and "identical" in run.stdout and "different" not in run.stdout


def test_a_wheel_is_built_again_without_a_checkout(dist: Path, tmp_path: Path) -> None:
    run = reproduce(dist / WHEEL, tmp_path=tmp_path)
    assert identical(run), run.stdout + run.stderr
    assert not (tmp_path / "cache" / "wheels").exists(), "the person's cache was used"
    assert list((tmp_path / "empty").iterdir()) == []


def test_a_manifest_is_built_again_and_told_apart_from_the_checkout(made: Path, dist: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(made / "recipes", clone / "recipes")
    run = reproduce(dist / "small.manifest.json", "--from-repo", "--json", tmp_path=tmp_path, cwd=clone)
    assert run.returncode == 0, run.stderr
    document = json.loads(run.stdout)
    assert [one["verdict"] for one in document["wheels"]] == ["identical"]
    assert document["checkout"] == [{"package": "tomli-w", "same_key": True, "changes": []}]
    patch = clone / "recipes" / "small" / "patches" / "longer-lines.patch"
    patch.write_text(patch.read_text().replace("+MAX_LINE_LENGTH = 120", "+MAX_LINE_LENGTH = 140"))
    run = reproduce(dist / "small.manifest.json", "--from-repo", tmp_path=tmp_path, cwd=clone)
    assert identical(run), run.stderr
    assert "gives another key: changed are patch/longer-lines.patch" in run.stdout


def test_a_manifest_alone_is_built_from_the_checkout(made: Path, dist: Path, tmp_path: Path) -> None:
    clone = tmp_path / "clone"
    shutil.copytree(made / "recipes", clone / "recipes")
    (dist / WHEEL).unlink()
    run = reproduce(dist / "small.manifest.json", tmp_path=tmp_path, cwd=clone)
    assert identical(run), run.stderr
    patch = clone / "recipes" / "small" / "patches" / "longer-lines.patch"
    patch.write_text(patch.read_text().replace("+MAX_LINE_LENGTH = 120", "+MAX_LINE_LENGTH = 140"))
    run = reproduce(dist / "small.manifest.json", tmp_path=tmp_path, cwd=clone)
    assert run.returncode == 7
    assert "tomli-w differs in patch/longer-lines.patch" in run.stderr
    run = reproduce(dist / "small.manifest.json", tmp_path=tmp_path)
    assert run.returncode == 2, "without wheels or checkout there is nothing to build from"


def runs(python: str) -> bool:
    """Tell whether a Python of another minor version works."""
    command = [python, "-c", "import sys, venv, ensurepip; print(sys.version_info[:2])"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode == 0 and done.stdout.strip() != str(sys.version_info[:2])


def test_another_python_gives_the_same(dist: Path, tmp_path: Path) -> None:
    candidates = [shutil.which(f"python3.{minor}") for minor in (10, 11, 13)]
    candidates += [str(path) for path in sorted(Path(sys.base_prefix).parent.glob("3.1*/bin/python"))]
    others = [path for path in candidates if path and not path.startswith(sys.base_prefix) and runs(path)]
    if not others:
        pytest.skip("there is one Python on this machine")
    environment = tmp_path / "env"
    subprocess.run([others[0], "-m", "venv", str(environment)], check=True)
    install = [str(environment / "bin/python"), "-m", "pip", "install", "--quiet", str(SCRIPTS.parent)]
    subprocess.run(install, check=True, cwd=tmp_path)
    run = subprocess.run(
        [str(environment / "bin/forkwheel"), "reproduce", str(dist / WHEEL)],
        cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path), "PYTHONPATH": ""},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert identical(run), run.stdout + run.stderr


def test_another_user_gives_the_same(dist: Path, tmp_path: Path) -> None:
    """As nobody, where this runs as root and that user may read this Python; another HOME is tested above."""
    if os.getuid() != 0 or shutil.which("setpriv") is None:
        pytest.skip("only root can become another user, with setpriv")
    prefix = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
    home = Path("/var/tmp") / f"forkwheel-{os.getpid()}"
    home.mkdir(mode=0o777)
    try:
        home.chmod(0o777)
        shutil.copy(dist / WHEEL, home)
        (home / WHEEL).chmod(0o644)
        environment = {**os.environ, "HOME": str(home), "TMPDIR": str(home), "PYTHONPATH": str(SCRIPTS)}
        environment |= {"XDG_CACHE_HOME": str(home / "cache"), "FORKWHEEL_CACHE": str(home / "cache")}
        # A process of its own: setpriv may still reach an interpreter that the user can't start again.
        again = "import subprocess, sys, forkwheel.cli; subprocess.run([sys.executable, '-c', ''], check=True)"
        probe = [*prefix, sys.executable, "-c", again]
        if subprocess.run(probe, env=environment, cwd=home, capture_output=True, check=False).returncode:
            pytest.skip("the user nobody may not read this Python or this checkout")
        command = [*prefix, sys.executable, "-m", "forkwheel", "reproduce", WHEEL]
        run = subprocess.run(command, env=environment, cwd=home, capture_output=True, text=True, check=False)
        assert identical(run), run.stdout + run.stderr
    finally:
        shutil.rmtree(home)


def test_an_index_is_built_again_by_its_url(made: Path, dist: Path, tmp_path: Path) -> None:
    index = tmp_path / "index"
    lock = made / "recipes" / "small" / "wheels.lock.toml"
    published = forkwheel("publish", "--from", dist, "--to", index, "--lock", lock, cache=tmp_path / "cache")
    assert published.returncode == 0, published.stderr
    with served(index) as url:
        run = reproduce(f"{url}/simple/", tmp_path=tmp_path)
    assert identical(run), run.stdout + run.stderr
    (index / WHEEL).write_bytes(b"PK")
    with served(index) as url:
        run = reproduce(f"{url}/simple/", tmp_path=tmp_path)
    assert run.returncode == 3
    assert "has the SHA-256" in run.stderr


def rewritten(wheel: Path, change: Callable[[str, bytes], bytes], *, epoch: int = EPOCH, mend: bool = True) -> None:
    """Change members of a wheel; with ``mend`` RECORD is made to agree."""
    with open_wheel(wheel) as opened:
        members = [Member(m.name, change(m.name, m.content), m.executable) for m in read_members(opened)]
    if mend:
        members = [member for member in members if not member.name.endswith("/RECORD")]
        members.append(Member(f"{INFO}/RECORD", write_record(members, name=f"{INFO}/RECORD")))
    wheel.write_bytes(b"".join(archive(members, epoch=epoch)))


def flip(member: str, *, old: bytes, new: bytes) -> Callable[[str, bytes], bytes]:
    def change(name: str, content: bytes) -> bytes:
        assert name != member or old in content
        return content.replace(old, new, 1) if name == member else content

    return change


PATCH = f"{INFO}/forkwheel/patches/longer-lines.patch"
FLIPPED = {
    "a patch": (flip(PATCH, old=b"+MAX_LINE_LENGTH = 120", new=b"+MAX_LINE_LENGTH = 121"), "patch/longer-lines.patch"),
    "a member": (flip("tomli_w/_writer.py", old=b"120", new=b"121"), "content tomli_w/_writer.py"),
    "the epoch": (
        flip(f"{INFO}/forkwheel/recipe.toml", old=b"epoch = 1736899330", new=b"epoch = 1736899331"),
        "setting/epoch",
    ),
    "a locked input": (
        flip(f"{INFO}/forkwheel/inputs.lock.toml", old=b"requires = [", new=b'constraints = ["x<2"]\nrequires = ['),
        "inputs",
    ),
}


@pytest.mark.parametrize("what", FLIPPED)
def test_what_was_changed_with_care_is_named(dist: Path, tmp_path: Path, what: str) -> None:
    change, named = FLIPPED[what]
    rewritten(dist / WHEEL, change)
    run = reproduce(dist / WHEEL, tmp_path=tmp_path)
    assert run.returncode == 7, run.stdout + run.stderr
    assert named in run.stderr
    assert "Traceback" not in run.stderr


def test_what_was_changed_without_care_is_named_before_anything_is_built(dist: Path, tmp_path: Path) -> None:
    rewritten(dist / WHEEL, FLIPPED["a patch"][0], mend=False)
    run = reproduce(dist / WHEEL, tmp_path=tmp_path)
    assert run.returncode == 7
    assert f"{PATCH} has sha256=" in run.stderr
    assert "fetch" not in run.stdout


def test_an_archive_with_another_time_is_named(dist: Path, tmp_path: Path) -> None:
    rewritten(dist / WHEEL, lambda _, content: content, epoch=EPOCH + 2)
    run = reproduce(dist / WHEEL, tmp_path=tmp_path)
    assert run.returncode == 7
    assert ": time tomli_w/__init__.py" in run.stderr


def test_a_manifest_that_says_something_else_is_named(dist: Path, tmp_path: Path) -> None:
    manifest = dist / "small.manifest.json"
    manifest.write_text(manifest.read_text().replace(str(EPOCH), str(EPOCH + 1)))
    run = reproduce(manifest, tmp_path=tmp_path)
    assert run.returncode == 7
    assert "manifest epoch: it says 1736899331, the rebuild gives 1736899330" in run.stdout


def test_two_wheels_are_compared_without_a_build(dist: Path, tmp_path: Path) -> None:
    shutil.copytree(dist, tmp_path / "other")
    rewritten(tmp_path / "other" / WHEEL, FLIPPED["a member"][0])
    run = reproduce(dist / WHEEL, "--against", tmp_path / "other" / WHEEL, tmp_path=tmp_path)
    assert run.returncode == 7
    assert "+MAX_LINE_LENGTH = 121" in run.stdout


@pytest.mark.parametrize("missing", [0, 1])
def test_comparing_with_what_is_not_there_is_a_usage_error(dist: Path, tmp_path: Path, missing: int) -> None:
    two = [dist / WHEEL, dist / WHEEL]
    two[missing] = tmp_path / "missing.whl"
    run = reproduce(two[0], "--against", two[1], tmp_path=tmp_path)
    assert run.returncode == 2
    assert f"there is no {tmp_path / 'missing.whl'}" in run.stderr


def test_a_folder_that_cannot_be_written_is_found_before_anything_is_built(dist: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    run = reproduce(dist / WHEEL, "--out", tmp_path / "file", tmp_path=tmp_path)
    assert run.returncode == 1
    assert run.stdout == ""
    assert str(tmp_path / "file") in run.stderr


def test_a_recipe_of_another_package_in_a_wheel_is_named(dist: Path, tmp_path: Path) -> None:
    def change(name: str, content: bytes) -> bytes:
        if name != f"{INFO}/forkwheel/recipe.toml":
            return content
        return content.replace(b"tomli-w", b"tomli-x").replace(b"tomli_w-1.2.0.tar.gz", b"tomli_x-1.2.0.tar.gz")

    rewritten(dist / WHEEL, change)
    run = reproduce(dist / WHEEL, tmp_path=tmp_path)
    assert run.returncode == 7
    assert "carries the recipe of tomli-x, and its key is of tomli-w" in run.stderr


@pytest.mark.parametrize("subject", ["missing.whl", "nowhere", "."])
def test_what_is_no_subject_is_one_error(subject: str, tmp_path: Path) -> None:
    run = reproduce(subject, tmp_path=tmp_path)
    assert run.returncode in (2, 7)
    assert run.stderr.startswith("error: ")
    assert "Traceback" not in run.stderr


def test_a_wheel_of_another_maker_is_refused(tmp_path: Path, dist: Path) -> None:
    with zipfile.ZipFile(dist / WHEEL) as opened:
        contents = {name: opened.read(name) for name in opened.namelist() if "/forkwheel/" not in name}
    members = [Member(name, content) for name, content in contents.items() if not name.endswith("RECORD")]
    members.append(Member(f"{INFO}/RECORD", write_record(members, name=f"{INFO}/RECORD")))
    (dist / WHEEL).write_bytes(b"".join(archive(members, epoch=EPOCH)))
    assert hashlib.sha256((dist / WHEEL).read_bytes()).hexdigest()
    run = reproduce(dist / WHEEL, tmp_path=tmp_path)
    assert run.returncode == 7
    assert "was not made by forkwheel" in run.stderr
