"""What ``verify`` judges in an index of several sets."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from publish_support import allow, make_key, make_set, write_recipe

from forkwheel.cli import run
from forkwheel.release.provenance import check_provenance
from forkwheel.release.publish import publish_set
from forkwheel.release.signing import sign

pytestmark = pytest.mark.skipif(shutil.which("ssh-keygen") is None, reason="ssh-keygen is not installed")


@pytest.fixture
def index(tmp_path: Path) -> Path:
    """Make an index of an unsigned set (alone, which comes first), and a signed one (fork)."""
    other = make_set(tmp_path / "other", recipe="alone", local="alone.1", names=("single",))
    signed = make_set(tmp_path / "dist")
    key = make_key(tmp_path, "key")
    allow(tmp_path, "release@example.com", key)
    sign(check_provenance(signed), key=key)
    for wheels in (other, signed):
        publish_set(tmp_path / "index", wheels)
    return tmp_path / "index"


def verify(index: Path, *more: str) -> int:
    return run(["verify", str(index), "--allowed-signers", str(index.parent / "allowed_signers"), *more])


def test_the_named_recipe_alone_is_judged(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert verify(index, "--recipe", "fork") == 0
    said = capsys.readouterr().out
    assert "[fork] signed by release@example.com" in said
    assert "index: 2 wheels of 2 projects" in said
    assert "alone" not in said
    assert verify(index, "--recipe", "alone") == 7
    assert "alone.provenance.json is unsigned" in capsys.readouterr().err


def test_a_recipe_may_be_given_by_its_path(index: Path, tmp_path: Path) -> None:
    assert verify(index, "--recipe", str(write_recipe(tmp_path / "mine"))) == 0


def test_a_damaged_wheel_of_another_recipe_does_not_matter_to_the_named_one(index: Path) -> None:
    (index / "single-1.0+alone.1-py3-none-any.whl").write_bytes(b"damaged")
    assert verify(index, "--recipe", "fork") == 0
    assert verify(index) == 7


def test_a_damaged_wheel_of_the_named_recipe_does(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (index / "base-1.0+fork.1-py3-none-any.whl").write_bytes(b"damaged")
    assert verify(index, "--recipe", "fork", "--json") == 7
    assert "base-1.0+fork.1" in json.loads(capsys.readouterr().out)["index"]["fault"]


def test_without_a_recipe_every_set_is_judged_before_the_run_fails(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(index) == 7
    said = capsys.readouterr()
    assert "[fork] signed by release@example.com" in said.out
    assert "error: alone.provenance.json is unsigned" in said.err


def test_every_fault_is_named(index: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (index / "sets/fork/1/fork.requirements.txt").write_text("demo\n")
    assert verify(index, "--json") == 7
    said = capsys.readouterr()
    assert "alone revision 1: alone.provenance.json is unsigned" in said.err
    assert "fork revision 1: fork.requirements.txt is not what" in said.err
    assert "these cannot be trusted: alone revision 1, fork revision 1" in said.err
    faults = {one["recipe"]: one["fault"] for one in json.loads(said.out)["sets"]}
    assert faults.keys() == {"alone", "fork"}


def test_a_recipe_that_the_index_has_no_set_of_is_a_usage_error(
    index: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert verify(index, "--recipe", "none") == 2
    assert "has no set of none\nhint: its sets are of: alone, fork" in capsys.readouterr().err
