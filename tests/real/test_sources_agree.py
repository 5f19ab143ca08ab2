"""The same wheel bytes whichever source served: git repositories made from the real sdists."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

import pytest
from small import forkwheel

from forkwheel.fetch import FetchContext, fetch_package
from forkwheel.recipe import GitSource, Recipe

REPOSITORY = Path(__file__).resolve().parents[2]
IDENTITY = {f"GIT_{who}_{what}": "t" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
EPOCH = {"GIT_AUTHOR_DATE": "1770325099 +0000", "GIT_COMMITTER_DATE": "1770325099 +0000"}


def git(repository: Path, *arguments: str) -> str:
    """Run git with no configuration but a fixed identity."""
    environment = {**os.environ, **IDENTITY, **EPOCH, "GIT_CONFIG_GLOBAL": "/dev/null", "GIT_CONFIG_NOSYSTEM": "1"}
    run = subprocess.run(
        ["git", "-C", str(repository), *arguments], env=environment, check=True, capture_output=True, text=True
    )
    return run.stdout.strip()


def commit_all(repository: Path, *, links: Mapping[str, str] | None = None) -> str:
    """Commit everything in a folder, with submodules at the given commits, and return the commit."""
    git(repository, "init", "--quiet")
    git(repository, "add", "--force", "--all")
    for path, commit in (links or {}).items():
        git(repository, "update-index", "--add", "--cacheinfo", f"160000,{commit},{path}")
    git(repository, "commit", "--quiet", "--message", "all")
    return git(repository, "rev-parse", "HEAD")


def write(root: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)


def later_commit(repository: Path, *, tag: str) -> None:
    """Add a commit that must not be taken, under a tag that looks newer."""
    write(repository, {"later.txt": "later"})
    git(repository, "add", "later.txt")
    git(repository, "commit", "--quiet", "--message", "later")
    git(repository, "tag", tag)


def make_flashinfer(tree: Path, work: Path) -> tuple[Path, dict[str, str], dict[str, Path]]:
    """Make a repository like FlashInfer's; return it, its commits by path, and its submodules' folders."""
    commits, folders = {}, {}
    for name in ("cutlass", "spdlog"):
        folders[name] = work / name
        shutil.move(tree / "3rdparty" / name, folders[name])
        commits[f"3rdparty/{name}"] = commit_all(folders[name])
    for left in ("PKG-INFO", "setup.cfg", "flashinfer/_build_meta.py"):
        (tree / left).unlink()
    shutil.rmtree(tree / "flashinfer_python.egg-info")
    modules = "".join(
        f'[submodule "{name}"]\n\tpath = 3rdparty/{name}\n\turl = https://host.invalid/{name}.git\n'
        for name in ("cutlass", "spdlog")
    )
    write(
        tree,
        {
            ".gitmodules": modules,
            ".gitignore": "flashinfer/_build_meta.py\nflashinfer/data\n*.so\n",
            ".gitattributes": "*.py text eol=crlf\n*.cuh filter=upper\n"
            "csrc/** export-ignore\nflashinfer/version.py export-subst\n",
            "version.txt": "0.6.3\n",
            "licenses/LICENSE.extra.txt": "another licence",
            "flashinfer-jit-cache/pyproject.toml": "[project]\n",
            "benchmarks/run.py": "",
        },
    )
    for script in (tree / "csrc").glob("trtllm_allreduce*.cu"):
        script.chmod(0o755)
    commits[""] = commit_all(tree, links=commits)
    later_commit(tree, tag="v9.9.9")
    return tree, commits, folders


def make_sglang(tree: Path, work: Path) -> tuple[Path, dict[str, str]]:
    """Make a repository like SGLang's, with the project in ``python/`` and no tags."""
    for left in ("PKG-INFO", "setup.cfg", "sglang/_version.py"):
        (tree / left).unlink()
    shutil.rmtree(tree / "sglang.egg-info")
    repository = work / "sglang-repository"
    repository.mkdir()
    shutil.move(tree, repository / "python")
    shutil.move(repository / "python" / "LICENSE", repository / "LICENSE")
    (repository / "python" / "LICENSE").symlink_to("../LICENSE")
    write(repository, {"docs/index.md": "", "README.md": "another", ".gitignore": "_version.py\n"})
    return repository, {"": commit_all(repository)}


@pytest.fixture(scope="module")
def project(recipe: Recipe, context: FetchContext, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[str]]:
    """Return a recipe that pins the made repositories as well as the real sdists, and the mirrors to use."""
    work = tmp_path_factory.mktemp("agree")
    text = recipe.file.read_text().replace("../../patches", str(REPOSITORY / "patches"))
    trees = {}
    for package in recipe.packages:
        trees[package.name] = fetch_package(package, work / f"{package.name}-sdist", context=context, kind="sdist").root
    flashinfer, commits, folders = make_flashinfer(trees["flashinfer-python"], work)
    sglang, sglang_commits = make_sglang(trees["sglang"], work)
    mirrors = [f"https://host.invalid/{name}.git={folder}" for name, folder in folders.items()]
    for name, repository, found in (("flashinfer-python", flashinfer, commits), ("sglang", sglang, sglang_commits)):
        source = next(item for item in recipe.package(name).sources if isinstance(item, GitSource))
        text = text.replace(source.commit, found[""])
        for submodule in source.submodules:
            text = text.replace(submodule.commit, found[submodule.path])
        text = text.replace(f'tag = "{source.tag}"\n', "")
        mirrors.append(f"{source.url}={repository}")
    write(work / "recipe", {"recipe.toml": text, "inputs.lock.toml": (recipe.folder / "inputs.lock.toml").read_text()})
    return work, mirrors


def hostile_configuration(folder: Path) -> dict[str, str]:
    """Return the environment of a person whose git rewrites what it checks out."""
    hooks = folder / "hooks"
    write(folder, {"hooks/post-checkout": "#!/bin/sh\ntouch " + str(folder / "hook-ran") + "\n"})
    write(folder, {"hooks/reference-transaction": "#!/bin/sh\ntouch " + str(folder / "hook-ran") + "\n"})
    for hook in hooks.iterdir():
        hook.chmod(0o755)
    configuration = f"""\
[core]
\tautocrlf = true
\teol = crlf
\thooksPath = {hooks}
[init]
\ttemplateDir = {folder}
[filter "upper"]
\tsmudge = tr a-z A-Z
\tclean = cat
\trequired = true
[fetch]
\trecurseSubmodules = true
"""
    write(folder, {"gitconfig": configuration})
    return {"GIT_CONFIG_GLOBAL": str(folder / "gitconfig")}


def built(project: Path, kind: str, mirrors: list[str], cache: Path, environment: dict[str, str]) -> dict[str, str]:
    out = project / f"dist-{kind}"
    options = [option for mirror in mirrors for option in ("--mirror", mirror)]
    run = forkwheel(
        "build", "--recipe", project / "recipe", "--source", kind, "--out", out, *options,
        cache=cache, environment=environment,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    document = json.loads((out / "sm120.manifest.json").read_text())
    observed = json.loads((out / "sm120.observed.json").read_text())
    assert {package["source"] for package in observed["packages"].values()} == {kind}
    assert not any(package["reused"] for package in observed["packages"].values())
    return {package["name"]: package["wheel"]["sha256"] for package in document["packages"]}


def test_git_and_sdist_give_the_same_wheels(project: tuple[Path, list[str]], tmp_path: Path) -> None:
    work, mirrors = project
    hostile = hostile_configuration(tmp_path)
    found = {kind: built(work, kind, mirrors, tmp_path / f"cache-{kind}", hostile) for kind in ("git", "sdist")}
    assert found["git"] == found["sdist"]
    assert set(found["git"]) == {"flashinfer-python", "sglang"}
    assert not (tmp_path / "hook-ran").exists()


def test_a_repository_whose_content_differs_is_another_key(project: tuple[Path, list[str]], tmp_path: Path) -> None:
    work, mirrors = project
    text = (work / "recipe" / "recipe.toml").read_text()
    url, repository = next(mirror.split("=", 1) for mirror in mirrors if "sglang" in mirror)
    other = tmp_path / "other"
    git(tmp_path, "clone", "--quiet", repository, "other")
    write(other, {"python/sglang/version.py": "changed = True\n"})
    git(other, "add", "--all")
    git(other, "commit", "--quiet", "--message", "change")
    commit = git(other, "rev-parse", "HEAD")
    old = re.search(rf'url = "{re.escape(url)}"\ncommit = "(\w+)"', text)
    assert old
    folder = tmp_path / "recipe"
    write(folder, {"recipe.toml": text.replace(old[1], commit)})
    shutil.copy(work / "recipe" / "inputs.lock.toml", folder)
    options = [option for mirror in [*mirrors[:-1], f"{url}={other}"] for option in ("--mirror", mirror)]
    trees = {}
    for kind in ("git", "sdist"):
        run = forkwheel(
            "build", "--recipe", folder, "--explain", "--json", "--source", kind, *options, cache=tmp_path / "cache"
        )
        assert run.returncode == 0, run.stderr
        parts = {part["part"]: part["value"] for part in json.loads(run.stdout)["packages"][1]["parts"]}
        trees[kind] = parts["tree"]
    assert trees["git"] != trees["sdist"]
