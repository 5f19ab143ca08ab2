"""The commands up to the first process on a GPU, and what they do with the checks' outcome."""

import errno
import json
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from gpu_support import RECIPE, setting

from forkwheel import cli
from forkwheel.console import Console
from forkwheel.errors import NoGpuError
from forkwheel.gpu import commands, prepare
from forkwheel.gpu.checks import failed
from forkwheel.gpu.verdict import smoke_document


@pytest.fixture
def no_gpu(monkeypatch):
    def none():
        raise NoGpuError("there is no NVIDIA GPU here", hint="")

    monkeypatch.setattr(prepare, "find_machine", none)


@pytest.fixture
def two_gpus(monkeypatch):
    monkeypatch.setattr(prepare, "find_machine", lambda: setting().machine)


def smoke(*arguments: object, recipe: Path = RECIPE) -> int:
    return cli.run(["smoke", "--recipe", str(recipe), *map(str, arguments)])


def test_without_a_gpu_nothing_else_has_to_be_there(no_gpu, tmp_path, capsys):
    assert smoke("--wheels", tmp_path / "none") == 10
    assert capsys.readouterr().err.splitlines() == ["error: there is no NVIDIA GPU here"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--world-size", "3"], "world size 3 is not supported"),
        (["--only", "nothing"], "there is no operation 'nothing'"),
        (["--controls", "--only", "nothing"], "--controls runs no single operation"),
        (["--stock-wheel", __file__], "--stock-wheel is for --controls only"),
        (["--controls", "--stock-object", __file__], "--stock-object goes with --stock-wheel"),
    ],
)
def test_what_can_never_run_is_refused_even_without_a_gpu(no_gpu, capsys, arguments, message):
    assert smoke(*arguments) == 2
    assert capsys.readouterr().err.startswith(f"error: {message}")


@pytest.mark.parametrize(
    ("option", "value"),
    [("--world-size", "0"), ("--world-size", "²"), ("--ranks-per-gpu", "0"), ("--ranks-per-gpu", "-1")]
    + [("--hang-limit", value) for value in ("nan", "inf", "0", "-5", "soon")],
)  # fmt: skip
def test_a_number_that_makes_no_sense_is_refused(capsys, option, value):
    with pytest.raises(SystemExit) as caught:
        smoke(option, value)

    assert caught.value.code == 2
    assert f"argument {option}: {value!r} is no " in capsys.readouterr().err


def test_fewer_shapes_and_controls_do_not_go_together(capsys):
    with pytest.raises(SystemExit):
        smoke("--quick", "--controls")

    assert "not allowed with argument" in capsys.readouterr().err


def test_a_recipe_without_gpu_checks_is_named(capsys, tmp_path):
    copy_recipe(tmp_path)

    assert smoke(recipe=tmp_path) == 2
    assert "gpu.toml is missing: the recipe has no GPU checks" in capsys.readouterr().err


def test_an_empty_folder_of_wheels_is_named(two_gpus, tmp_path, capsys):
    assert smoke("--wheels", tmp_path) == 2
    assert f"{tmp_path}/sm120.manifest.json is missing" in capsys.readouterr().err


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 1, "packages": {}}'])
def test_a_broken_manifest_is_one_error(two_gpus, tmp_path, capsys, text):
    (tmp_path / "sm120.manifest.json").write_text(text)

    assert smoke("--wheels", tmp_path) == 7
    assert capsys.readouterr().err.startswith("error: sm120.manifest.json ")


def manifest(recipe: str = "sm120") -> dict:
    package = {
        "name": "small",
        "version": "1",
        "upstream_version": "1",
        "epoch": 1,
        "development": False,
        "requires": {},
        "patches": [],
        "patched_files": {},
        "inputs": [],
        "key": "0" * 64,
        "parts": {},
        "tree": "0" * 64,
        "sources": [],
        "wheel": {"filename": "small-1-py3-none-any.whl", "sha256": "0" * 64, "size": 1},
    }
    return {
        "schema": 1,
        "recipe": {"name": recipe, "local": "x", "revision": 1, "target": "sm_120a"},
        "packages": [package],
    }


def test_a_manifest_of_another_recipe_is_refused(two_gpus, tmp_path, capsys):
    (tmp_path / "sm120.manifest.json").write_text(json.dumps(manifest("other")))

    assert smoke("--wheels", tmp_path) == 2
    assert "is of the recipe other" in capsys.readouterr().err


def test_a_folder_that_cannot_take_the_record_is_refused_before_the_run(two_gpus, tmp_path, capsys, monkeypatch):
    def refuse(**options):
        raise OSError(errno.EROFS, "Read-only file system", str(options["dir"]))

    monkeypatch.setattr(tempfile, "TemporaryFile", refuse)
    (tmp_path / "sm120.manifest.json").write_text(json.dumps(manifest()))

    assert smoke("--wheels", tmp_path) == 1
    assert f"{tmp_path}: Read-only file system" in capsys.readouterr().err


def test_a_wheel_that_the_manifest_lists_and_that_is_not_there_is_named(two_gpus, tmp_path, capsys):
    (tmp_path / "sm120.manifest.json").write_text(json.dumps(manifest()))

    assert smoke("--wheels", tmp_path) == 2
    assert "small-1-py3-none-any.whl is missing" in capsys.readouterr().err


def test_a_failure_without_a_word_still_ends_in_a_verdict(tmp_path):
    document = smoke_document(setting(), [failed("mute", "")], date="2026-01-02T03:04:05+00:00", kind="smoke")

    code = commands._finish(document, tmp_path / "sm120.smoke.json", Console())

    assert code == 9
    assert json.loads((tmp_path / "sm120.smoke.json").read_text())["verdict"] == "FAIL"


def test_the_outcome_is_shown_even_where_it_cannot_be_written(tmp_path, capsys):
    document = smoke_document(setting(), [failed("one", "bad")], date="2026-01-02T03:04:05+00:00", kind="smoke")
    (tmp_path / "file").touch()

    with pytest.raises(OSError, match="file"):
        commands._finish(document, tmp_path / "file" / "sm120.smoke.json", Console())

    assert "FAIL  one    bad" in capsys.readouterr().out


def copy_recipe(folder: Path) -> None:
    lines = (RECIPE / "recipe.toml").read_text().splitlines(keepends=True)
    (folder / "recipe.toml").write_text("".join(line for line in lines if not line.startswith("series = ")))


def kept(folder: Path, **changes: object) -> None:
    (folder / "evidence").mkdir(exist_ok=True)
    document = smoke_document(setting(), [], date="2026-01-02T03:04:05+00:00", kind="smoke") | changes
    file = folder / "evidence" / f"{len(list((folder / 'evidence').iterdir()))}.json"
    file.write_text(json.dumps(document))


def test_kept_records_that_cannot_be_read_are_shown_as_such(tmp_path, capsys):
    copy_recipe(tmp_path)
    kept(tmp_path)
    kept(tmp_path, schema=99)
    kept(tmp_path, wheels=[{"filename": "x"}])
    kept(tmp_path, wheels=None)
    (tmp_path / "evidence" / "4.json").write_bytes(b"\xff{")
    (tmp_path / "evidence" / "5.json").write_text('{"what": "something else"}')
    (tmp_path / "evidence" / "6.json").write_text("[]")

    assert smoke("--evidence", "--json", recipe=tmp_path) == 0

    found = json.loads(capsys.readouterr().out)
    assert found["schema"] == 1
    assert [item["state"] for item in found["evidence"]] == ["stale"] + 4 * ["unreadable"]
    assert "schema is 99, not a number from 1 to 1" in found["evidence"][1]["statement"]
    assert "lacks 'sha256'" in found["evidence"][2]["statement"]


def test_a_quick_run_says_so_and_which_revision_it_ran():
    one = replace(setting(), quick=True, manifest={"recipe": {"name": "sm120", "revision": 7}, "packages": []})

    document = smoke_document(one, [], date="2026-01-02T03:04:05+00:00", kind="smoke")

    assert document["statement"] == "ran on 2 x NVIDIA H200 (SM90), fewer shapes; SM120 was not run"
    assert document["revision"] == 7
