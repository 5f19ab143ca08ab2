"""A package with several wheels, and one that is taken as it is, all the way: publish, verify, reproduce, report."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from publish_support import served
from small import forkwheel
from test_upstream_wheels_small import TAKEN, TAKEN_SHA256, WHEELS, project

__all__ = ["project"]
FORK = [name.replace("-3.0.3-", "-3.0.3+wide.1-") for name in WHEELS]


@pytest.fixture
def index(project: Path, tmp_path: Path) -> Path:
    run = run_in(tmp_path, "publish", "--from", project / "dist", "--to", tmp_path / "index", *locked(project))
    assert run.returncode == 0, run.stderr
    return tmp_path / "index"


def locked(project: Path) -> list[str | Path]:
    return ["--lock", project / "recipe" / "wheels.lock.toml"]


def run_in(folder: Path, *arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return forkwheel(*arguments, cache=folder / "cache", cwd=folder)


def verdicts(run: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert run.returncode == 0, run.stdout + run.stderr
    return {one["wheel"]: one["verdict"] for one in json.loads(run.stdout)["wheels"]}


def test_every_wheel_is_pinned_and_served(project: Path, index: Path) -> None:
    assert run_in(index.parent, "verify", index).returncode == 0
    lines = (project / "dist" / "wheels.requirements.txt").read_text().splitlines()
    (several,) = [line for line in lines if line.startswith("markupsafe==3.0.3+wide.1 ")]
    assert several.count("--hash=sha256:") == len(FORK)
    assert f"iniconfig==2.1.0 --hash=sha256:{TAKEN_SHA256}" in lines
    listed = json.loads((index / "simple" / "markupsafe" / "index.json").read_bytes())["files"]
    assert [file["filename"] for file in listed] == FORK


def test_all_are_built_again_and_upstreams_own_is_fetched_again(index: Path, tmp_path: Path) -> None:
    with served(index) as url:
        run = run_in(tmp_path, "reproduce", f"{url}/simple/", "--json")
    assert verdicts(run) == dict.fromkeys([*FORK, TAKEN], "identical")


def test_one_of_several_is_built_again_by_itself(project: Path, tmp_path: Path) -> None:
    assert verdicts(run_in(tmp_path, "reproduce", project / "dist" / FORK[0], "--json")) == {FORK[0]: "identical"}


def test_a_manifest_alone_is_built_from_the_checkout(project: Path, tmp_path: Path) -> None:
    shutil.copytree(project / "recipe", tmp_path / "recipes" / "wheels")
    shutil.copy(project / "dist" / "wheels.manifest.json", tmp_path)
    run = run_in(tmp_path, "reproduce", tmp_path / "wheels.manifest.json", "--json")
    assert verdicts(run) == dict.fromkeys([*FORK, TAKEN], "identical")


def test_the_page_shows_every_wheel(project: Path, tmp_path: Path) -> None:
    dist = shutil.copytree(project / "dist", tmp_path / "dist")
    run = run_in(tmp_path, "report", "--from", dist, "--recipe-folder", project / "recipe")
    assert run.returncode == 0, run.stderr
    page = (dist / "wheels.report.html").read_text()
    for wanted in (*FORK, *WHEELS, *WHEELS.values(), TAKEN, TAKEN_SHA256, "upstream&#x27;s own", "PASS"):
        assert wanted in page, wanted
