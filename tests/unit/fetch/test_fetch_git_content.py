"""The files of a git source are the committed bytes, whatever the person's git would do to them."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from forkwheel.errors import FetchError, PinMismatchError
from forkwheel.fetch import fetch_package, fetch_source
from forkwheel.recipe import GitSource, Submodule
from forkwheel.tree import walk

FILES = {
    ".gitattributes": b"* text=auto eol=crlf filter=shout ident export-subst\n*.txt export-ignore\n",
    ".gitignore": b"flashinfer/data/\nversion.txt\n",
    "LICENSE": b"Apache\n",
    "csrc/kernel.cu": b"// $Id$\r\n// $Format:%H$\nlower case\n",
    "flashinfer/__init__.py": b"from ._build_meta import __version__\n",
    "flashinfer/data/blob.bin": bytes(range(256)),
    "licenses/LICENSE.cutlass.txt": b"BSD\n",
    "version.txt": b"1.0\n",
}


def contents(root: Path) -> dict[str, bytes]:
    return {name: (root / name).read_bytes() for name in walk(root)}


def source(
    url: object, commit: str, *submodules: Submodule, tag: str | None = None, subdirectory: str = ""
) -> GitSource:
    return GitSource(str(url), commit, tag, subdirectory, submodules)


@pytest.fixture
def hostile_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Configure git to alter everything that it can; return what its hooks would leave."""
    marker = tmp_path / "ran"
    template = tmp_path / "template"
    for folder in (tmp_path / "hooks", template / "hooks"):
        folder.mkdir(parents=True)
        for name in ("post-checkout", "reference-transaction", "post-merge", "pre-auto-gc", "fsmonitor-watchman"):
            (folder / name).write_text(f"#!/bin/sh\necho {name} >> {marker}\n")
            (folder / name).chmod(0o755)
    (template / "config").write_text("[core]\n\tbare = false\n\tworktree = /nonexistent\n")
    (template / "attributes").write_text("* filter=shout\n")
    (tmp_path / "attributes").write_text("* filter=shout text eol=crlf\n")
    Path(os.environ["HOME"], ".gitconfig").write_text(
        f"""
[core]
    autocrlf = true
    eol = crlf
    hooksPath = {tmp_path}/hooks
    attributesFile = {tmp_path}/attributes
    symlinks = false
    fileMode = false
    fsmonitor = {tmp_path}/hooks/fsmonitor-watchman
[init]
    templateDir = {template}
    defaultBranch = strange
[filter "shout"]
    smudge = tr a-z A-Z
    process = false
    required = true
[fetch]
    fsckObjects = true
    prune = true
    recurseSubmodules = true
    writeCommitGraph = true
[transfer]
    fsckObjects = true
[submodule]
    recurse = true
"""
    )
    return marker


def test_hostile_configuration_changes_no_byte(repository, surroundings, package, hostile_git, tmp_path):
    cutlass = repository("cutlass")
    cutlass_commit = cutlass.commit({"include/cutlass.h": b"#pragma once\n", ".gitattributes": b"* eol=crlf\n"})
    main = repository("main")
    main.commit(FILES)
    main.gitlink("3rdparty/cutlass", cutlass_commit, "../cutlass")
    commit = main.commit_index()
    pinned = source(main.folder, commit, Submodule("3rdparty/cutlass", cutlass_commit))

    fetched = fetch_package(package(pinned), tmp_path / "out", context=surroundings.context())

    found = contents(fetched.root)
    assert found.pop(".gitmodules").startswith(b"[submodule")
    assert found == {
        **FILES,
        "3rdparty/cutlass/include/cutlass.h": b"#pragma once\n",
        "3rdparty/cutlass/.gitattributes": b"* eol=crlf\n",
    }
    assert not hostile_git.exists()


@pytest.mark.parametrize("tag", [None, "v1.0", "v9.9-misleading"])
def test_tags_do_not_matter_to_the_content(repository, surroundings, package, tmp_path, tag):
    main = repository("main")
    commit = main.commit({"a.txt": b"pinned\n"})
    main.git("tag", "v1.0")
    main.commit({"a.txt": b"later\n"})
    main.git("tag", "v9.9-misleading")

    fetched = fetch_source(
        package(), source(main.folder, commit, tag=tag), tmp_path / "out", context=surroundings.context()
    )

    assert contents(fetched.root) == {"a.txt": b"pinned\n"}


def test_replace_refs_and_grafts_do_not_matter(repository, surroundings, package, tmp_path):
    main = repository("main")
    commit = main.commit({"a.txt": b"pinned\n"})
    pinned = source(main.folder, commit)
    fetch_source(package(), pinned, tmp_path / "first", context=surroundings.context())
    cached = surroundings.store.root / "git" / f"{commit}.git"
    empty = main.git("--git-dir", str(cached), "mktree", content=b"")
    other = main.git("--git-dir", str(cached), "commit-tree", empty, "-m", "other")
    main.git("--git-dir", str(cached), "replace", commit, other)
    (cached / "info").mkdir(exist_ok=True)
    (cached / "info/grafts").write_text(f"{commit} {other}\n")

    fetched = fetch_source(package(), pinned, tmp_path / "second", context=surroundings.context(offline=True))

    assert contents(fetched.root) == {"a.txt": b"pinned\n"}


def test_modes_are_normalised_and_links_kept(repository, surroundings, package, tmp_path):
    main = repository("main")
    main.write({"tool.sh": b"#!/bin/sh\n", "a/plain": b"x"})
    (main.folder / "tool.sh").chmod(0o755)
    (main.folder / "a/link").symlink_to("../tool.sh")
    (main.folder / "folder-link").symlink_to("a")
    commit = main.commit()
    previous = os.umask(0o077)
    try:
        root = fetch_source(
            package(), source(main.folder, commit), tmp_path / "out", context=surroundings.context()
        ).root
    finally:
        os.umask(previous)

    assert stat.S_IMODE((root / "tool.sh").stat().st_mode) == 0o755
    assert stat.S_IMODE((root / "a/plain").stat().st_mode) == 0o644
    assert stat.S_IMODE((root / "a").stat().st_mode) == stat.S_IMODE(root.stat().st_mode) == 0o755
    assert (root / "a/link").readlink() == Path("../tool.sh")
    assert (root / "folder-link").readlink() == Path("a")


def test_subdirectory_alone_is_exported(repository, surroundings, package, tmp_path):
    main = repository("sglang")
    main.write({"python/sglang/a.py": b"a", "README.md": b"r", "LICENSE": b"text\n", "python/sglang/deep/b": b"b"})
    (main.folder / "python/LICENSE").symlink_to("../LICENSE")
    (main.folder / "python/sglang/deep/inner").symlink_to("../a.py")
    commit = main.commit()

    root = fetch_source(
        package(),
        source(main.folder, commit, subdirectory="python"),
        tmp_path / "out",
        context=surroundings.context(),
    ).root

    assert walk(root) == ["LICENSE", "sglang/a.py", "sglang/deep/b", "sglang/deep/inner"]
    assert (root / "LICENSE").read_bytes() == b"text\n"
    assert not (root / "LICENSE").is_symlink()
    assert (root / "sglang/deep/inner").is_symlink()


@pytest.mark.parametrize("subdirectory", ["missing", "README.md"])
def test_missing_subdirectory_is_named(repository, surroundings, package, tmp_path, subdirectory):
    main = repository("main")
    commit = main.commit({"README.md": b"r"})

    with pytest.raises(FetchError, match=f"no folder '{subdirectory}'"):
        fetch_source(
            package(),
            source(main.folder, commit, subdirectory=subdirectory),
            tmp_path / "out",
            context=surroundings.context(),
        )
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    ("target", "subdirectory"),
    [
        ("/etc/passwd", ""),
        ("../outside", ""),
        ("hop/../../outside", ""),
        ("../../outside", "python"),
        ("../missing", "python"),
        ("../docs", "python"),
    ],
)
def test_links_that_leave_are_refused(repository, surroundings, package, tmp_path, target, subdirectory):
    main = repository("main")
    main.write({"python/a.py": b"a", "docs/x": b"x"})
    (main.folder / "hop").symlink_to(".")
    (main.folder / subdirectory / "link").symlink_to(target)
    commit = main.commit()

    with pytest.raises(FetchError, match=r"link '(python/)?link'"):
        fetch_source(
            package(),
            source(main.folder, commit, subdirectory=subdirectory),
            tmp_path / "out",
            context=surroundings.context(),
        )
    assert not list((tmp_path / "out").iterdir())


@pytest.mark.parametrize(
    "name", [b".git", b".GIT", b".Git ", b"git~1", b"..", b".", b"a\\b", b"..\\x", b"line\nbreak", b"bell\x07"]
)
def test_unsafe_names_are_refused(repository, surroundings, package, tmp_path, name):
    main = repository("main")
    blob = bytes.fromhex(main.blob(b"x"))
    commit = main.commit_tree(b"100644 " + name + b"\0" + blob)

    with pytest.raises(FetchError, match="the path"):
        fetch_source(package(), source(main.folder, commit), tmp_path / "out", context=surroundings.context())
    assert not list((tmp_path / "out").iterdir())


def test_bottomless_folders_are_refused(repository, surroundings, package, tmp_path):
    main = repository("main")
    tree = main.blob(b"x")
    kind = "100644 blob"
    for _ in range(120):
        tree = main.git("mktree", content=f"{kind} {tree}\tn\n".encode())
        kind = "40000 tree"
    commit = main.commit_tree(b"40000 n\0" + bytes.fromhex(tree))

    with pytest.raises(FetchError, match="deeper than 100"):
        fetch_source(package(), source(main.folder, commit), tmp_path / "out", context=surroundings.context())


def test_a_tree_that_repeats_itself_is_a_bomb(repository, surroundings, package, tmp_path, monkeypatch):
    monkeypatch.setattr("forkwheel.fetch.git_export.MAX_MEMBERS", 500)
    main = repository("main")
    tree, kind = main.blob(b"x"), "100644 blob"
    for _ in range(3):
        tree = main.git("mktree", content="".join(f"{kind} {tree}\t{name}\n" for name in range(10)).encode())
        kind = "40000 tree"
    commit = main.commit_tree(b"40000 n\0" + bytes.fromhex(tree))

    with pytest.raises(FetchError, match="more than 500 files"):
        fetch_source(package(), source(main.folder, commit), tmp_path / "out", context=surroundings.context())
    assert not list((tmp_path / "out").iterdir())


def test_names_that_are_not_utf8_survive(repository, surroundings, package, tmp_path):
    main = repository("main")
    commit = main.commit_tree(b"100644 caf\xe9\0" + bytes.fromhex(main.blob(b"x")))

    root = fetch_source(package(), source(main.folder, commit), tmp_path / "out", context=surroundings.context()).root

    assert os.listdir(os.fsencode(root)) == [b"caf\xe9"]


def test_a_link_and_a_folder_of_one_name_are_refused(repository, surroundings, package, tmp_path):
    main = repository("main")
    inner = main.git("mktree", content=f"100644 blob {main.blob(b'x')}\tfile\n".encode())
    link, folder = bytes.fromhex(main.blob(b"elsewhere")), bytes.fromhex(inner)
    commit = main.commit_tree(b"120000 name\0" + link + b"40000 name\0" + folder)

    with pytest.raises(FetchError, match="'name' is there twice"):
        fetch_source(package(), source(main.folder, commit), tmp_path / "out", context=surroundings.context())


def test_submodule_pin_must_equal_the_gitlink(repository, surroundings, package, tmp_path):
    sub = repository("sub")
    first, second = sub.commit({"a": b"1"}), sub.commit({"a": b"2"})
    main = repository("main")
    main.gitlink("3rdparty/sub", first, "../sub")
    commit = main.commit_index()

    with pytest.raises(PinMismatchError, match=f"pins {second}, the commit {first}"):
        fetch_source(
            package(),
            source(main.folder, commit, Submodule("3rdparty/sub", second)),
            tmp_path / "out",
            context=surroundings.context(),
        )


def test_pinned_submodule_must_exist(repository, surroundings, package, tmp_path):
    main = repository("main")
    commit = main.commit({"3rdparty/sub/file": b"x"})

    with pytest.raises(PinMismatchError, match="no submodule '3rdparty/sub'"):
        fetch_source(
            package(),
            source(main.folder, commit, Submodule("3rdparty/sub", "0" * 40)),
            tmp_path / "out",
            context=surroundings.context(),
        )


def test_unpinned_submodule_is_an_error_only_inside_the_subdirectory(repository, surroundings, package, tmp_path):
    sub = repository("sub")
    sub_commit = sub.commit({"a": b"1"})
    main = repository("main")
    main.write({"python/a.py": b"a"})
    main.git("add", "python")
    main.gitlink("3rdparty/sub", sub_commit, "../sub")
    commit = main.commit_index()

    with pytest.raises(PinMismatchError, match=f"'3rdparty/sub' at {sub_commit}, which is not pinned"):
        fetch_source(package(), source(main.folder, commit), tmp_path / "out", context=surroundings.context())
    inside = fetch_source(
        package(),
        source(main.folder, commit, subdirectory="python"),
        tmp_path / "python",
        context=surroundings.context(),
    )
    assert walk(inside.root) == ["a.py"]


@pytest.mark.parametrize("listed", [False, True])
def test_nested_submodules_count_only_when_listed(repository, surroundings, package, tmp_path, listed):
    deep, middle, main = repository("deep"), repository("middle"), repository("main")
    deep_commit = deep.commit({"deep.h": b"deep\n"})
    middle.write({"middle.h": b"middle\n"})
    middle.git("add", "middle.h")
    middle.gitlink("sub", deep_commit, "../deep")
    middle_commit = middle.commit_index()
    main.gitlink("3rdparty/x", middle_commit, "../middle")
    commit = main.commit_index()
    submodules = [Submodule("3rdparty/x/sub", deep_commit)] if listed else []

    root = fetch_source(
        package(),
        source(main.folder, commit, *submodules, Submodule("3rdparty/x", middle_commit)),
        tmp_path / "out",
        context=surroundings.context(),
    ).root

    assert (root / "3rdparty/x/middle.h").read_bytes() == b"middle\n"
    assert (root / "3rdparty/x/sub/deep.h").is_file() == listed


@pytest.mark.parametrize("url", ["ext::sh -c touch% /var/x", "--upload-pack=x", "/srv/repository", "file:///srv/x"])
def test_submodule_urls_of_a_remote_repository_are_checked(
    repository, surroundings, package, tmp_path, serve, smart_http, url
):
    main = repository("main")
    main.gitlink("sub", "1" * 40, url)
    commit = main.commit_index()
    server = serve(smart_http)

    with pytest.raises(FetchError, match="which a remote repository must not name"):
        fetch_source(
            package(),
            source(f"{server.url}/main", commit, Submodule("sub", "1" * 40)),
            tmp_path / "out",
            context=surroundings.context(),
        )
