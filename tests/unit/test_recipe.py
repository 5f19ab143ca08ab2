"""Recipes: what is accepted, and that every fault names its file and line."""

from __future__ import annotations

from pathlib import Path

import pytest

from forkwheel.canonical import canonical_recipe, package_settings
from forkwheel.errors import RecipeError, UsageError
from forkwheel.recipe import find_recipe, load_recipe

COMMIT = "0123456789abcdef0123456789abcdef01234567"
SHA = "ab" * 32

RECIPE = f"""\
[recipe]
name = "demo"
local = "demo"
revision = 1
target = "sm_120a"

[[package]]
name = "one-pkg"
version = "1.2.3"
epoch = 1700000000
series = "patches"
exclude = ["licenses/**"]
must_contain = ["one/core.py"]

[package.environment]
VERSION = "{{version}}"

[[package.generated]]
path = "one/_version.py"
text = '''
__version__ = "{{version}}"
'''

[[package.substitute]]
path = "pyproject.toml"
text = 'version = "1.2.3"'
replacement = 'version = "{{version}}"'

[[package.source]]
kind = "git"
url = "https://host.example/one.git"
commit = "{COMMIT}"

[[package.source.submodule]]
path = "3rdparty/lib"
commit = "{COMMIT}"

[[package.source]]
kind = "sdist"
filename = "one_pkg-1.2.3.tar.gz"
sha256 = "{SHA}"

[[package]]
name = "two"
version = "2.0"
epoch = 1700000000
requires = ["one_pkg==1.2.3"]

[[package.source]]
kind = "sdist"
filename = "two-2.0.tar.gz"
sha256 = "{SHA}"
"""


def write(tmp_path: Path, text: str = RECIPE) -> Path:
    (tmp_path / "patches").mkdir(exist_ok=True)
    (tmp_path / "patches" / "series").touch()
    file = tmp_path / "recipe.toml"
    file.write_text(text)
    return file


def test_a_recipe_is_read_into_frozen_values(tmp_path: Path) -> None:
    recipe = load_recipe(write(tmp_path))
    one, two = recipe.packages
    assert (recipe.name, recipe.local, recipe.revision, recipe.target) == ("demo", "demo", 1, "sm_120a")
    assert one.series == tmp_path / "patches"
    assert [source.kind for source in one.sources] == ["git", "sdist"]
    assert one.generated[0].text == '__version__ = "{version}"\n'
    assert two.series is None
    assert recipe.package("One_Pkg") is one


FAULTS = {
    "unknown key": ('target = "sm_120a"', 'target = "sm_120a"\ncolour = 1', 6, "unknown key `colour`"),
    "wrong type": ("revision = 1", 'revision = "1"', 4, "`revision` must be an integer"),
    "short commit": (
        f'commit = "{COMMIT}"\n\n[[package.source.sub',
        'commit = "0123"\n\n[[package.source.sub',
        32,
        "full commit",
    ),
    "upper-case commit": (
        f'path = "3rdparty/lib"\ncommit = "{COMMIT}"',
        f'path = "3rdparty/lib"\ncommit = "{COMMIT.upper()}"',
        36,
        "full commit",
    ),
    "bad sha256": (f'one_pkg-1.2.3.tar.gz"\nsha256 = "{SHA}"', 'one_pkg-1.2.3.tar.gz"\nsha256 = "abc"', 41, "SHA-256"),
    "bad target": ('target = "sm_120a"', 'target = "12.0"', 5, "a target such as sm_120a, or any"),
    "missing series": ('series = "patches"', 'series = "elsewhere"', 11, "series 'elsewhere' does not exist"),
    "bad kind": ('kind = "sdist"\nfilename = "two', 'kind = "zip"\nfilename = "two', 50, "one of git, sdist, wheel"),
    "local version": ('version = "2.0"', 'version = "2.0+x"', 45, "not a normalised public version"),
    "unnormalised version": ('version = "2.0"', 'version = "2.0.0-rc1"', 45, "not a normalised public version"),
    "file of another version": ('"two-2.0.tar.gz"', '"two-2.1.tar.gz"', 51, "is not of two 2.0"),
    "file of another project": ('"two-2.0.tar.gz"', '"three-2.0.tar.gz"', 51, "is not of two 2.0"),
    "file name with folder": ('"two-2.0.tar.gz"', '"a/two-2.0.tar.gz"', 51, "without folders"),
    "path that leaves": ('"licenses/**"', '"../licenses/**"', 12, "not a plain relative path"),
    "absolute path": ('path = "one/_version.py"', 'path = "/etc/passwd"', 19, "not a plain relative path"),
    "unpinned requirement": ('"one_pkg==1.2.3"', '"one_pkg>=1.2.3"', 47, "does not pin one version"),
    "foreign requirement": ('"one_pkg==1.2.3"', '"torch==2.9.1"', 47, "no package of this recipe"),
    "requirement that the set does not meet": (
        '"one_pkg==1.2.3"',
        '"one_pkg==1.2.4"',
        47,
        "two 2.0 requires one_pkg==1.2.4, and this recipe has 1.2.3",
    ),
    "password in url": ("https://host", "https://user:secret@host", 31, "`url` holds a password"),
    "bad local": ('local = "demo"', 'local = "De.mo"', 3, "lower-case word"),
    "epoch before zip": ("epoch = 1700000000\nseries", "epoch = 1\nseries", 10, "below 315532800"),
    "environment value": ('VERSION = "{version}"', "VERSION = 1", 16, "`environment.VERSION` must be a string"),
    "two sources of a kind": (
        'kind = "git"\nurl = "https://host.example/one.git"\n'
        + f'commit = "{COMMIT}"\n\n[[package.source.submodule]]\npath = "3rdparty/lib"\ncommit = "{COMMIT}"',
        f'kind = "sdist"\nfilename = "one_pkg-1.2.3.tar.gz"\nsha256 = "{SHA}"',
        35,
        "two sources of kind sdist",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_every_fault_is_one_error_with_file_and_line(tmp_path: Path, fault: str) -> None:
    old, new, line, message = FAULTS[fault]
    assert RECIPE.count(old) == 1
    file = write(tmp_path, RECIPE.replace(old, new))
    with pytest.raises(RecipeError) as caught:
        load_recipe(file)
    assert f"{file}:{line}: " in caught.value.message
    assert message in caught.value.message
    assert caught.value.hint


def test_a_password_in_a_url_is_not_repeated(tmp_path: Path) -> None:
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(tmp_path, RECIPE.replace("https://host", "https://user:secret@host")))
    assert "secret" not in caught.value.message + caught.value.hint


def test_a_package_given_twice_is_refused(tmp_path: Path) -> None:
    second = RECIPE[RECIPE.index('[[package]]\nname = "two"') :]
    file = write(tmp_path, RECIPE + "\n" + second.replace('"two"', '"Two"'))
    with pytest.raises(RecipeError, match="package 'Two' is given twice") as caught:
        load_recipe(file)
    assert f"{file}:55:" in caught.value.message


def test_a_newer_format_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="format 2 is newer"):
        load_recipe(write(tmp_path, RECIPE.replace("[recipe]", "[recipe]\nformat = 2")))


def test_a_recipe_without_packages_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RecipeError, match="no package"):
        load_recipe(write(tmp_path, RECIPE[: RECIPE.index("[[package]]")]))


def test_a_recipe_is_found_by_name_folder_and_file(tmp_path: Path) -> None:
    folder = tmp_path / "recipes" / "demo"
    folder.mkdir(parents=True)
    file = write(folder)
    for given in ("demo", str(folder), str(file)):
        assert find_recipe(given, recipes=tmp_path / "recipes") == file
    with pytest.raises(UsageError, match="no recipe 'other'") as caught:
        find_recipe("other", recipes=tmp_path / "recipes")
    assert "demo" in caught.value.hint


def test_an_unknown_package_names_those_there_are(tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        load_recipe(write(tmp_path)).package("three")
    assert "one-pkg, two" in caught.value.hint


@pytest.mark.parametrize("name", ["one-pkg", "two"])
def test_the_canonical_recipe_reads_back_as_the_same_package(tmp_path: Path, name: str) -> None:
    package = load_recipe(write(tmp_path)).package(name)
    text = canonical_recipe(
        package,
        name="demo",
        local="demo",
        revision=1,
        target="sm_120a",
        required=dict.fromkeys(package.requires, "1.2.3+demo.1"),
    )
    other = tmp_path / "other"
    other.mkdir()
    again = load_recipe(write(other, text)).package(name)
    assert package_settings(again) == package_settings(package)
    assert dict(again.required_versions) == dict.fromkeys(package.requires, "1.2.3+demo.1")
    assert (again.series is None) == (package.series is None)


def test_what_is_stated_knows_its_line_and_is_equal_wherever_it_stands(tmp_path: Path) -> None:
    first, second = (tmp_path / name for name in "ab")
    for folder in (first, second):
        folder.mkdir()
    one = load_recipe(write(first)).packages[0]
    moved = load_recipe(write(second, f"# a comment\n{RECIPE}")).packages[0]
    lines = RECIPE.splitlines()
    pin = len(lines) - lines[::-1].index(f'sha256 = "{SHA}"')

    assert load_recipe(write(first)).packages[1].sources[0].at == f"{first}/recipe.toml:{pin}: "
    assert one.substitutions[0].at == f"{first}/recipe.toml:{lines.index('[[package.substitute]]') + 1}: "
    assert moved.substitutions[0].at != one.substitutions[0].at
    assert (moved.sources, moved.substitutions, moved.generated) == (one.sources, one.substitutions, one.generated)
    assert repr(moved.sources) == repr(one.sources)  # which names the tree in the cache
