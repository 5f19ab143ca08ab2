"""Recipes whose faults lie deeper than a key's type: paths, names, places, misspelt keys."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path

import pytest
from support import PACKAGE

from forkwheel import recipe_keys
from forkwheel.canonical import canonical_recipe, package_settings
from forkwheel.errors import RecipeError, UsageError
from forkwheel.plain_path import path_fault
from forkwheel.recipe import find_recipe, load_recipe

HEAD = """\
[recipe]
name = "demo"
local = "demo"
revision = 1

[[package]]
name = "one"
version = "1.0"
epoch = 1700000000
"""
SOURCE = """
[[package.source]]
kind = "git"
url = "https://host.example/one.git"
commit = "0123456789abcdef0123456789abcdef01234567"
"""
RECIPE = HEAD + SOURCE
GENERATED = '\n[[package.generated]]\npath = "{}"\ntext = ""\n'


def write(folder: Path, text: str) -> Path:
    file = folder / "recipe.toml"
    file.write_text(text)
    return file


def fault_of(folder: Path, text: str) -> RecipeError:
    with pytest.raises(RecipeError) as caught:
        load_recipe(write(folder, text))
    assert caught.value.message.isprintable()
    assert len(caught.value.message.replace(str(folder), "")) < 300
    return caught.value


REPLACED = {
    "long name": ('name = "demo"', f'name = "{"x" * 300}"', 2, "`name` has 300 characters, over 100"),
    "long local": ('local = "demo"', f'local = "{"x" * 101}"', 3, "`local` has 101 characters"),
    "long package": ('name = "one"', f'name = "{"x" * 101}"', 7, "`name` has 101 characters"),
    "long version": ('"1.0"', f'"1{".0" * 60}"', 8, "`version` has 121 characters"),
    "version of many digits": ('"1.0"', f'"{"1" * 900}"', 8, "`version` has 900 characters"),
    "all of them long": ('"one"\nversion = "1.0"', f'"{"x" * 90}"\nversion = "{"1." * 40}1"', 7, "characters together"),
    "epoch after zip": ("1700000000", "4354819199", 9, "`epoch` is 4354819199, above 4354819198"),
    "url that is none": ("https://host.example/one.git", "http://[::1", 13, "`url` is not a URL"),
    "url with a line break": ("host.example", "host\\nexample", 13, "a blank or a control character"),
    "url that is an option": ("https://host.example", "--upload-pack=x", 13, "not the URL of a git remote"),
    "url that runs a helper": ("https://host.example", "ext::sh -c x".replace(" ", ""), 13, "not the URL of a git"),
    "misspelt source": ("[[package.source]]", "[[package.sorce]]", 11, "unknown key `sorce`; did you mean `source`?"),
    "misspelt before missing": ('version = "1.0"', 'verzion = "1.0"', 8, "did you mean `version`?"),
    "misspelt table": ("[recipe]", "[recipy]", 1, "unknown key `recipy`; did you mean `recipe`?"),
    "misspelt kind": ('kind = "git"', 'kin = "git"', 12, "unknown key `kin`; did you mean `kind`?"),
    "key of another kind": ('kind = "git"', 'kind = "git"\nsha256 = "x"', 13, "unknown key `sha256`"),
}


@pytest.mark.parametrize("fault", REPLACED)
def test_a_bad_value_is_one_error_with_its_line(tmp_path: Path, fault: str) -> None:
    old, new, line, message = REPLACED[fault]
    assert RECIPE.count(old) == 1
    error = fault_of(tmp_path, RECIPE.replace(old, new))
    assert f"recipe.toml:{line}: " in error.message
    assert message in error.message


ADDED = {
    "series with NUL": ('series = "a\\u0000b"', 10, "`series` holds a NUL character"),
    "series with a long name": (f'series = "{"x" * 300}"', 10, "cannot exist: a name in it has 300 bytes"),
    "series too long": (f'series = "{"x/" * 3000}x"', 10, "cannot exist: it has 6001 bytes"),
    "series in a loop": ('series = "loop/x"', 10, "the series 'loop/x'"),
    "requirement nested deeply": (f'requires = ["one==1; {"(" * 450}"]', 10, "is not a requirement"),
    "requirement on a range": ('requires = ["one==1.*"]', 10, "does not pin one version"),
    "requirement too long": (f'requires = ["one=={"1" * 5000}"]', 10, "too long for a requirement"),
    "variable with a blank": ('environment = {"A B" = "1"}', 10, "'A B' of `environment` is not a variable's name"),
    "variable with =": ('[package.environment]\nA = "1"\n"B=C" = "1"', 12, "'B=C' of `environment`"),
    "variable without name": ('[package.environment]\n"" = "1"', 11, "'' of `environment`"),
    "value with NUL": ('[package.environment]\nA = "\\u0000"', 11, "`environment.A` holds a NUL character"),
    "setting with NUL": ('[package.config_settings]\nA = "\\u0000"', 11, "`config_settings.A` holds a NUL character"),
    "empty text": (
        '[[package.substitute]]\npath = "a"\ntext = ""\nreplacement = "b"',
        12,
        "`text` is empty",
    ),
    "generated twice": (GENERATED.format("a/b") * 2, 16, "'a/b' is generated twice"),
    "generated and listed": ('manifest_file = "a"\n' + GENERATED.format("a"), 10, "'a' is generated twice"),
    "generated below another": (GENERATED.format("a") + GENERATED.format("a/b/c"), 16, "cannot both be files"),
    "generated above another": (GENERATED.format("a/b/c") + GENERATED.format("a"), 16, "cannot both be files"),
}


@pytest.mark.parametrize("fault", ADDED)
def test_a_bad_addition_is_one_error_with_its_line(tmp_path: Path, fault: str) -> None:
    (tmp_path / "loop").symlink_to("loop")
    added, line, message = ADDED[fault]
    error = fault_of(tmp_path, HEAD + added + "\n" + SOURCE)
    assert f"recipe.toml:{line}: " in error.message
    assert message in error.message


PATHS = {
    'exclude = ["{}"]': 10,
    'manifest_file = "{}"': 10,
    'version_file = "{}"': 10,
    'must_contain = ["{}"]': 10,
    '[[package.generated]]\npath = "{}"\ntext = "x"': 11,
    '[[package.substitute]]\npath = "{}"\ntext = "x"\nreplacement = ""': 11,
    '[package.jit_cache]\nvariable = "X"\npath = "{}"\nclear = ["x"]': 12,
}


@pytest.mark.parametrize("place", PATHS)
@pytest.mark.parametrize("path", ["../a", "/a", "a//b", "a/", "./a", "a\\\\b", ".git/x", "a/.GIT", "a\\nb", "a\\u007f"])
def test_everything_that_is_a_path_is_checked(tmp_path: Path, place: str, path: str) -> None:
    error = fault_of(tmp_path, HEAD + place.replace("{}", path) + "\n" + SOURCE)
    assert f"recipe.toml:{PATHS[place]}: " in error.message
    assert "is not a plain relative path" in error.message


@pytest.mark.parametrize("path", ["é" * 128, "a/" * 1500 + "b", "a\u2028b", ".git. /x", "git~1/x", "a\0b"])
def test_a_path_that_no_file_system_should_hold_is_faulty(path: str) -> None:
    assert path_fault(path)


@pytest.mark.parametrize("path", ["a", "é" * 127, "a b/**/*.c", ".gitignore", "a.git/b", "..a/b..", "~x", "-x"])
def test_a_plain_path_is_accepted(path: str) -> None:
    assert path_fault(path) is None


def test_empty_texts_are_accepted_and_reach_the_wheels_own_recipe(tmp_path: Path) -> None:
    added = GENERATED.format("py.typed") + '[[package.substitute]]\npath = "a"\ntext = "b"\nreplacement = ""\n'
    added += '[package.environment]\nEMPTY = ""\nSMILE = "😀"\n'
    package = load_recipe(write(tmp_path, HEAD + added + SOURCE)).packages[0]
    assert (package.generated[0].text, package.substitutions[0].replacement) == ("", "")

    text = canonical_recipe(package, name="demo", local="demo", revision=1, target="any", required={})
    again = load_recipe(write(tmp_path, text)).packages[0]
    assert package_settings(again) == package_settings(package)
    assert again.environment == (("EMPTY", ""), ("SMILE", "😀"))


@pytest.mark.parametrize(
    ("removed", "hint"),
    [
        ("revision = 1\n", "add `revision`, the number of the revision that is built"),
        ("epoch = 1700000000\n", "add `epoch`, the time that the build's records carry"),
        ('kind = "git"\n', "add `kind`, what the source is: git, sdist or wheel"),
    ],
)
def test_a_missing_key_is_described(tmp_path: Path, removed: str, hint: str) -> None:
    assert fault_of(tmp_path, RECIPE.replace(removed, "")).hint.startswith(hint)


def test_every_key_of_a_package_is_read() -> None:
    names = {"source": "sources", "substitute": "substitutions"}
    known = {names.get(key, key) for key in recipe_keys.PACKAGE}
    assert known == {field.name for field in fields(PACKAGE) if field.compare}


def test_a_newer_format_is_named_before_the_keys_that_it_adds(tmp_path: Path) -> None:
    error = fault_of(tmp_path, RECIPE.replace("[recipe]", "novelty = 1\n[recipe]\nformat = 2"))
    assert "format 2 is newer" in error.message


@pytest.mark.parametrize("series", ["../outside", "link", "{absolute}", "../embedded-not/patches"])
def test_a_series_may_not_leave_its_root(tmp_path: Path, series: str) -> None:
    root = tmp_path / "embedded"
    for folder in ("outside", "embedded/patches", "embedded-not/patches"):
        (tmp_path / folder).mkdir(parents=True)
        (tmp_path / folder / "series").touch()
    (root / "link").symlink_to("../outside")
    text = f'series = "{series.format(absolute=tmp_path / "outside")}"\n'
    file = write(root, HEAD + text + SOURCE)

    with pytest.raises(RecipeError, match=r"recipe.toml:10: the series .* lies outside"):
        load_recipe(file, series_root=root)
    assert load_recipe(file).packages[0].series is not None
    inside = write(root, HEAD + 'series = "patches"\n' + SOURCE)
    assert load_recipe(inside, series_root=root).packages[0].series == root / "patches"


@pytest.mark.parametrize("name", ["x" * 300, "/" + "x" * 300, "a\0b", "a/" * 3000])
def test_a_recipe_that_cannot_exist_is_not_found(tmp_path: Path, name: str) -> None:
    with pytest.raises(UsageError, match="there is no recipe") as caught:
        find_recipe(name, recipes=tmp_path)
    assert len(caught.value.message) < 250
