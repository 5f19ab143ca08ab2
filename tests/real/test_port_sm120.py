"""The recipe sm120 ported to SGLang 0.5.10 with the FlashInfer that it requires, built, and ported back."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Callable
from pathlib import Path

import pytest
from small import forkwheel

from forkwheel.recipe import Recipe, load_recipe

REPOSITORY = Path(__file__).resolve().parents[2]
_CONFLICT = re.compile(r"<<<<<<< [^\n]*\n(.*?)=======\n(.*?)>>>>>>> [^\n]*\n", re.DOTALL)
PROJECTS = {"flashinfer-python": "flashinfer", "sglang": "sglang"}
TAKEN = "allreduce-fusion-fp4-cluster-size.patch"
ENVIRON = "sglang/srt/environ.py"
SERVER_ARGS = "sglang/srt/server_args.py"


def mend(folder: Path, path: str, choose: Callable[[str, str], str]) -> None:
    """Do what a person does in a file with conflicts: choose what stands there from both sides."""
    file = folder / path
    text, count = _CONFLICT.subn(lambda match: choose(match[1], match[2]), file.read_text())
    assert count == 1
    file.write_text(text)


class Port:
    """A port in folders of its own."""

    def __init__(self, folder: Path, cache: Path, recipe: Path | str) -> None:
        self.folder, self.out = folder, folder / "out"
        self._cache, self._recipe = cache, recipe

    def run(self, *arguments: str | Path) -> tuple[int, str]:
        run = forkwheel(
            *("port", "--recipe", self._recipe, "--work", self.folder / "work", *arguments),
            cache=self._cache,
            cwd=REPOSITORY,
        )
        return run.returncode, run.stderr

    def start(self, sglang: str, flashinfer: str, *, name: str) -> None:
        targets = ("--to", f"sglang={sglang}", "--to", f"flashinfer-python={flashinfer}")
        code, told = self.run(*targets, "--name", name, "--out", self.out)
        assert code == 4, told
        assert "server-args-fusion-on-sm120.patch is in conflict" in told

    def finish(self) -> Path:
        code, told = self.run("--continue")
        assert code == 0, told
        return self.out


@pytest.fixture(scope="module")
def ported(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Path:
    port = Port(tmp_path_factory.mktemp("port"), shared / "cache", "sm120")
    port.start("0.5.10", "0.6.7.post2", name="ported")
    work = port.folder / "work" / "sglang"
    mend(work, ENVIRON, lambda upstream, ours: upstream + ours)
    mend(work, SERVER_ARGS, lambda upstream, ours: ours + "            and self.tp_size > 1\n")
    return port.finish()


def test_a_package_without_the_release_that_it_requires_is_refused(tmp_path: Path, shared: Path) -> None:
    code, told = Port(tmp_path, shared / "cache", "sm120").run("--to", "sglang=0.5.10", "--out", tmp_path / "out")
    assert code == 2
    assert "--to flashinfer-python=0.6.7.post2" in told


def test_the_ported_recipe_has_the_new_pins_and_only_what_upstream_lacks(ported: Path) -> None:
    recipe = load_recipe(ported / "recipes" / "ported" / "recipe.toml")
    flashinfer, sglang = recipe.packages
    assert (flashinfer.version, sglang.version) == ("0.6.7.post2", "0.5.10")
    assert sglang.requires == ("flashinfer_python==0.6.7.post2",)
    series = (ported / "patches" / "flashinfer" / "0.6.7.post2" / "series").read_text()
    assert TAKEN not in series
    assert "allreduce-no-sm120-ceiling.patch" in series


def test_the_ported_recipe_builds(ported: Path, tmp_path: Path, shared: Path) -> None:
    folder = ported / "recipes" / "ported"
    run = forkwheel("build", "--recipe", folder, "--out", tmp_path, "--keep-jit-cache", cache=shared / "cache")
    assert run.returncode == 0, run.stderr
    (wheel,) = tmp_path.glob("flashinfer_python-0.6.7.post2+sm120*.whl")
    with zipfile.ZipFile(wheel) as opened:
        assert b"supported_major_versions=[9, 10, 12]" in opened.read("flashinfer/jit/comm.py")
    assert list(tmp_path.glob("sglang-0.5.10+sm120*.whl"))


def test_porting_back_gives_the_first_patches(ported: Path, recipe: Recipe, tmp_path: Path, shared: Path) -> None:
    port = Port(tmp_path, shared / "cache", ported / "recipes" / "ported")
    port.start("0.5.9", "0.6.3", name="back")
    work = tmp_path / "work" / "sglang"
    mend(work, ENVIRON, lambda _, ours: "".join(ours.splitlines(keepends=True)[-2:]))
    mend(work, SERVER_ARGS, lambda _, ours: "".join(ours.splitlines(keepends=True)[:-1]))
    back = port.finish()

    for package in recipe.packages:
        assert package.series is not None
        made = {file.name: file.read_bytes() for file in (back / "patches" / PROJECTS[package.name]).glob("*/*.patch")}
        first = {file.name: file.read_bytes() for file in package.series.glob("*.patch")}
        first.pop(TAKEN, None)
        assert made == first
