"""A replacement that a killed run recorded: finished where the record is sound, refused whole where it is not."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest

from forkwheel.errors import PatchError
from forkwheel.patching import pending
from forkwheel.patching.pending import finish_pending, replace_files


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with a series; what lies beside it must stay as it is."""
    made = tmp_path / "patches"
    made.mkdir()
    (made / "series").write_text("a.patch\n")
    (made / "a.patch").write_text("old")
    (tmp_path / "outside.patch").write_text("outside")
    return made


def record(**files: Any) -> bytes:
    return json.dumps({"format": 1, "files": files}).encode()


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def test_a_sound_record_is_finished_and_removed(folder: Path) -> None:
    files = {"series": encoded("b.patch\n"), "b.patch": encoded("new")}
    (folder / ".pending.json").write_bytes(record(**files))

    finish_pending(folder)

    assert {file.name: file.read_text() for file in folder.iterdir()} == {
        "series": "b.patch\n",
        "a.patch": "old",
        "b.patch": "new",
    }


def test_what_is_written_at_once_is_read_back(folder: Path) -> None:
    replace_files(folder, {"series": b"b.patch\n", "b.patch": bytes(range(256))})

    assert (folder / "b.patch").read_bytes() == bytes(range(256))
    assert not (folder / ".pending.json").exists()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "it is no JSON"),
        (record(series=encoded("x"))[:-5], "it is no JSON"),
        (b"\xff\xfe", "it is no JSON"),
        (b"[" * 200_000, "it is no JSON"),
        (b"[]", "no record of format 1 with `files`"),
        (b"null", "no record of format 1 with `files`"),
        (b"{}", "no record of format 1 with `files`"),
        (b'{"format": true, "files": {}}', "no record of format 1 with `files`"),
        (b'{"format": "1", "files": {}}', "no record of format 1 with `files`"),
        (b'{"format": 1}', "no record of format 1 with `files`"),
        (b'{"format": 1, "files": []}', "no record of format 1 with `files`"),
        (record(**{"../outside.patch": encoded("x")}), "it names '../outside.patch'"),
        (record(**{"/outside.patch": encoded("x")}), "it names '/outside.patch'"),
        (record(**{"sub/x.patch": encoded("x")}), "it names 'sub/x.patch'"),
        (record(**{"..": encoded("x")}), "it names '..'"),
        (record(**{"": encoded("x")}), "it names ''"),
        (record(**{"x.patch\0": encoded("x")}), "it names 'x.patch"),
        (record(**{"x.patch\n": encoded("x")}), "it names 'x.patch"),
        (record(**{".pending.json": encoded("x")}), "it names '.pending.json'"),
        (record(**{"recipe.toml": encoded("x")}), "it names 'recipe.toml'"),
        (record(**{"b.patch": "bmV3!"}), "the content of b.patch is no base64"),
        (record(**{"b.patch": "bmV"}), "the content of b.patch is no base64"),
        (record(**{"b.patch": "bmV3\n"}), "the content of b.patch is no base64"),
        (record(**{"b.patch": "n\u00e9u="}), "the content of b.patch is no base64"),
        (record(**{"b.patch": None}), "the content of b.patch is no text"),
        (record(**{"b.patch": ["bmV3"]}), "the content of b.patch is no text"),
    ],
)
def test_a_damaged_record_is_named_and_nothing_of_it_is_written(folder: Path, content: bytes, reason: str) -> None:
    sound = record(series=encoded("changed"))[:-2]
    both = content.replace(b'"files": {"', sound[sound.index(b'"files"') :] + b', "')
    for damaged in (content, both):
        (folder / ".pending.json").write_bytes(damaged)

        with pytest.raises(PatchError) as caught:
            finish_pending(folder)

        assert caught.value.message.startswith(f"{folder / '.pending.json'} is damaged: ")
        assert reason in caught.value.message
        assert "version control" in caught.value.hint
        assert "delete .pending.json" in caught.value.hint
        assert sorted(file.name for file in folder.iterdir()) == [".pending.json", "a.patch", "series"]
        assert (folder / "series").read_text() == "a.patch\n"
        assert (folder.parent / "outside.patch").read_text() == "outside"


def test_a_folder_in_the_records_place_is_damage(folder: Path) -> None:
    (folder / ".pending.json").mkdir()

    with pytest.raises(PatchError, match=r"\.pending\.json is damaged: it cannot be read: Is a directory"):
        finish_pending(folder)


def test_a_disk_that_is_full_leaves_the_record(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    (folder / ".pending.json").write_bytes(record(series=encoded("x")))
    monkeypatch.setattr(pending, "write_whole", full)

    with pytest.raises(PatchError, match=r"cannot be written to .*: No space left on device"):
        finish_pending(folder)
    assert (folder / ".pending.json").exists()
