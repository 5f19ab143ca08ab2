"""What is said of two wheels that differ."""

from __future__ import annotations

import json
import struct
import subprocess
import sys
from pathlib import Path

import pytest
from publish_support import EPOCH, make_set, make_wheel, write_recipe

from forkwheel.cli import run
from forkwheel.errors import VerificationError
from forkwheel.release import reproduce_commands
from forkwheel.release.compare import Difference, compare_wheels, diffoscope
from forkwheel.release.elf import code_digests
from forkwheel.release.reproduce import differing
from forkwheel.wheels.archive import Member, archive
from forkwheel.wheels.record import write_record

MEMBERS = {"demo/a.py": b"a = 1\nb = 2\n", "demo/b.bin": bytes(range(256)), "demo/run.sh": b"#!/bin/sh\n"}


def wheel(
    folder: Path,
    contents: dict[str, bytes] = MEMBERS,
    *,
    epoch: int = EPOCH,
    reverse: bool = False,
    executable: str = "",
) -> Path:
    folder.mkdir(exist_ok=True)
    members = [Member(name, content, name == executable) for name, content in contents.items()]
    members.append(Member("demo-1.0.dist-info/METADATA", b"Name: demo\nVersion: 1.0\n"))
    members.append(Member("demo-1.0.dist-info/RECORD", write_record(members, name="demo-1.0.dist-info/RECORD")))
    path = folder / "demo-1.0-py3-none-any.whl"
    path.write_bytes(b"".join(archive(members[::-1] if reverse else members, epoch=epoch)))
    return path


def found(tmp_path: Path, other: Path) -> list[tuple[str, str]]:
    return [(one.kind, one.member) for one in compare_wheels(wheel(tmp_path / "expected"), other)]


def test_equal_wheels_do_not_differ(tmp_path: Path) -> None:
    assert found(tmp_path, wheel(tmp_path / "other")) == []


def test_a_changed_text_is_shown_and_record_is_not(tmp_path: Path) -> None:
    other = wheel(tmp_path / "other", MEMBERS | {"demo/a.py": b"a = 1\nb = 3\n"})
    (difference,) = compare_wheels(wheel(tmp_path / "expected"), other)
    assert (difference.kind, difference.member) == ("content", "demo/a.py")
    assert "-b = 2\n+b = 3" in difference.detail


def test_a_changed_byte_is_placed(tmp_path: Path) -> None:
    changed = bytearray(MEMBERS["demo/b.bin"])
    changed[200] ^= 1
    (difference,) = compare_wheels(
        wheel(tmp_path / "expected"), wheel(tmp_path / "other", MEMBERS | {"demo/b.bin": bytes(changed)})
    )
    assert difference.detail == "256 bytes; first different at byte 200: 0xc8, rebuilt 0xc9"


def test_the_order_alone_is_named(tmp_path: Path) -> None:
    order = dict(reversed(MEMBERS.items()))
    assert found(tmp_path, wheel(tmp_path / "other", order))[0] == ("order", "demo/a.py")
    assert {kind for kind, _ in found(tmp_path, wheel(tmp_path / "other", order))} == {"order", "content"}
    reordered = found(tmp_path, wheel(tmp_path / "other", reverse=True))
    assert reordered == [("order", "demo/a.py")]


def test_the_time_is_named_once_for_all_members(tmp_path: Path) -> None:
    (difference,) = compare_wheels(wheel(tmp_path / "expected"), wheel(tmp_path / "other", epoch=EPOCH + 2))
    assert difference.kind == "time"
    assert difference.detail == "2023-11-14 22:13:20, rebuilt 2023-11-14 22:13:22, and so for 4 more"


def test_a_mode_is_named(tmp_path: Path) -> None:
    (difference,) = compare_wheels(wheel(tmp_path / "expected"), wheel(tmp_path / "other", executable="demo/run.sh"))
    assert difference == Difference("mode", "demo/run.sh", "100644, rebuilt 100755")


def test_missing_and_added_members_are_named(tmp_path: Path) -> None:
    contents = {name: content for name, content in MEMBERS.items() if name != "demo/a.py"} | {"demo/c.py": b""}
    assert found(tmp_path, wheel(tmp_path / "other", contents)) == [("missing", "demo/a.py"), ("added", "demo/c.py")]


def test_bytes_outside_of_every_member_are_still_a_difference(tmp_path: Path) -> None:
    other = wheel(tmp_path / "other")
    content = bytearray(other.read_bytes())
    content[-12] ^= 0
    other.write_bytes(bytes(content) + b"\0\0")
    assert [kind for kind, _ in found(tmp_path, other)] == ["archive"]


def test_what_is_no_wheel_is_one_error(tmp_path: Path) -> None:
    other = wheel(tmp_path / "other")
    other.write_bytes(b"no archive")
    with pytest.raises(VerificationError, match="no sound archive"):
        found(tmp_path, other)


def shared_object(*, device: bytes, host: bytes) -> bytes:
    """Return an ELF object with the sections .nv_fatbin and .text."""
    names = b"\0.nv_fatbin\0.text\0.shstrtab\0"
    start = 64
    table = start + len(device) + len(host) + len(names)
    header = b"\x7fELF\x02\x01\x01".ljust(16, b"\0")
    header += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 0, table, 0, 64, 0, 0, 64, 4, 3)
    sections = [(0, 0, 0), (1, start, len(device)), (12, start + len(device), len(host))]
    sections.append((18, start + len(device) + len(host), len(names)))
    rows = [struct.pack("<IIQQQQ", name, 1, 0, 0, at, size).ljust(64, b"\0") for name, at, size in sections]
    return header + device + host + names + b"".join(rows)


OBJECTS = {
    "device": (shared_object(device=b"DEV2", host=b"host"), "device code differs, host code identical"),
    "host": (shared_object(device=b"DEV1", host=b"HOST"), "device code identical, host code differs"),
    "both": (shared_object(device=b"DEV2", host=b"HOST"), "device code differs, host code differs"),
}


@pytest.mark.parametrize("what", OBJECTS)
def test_device_code_is_compared_apart_from_host_code(tmp_path: Path, what: str) -> None:
    first = {"demo/op.so": shared_object(device=b"DEV1", host=b"host")}
    content, said = OBJECTS[what]
    (difference,) = compare_wheels(wheel(tmp_path / "a", first), wheel(tmp_path / "b", {"demo/op.so": content}))
    assert difference.detail == said


@pytest.mark.parametrize("cut", [20, 64, 70])
def test_a_damaged_object_is_described_by_its_bytes(tmp_path: Path, cut: int) -> None:
    content = shared_object(device=b"DEV1", host=b"host")
    with pytest.raises(ValueError, match="section table"):
        code_digests(content[:cut])
    first, *_ = compare_wheels(
        wheel(tmp_path / "a", {"demo/op.so": content}), wheel(tmp_path / "b", {"demo/op.so": content[:cut]})
    )
    assert first.kind == "content"
    assert "bytes" in first.detail


def test_a_real_object_has_no_device_code() -> None:
    content = Path(subprocess.__file__).parent  # any object of this Python
    objects = list(content.rglob("*.so"))[:1] or [Path(sys.executable)]
    device, host = code_digests(objects[0].read_bytes())
    assert device != host
    assert device == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"


def against(expected: Path, found: Path, *more: str) -> int:
    return run(["reproduce", str(expected), "--against", str(found), *more])


def test_wheels_of_different_packages_are_not_compared(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert against(make_wheel(tmp_path, "demo", "1.0"), make_wheel(tmp_path, "other", "1.0")) == 2
    said = capsys.readouterr()
    assert said.err.startswith("error: these are different packages: demo and other\n")
    assert said.out == ""


def test_many_differences_are_counted_and_a_program_gets_all(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    first = wheel(tmp_path / "a", {f"demo/{number}.py": b"1\n" for number in range(100)})
    second = wheel(tmp_path / "b", {f"demo/{number}.py": b"2\n" for number in range(90)})
    assert against(first, second) == 7
    lines = [line for line in capsys.readouterr().out.splitlines() if "warning: " in line]
    assert len(lines) == 21
    assert "and 80 more (80 content), which --json lists" in lines[-1]
    assert against(first, second, "--json") == 7
    (document,) = json.loads(capsys.readouterr().out)["wheels"]
    assert len(document["differences"]) == 100


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("x.tar.gz", "is neither a wheel, nor a manifest, nor an index"),
        ("none.whl", "there is no "),
        ("none.json", "there is no "),
    ],
)
def test_what_cannot_be_reproduced_is_a_usage_error(
    tmp_path: Path, name: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "x.tar.gz").write_bytes(b"\x1f\x8b\x08")
    assert run(["reproduce", str(tmp_path / name)]) == 2
    assert said in capsys.readouterr().err


def test_a_recipe_beside_the_checkout_may_be_named_by_its_path(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Its key is asked for before anything is built, and a recipe that is not there is one error."""
    wheels = make_set(tmp_path / "dist")
    for one in wheels.wheels:
        one.path.unlink()
    monkeypatch.chdir(tmp_path)
    assert run(["reproduce", str(wheels.manifest), "--from-repo"]) == 2
    assert "there is no recipe 'fork'" in capsys.readouterr().err
    seen = []
    monkeypatch.setattr(reproduce_commands, "reproduce_from_checkout", lambda _, file, **__: seen.append(file) or ())
    monkeypatch.setattr(reproduce_commands, "agreement", lambda _, file, **__: seen.append(file) or ())
    recipe = write_recipe(tmp_path / "mine") / "recipe.toml"
    assert run(["reproduce", str(wheels.manifest), "--from-repo", "--recipe", "./mine"]) == 0
    assert seen == [recipe, recipe]


def test_documents_differ_by_path() -> None:
    left = {"a": [1, {"b": 2}], "c": 3, "e": [1]}
    right = {"a": [1, {"b": 4}], "d": 5, "e": [1, 2]}
    assert list(differing(left, right)) == [("a[1].b", 2, 4), ("c", 3, None), ("d", None, 5), ("e", [1], [1, 2])]


def test_diffoscope_is_asked_where_it_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    assert diffoscope(tmp_path / "a", tmp_path / "b") is None
    program = tmp_path / "diffoscope"
    program.write_text(f"#!{sys.executable}\nimport sys\nprint('compared', *sys.argv[-2:])\n")
    program.chmod(0o755)
    assert diffoscope(Path("a.whl"), Path("b.whl")) == "compared a.whl b.whl\n"
