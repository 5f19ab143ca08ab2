"""Recipes of wheels, from the lock to the wheels: several of one package, and what a patch may touch in them."""

from __future__ import annotations

import hashlib
import zipfile
from collections.abc import Mapping
from pathlib import Path

import pytest
from patch_support import EDIT, HEADER, LINES
from wheels_support import wheel_files, write_wheel

from forkwheel import cli

MORE = '\n[[package.substitute]]\npath = "demo/f.txt"\ntext = "line 2"\nreplacement = "{version}"\n'
IN_PACKAGE = EDIT.replace(b"f.txt", b"demo/f.txt")


class Wheels:
    """A recipe made of wheels in a folder, and what is built of it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.links = folder / "links"
        self.dist = folder / "dist"

    def release(self, tags: str, files: Mapping[str, bytes]) -> None:
        made = write_wheel(self.links, {**wheel_files(), **files})
        made.rename(made.with_name(f"demo-1.0-{tags}.whl"))

    def write(self, diff: bytes = IN_PACKAGE, *, more: str = "") -> None:
        patches = self.folder / "recipe" / "patches"
        patches.mkdir(parents=True)
        (patches / "a.patch").write_bytes(HEADER + diff)
        (patches / "series").write_text("a.patch\n")
        text = '[recipe]\nname = "wide"\nlocal = "us"\nrevision = 1\n\n[[package]]\nname = "demo"\nversion = "1.0"\n'
        text += f'epoch = 1700000000\nseries = "patches"\n{more}'
        for wheel in sorted(self.links.glob("*.whl")):
            digest = hashlib.sha256(wheel.read_bytes()).hexdigest()
            text += f'\n[[package.source]]\nkind = "wheel"\nfilename = "{wheel.name}"\nsha256 = "{digest}"\n'
        (self.folder / "recipe" / "recipe.toml").write_text(text)

    def run(self, command: str, *arguments: str) -> int:
        return cli.run([command, "--recipe", str(self.folder / "recipe"), *arguments])

    def build(self, *arguments: str) -> int:
        return self.run("build", "--keep-jit-cache", "--out", str(self.dist), *arguments)

    def read(self, member: str) -> bytes:
        (wheel,) = self.dist.glob("*.whl")
        with zipfile.ZipFile(wheel) as opened:
            return opened.read(member.format(version=wheel.name.split("-")[1]))


@pytest.fixture
def wheels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Wheels:
    made = Wheels(tmp_path)
    made.links.mkdir()
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(made.links))
    monkeypatch.setenv("FORKWHEEL_CACHE", str(tmp_path / "cache"))
    return made


def test_wheels_that_differ_in_the_build_tag_alone_are_built_as_released(wheels: Wheels) -> None:
    for tags in ("2-py3-none-any", "3b-py3-none-any", "py3-none-any"):
        wheels.release(tags, {"demo/f.txt": LINES, "demo/built.txt": tags.encode()})
    wheels.write()
    assert wheels.run("lock") == 0
    assert wheels.build("--locked") == 0
    assert {file.name for file in wheels.dist.glob("*.whl")} == {
        "demo-1.0+us.1-py3-none-any.whl",
        "demo-1.0+us.1-2-py3-none-any.whl",
        "demo-1.0+us.1-3b-py3-none-any.whl",
    }


def test_each_line_of_a_wheel_names_it(wheels: Wheels, capsys: pytest.CaptureFixture[str]) -> None:
    for tags in ("cp311-none-any", "cp312-none-any"):
        wheels.release(tags, {"demo/f.txt": LINES})
    wheels.write()

    assert wheels.run("lock") == 0

    started = [line for line in capsys.readouterr().out.splitlines() if line.endswith("started")]
    assert "[demo cp311-none-any] fetch: started" in started
    assert "[demo cp312-none-any, again in another folder] pack: started" in started
    assert len(set(started)) == len(started)


def test_a_wheel_that_is_given_twice_is_refused(wheels: Wheels, capsys: pytest.CaptureFixture[str]) -> None:
    wheels.release("py3-none-any", {"demo/f.txt": LINES})
    wheels.write()
    file = wheels.folder / "recipe" / "recipe.toml"
    text = file.read_text()
    file.write_text(text + text[text.index("\n[[package.source]]") :])
    assert wheels.build() == 2
    assert "recipe.toml:19: 'demo-1.0-py3-none-any.whl' is given twice" in capsys.readouterr().err


def test_members_of_the_data_folder_are_patched(wheels: Wheels) -> None:
    wheels.release("py3-none-any", {"demo-1.0.data/scripts/f.txt": LINES, "demo-1.0.data/platlib/fast.so": b"\0\1"})
    wheels.write(
        EDIT.replace(b"f.txt", b"demo-1.0.data/scripts/f.txt"), more='must_contain = ["demo-1.0.data/scripts/f.txt"]\n'
    )
    assert wheels.build() == 0
    assert b"\nten\n" in wheels.read("demo-{version}.data/scripts/f.txt")
    assert wheels.read("demo-{version}.data/platlib/fast.so") == b"\0\1"


def test_a_file_may_be_patched_and_have_a_text_substituted(wheels: Wheels) -> None:
    wheels.release("py3-none-any", {"demo/f.txt": LINES.replace(b"line 20\n", b"")})
    wheels.write(more=MORE)
    assert wheels.build() == 0
    assert b"\n1.0+us.dev." in wheels.read("demo/f.txt")


@pytest.mark.parametrize(
    ("files", "diff", "more", "message"),
    [
        ({"demo/f.txt": LINES.replace(b"line 10\n", b"10\n")}, IN_PACKAGE, "", "a.patch"),
        ({"demo/f.txt": LINES.replace(b"line 2\n", b"2\n").replace(b"line 20\n", b"")}, IN_PACKAGE, MORE, "0 times"),
        ({}, IN_PACKAGE, "", "no file demo/f.txt"),
    ],
)
def test_an_error_names_the_wheel_at_fault(
    wheels: Wheels,
    capsys: pytest.CaptureFixture[str],
    files: dict[str, bytes],
    diff: bytes,
    more: str,
    message: str,
) -> None:
    wheels.release("cp311-cp311-linux_x86_64", {"demo/f.txt": LINES.replace(b"line 20\n", b"")})
    wheels.release("cp312-cp312-linux_x86_64", files)
    wheels.write(diff, more=more)
    assert wheels.build() in (2, 4)
    told = capsys.readouterr().err
    assert "demo-1.0-cp312-cp312-linux_x86_64.whl: " in told
    assert message in told


def test_a_patch_of_the_wheels_own_record_is_refused_before_anything_is_made(
    wheels: Wheels, capsys: pytest.CaptureFixture[str]
) -> None:
    wheels.release("py3-none-any", {"demo-1.0.dist-info/f.txt": LINES})
    wheels.write(EDIT.replace(b"f.txt", b"demo-1.0.dist-info/f.txt"))
    assert wheels.build() == 4
    assert "demo-1.0.dist-info/f.txt is the wheel's own record" in capsys.readouterr().err
