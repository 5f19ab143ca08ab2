"""The whole pipeline on a real third project: keys, locks, kills, two runs at once."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from small import command_environment, events, forkwheel, write_recipe

WHEEL = "tomli_w-1.2.0+wide.1-py3-none-any.whl"


@pytest.fixture(scope="module")
def locked(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with the recipe, locked as revision 1, and the cache that locking filled."""
    folder = tmp_path_factory.mktemp("small")
    recipe = write_recipe(folder / "recipe")
    run = forkwheel("lock", "--recipe", recipe, "--inputs", cache=folder / "cache")
    assert run.returncode == 0, run.stdout + run.stderr
    return folder


@pytest.fixture
def project(locked: Path, tmp_path: Path) -> Path:
    """Return a copy of the locked recipe, beside the cache that knows sources and environments but no wheels."""
    shutil.copytree(locked / "recipe", tmp_path / "p" / "recipe")
    shutil.rmtree(locked / "cache" / "wheels", ignore_errors=True)
    (tmp_path / "p" / "cache").symlink_to(locked / "cache")
    return tmp_path / "p"


def empty_cache(project: Path) -> None:
    """Give the project a cache of its own that holds nothing."""
    cache = project / "cache"
    cache.unlink() if cache.is_symlink() else shutil.rmtree(cache)


def build(
    project: Path, *more: str | Path, environment: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    return forkwheel(
        "build", "--recipe", project / "recipe", "--out", project / "dist", *more,
        cache=project / "cache", environment=environment,
    )  # fmt: skip


def test_a_third_project_is_patched_built_and_recorded(project: Path) -> None:
    run = build(project)
    assert run.returncode == 0, run.stdout + run.stderr
    names = {file.name for file in (project / "dist").iterdir()}
    records = ("manifest.json", "observed.json", "provenance.json", "requirements.txt", "constraints.txt")
    assert names == {WHEEL, "SHA256SUMS", *(f"small.{record}" for record in records)}
    with zipfile.ZipFile(project / "dist" / WHEEL) as wheel:
        assert b"MAX_LINE_LENGTH = 120" in wheel.read("tomli_w/_writer.py")
        assert b'__version__ = "1.2.0+wide.1"' in wheel.read("tomli_w/__init__.py")
        records = {name.split("/", 1)[1] for name in wheel.namelist() if ".dist-info/" in name}
    assert {
        "forkwheel/key.json",
        "forkwheel/recipe.toml",
        "forkwheel/inputs.lock.toml",
        "forkwheel/patches/series",
        "forkwheel/patches/longer-lines.patch",
        "sboms/forkwheel.cdx.json",
    } <= records
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=project / "dist", check=True, capture_output=True)


def test_the_same_key_is_not_built_again(project: Path) -> None:
    build(project)
    before = {file.name: file.stat().st_mtime_ns for file in (project / "dist").iterdir() if file.suffix == ".whl"}
    log = project / "events"
    run = build(project, environment={"FORKWHEEL_EVENTS": str(log)})
    assert "is unchanged: nothing was built" in run.stdout
    assert {event["stage"] for event in events(log)} == {"write"}
    assert before == {
        file.name: file.stat().st_mtime_ns for file in (project / "dist").iterdir() if file.suffix == ".whl"
    }


def test_a_wheel_rebuilds_itself_from_what_it_carries(project: Path, tmp_path: Path) -> None:
    build(project)
    wheel = project / "dist" / WHEEL
    carried = tmp_path / "carried"
    with zipfile.ZipFile(wheel) as opened:
        for name in opened.namelist():
            if ".dist-info/forkwheel/" in name:
                target = carried / name.split("/forkwheel/", 1)[1]
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(opened.read(name))
        key = json.loads(opened.read("tomli_w-1.2.0+wide.1.dist-info/forkwheel/key.json"))["key"]
    run = forkwheel("build", "--recipe", carried, "--explain", "--json", cache=project / "cache")
    assert run.returncode == 0, run.stderr
    assert json.loads(run.stdout)["packages"][0]["key"] == key


def test_a_changed_patch_is_a_development_build_that_says_what_changed(project: Path) -> None:
    build(project)
    patch = project / "recipe" / "patches" / "longer-lines.patch"
    patch.write_text(patch.read_text().replace("+MAX_LINE_LENGTH = 120", "+MAX_LINE_LENGTH = 140"))
    run = build(project)
    assert run.returncode == 0, run.stderr
    assert "changed against the lock: patch/longer-lines.patch" in run.stdout
    wheels = sorted(file.name for file in (project / "dist").glob("*.whl"))
    assert len(wheels) == 1
    assert wheels[0].startswith("tomli_w-1.2.0+wide.dev.k")
    explained = build(project, "--explain", "--json")
    parts = json.loads(explained.stdout)["packages"][0]["parts"]
    assert [part["part"] for part in parts if part["changed"]] == ["patch/longer-lines.patch"]
    refused = build(project, "--locked")
    assert refused.returncode == 7
    assert "patch/longer-lines.patch" in refused.stderr


def test_a_build_with_other_bytes_than_the_lock_fails_and_leaves_nothing(project: Path) -> None:
    lock = project / "recipe" / "wheels.lock.toml"
    line = next(line for line in lock.read_text().splitlines() if line.startswith("sha256 = "))
    lock.write_text(lock.read_text().replace(line, f'sha256 = "{"0" * 64}"'))
    run = build(project)
    assert run.returncode == 7
    assert "the lock says 0000" in run.stderr
    assert not (project / "dist").exists()


def test_a_released_revision_is_followed_by_the_next(project: Path) -> None:
    lock = ["lock", "--recipe", project / "recipe"]
    assert "is now released" in forkwheel(*lock, "--release", cache=project / "cache").stdout
    assert "is unchanged" in forkwheel(*lock, cache=project / "cache").stdout
    patch = project / "recipe" / "patches" / "longer-lines.patch"
    patch.write_text(patch.read_text().replace("+MAX_LINE_LENGTH = 120", "+MAX_LINE_LENGTH = 140"))
    said = forkwheel(*lock, cache=project / "cache").stdout
    assert "wrote revision 2" in said
    assert f"{project}/recipe/recipe.toml: `revision` was 1 and is 2 now" in said
    assert "[tomli-w, again in another folder] build: started" in said
    assert f"make the wheels with: nox -s build -- --recipe {project}/recipe" in said
    text = (project / "recipe" / "wheels.lock.toml").read_text()
    assert text.count("[[revision]]") == 2
    assert "revision = 2" in (project / "recipe" / "recipe.toml").read_text()
    assert (build(project)).returncode == 0
    assert (project / "dist" / WHEEL.replace("wide.1", "wide.2")).exists()


def test_a_patch_that_does_not_apply_stops_everything(project: Path) -> None:
    patch = project / "recipe" / "patches" / "longer-lines.patch"
    patch.write_text(patch.read_text().replace("@@ -16,7 +16,7 @@", "@@ -17,7 +17,7 @@"))
    run = build(project)
    assert run.returncode == 4
    assert "longer-lines.patch:8" in run.stderr
    assert "Traceback" not in run.stderr
    assert not (project / "dist").exists()


def stages(project: Path) -> list[tuple[str, str]]:
    """Return every stage that a build of this project goes through, with an empty cache."""
    empty_cache(project)
    log = project / "events"
    run = build(project, environment={"FORKWHEEL_EVENTS": str(log)})
    assert run.returncode == 0, run.stderr
    found = [(event["stage"], event["package"]) for event in events(log) if event["event"] == "start"]
    log.unlink()
    return found


def kill_at(project: Path, stage: tuple[str, str], *, log: Path) -> None:
    """Start a build and kill it, with all that it started, as soon as it reports the start of a stage."""
    process = subprocess.Popen(
        [sys.executable, "-m", "forkwheel", "build", "--recipe", project / "recipe", "--out", project / "dist"],
        env=command_environment(project / "cache") | {"FORKWHEEL_EVENTS": str(log)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    while process.poll() is None:
        seen = events(log) if log.exists() and log.read_text().endswith("\n") else []
        if any(event["event"] == "start" and (event["stage"], event["package"]) == stage for event in seen):
            break
        time.sleep(0.002)
    os.killpg(process.pid, signal.SIGKILL)
    process.wait()
    assert process.returncode == -signal.SIGKILL, "the build ended before it could be killed"


def test_a_build_killed_at_any_stage_is_finished_by_the_next(project: Path) -> None:
    found = stages(project)
    assert {"fetch", "patch", "environment", "build", "pack", "verify", "write"} <= {stage for stage, _ in found}
    expected = (project / "dist" / WHEEL).read_bytes()
    names = {file.name for file in (project / "dist").iterdir()}
    for number, stage in enumerate(found):
        empty_cache(project)
        shutil.rmtree(project / "dist")
        kill_at(project, stage, log=project / f"events-{number}")
        run = build(project)
        assert run.returncode == 0, f"after a kill at {stage}: {run.stdout}{run.stderr}"
        assert (project / "dist" / WHEEL).read_bytes() == expected
        assert list((project / "cache" / "tmp").iterdir()) == []
        assert {file.name for file in (project / "dist").iterdir()} == names


def test_two_builds_at_once_succeed_and_build_once(project: Path) -> None:
    logs = [project / "events-a", project / "events-b"]
    processes = [
        subprocess.Popen(
            [sys.executable, "-m", "forkwheel", "build", "--recipe", project / "recipe", "--out", project / "dist"],
            env=command_environment(project / "cache") | {"FORKWHEEL_EVENTS": str(log)},
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for log in logs
    ]
    outputs = [process.communicate()[0] for process in processes]
    assert [process.returncode for process in processes] == [0, 0], outputs
    built = [event for log in logs for event in events(log) if (event["event"], event["stage"]) == ("start", "build")]
    assert len(built) == 1
    assert (project / "dist" / WHEEL).exists()


def test_offline_with_an_empty_cache_is_one_error(project: Path) -> None:
    empty_cache(project)
    run = build(project, "--offline")
    assert run.returncode == 3
    assert run.stderr.startswith("error: ")
    assert "hint: " in run.stderr


def test_a_source_of_a_kind_that_the_recipe_lacks_is_refused(project: Path) -> None:
    run = build(project, "--source", "git")
    assert run.returncode == 2
    assert "git" in run.stderr


def test_a_backend_that_fails_is_one_error_whose_log_can_be_read(project: Path) -> None:
    recipe = project / "recipe" / "recipe.toml"
    recipe.write_text(
        recipe.read_text().replace(
            "replacement = 'version = \"{version}\"'", "replacement = 'version = \"no version\"'"
        )
    )
    run = build(project)
    assert run.returncode == 5
    assert "tomli-w" in run.stderr
    assert list((project / "cache" / "logs").iterdir())


def damage_record(file: Path) -> None:
    file.write_text(file.read_text()[:20])


@pytest.mark.parametrize("kind", ["record of a tree", "record of a wheel", "wheel"])
def test_what_was_damaged_in_the_cache_is_made_anew(project: Path, kind: str) -> None:
    build(project)
    cache = project / "cache"
    if kind == "record of a tree":
        for file in cache.glob("trees/*/tree.json"):
            damage_record(file)
        shutil.rmtree(cache / "wheels")
    elif kind == "record of a wheel":
        for file in cache.glob("wheels/*/*/build.json"):
            damage_record(file)
    else:
        for file in cache.glob("wheels/*/*/*.whl"):
            file.write_bytes(file.read_bytes() + b"x")
    run = build(project)
    assert run.returncode == 0, run.stderr
    assert "nothing was built" not in run.stdout


def test_an_altered_tree_in_the_cache_is_refused_once_and_then_fetched_again(project: Path) -> None:
    build(project)
    shutil.rmtree(project / "cache" / "wheels")
    for file in (project / "cache" / "trees").rglob("_writer.py"):
        file.write_text("altered")
    run = build(project)
    assert run.returncode == 7
    assert "removed from the cache: run again" in run.stderr
    assert build(project).returncode == 0


def test_a_series_that_lists_nothing_is_as_good_as_none(project: Path) -> None:
    (project / "recipe" / "patches" / "series").write_text("")
    (project / "recipe" / "patches" / "longer-lines.patch").unlink()
    recipe = project / "recipe" / "recipe.toml"
    found = []
    for text in (recipe.read_text(), recipe.read_text().replace('series = "patches"\n', "")):
        recipe.write_text(text)
        shutil.rmtree(project / "cache" / "wheels", ignore_errors=True)
        assert build(project).returncode == 0
        wheel = next((project / "dist").glob("*.whl"))
        assert forkwheel("show", wheel, cache=project / "cache").returncode == 0
        found.append((wheel.name, wheel.read_bytes()))
    assert found[0] == found[1]


def test_a_recipe_that_was_never_released_gets_its_first_revision(project: Path) -> None:
    recipe = project / "recipe" / "recipe.toml"
    recipe.write_text(recipe.read_text().replace("revision = 1", "revision = 0x0"))
    assert (build(project)).returncode == 0
    assert next((project / "dist").glob("*.whl")).name.startswith("tomli_w-1.2.0+wide.dev.k")
    assert forkwheel("lock", "--recipe", project / "recipe", cache=project / "cache").returncode == 0
    assert "\nrevision = 1\n" in recipe.read_text()
    assert build(project, "--locked").returncode == 0


BACKEND = """
[[package.generated]]
path = "backend.py"
text = '''
import os, pathlib
pathlib.Path("src/tomli_w/where.py").write_text(f"where = {os.getcwd()!r}")
from flit_core.buildapi import *
'''

[[package.substitute]]
path = "pyproject.toml"
text = 'build-backend = "flit_core.buildapi"'
replacement = '''build-backend = "backend"
backend-path = ["."]'''
"""


def test_a_wheel_that_records_where_it_was_built_is_not_locked(project: Path) -> None:
    recipe = project / "recipe" / "recipe.toml"
    recipe.write_text(recipe.read_text() + BACKEND)
    before = (project / "recipe" / "wheels.lock.toml").read_bytes()
    run = forkwheel("lock", "--recipe", project / "recipe", cache=project / "cache")
    assert run.returncode == 7, run.stdout + run.stderr
    assert "two builds from the same inputs gave" in run.stderr
    assert (project / "recipe" / "wheels.lock.toml").read_bytes() == before
