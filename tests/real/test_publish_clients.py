"""pip and uv against a published index beside a public one: what is installed, and what is not."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
from publish_support import make_set, make_wheel, served
from small import forkwheel

from forkwheel.release.index import Pages, held, switch, write_pages
from forkwheel.release.publish import new_file, publish_set, yank
from forkwheel.release.wheel_set import WheelSet
from forkwheel.tree import sha256_file


@dataclass(frozen=True)
class Indexes:
    """A fork's index and a public one, served on loopback."""

    wheels: WheelSet
    folder: Path
    ours: str
    public: str


def make_public(root: Path, work: Path) -> None:
    """Make an index with higher versions than the fork's, and with equal ones that lack its local part."""
    work.mkdir()
    pages = Pages({}, ())
    root.mkdir()
    with held(root):
        for name, version in (("base", "1.0"), ("base", "2.0"), ("demo", "1.0"), ("demo", "2.0"), ("extra", "3.0")):
            file = new_file(wheel := make_wheel(work, name, version), sha256=sha256_file(wheel))
            shutil.copyfile(wheel, root / wheel.name)
            (root / f"{wheel.name}.metadata").write_bytes(file.metadata)
            pages = pages.with_file(file.project, file.entry)
        switch(root, write_pages(root, pages, changed=frozenset(pages.projects)))


@pytest.fixture
def indexes(tmp_path: Path) -> Iterator[Indexes]:
    wheels = make_set(tmp_path / "dist")
    publish_set(tmp_path / "ours", wheels)
    make_public(tmp_path / "public", tmp_path / "work")
    with served(tmp_path / "ours") as ours, served(tmp_path / "public") as public:
        yield Indexes(wheels, tmp_path / "ours", f"{ours}/simple/", f"{public}/simple/")


def client(name: str, *arguments: str, target: Path) -> subprocess.CompletedProcess[str]:
    """Run a client's install, with nothing configured but what the arguments say."""
    uv = shutil.which("uv", path=str(Path(sys.executable).parent))
    command = {
        "pip": [sys.executable, "-m", "pip", "--python", str(target / "bin/python"), "install", "--no-cache-dir"],
        "uv": [str(uv), "pip", "install", "--no-cache", "--no-config", "--python", str(target / "bin/python")],
    }[name]
    blank = {"PIP_CONFIG_FILE": os.devnull, "PIP_DISABLE_PIP_VERSION_CHECK": "1", "HOME": str(target)}
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PIP_", "UV_", "XDG_"))}
    return subprocess.run(
        [*command, *arguments], env=kept | blank, cwd=target, capture_output=True, text=True, check=False
    )


def fresh(folder: Path) -> Path:
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(folder)], check=True)
    return folder


def installed(folder: Path) -> set[str]:
    return {path.name.removesuffix(".dist-info") for path in folder.glob("lib/python*/site-packages/*.dist-info")}


def second_index(name: str, url: str) -> list[str]:
    return ["--extra-index-url", url] if name == "pip" else ["--index", url]


CLIENTS = pytest.mark.parametrize("name", ["pip", "uv"])
OURS = {"base-1.0+fork.1", "demo-1.0+fork.1"}


@CLIENTS
def test_the_two_steps_install_the_fork_and_its_dependencies(name: str, indexes: Indexes, tmp_path: Path) -> None:
    target = fresh(tmp_path / "env")
    requirements = str(indexes.wheels.beside("requirements.txt"))
    constraints = str(indexes.wheels.beside("constraints.txt"))
    both = ["--index-url", indexes.public, *second_index(name, indexes.ours)]
    first = client(name, "--no-deps", "--require-hashes", *both, "-r", requirements, target=target)
    assert first.returncode == 0, first.stderr
    assert installed(target) == OURS
    second = client(name, "--index-url", indexes.public, "-c", constraints, "demo", target=target)
    assert second.returncode == 0, second.stderr
    assert installed(target) == {*OURS, "extra-3.0"}


@CLIENTS
def test_without_our_index_nothing_else_is_installed(name: str, indexes: Indexes, tmp_path: Path) -> None:
    target = fresh(tmp_path / "env")
    requirements = str(indexes.wheels.beside("requirements.txt"))
    constraints = str(indexes.wheels.beside("constraints.txt"))
    for arguments in (["--no-deps", "--require-hashes", "-r", requirements], ["-c", constraints, "demo", "base"]):
        run = client(name, "--index-url", indexes.public, *arguments, target=target)
        assert run.returncode != 0
        assert installed(target) == set()


@CLIENTS
def test_without_the_files_the_public_version_would_win(name: str, indexes: Indexes, tmp_path: Path) -> None:
    """The control: what the two files are for."""
    target = fresh(tmp_path / "env")
    both = ["--index-url", indexes.public, *second_index(name, indexes.ours)]
    more = [] if name == "pip" else ["--index-strategy", "unsafe-best-match"]
    run = client(name, *both, *more, "demo", target=target)
    assert run.returncode == 0, run.stderr
    assert "demo-2.0" in installed(target)


@CLIENTS
def test_a_wheel_that_was_replaced_on_the_server_is_refused(name: str, indexes: Indexes, tmp_path: Path) -> None:
    target = fresh(tmp_path / "env")
    make_wheel(indexes.folder, "demo", "1.0+fork.1", files={"demo/evil.py": b""}, requires=("base==1.0+fork.1",))
    requirements = str(indexes.wheels.beside("requirements.txt"))
    index = ["--index-url", indexes.ours]
    run = client(name, "--no-deps", "--require-hashes", *index, "-r", requirements, target=target)
    assert run.returncode != 0
    assert installed(target) <= {"base-1.0+fork.1"}


@CLIENTS
def test_the_folder_serves_find_links(name: str, indexes: Indexes, tmp_path: Path) -> None:
    target = fresh(tmp_path / "env")
    requirements = str(indexes.wheels.beside("requirements.txt"))
    folder = ["--no-index", "--find-links", str(indexes.folder)]
    run = client(name, "--no-deps", "--require-hashes", *folder, "-r", requirements, target=target)
    assert run.returncode == 0, run.stderr
    assert installed(target) == OURS


@CLIENTS
def test_a_yanked_revision_is_not_chosen(name: str, indexes: Indexes, tmp_path: Path) -> None:
    target = fresh(tmp_path / "env")
    publish_set(indexes.folder, make_set(tmp_path / "dist2", local="fork.2", revision=2))
    yank(indexes.folder, "base-1.0+fork.2-py3-none-any.whl", reason="wrong")
    run = client(name, "--no-deps", "--index-url", indexes.ours, "base", target=target)
    assert run.returncode == 0, run.stderr
    assert installed(target) == {"base-1.0+fork.1"}


REPOSITORY = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def built(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a copy of the recipe sm120 whose lock knows what this checkout builds, with its output folder."""
    folder = tmp_path_factory.mktemp("sm120")
    shutil.copytree(REPOSITORY / "patches", folder / "patches")
    shutil.copytree(REPOSITORY / "recipes" / "sm120", folder / "recipes" / "sm120")
    for command in ("lock", "build"):
        arguments = [command, "--recipe", "sm120", "--source", "sdist"]
        run = forkwheel(*arguments, cache=shared / "cache", cwd=folder)
        assert run.returncode == 0, run.stdout + run.stderr
    return folder


def publish(built: Path, index: Path, cache: Path) -> subprocess.CompletedProcess[str]:
    return forkwheel("publish", "--to", index, cache=cache, cwd=built)


@CLIENTS
def test_the_fork_is_built_published_served_and_installed(
    name: str, built: Path, shared: Path, cpu_torch_python: Path, tmp_path: Path
) -> None:
    run = publish(built, tmp_path / "index", shared / "cache")
    assert run.returncode == 0, run.stderr
    target = fresh(tmp_path / "env")
    site = next(target.glob("lib/python*/site-packages"))
    (site / "torch.pth").write_text(str(next(cpu_torch_python.parent.parent.glob("lib/python*/site-packages"))))
    with served(tmp_path / "index") as url:
        arguments = ["--no-deps", "--require-hashes", "--index-url", f"{url}/simple/"]
        run = client(name, *arguments, "-r", str(built / "dist" / "sm120.requirements.txt"), target=target)
    assert run.returncode == 0, run.stderr
    wheels = {"-".join(file.name.split("-")[:2]): file for file in (built / "dist").glob("*.whl")}
    assert installed(target) == set(wheels)
    version = next(name for name in wheels if name.startswith("flashinfer_python-")).split("-")[1]
    script = "import flashinfer; print(flashinfer.__version__, flashinfer.__file__)"
    said = subprocess.run(
        [str(target / "bin/python"), "-c", script], cwd=tmp_path, env={**os.environ, "HOME": str(tmp_path)},
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert said.stdout.startswith(f"{version} "), said.stderr
    assert str(target) in said.stdout


def test_a_build_whose_lock_differs_is_not_published(built: Path, shared: Path, tmp_path: Path) -> None:
    copied = shutil.copytree(built, tmp_path / "copied")
    wheel = next((copied / "dist").glob("sglang-*.whl"))
    digest = sha256_file(wheel)
    wheel.write_bytes(wheel.read_bytes()[:-1] + b"\1")
    manifest = copied / "dist" / "sm120.manifest.json"
    manifest.write_text(manifest.read_text().replace(digest, sha256_file(wheel)))
    run = publish(copied, tmp_path / "index", shared / "cache")
    assert run.returncode == 8
    assert "wheels.lock.toml says" in run.stderr
    assert not (tmp_path / "index").exists()
