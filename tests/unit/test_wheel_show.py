"""``show``: a wheel's records, for a person and for a program."""

from __future__ import annotations

import io
import json
import tempfile
from collections.abc import Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support import PACKAGE
from wheels_support import wheel_files, write_wheel

from forkwheel.canonical import canonical_recipe
from forkwheel.cli import run
from forkwheel.errors import VerificationError
from forkwheel.patching.series import load_series
from forkwheel.recipe import FileSource, GitSource, Submodule
from forkwheel.release.inputs import LockedRequirement, PackageInputs, lock_text
from forkwheel.release.sbom import sbom
from forkwheel.wheels.finish import finish_wheel
from forkwheel.wheels.show import show_wheel

KEY = "ab" * 32
PATCH = b"""\
Description: Widen the gate
 to the new architecture
Origin: these tests
Forwarded: not-needed
Last-Update: 2026-11-29

--- a/demo/data.txt
+++ b/demo/data.txt
@@ -1 +1 @@
-old
+new
"""
INPUTS = (LockedRequirement("setuptools", "80.0", None, (("setuptools-80.0-py3-none-any.whl", "1" * 64),)),)


def make(folder: Path, **changes: bytes | None) -> Path:
    """Make a finished wheel; ``changes`` replaces records, or leaves them out."""
    (folder / "patches").mkdir(parents=True)
    (folder / "patches" / "series").write_text("widen.patch\n")
    (folder / "patches" / "widen.patch").write_bytes(PATCH)
    series = load_series(folder / "patches")
    git = GitSource("https://host/demo.git", "a" * 40, "v1.0", "", (Submodule("lib", "b" * 40),))
    package = replace(
        PACKAGE, series=folder / "patches", sources=(git, FileSource("sdist", "demo-1.0.tar.gz", "0" * 64))
    )
    recipe = canonical_recipe(package, name="wide", local="us", revision=1, target="sm_120a", required={})
    key = {"format": 1, "key": KEY, "version": "1.0", "parts": {"tree": "cd" * 32}}
    records: dict[str, bytes | None] = {
        "forkwheel/key.json": json.dumps(key).encode(),
        "forkwheel/recipe.toml": recipe.encode(),
        "forkwheel/inputs.lock.toml": lock_text([PackageInputs("demo", (), (), INPUTS)]).encode(),
        "forkwheel/patches/series": b"widen.patch\n",
        "forkwheel/patches/widen.patch": PATCH,
        "sboms/forkwheel.cdx.json": sbom(package=package, version="1.0", key=KEY, series=series, inputs=INPUTS),
        **changes,
    }
    kept: Mapping[str, bytes] = {name: content for name, content in records.items() if content is not None}
    raw = write_wheel(folder, wheel_files())
    return finish_wheel(raw, package=package, version="1.0", requires={}, records=kept, dest=folder / "out").path


def command(*arguments: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(["show", *arguments])
    return code, out.getvalue(), err.getvalue()


def test_a_person_sees_all_records(tmp_path: Path) -> None:
    wheel = make(tmp_path)

    code, out, _ = command(str(wheel))

    assert code == 0
    for text in (
        "demo-1.0-py3-none-any.whl",
        KEY,
        "wide, target sm_120a",
        f"git https://host/demo.git@{'a' * 40}",
        f"git lib@{'b' * 40}",
        f"sdist demo-1.0.tar.gz@sha256:{'0' * 64}",
        "patch: widen.patch: Widen the gate\n",
        "setuptools 80.0",
        "CycloneDX 1.6, 2 components, urn:uuid:",
    ):
        assert text in out


def test_a_program_reads_the_same(tmp_path: Path) -> None:
    wheel = make(tmp_path)

    code, out, _ = command("--json", str(wheel), str(wheel))

    document: dict[str, Any] = json.loads(out)
    first, second = document["wheels"]
    assert (code, document["schema"], first) == (0, 1, second)
    assert first["key"] == KEY
    assert first["parts"] == {"tree": "cd" * 32}
    assert first["patches"] == [{"name": "widen.patch", "description": "Widen the gate\nto the new architecture"}]
    assert first["requirements"][0]["files"] == {"setuptools-80.0-py3-none-any.whl": "1" * 64}
    assert set(first) == {
        "filename", "sha256", "size", "package", "version", "key", "parts", "recipe", "target",
        "pins", "patches", "requirements", "sbom",
    }  # fmt: skip


def test_a_wheel_of_somebody_else_is_one_clear_error(tmp_path: Path) -> None:
    wheel = write_wheel(tmp_path, wheel_files())

    code, out, err = command(str(wheel))

    assert (code, out) == (7, "")
    assert err.startswith("error: demo-1.0-py3-none-any.whl was not made by forkwheel")


def test_what_is_no_wheel_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("no wheel")
    (tmp_path / "demo-1.0-py3-none-any.whl").write_text("no archive")

    assert command(str(tmp_path / "notes.txt"))[0] == 7
    assert "is no sound archive" in command(str(tmp_path / "demo-1.0-py3-none-any.whl"))[2]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("forkwheel/key.json", b"{", "forkwheel/key.json cannot be read"),
        ("forkwheel/key.json", b"[]", "it is no JSON object"),
        ("forkwheel/key.json", b'{"format": 2}', "its format is 2, and 1 is what is known here"),
        ("forkwheel/key.json", b'{"format": 1, "key": 1}', "its `key` is missing or of another type"),
        ("forkwheel/recipe.toml", b"x = 1", "recipe.toml:1"),
        ("forkwheel/recipe.toml", None, "recipe.toml: no such file"),
        ("forkwheel/inputs.lock.toml", b"format = 2", "inputs.lock.toml:1: format 2 is newer"),
        ("forkwheel/patches/widen.patch", None, "widen.patch"),
        ("forkwheel/patches/series", None, "the series 'patches' does not exist"),
        ("sboms/forkwheel.cdx.json", None, "sboms/forkwheel.cdx.json cannot be read: it is missing"),
        ("sboms/forkwheel.cdx.json", b"\xff", "sboms/forkwheel.cdx.json cannot be read"),
        ("sboms/forkwheel.cdx.json", b"{}", "it is no CycloneDX document"),
    ],
)
def test_a_record_that_cannot_be_read_is_named(tmp_path: Path, name: str, content: bytes | None, message: str) -> None:
    wheel = make(tmp_path, **{name: content})

    with pytest.raises(VerificationError, match=message) as caught:
        show_wheel(wheel)

    assert tempfile.gettempdir() not in caught.value.message.replace(str(tmp_path), "")
