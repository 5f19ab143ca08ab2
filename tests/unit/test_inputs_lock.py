"""The inputs' lock: read back as it was written, and every fault named with its line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forkwheel.errors import RecipeError
from forkwheel.release.inputs import LockedRequirement, PackageInputs, load_inputs, lock_text

ONE = LockedRequirement("demo", "1.0", None, (("demo-1.0-py3-none-any.whl", "1" * 64),))
TWO = LockedRequirement(
    "typed.Tools",
    "2.0+a.1",
    'python_version == "3.10"',
    (
        ("typed_tools-2.0+a.1-cp310-cp310-linux_x86_64.whl", "2" * 64),
        ("typed_tools-2.0+a.1-py3-none-any.whl", "3" * 64),
    ),
)
PARTS = (
    PackageInputs("first", ("demo>=1", "x; python_version<'3' or sys_platform==\"a\""), ("demo==1.0",), (ONE,)),
    PackageInputs("second", (), (), (ONE, TWO)),
    PackageInputs("third", (), (), ()),
)


def write(tmp_path: Path, text: str) -> Path:
    file = tmp_path / "inputs.lock.toml"
    file.write_text(text)
    return file


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    inputs = load_inputs(write(tmp_path, lock_text(PARTS)))

    assert inputs.parts == PARTS
    assert lock_text(inputs.parts) == lock_text(PARTS)
    assert inputs.packages == (("first", (ONE,)), ("second", (ONE, TWO)), ("third", ()))
    assert inputs.of("Second") == (ONE, TWO)


def test_one_packages_part_is_a_lock_of_its_own(tmp_path: Path) -> None:
    inputs = load_inputs(write(tmp_path, lock_text(PARTS)))

    alone = load_inputs(write(tmp_path, inputs.text_of("second")))

    assert alone.parts == (PARTS[1],)
    assert alone.digest("second") == inputs.digest("second")


def test_the_digest_names_what_is_installed_and_nothing_else(tmp_path: Path) -> None:
    def digest(part: PackageInputs) -> str:
        return load_inputs(write(tmp_path, lock_text([part]))).digest(part.package)

    base = digest(PackageInputs("a", ("demo",), (), (ONE, TWO)))
    other = LockedRequirement(ONE.name, ONE.version, None, ((ONE.files[0][0], "4" * 64),))
    assert base == digest(PackageInputs("a", ("demo", "x"), ("demo==1.0",), (TWO, ONE)))
    assert base != digest(PackageInputs("a", ("demo",), (), (other, TWO)))
    assert base != digest(PackageInputs("a", ("demo",), (), (ONE,)))


def test_a_requirement_is_spelled_for_pip_with_every_hash() -> None:
    hashes = f"--hash=sha256:{'2' * 64} --hash=sha256:{'3' * 64}"
    assert TWO.line() == f'typed.Tools==2.0+a.1 ; python_version == "3.10" {hashes}'


def test_a_package_that_the_lock_lacks_is_named(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match=r"inputs.lock.toml does not list the build requirements of 'other'"):
        load_inputs(write(tmp_path, lock_text(PARTS))).of("other")


@pytest.mark.parametrize(("name", "option"), [("inputs.lock.toml", "--inputs"), ("toolchain.lock.toml", "--toolchain")])
@pytest.mark.parametrize(("old", "new"), [("", ""), ('"1.0"\n', '"one"\n'), ("1" * 64, "2")])
def test_a_hint_names_the_command_that_mends_that_lock(
    tmp_path: Path, name: str, option: str, old: str, new: str
) -> None:
    file = tmp_path / name
    file.write_text(TEXT.replace(old, new, 1))

    with pytest.raises(RecipeError) as caught:
        load_inputs(file).of("other")

    assert f"`nox -s lock -- --recipe RECIPE {option}`" in caught.value.hint


def test_requirements_that_moved_away_from_the_lock_are_named(tmp_path: Path) -> None:
    inputs = load_inputs(write(tmp_path, lock_text([PackageInputs("a", ("b", "c>=1"), (), (ONE,))])))

    inputs.check_requires("a", ["c>=1", "b"])
    with pytest.raises(RecipeError, match=r"the lock of a is for b, c>=1, and its pyproject.toml requires c>=2"):
        inputs.check_requires("a", ["c>=2"])


TEXT = """\
format = 1
[[package]]
name = "first"
requires = ["demo"]

[[package.requirement]]
name = "demo"
version = "1.0"
marker = "python_version < '4'"

[package.requirement.files]
"demo-1.0-py3-none-any.whl" = "1111111111111111111111111111111111111111111111111111111111111111"
"""


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("format = 1", "format = 2", ":1: format 2 is newer than 1"),
        ("format = 1\n", "", ":1: `format` is missing"),
        ('name = "first"', "name = 1", ":3: `name` must be a string"),
        ('name = "first"\n', "", ":2: `name` is missing"),
        ('["demo"]', '["demo=1"]', ":4: 'demo=1' is not a requirement"),
        ('requires = ["demo"]', 'demands = ["demo"]', ":4: unknown key `demands`"),
        ('"1.0"\n', '"one"\n', ":8: 'one' is not a version"),
        ("< '4'", "<", ":9: .* is not a marker"),
        ('"demo-1.0-py3-none-any.whl"', '"demo-1.0.tar.gz"', ":12: 'demo-1.0.tar.gz' is no wheel's file name"),
        ('"demo-1.0-py3-none-any.whl"', '"demo-1.1-py3-none-any.whl"', ":12: .* is not of demo 1.0"),
        ('"demo-1.0-py3-none-any.whl"', '"dem-1.0-py3-none-any.whl"', ":12: .* is not of demo 1.0"),
        ("1" * 64, "1" * 63, ":12: .* is not a SHA-256"),
        ("1" * 64, "G" * 64, ":12: .* is not a SHA-256"),
        ("[package.requirement.files]", "[package.requirement.other]", ":6: demo 1.0 is locked without a file"),
        ("version", "release", ":.*`version` is missing"),
    ],
)
def test_each_fault_is_named_with_its_line(tmp_path: Path, old: str, new: str, message: str) -> None:
    assert old in TEXT

    with pytest.raises(RecipeError, match=message):
        load_inputs(write(tmp_path, TEXT.replace(old, new, 1)))


def test_duplicates_are_named_with_their_line(tmp_path: Path) -> None:
    requirement = TEXT[TEXT.index("\n[[package.req") :]

    with pytest.raises(RecipeError, match=":15: requirement 'demo' is given twice"):
        load_inputs(write(tmp_path, TEXT + requirement))
    with pytest.raises(RecipeError, match=":14: package 'first' is given twice"):
        load_inputs(write(tmp_path, TEXT + TEXT.removeprefix("format = 1\n")))


def test_a_missing_lock_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no such file"):
        load_inputs(tmp_path / "inputs.lock.toml")
