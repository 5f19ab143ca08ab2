"""``show``: a wheel's records, for a person and for a program."""

from __future__ import annotations

import io
import json
import re
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
from forkwheel.key import Key, build_key, development_version
from forkwheel.patching.series import load_series
from forkwheel.recipe import FileSource, GitSource, Recipe, Submodule
from forkwheel.release.inputs import LockedRequirement, PackageInputs, lock_text
from forkwheel.release.sbom import sbom
from forkwheel.wheels.show import show_wheel

VERSION = "1.0+us.1"
INFO = f"demo-{VERSION}.dist-info"
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
METADATA = f"Metadata-Version: 2.1\nName: demo\nVersion: {VERSION}\nRequires-Dist: base==1.0+us.1\n\n".encode()
Files = dict[str, bytes]


def honest(folder: Path, *, version: str = VERSION, revision: int = 1) -> tuple[Files, Key]:
    """Return the members of a wheel, but for RECORD, whose records are true, and its key."""
    (folder / "patches").mkdir(parents=True)
    (folder / "patches" / "series").write_text("widen.patch\n")
    (folder / "patches" / "widen.patch").write_bytes(PATCH)
    series = load_series(folder / "patches")
    git = GitSource("https://host/demo.git", "a" * 40, "v1.0", "", (Submodule("lib", "b" * 40),))
    package = replace(
        PACKAGE,
        series=folder / "patches",
        sources=(git, FileSource("sdist", "demo-1.0.tar.gz", "0" * 64)),
        requires=("base==1.0",),
        required_versions=(("base==1.0", "1.0+us.1"),),
    )
    recipe = Recipe("wide", "us", revision, "sm_120a", "", (package,), folder / "recipe.toml")
    inputs = PackageInputs("demo", (), (), INPUTS)
    required = dict(package.required_versions)
    key = build_key(recipe, package, tree_digest="cd" * 32, series=series, required=required, inputs=inputs)
    text = canonical_recipe(package, name="wide", local="us", revision=revision, target="sm_120a", required=required)
    records = {
        "METADATA": METADATA.replace(VERSION.encode(), version.encode(), 1),
        "WHEEL": b"Wheel-Version: 1.0\nTag: py3-none-any\n",
        "forkwheel/key.json": key_text(dict(key.parts), key=key.digest, version=version),
        "forkwheel/recipe.toml": text.encode(),
        "forkwheel/inputs.lock.toml": lock_text([inputs]).encode(),
        "forkwheel/patches/series": b"widen.patch\n",
        "forkwheel/patches/widen.patch": PATCH,
        "sboms/forkwheel.cdx.json": sbom(
            package=package, version=version, key=key.digest, series=series, inputs=INPUTS
        ),
    }
    return {
        "demo/__init__.py": b"",
        **{f"demo-{version}.dist-info/{name}": text for name, text in records.items()},
    }, key


def key_text(
    parts: Mapping[str, str], *, key: str | None = None, package: str = "demo", version: str = VERSION
) -> bytes:
    """Return key.json; without ``key`` it is the digest of the parts."""
    digest = key or Key(tuple(sorted(parts.items()))).digest
    return json.dumps({"format": 1, "package": package, "version": version, "key": digest, "parts": parts}).encode()


def make(folder: Path, **changes: bytes | None) -> Path:
    """Make a wheel whose RECORD is true; ``changes`` replaces records, or leaves them out."""
    files, _ = honest(folder / "honest")
    changed: dict[str, bytes | None] = {**files, **{f"{INFO}/{name}": content for name, content in changes.items()}}
    kept = {name: content for name, content in changed.items() if content is not None}
    return write_wheel(folder, kept, version=VERSION)


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
        "demo-1.0+us.1-py3-none-any.whl",
        f"key: {honest(tmp_path / 'again')[1].digest}",
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
    _, key = honest(tmp_path / "again")
    assert (first["key"], first["parts"]) == (key.digest, dict(key.parts))
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
        ("forkwheel/key.json", b"[" * 200_000, "key.json cannot be read: it is nested too deeply"),
        ("forkwheel/key.json", key_text({"tree": 5}), "the part 'tree' is 5, which is no string"),  # type: ignore[dict-item]
        ("forkwheel/recipe.toml", b"x = 1", "recipe.toml:1"),
        ("forkwheel/recipe.toml", b"x = " + b"[" * 20_000, "what it records cannot be read"),
        ("forkwheel/recipe.toml", b"x = " + b"{a = " * 20_000, "what it records cannot be read"),
        ("forkwheel/inputs.lock.toml", b"x = " + b"[" * 20_000, "what it records cannot be read"),
        ("forkwheel/patches/series", b"wi\0den.patch\n", "is no plain patch name"),
        ("sboms/forkwheel.cdx.json", b'{"a": ' * 200_000, "cdx.json cannot be read: it is nested too deeply"),
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


@pytest.mark.parametrize(
    ("part", "value"),
    [
        ("recipe/name", "narrow"),
        ("recipe/local", "them"),
        ("recipe/target", "sm_90a"),
        ("series", "widen.patch other.patch"),
        ("inputs", f"sha256:{'0' * 64}"),
        ("input/setuptools", "79.0"),
        ("patch/widen.patch", "0" * 64),
        ("patch/gone.patch", "0" * 64),
        ("setting/version", '"2.0"'),
        ("setting/epoch", "1"),
        ("setting/sources", f"sha256:{'0' * 64}"),
        ("setting/environment", "X"),
        ("requires/base==1.0", "1.0+us.2"),
    ],
)
def test_a_part_that_the_wheel_does_not_carry_is_named_with_both_values(tmp_path: Path, part: str, value: str) -> None:
    _, key = honest(tmp_path / "true")
    parts = dict(key.parts)
    wheel = make(tmp_path, **{"forkwheel/key.json": key_text({**parts, part: value})})

    with pytest.raises(VerificationError) as caught:
        show_wheel(wheel)

    said = f"gives the part {part} as {value!r}, and what the wheel carries gives {parts.get(part, '-')!r}"
    assert said in caught.value.message


@pytest.mark.parametrize(
    ("name", "old", "new", "message"),
    [
        (
            "patches/widen.patch",
            b"+new",
            b"+evil",
            "the part patch/widen.patch as '[0-9a-f]{64}', and .* '[0-9a-f]{64}'",
        ),
        ("recipe.toml", b"v1.0", b"v1.1", "the part setting/sources as 'sha256:.*', and .* 'sha256:"),
        ("recipe.toml", b"revision = 1", b"revision = 2", r"the version 1.0\+us.1, and .*recipe.toml makes 1.0\+us.2"),
        (
            "recipe.toml",
            b"[recipe]",
            b'[recipe]\nsummary = "lies"',
            r"recipe.toml:2: b'summary.* not what forkwheel writes",
        ),
        ("recipe.toml", b'1.0+us.1"', b'1.0+us.3"', r"requires/base==1.0 as '1.0\+us.1', and .* '1.0\+us.3'"),
        ("inputs.lock.toml", b"1" * 64, b"2" * 64, "the part inputs as 'sha256:"),
        ("inputs.lock.toml", b"# ", b"# not ", "inputs.lock.toml:1: .* is not what forkwheel writes"),
        ("patches/series", b"widen", b"# x\nwiden", "patches/series:1: b'# x' is not what forkwheel writes"),
    ],
)
def test_a_carried_file_that_is_not_the_keys_is_refused(
    tmp_path: Path, name: str, old: bytes, new: bytes, message: str
) -> None:
    files, _ = honest(tmp_path / "true")
    content = files[f"{INFO}/forkwheel/{name}"]
    assert old in content

    with pytest.raises(VerificationError, match=message):
        show_wheel(make(tmp_path, **{f"forkwheel/{name}": content.replace(old, new)}))


def test_a_key_that_is_not_its_parts_digest_is_refused(tmp_path: Path) -> None:
    _, key = honest(tmp_path / "true")
    false = key_text(dict(key.parts), key="ab" * 32)

    with pytest.raises(VerificationError, match=f"gives the key '{'ab' * 32}', and .* its parts is {key.digest}"):
        show_wheel(make(tmp_path, **{"forkwheel/key.json": false}))


@pytest.mark.parametrize(
    ("part", "value", "message"),
    [("format", "2", "is of build format 2, and 1 is what"), ("tree", "x\x1b[2J", "the part tree 'x.x1b.*no SHA-256")],
)
def test_a_part_that_cannot_be_computed_has_its_form_checked(
    tmp_path: Path, part: str, value: str, message: str
) -> None:
    _, key = honest(tmp_path / "true")

    with pytest.raises(VerificationError, match=message):
        show_wheel(make(tmp_path, **{"forkwheel/key.json": key_text({**dict(key.parts), part: value})}))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"package": "other"}, "gives the package 'other', and the file is named demo"),
        ({"version": "1.0+us.2"}, r"METADATA gives the version 1.0\+us.1, and .*key.json 1.0\+us.2"),
    ],
)
def test_a_key_of_another_wheel_is_refused(tmp_path: Path, changes: dict[str, str], message: str) -> None:
    _, key = honest(tmp_path / "true")

    with pytest.raises(VerificationError, match=message):
        show_wheel(make(tmp_path, **{"forkwheel/key.json": key_text(dict(key.parts), **changes)}))


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        (b"Name: demo", b"Name: other", "METADATA gives the name other, and .* demo"),
        (b"\nVersion: 1.0+us.1", b"\nVersion: 1.0", "METADATA gives the version 1.0, and"),
        (b"base==1.0+us.1", b"base==1.0", "requires/base==1.0 as '1.0.us.1': METADATA requires .* 0 times"),
    ],
)
def test_another_metadata_is_refused(tmp_path: Path, old: bytes, new: bytes, message: str) -> None:
    with pytest.raises(VerificationError, match=message):
        show_wheel(make(tmp_path, METADATA=METADATA.replace(old, new)))


@pytest.mark.parametrize(
    ("old", "new", "place"),
    [
        (b"urn:uuid:", b"urn:uuid:f", "/serialNumber"),
        (b"2023-11-14", b"2020-01-01", "/metadata/timestamp"),
        (b"pkg:pypi/setuptools@80.0", b"pkg:pypi/setuptools@79.0", "/components"),
    ],
)
def test_a_false_bill_of_materials_is_refused(tmp_path: Path, old: bytes, new: bytes, place: str) -> None:
    files, _ = honest(tmp_path / "true")
    content = files[f"{INFO}/sboms/forkwheel.cdx.json"]
    assert old in content

    with pytest.raises(VerificationError, match=f"cdx.json gives {place}.* as .*, and what the wheel carries gives"):
        show_wheel(make(tmp_path, **{"sboms/forkwheel.cdx.json": content.replace(old, new)}))


def test_a_development_build_is_shown_under_its_key_alone(tmp_path: Path) -> None:
    _, key = honest(tmp_path / "key", revision=0)
    version = development_version(PACKAGE, local="us", key=key)
    false = version[:-7] + "0" * 7
    for name, given in (("true", version), ("false", false)):
        (tmp_path / name).mkdir()
        files, _ = honest(tmp_path / name / "honest", version=given, revision=0)
        write_wheel(tmp_path / name, files, version=given)

    assert show_wheel(tmp_path / "true" / f"demo-{version}-py3-none-any.whl").version == version
    with pytest.raises(VerificationError, match=f"the version {re.escape(false)}, and .* makes {re.escape(version)}"):
        show_wheel(tmp_path / "false" / f"demo-{false}-py3-none-any.whl")


@pytest.mark.parametrize("where", ["absolute", "..", "a/../.."])
def test_a_series_outside_the_wheel_is_not_read(tmp_path: Path, where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    files, _ = honest(tmp_path / "true")
    outside = tmp_path / "true" / "patches"
    (outside / ".pending.json").write_text('{"format": 1, "files": {"series": ""}}')
    (tmp_path / "tmp").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "tmp"))
    series = str(outside) if where == "absolute" else f"{where}/../../true/patches"
    recipe = files[f"{INFO}/forkwheel/recipe.toml"].replace(b'series = "patches"', f'series = "{series}"'.encode())

    with pytest.raises(VerificationError, match=r"recipe\.toml:"):
        show_wheel(make(tmp_path, **{"forkwheel/recipe.toml": recipe}))

    assert sorted(file.name for file in outside.iterdir()) == [".pending.json", "series", "widen.patch"]
    assert list((tmp_path / "tmp").iterdir()) == []


@pytest.mark.parametrize("name", [".pending.json", "sub/x.patch", ".hidden.patch", "notes.txt"])
def test_nothing_but_patches_is_written_out_of_a_wheel(tmp_path: Path, name: str) -> None:
    record = json.dumps({"format": 1, "files": {"series": ""}}).encode()

    with pytest.raises(VerificationError, match="is neither series nor a patch"):
        show_wheel(make(tmp_path, **{f"forkwheel/patches/{name}": record}))


@pytest.mark.parametrize("path", ["patches\\u0000", "p" * 300, "patches/" * 600])
def test_a_series_that_can_be_no_path_is_no_crash(tmp_path: Path, path: str) -> None:
    files, _ = honest(tmp_path / "true")
    recipe = files[f"{INFO}/forkwheel/recipe.toml"].replace(b'series = "patches"', f'series = "{path}"'.encode())

    with pytest.raises(VerificationError, match="what it records cannot be read"):
        show_wheel(make(tmp_path, **{"forkwheel/recipe.toml": recipe}))


def test_a_record_beside_a_folder_of_its_name_is_refused(tmp_path: Path) -> None:
    with pytest.raises(VerificationError, match=r"forkwheel/recipe\.toml is both a file and a folder"):
        show_wheel(make(tmp_path, **{"forkwheel/recipe.toml/x": b""}))


def test_a_full_temporary_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device")

    wheel = make(tmp_path)
    monkeypatch.setattr(tempfile, "mkdtemp", full)

    with pytest.raises(VerificationError, match="No space left on device") as caught:
        show_wheel(wheel)
    assert "TMPDIR" in caught.value.hint


def test_a_file_that_is_not_there_is_a_usage_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["show", str(tmp_path / "nosuch.whl")]) == 2
    assert capsys.readouterr().err.startswith(f"error: there is no {tmp_path / 'nosuch.whl'}\n")
