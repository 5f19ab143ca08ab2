"""Trees, their digest, and the projection that makes sources equal."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest
from support import PACKAGE

from forkwheel.errors import RecipeError, VerificationError
from forkwheel.patterns import matches
from forkwheel.projection import copy_tree, project, projection_id, write_generated
from forkwheel.recipe import GeneratedFile, Substitution
from forkwheel.tree import Tree, scan


def make(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    ("pattern", "path", "expected"),
    [
        ("a/**", "a/b/c", True),
        ("a/**", "a", False),
        ("**/c", "a/b/c", True),
        ("**/c", "c", True),
        ("a/*/c", "a/b/c", True),
        ("a/*", "a/b/c", False),
        ("a?c", "abc", True),
        ("a?c", "a/c", False),
        ("a.c", "abc", False),
        ("*.egg-info/**", "x.egg-info/SOURCES.txt", True),
    ],
)
def test_patterns(pattern: str, path: str, expected: bool) -> None:
    assert matches(path, (pattern,)) is expected


def test_no_pattern_matches_nothing() -> None:
    assert not matches("a", ())


def test_the_digest_depends_on_content_name_and_mode(tmp_path: Path) -> None:
    digests = set()
    for number, (name, text, mode) in enumerate(
        [("a", "x", 0o644), ("b", "x", 0o644), ("a", "y", 0o644), ("a", "x", 0o755)]
    ):
        root = make(tmp_path / str(number), {name: text})
        (root / name).chmod(mode)
        digests.add(scan(root).digest)
    assert len(digests) == 4


def test_a_link_is_described_by_its_target_also_to_a_folder(tmp_path: Path) -> None:
    make(tmp_path, {"d/f": "x"})
    (tmp_path / "link").symlink_to("d")
    entries = scan(tmp_path).by_path()
    assert entries["link"].mode == "120000"
    assert set(entries) == {"d/f", "link"}


def test_two_sources_that_differ_in_what_is_left_out_project_to_one_digest(tmp_path: Path) -> None:
    package = replace(PACKAGE, include=("src/**", "README"), exclude=("src/_version.py",), executable=("src/run",))
    git = make(tmp_path / "git", {"src/a": "1", "src/run": "2", "README": "r", ".gitignore": "", "licenses/x": "l"})
    sdist = make(
        tmp_path / "sdist", {"src/a": "1", "src/run": "2", "README": "r", "PKG-INFO": "", "src/_version.py": "v"}
    )
    (git / "src/a").chmod(0o755)
    (sdist / "src/run").chmod(0o600)
    first, second = project(git, package), project(sdist, package)
    assert first.digest == second.digest
    assert [entry.path for entry in first.entries] == ["README", "src/a", "src/run"]
    assert not (git / "licenses").exists()
    assert os.stat(git / "src/a").st_mode & 0o777 == 0o644
    assert os.stat(git / "src/run").st_mode & 0o777 == 0o755


@pytest.mark.parametrize("field", ["include", "executable"])
def test_a_pattern_that_matches_nothing_is_refused(tmp_path: Path, field: str) -> None:
    with pytest.raises(RecipeError, match=f"`{field}` of demo: 'missing/\\*\\*' matches no file"):
        project(make(tmp_path, {"a": "1"}), replace(PACKAGE, **{field: ("missing/**",)}))


def test_other_settings_are_another_projection() -> None:
    assert projection_id(PACKAGE) != projection_id(replace(PACKAGE, exclude=("a",)))


def test_a_copy_is_equal_whatever_the_umask(tmp_path: Path) -> None:
    root = make(tmp_path / "from", {"a/b": "1", "c": "2"})
    (root / "c").chmod(0o755)
    (root / "link").symlink_to("a/b")
    tree = scan(root)
    old = os.umask(0o077)
    try:
        copied = copy_tree(tree, tmp_path / "to")
    finally:
        os.umask(old)
    assert scan(copied.root).entries == tree.entries
    assert os.stat(copied.root / "a/b").st_mode & 0o777 == 0o644


@pytest.mark.parametrize("change", ["altered", "missing"])
def test_a_cached_tree_that_was_altered_is_refused(tmp_path: Path, change: str) -> None:
    tree = scan(make(tmp_path / "slot" / "tree", {"a": "1"}))
    file = tree.root / "a"
    file.write_text("2") if change == "altered" else file.unlink()
    with pytest.raises(VerificationError, match="tree/a in the cache was altered"):
        copy_tree(tree, tmp_path / "to")


def test_generated_files_carry_the_version_and_the_manifest_lists_all(tmp_path: Path) -> None:
    package = replace(
        PACKAGE, generated=(GeneratedFile("pkg/_v.py", 'v = "{version}"\n'),), manifest_file="demo.egg-info/SOURCES.txt"
    )
    tree = write_generated(scan(make(tmp_path, {"pkg/a.py": ""})), package, version="1.0+demo.1")
    assert (tmp_path / "pkg/_v.py").read_text() == 'v = "1.0+demo.1"\n'
    assert (tmp_path / "demo.egg-info/SOURCES.txt").read_text().split() == [
        "demo.egg-info/SOURCES.txt",
        "pkg/_v.py",
        "pkg/a.py",
    ]
    assert tree.entries == scan(tmp_path).entries


def test_a_generated_file_that_the_source_has_is_refused(tmp_path: Path) -> None:
    package = replace(PACKAGE, generated=(GeneratedFile("a", "x"),))
    tree = scan(make(tmp_path, {"a": "1"}))
    with pytest.raises(RecipeError, match="a is generated, but the source has it too"):
        write_generated(tree, package, version="1.0")
    assert (tmp_path / "a").read_text() == "1"


@pytest.mark.parametrize(
    ("path", "message"),
    [
        ("d", "d is generated, but it is a folder of the source, with d/e/f"),
        ("d/e", "d/e is generated, but it is a folder of the source"),
        ("a/x/y", "a is a file of the source, not a folder"),
        ("link/x", "link is a link of the source, not a folder"),
    ],
)
@pytest.mark.parametrize("field", ["generated", "manifest_file"])
def test_a_generated_file_without_a_place_is_refused(tmp_path: Path, path: str, message: str, field: str) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    root = make(tmp_path / "tree", {"a": "1", "d/e/f": "2"})
    (root / "link").symlink_to(outside)
    tree = scan(root)
    value = (GeneratedFile("first", "x"), GeneratedFile(path, "x")) if field == "generated" else path
    with pytest.raises(RecipeError, match=message):
        write_generated(tree, replace(PACKAGE, **{field: value}), version="1.0")
    assert scan(root).entries == tree.entries
    assert not list(outside.iterdir())


@pytest.mark.parametrize("name", [b"line\nbreak", b"not-utf8-\xff", "separator-\u2028".encode()])
def test_a_name_that_a_list_of_files_cannot_hold_is_refused(tmp_path: Path, name: bytes) -> None:
    with open(os.path.join(os.fsencode(tmp_path), name), "w"):
        pass
    with pytest.raises(RecipeError, match=r"`manifest_file` of demo cannot list .* line break"):
        write_generated(scan(tmp_path), replace(PACKAGE, manifest_file="SOURCES.txt"), version="1.0")


def test_an_empty_file_is_generated(tmp_path: Path) -> None:
    package = replace(PACKAGE, generated=(GeneratedFile("pkg/py.typed", ""),))
    write_generated(scan(make(tmp_path, {"pkg/a.py": ""})), package, version="1.0")
    assert (tmp_path / "pkg/py.typed").read_bytes() == b""


def test_a_text_is_deleted_and_the_file_not_read_anew(tmp_path: Path) -> None:
    package = replace(PACKAGE, substitutions=(Substitution("p", "all", ""), Substitution("p", "all", "x")))
    tree = scan(make(tmp_path, {"p": "all"}))
    with pytest.raises(RecipeError, match="'all' stands 0 times in p"):
        write_generated(tree, package, version="1")
    write_generated(tree, replace(package, substitutions=package.substitutions[:1]), version="1")
    assert (tmp_path / "p").read_bytes() == b""


def test_an_empty_tree_has_a_digest() -> None:
    assert len(Tree(Path(), ()).digest) == 64


def test_a_substitution_sets_the_version_where_a_project_states_it(tmp_path: Path) -> None:
    package = replace(PACKAGE, substitutions=(Substitution("p.toml", 'version = "1.0"', 'version = "{version}"'),))
    tree = write_generated(scan(make(tmp_path, {"p.toml": 'a\nversion = "1.0"\n'})), package, version="1.0+demo.1")
    assert (tmp_path / "p.toml").read_text() == 'a\nversion = "1.0+demo.1"\n'
    assert tree.entries == scan(tmp_path).entries


@pytest.mark.parametrize(
    ("text", "message"), [("none", "stands 0 times"), ("v v", "stands 2 times"), (None, "no file")]
)
def test_a_substitution_that_does_not_fit_is_refused(tmp_path: Path, text: str | None, message: str) -> None:
    package = replace(PACKAGE, substitutions=(Substitution("p", "v", "w", place="r.toml:7"),))
    tree = scan(make(tmp_path, {"p" if text else "q": text or ""}))
    with pytest.raises(RecipeError, match=rf"^r\.toml:7: .*{message}"):
        write_generated(tree, package, version="1")
