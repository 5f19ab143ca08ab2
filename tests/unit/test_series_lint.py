"""Linting a series: the file ``series``, the headers, what is required and what has expired."""

from __future__ import annotations

import datetime
from pathlib import Path

import pytest
from packaging.version import Version
from patch_support import EDIT, HEADER, filled_in, make_series

from forkwheel.errors import PatchError
from forkwheel.patching.header import new_header
from forkwheel.patching.series import Series, check_expiry, load_series, parse_patch

OTHER = EDIT.replace(b"f.txt", b"g.txt")


def header_error(header: bytes) -> str:
    with pytest.raises(PatchError) as caught:
        parse_patch(header + EDIT, Path("x.patch"))
    return caught.value.message


def series_error(folder: Path, text: str) -> str:
    (folder / "series").write_text(text)
    with pytest.raises(PatchError) as caught:
        load_series(folder)
    return caught.value.message


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    make_series(tmp_path, {"a.patch": EDIT, "b.patch": OTHER})
    return tmp_path


def test_a_series_is_read_in_its_order_with_comments(folder: Path) -> None:
    (folder / "series").write_text("# first\nb.patch\n\n  # then\na.patch  # the other\n")

    series = load_series(folder)

    assert [patch.name for patch in series.patches] == ["b.patch", "a.patch"]
    assert series.patches[0].content == HEADER + OTHER
    assert series.patches[0].diff == OTHER


def test_an_unpatched_package_has_an_empty_series() -> None:
    assert load_series(None) == Series(Path(), ())


@pytest.mark.parametrize(
    ("text", "line", "words"),
    [
        ("a.patch\nb.patch\nc.patch\n", 3, "c.patch does not exist"),
        ("a.patch\nb.patch\na.patch\n", 3, "listed twice; first at line 1"),
        ("a.patch\n../b.patch\n", 2, "no plain patch name"),
        ("a.patch\n/b.patch\n", 2, "no plain patch name"),
        ("a.patch\nb.patch -p1\n", 2, "no plain patch name"),
        ("a.patch\nb.patch\r\n", 2, "no plain patch name"),
        ("a.patch\n.b.patch\n", 2, "no plain patch name"),
        ("a.patch\nb.diff\n", 2, "no plain patch name"),
        ("a.patch\nfolder.patch\nb.patch\n", 2, "folder.patch cannot be read"),
        ("a.patch\nlink.patch\nb.patch\n", 2, "symbolic link"),
    ],
)
def test_a_bad_line_of_a_series_is_refused_at_its_line(folder: Path, text: str, line: int, words: str) -> None:
    for extra in ("folder.patch", "link.patch"):
        if extra in text:
            (folder / extra).mkdir() if extra == "folder.patch" else (folder / extra).symlink_to("a.patch")

    message = series_error(folder, text)

    assert message.startswith(f"{folder}/series:{line}: ")
    assert words in message


def test_an_unlisted_patch_is_refused(folder: Path) -> None:
    assert series_error(folder, "a.patch\n") == f"{folder}/b.patch:1: the patch is not listed in series"


def test_a_folder_without_series_is_refused(tmp_path: Path) -> None:
    with pytest.raises(PatchError, match="series does not exist"):
        load_series(tmp_path)


def test_every_field_is_read() -> None:
    header = (
        b"Description: one line\n and more\n .\n text\nOrigin: someone\nForwarded: https://example.org/1\n"
        b"Applied-Upstream: 0.6.18 (2deed6c15)\nDrop-After: 0.7\nRequires: b.patch, c.patch\n"
        b"Last-Update: 2026-11-29\n\n"
    )

    read = parse_patch(header + EDIT, Path("x.patch")).header

    assert read.description == "one line\nand more\n.\ntext"
    assert (read.origin, read.forwarded) == ("someone", "https://example.org/1")
    assert (read.applied_upstream, read.applied_commit) == (Version("0.6.18"), "2deed6c15")
    assert read.drop_after == Version("0.7")
    assert read.requires == ("b.patch", "c.patch")
    assert read.last_update == datetime.date(2026, 11, 29)
    assert read.line_of("Forwarded") == 6
    assert read.text == header


@pytest.mark.parametrize("field", ["Description", "Origin", "Forwarded", "Last-Update"])
def test_a_required_field_is_required(field: str) -> None:
    lines = [line for line in HEADER.splitlines(keepends=True) if not line.startswith(field.encode())]

    assert header_error(b"".join(lines)) == f"x.patch:1: the header lacks `{field}:`"


@pytest.mark.parametrize(
    ("old", "new", "line", "words"),
    [
        (b"Origin: tests", b"Origin: tests\nAuthor: me", 3, "unknown field `Author`"),
        (b"Origin: tests", b"Origin: tests\nOrigin: me", 3, "`Origin` is given twice; first at line 2"),
        (b"Origin: tests", b"Origin:", 2, "`Origin` is empty"),
        (b"Origin: tests", b"Origin: TODO who", 2, "still to be filled in"),
        (b"Description: a test", b"Description: a test\n TODO why", 1, "still to be filled in"),
        (b"Forwarded: no", b"Forwarded: perhaps", 3, "`Forwarded` is 'perhaps'"),
        (b"Last-Update: 2026-01-02", b"Last-Update: 2026-02-30", 4, "no date"),
        (b"Last-Update: 2026-01-02", b"Last-Update: 20260102", 4, "no date"),
        (b"Origin: tests", b"Origin: tests\nDrop-After: next", 3, "no version"),
        (b"Origin: tests", b"Origin: tests\nApplied-Upstream: soon", 3, "`Applied-Upstream` is 'soon'"),
        (b"Origin: tests", b"Origin: tests\nApplied-Upstream: 1.0 2.0", 3, "`Applied-Upstream`"),
        (b"Origin: tests", b"Origin: tests\nRequires: ../x.patch", 3, "`Requires` names"),
        (b"Origin: tests", b"Origin: tests\nRequires: x.patch x.patch", 3, "`Requires` names"),
        (b"Description: a test", b" a test", 1, "continuation line without a field"),
        (b"Description: a test", b"a test", 1, "no header line"),
        (b"Description: a test", b"Description: caf\xe9", 1, "not UTF-8"),
        (b"Description: a test", b"Description: a test\r", 1, "CRLF"),
        (b"Description: a test", b"Description: a test\n \n", 2, "line of spaces"),
        (b"\n\n", b"\n", 5, "the diff starts inside the header"),
        (HEADER, b"", 1, "the diff starts inside the header"),
    ],
)
def test_a_bad_header_is_refused_at_its_line(old: bytes, new: bytes, line: int, words: str) -> None:
    message = header_error(HEADER.replace(old, new))

    assert message.startswith(f"x.patch:{line}: ")
    assert words in message


def test_a_header_alone_is_no_patch() -> None:
    for content in (b"", HEADER[:-1], HEADER):
        with pytest.raises(PatchError):
            parse_patch(content, Path("x.patch"))


def test_a_patch_ends_in_a_newline() -> None:
    with pytest.raises(PatchError, match=r"x\.patch:16: the last line has no newline"):
        parse_patch((HEADER + EDIT)[:-1], Path("x.patch"))


def test_a_new_header_must_be_filled_in() -> None:
    header = new_header(today=datetime.date(2026, 1, 2))

    assert "x.patch:1: `Description` is still to be filled in" in header_error(header)
    parse_patch(header + EDIT, Path("x.patch"), allow_todo=True)
    parse_patch(filled_in(header) + EDIT, Path("x.patch"))


@pytest.mark.parametrize(
    ("description", "origin", "forwarded", "fields"),
    [
        ("TODO what\n TODO why", "TODO", "TODO yes or no", "Description, Origin, Forwarded"),
        ("what\n TODO why", "someone", "no", "Description"),
        ("mends a TODO", "someone", "TODO", "Forwarded"),
    ],
)
def test_the_fields_that_are_to_be_filled_in_are_named(
    description: str, origin: str, forwarded: str, fields: str
) -> None:
    lines = (f"Description: {description}", f"Origin: {origin}", f"Forwarded: {forwarded}", "Last-Update: 2026-01-02")
    content = "\n".join(lines).encode() + b"\n\n" + EDIT

    with pytest.raises(PatchError) as caught:
        parse_patch(content, Path("x.patch"))

    assert caught.value.hint == f"fill in {fields} in x.patch"
    assert ", ".join(parse_patch(content, Path("x.patch"), allow_todo=True).header.todo) == fields


@pytest.mark.parametrize(("required", "words"), [("c.patch", "series does not list"), ("a.patch", "which is itself")])
def test_a_required_patch_must_be_in_the_series(folder: Path, required: str, words: str) -> None:
    content = HEADER.replace(b"\n\n", f"\nRequires: {required}\n\n".encode()) + EDIT
    (folder / "a.patch").write_bytes(content)

    with pytest.raises(PatchError) as caught:
        load_series(folder)

    assert caught.value.message.startswith(f"{folder}/a.patch:5: a.patch requires {required}")
    assert words in caught.value.message


def test_a_required_patch_may_come_later(folder: Path) -> None:
    (folder / "a.patch").write_bytes(HEADER.replace(b"\n\n", b"\nRequires: b.patch\n\n") + EDIT)

    assert load_series(folder).patches[0].header.requires == ("b.patch",)


@pytest.mark.parametrize(
    ("field", "version", "expired"),
    [
        ("Drop-After: 1.2", "1.1", False),
        ("Drop-After: 1.2", "1.2rc1", False),
        ("Drop-After: 1.2", "1.2", True),
        ("Drop-After: 1.2", "1.10", True),
        ("Drop-After: 1.2", "1.2+local.1", True),
        ("Applied-Upstream: 1.2", "1.1.post1", False),
        ("Applied-Upstream: 1.2, 0123abc", "1.2", True),
        ("Applied-Upstream: 0123abc", "9", False),
    ],
)
def test_a_patch_expires_with_the_release_that_has_it(tmp_path: Path, field: str, version: str, expired: bool) -> None:
    header = HEADER.replace(b"\n\n", f"\n{field}\n\n".encode())
    series = make_series(tmp_path, {"a.patch": EDIT}, header=header)

    if expired:
        with pytest.raises(PatchError, match=r"a\.patch:5: a\.patch has expired"):
            check_expiry(series, version)
    else:
        check_expiry(series, version)
