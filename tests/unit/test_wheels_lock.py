"""The wheels' lock: what is read back, and every way in which an edited one is refused."""

from __future__ import annotations

from pathlib import Path

import pytest

from forkwheel.errors import RecipeError, VerificationError
from forkwheel.key import Key
from forkwheel.release.lock import LockedWheel, Revision, WheelsLock, load_lock

PARTS = (("format", "1"), ("recipe/name", "demo"), ("series", ""), ("tree", "a" * 64))


def wheel(*, revision: int = 1, package: str = "one-pkg", sha256: str = "b" * 64) -> LockedWheel:
    version = f"1.0+demo.{revision}"
    filename = f"{package.replace('-', '_')}-{version}-py3-none-any.whl"
    return LockedWheel(package, version, Key(PARTS).digest, filename, sha256, 1234, PARTS)


def lock(tmp_path: Path, *revisions: Revision) -> WheelsLock:
    written = WheelsLock(tmp_path / "wheels.lock.toml", revisions)
    written.write()
    return written


def test_what_is_written_is_read_back_and_written_the_same_again(tmp_path: Path) -> None:
    written = lock(
        tmp_path, Revision(1, True, (wheel(), wheel(package="two"))), Revision(2, False, (wheel(revision=2),))
    )
    again = load_lock(written.file)
    assert again == written
    assert again.text() == written.file.read_text()
    assert again.revision(2) == written.revisions[1]
    assert again.revision(3) is None


def test_a_missing_lock_is_an_empty_one(tmp_path: Path) -> None:
    assert load_lock(tmp_path / "none.toml").revisions == ()


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", "format 2 is newer than 1"),
        ('"tree" = "aaaa', '"tree" = "aaab', "the digest of `parts` is"),
        ('version = "1.0+demo.1"', 'version = "1.0+demo.7"', "is not a wheel of one-pkg 1.0+demo.7"),
        ('package = "one-pkg"', 'package = "other"', "is not a wheel of other"),
        ("size = 1234", "size = -1", "below 0"),
        ('sha256 = "bbb', 'sha256 = "', "not a SHA-256"),
        ("number = 1", "number = 0", "below 1"),
        ("released = false", "released = 1", "must be a boolean"),
        ("released = false", "released = false\nnew = 1", "unknown key `new`"),
        ("-py3-none-any.whl", ".whl", "is not a wheel of"),
    ],
)
def test_an_edited_lock_is_refused_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    file = lock(tmp_path, Revision(1, False, (wheel(),))).file
    text = file.read_text()
    assert text.count(old) == 1
    file.write_text(text.replace(old, new))
    with pytest.raises(RecipeError) as caught:
        load_lock(file)
    assert message in caught.value.message
    assert f"{file}:" in caught.value.message


def test_a_lock_that_was_cut_short_is_refused(tmp_path: Path) -> None:
    file = lock(tmp_path, Revision(1, False, (wheel(),))).file
    file.write_text(file.read_text().split("[revision.wheel.parts]")[0])
    with pytest.raises(RecipeError, match="the digest of `parts` is"):
        load_lock(file)


def test_a_wheel_listed_twice_is_refused(tmp_path: Path) -> None:
    file = lock(tmp_path, Revision(1, False, (wheel(), wheel(sha256="c" * 64)))).file
    with pytest.raises(RecipeError, match="is listed twice"):
        load_lock(file)


def test_revisions_out_of_order_are_refused(tmp_path: Path) -> None:
    file = lock(tmp_path, Revision(2, False, (wheel(revision=2),)), Revision(1, False, (wheel(),))).file
    with pytest.raises(RecipeError, match="not in order"):
        load_lock(file)


def test_a_released_revision_cannot_be_rewritten_but_an_unreleased_one_can(tmp_path: Path) -> None:
    released = WheelsLock(tmp_path / "l", (Revision(1, True, (wheel(),)),))
    with pytest.raises(VerificationError, match="revision 1 is released"):
        released.with_revision(Revision(1, True, (wheel(sha256="c" * 64),)))
    assert released.with_revision(Revision(2, False, ())).revisions[0] == released.revisions[0]
    unreleased = WheelsLock(tmp_path / "l", (Revision(1, False, (wheel(),)),))
    assert unreleased.with_revision(Revision(1, True, ())).revisions == (Revision(1, True, ()),)


def test_a_lock_that_is_a_link_stays_one(tmp_path: Path) -> None:
    (tmp_path / "wheels.lock.toml").symlink_to("elsewhere.toml")
    file = lock(tmp_path, Revision(1, False, (wheel(),))).file
    assert file.is_symlink()
    assert load_lock(tmp_path / "elsewhere.toml").revisions
