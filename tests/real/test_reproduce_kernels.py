"""A wheel of kernels is compiled again from what its set carries, and so without a network from a bundle."""

from __future__ import annotations

import io
import json
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from kernel_recipe import write_kernel_recipe
from kernel_support import make_tree
from publish_support import served
from small import command_environment, forkwheel
from test_bundle_offline import can_unshare

from forkwheel.console import Console
from forkwheel.cuda.kernel_config import load_kernels
from forkwheel.cuda.kernel_documents import kernels_document
from forkwheel.cuda.kernel_wheel import KernelOptions, KernelWheel, make_kernel_wheel
from forkwheel.cuda.prebuilt import pack_jit_cache
from forkwheel.cuda.toolchain import load_toolchain_lock
from forkwheel.errors import VerificationError
from forkwheel.fetch import FetchContext
from forkwheel.recipe import load_recipe
from forkwheel.release import reproduce_kernels
from forkwheel.release.kernels_subject import CarriedKernels
from forkwheel.release.manifest import write_json
from forkwheel.release.reproduced import Reproduced
from forkwheel.release.subject import read_subject
from forkwheel.store import Store
from forkwheel.tree import sha256_file
from forkwheel.wheels.environment import build_environment


@dataclass(frozen=True)
class Made:
    """A recipe whose wheels and kernels were built into ``dist``, and the environment that finds its sdist."""

    folder: Path
    cache: Path
    environment: dict[str, str]

    @property
    def dist(self) -> Path:
        return self.folder / "dist"

    @property
    def kernels(self) -> Path:
        (wheel,) = self.dist.glob("demo_kernels-*.whl")
        return wheel

    def run(self, *arguments: str | Path, cwd: Path | None = None) -> subprocess.CompletedProcess[str]:
        return forkwheel(*arguments, cache=self.cache, environment=self.environment, cwd=cwd or self.folder)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, shared: Path) -> Made:
    folder = tmp_path_factory.mktemp("kernels")
    recipe = write_kernel_recipe(folder)
    made = Made(folder, shared / "cache", {"PIP_FIND_LINKS": str(folder / "links")})
    for command in (["lock", "--recipe", recipe, "--inputs"], ["build", "--recipe", recipe, "--with-kernels"]):
        run = made.run(*command)
        assert run.returncode == 0, run.stdout + run.stderr
    return made


def reproduce(made: Made, subject: Path | str, *more: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """Run the command in an empty folder with an empty cache."""
    (tmp_path / "empty").mkdir(exist_ok=True)
    return replace(made, cache=tmp_path / "cache").run("reproduce", subject, *more, cwd=tmp_path / "empty")


def test_a_set_with_kernels_is_built_again_whole(made: Made, tmp_path: Path) -> None:
    run = reproduce(made, made.dist / "kernels-demo.manifest.json", "--json", tmp_path=tmp_path)
    assert run.returncode == 0, run.stdout + run.stderr
    found = {one["wheel"]: one["verdict"] for one in json.loads(run.stdout)["wheels"]}
    assert found == {"demo-1.0+wide.1-py3-none-any.whl": "identical", made.kernels.name: "identical"}


def test_a_wheel_of_kernels_alone_says_what_it_needs(made: Made, tmp_path: Path) -> None:
    shutil.copy(made.kernels, tmp_path)
    run = reproduce(made, tmp_path / made.kernels.name, tmp_path=tmp_path)
    assert run.returncode == 2
    assert "can be compiled again only with its set's manifest" in run.stderr
    shutil.copy(made.dist / "kernels-demo.manifest.json", tmp_path)
    run = reproduce(made, tmp_path / made.kernels.name, tmp_path=tmp_path)
    assert run.returncode == 2
    assert "only with the wheel of demo==1.0+wide.1, which is not beside it" in run.stderr


@pytest.fixture
def context(shared: Path) -> FetchContext:
    return FetchContext(store=Store(shared / "cache"), log=Console(stream=io.StringIO()).bind("test"))


@pytest.fixture
def carried(made: Made, context: FetchContext, tmp_path: Path) -> CarriedKernels:
    found = read_subject(str(made.kernels), work=tmp_path / "work", context=context).kernels
    assert found is not None
    return found


def test_a_wheel_of_kernels_finds_its_set_beside_it_or_in_an_index(
    made: Made, carried: CarriedKernels, context: FetchContext, tmp_path: Path
) -> None:
    assert (carried.package.name, carried.version) == ("demo", "1.0+wide.1")
    lock = made.run("kernels", "--recipe", made.folder / "recipe", "--lock", "--out", tmp_path / "locked")
    assert lock.returncode == 0, lock.stderr
    index = tmp_path / "index"
    published = made.run("publish", "--to", index, "--lock", made.folder / "recipe" / "wheels.lock.toml")
    assert published.returncode == 0, published.stderr
    with served(index) as url:
        found = read_subject(f"{url}/simple/", work=tmp_path / "other", context=context)
    assert found.kernels is not None
    assert found.kernels.record == carried.record


def test_kernels_that_were_compiled_beside_a_set_later_belong_to_it(
    made: Made, carried: CarriedKernels, context: FetchContext, tmp_path: Path
) -> None:
    dist = shutil.copytree(made.dist, tmp_path / "dist")
    manifest = dist / "kernels-demo.manifest.json"
    document = json.loads(manifest.read_bytes())
    del document["kernels"]
    manifest.write_text(json.dumps(document))
    found = read_subject(str(manifest), work=tmp_path / "one", context=context).kernels
    assert found is not None
    assert found.record == carried.record
    (dist / "kernels-demo.kernels.json").write_text("{}")
    with pytest.raises(VerificationError, match="is no record of kernels"):
        read_subject(str(manifest), work=tmp_path / "two", context=context)
    (dist / "kernels-demo.kernels.json").unlink()
    assert read_subject(str(manifest), work=tmp_path / "three", context=context).kernels is None


def changed_text(name: str, old: str, new: str) -> Callable[[dict[str, dict[str, dict[str, str]]]], None]:
    def change(document: dict[str, dict[str, dict[str, str]]]) -> None:
        text = document["kernels"]["recipe"][name]
        assert old in text
        document["kernels"]["recipe"][name] = text.replace(old, new)

    return change


TOOLCHAIN, KERNELS = "toolchain.lock.toml", "kernels.toml"
CHANGES = {
    "another toolkit": (changed_text(TOOLCHAIN, '"13.0.88"', '"13.0.89"'), "cannot be read"),
    "no digest": (changed_text(TOOLCHAIN, '_x86_64.whl" = "', '_x86_64.whl" = "0'), "cannot be read"),
    "other files": (changed_text(TOOLCHAIN, '_x86_64.whl" = "e0da7ad9', '_x86_64.whl" = "f0da7ad9'), "toolkit is"),
    "another package": (changed_text(KERNELS, 'package = "demo"', 'package = "other"'), "which is not in its set"),
    "no description": (lambda document: document["kernels"]["recipe"].pop(KERNELS), "does not hold kernels.toml"),
    "another key": (lambda document: document["kernels"].update(key="0" * 64), "another `key`"),
    "other modules": (lambda document: document["kernels"]["modules"][0].update(device=[]), "another `modules`"),
}


@pytest.mark.parametrize("what", CHANGES)
def test_what_was_changed_is_found_before_anything_is_compiled(
    made: Made, context: FetchContext, tmp_path: Path, what: str
) -> None:
    dist = shutil.copytree(made.dist, tmp_path / "dist")
    manifest = dist / "kernels-demo.manifest.json"
    document = json.loads(manifest.read_bytes())
    change, message = CHANGES[what]
    change(document)
    manifest.write_text(json.dumps(document))
    with pytest.raises(VerificationError, match=message):
        found = read_subject(str(manifest), work=tmp_path / "work", context=context)
        assert found.kernels is not None
        reproduce_kernels._check_possible(found.kernels)


def test_what_cannot_give_the_same_is_refused(carried: CarriedKernels) -> None:
    for record, message in (
        ({**carried.record, "fast": True}, "is a fast build"),
        ({**carried.record, "parts": {**carried.record["parts"], "machine": "sparc"}}, "was compiled on sparc"),
        ({**carried.record, "parts": {**carried.record["parts"], "toolkit": "none"}}, "which is none"),
    ):
        with pytest.raises(VerificationError, match=message):
            reproduce_kernels._check_possible(replace(carried, record=record))


@pytest.fixture(scope="module")
def compiled(made: Made, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> KernelWheel:
    """Compile the module once, for the comparisons."""
    folder = tmp_path_factory.mktemp("compiled")
    return compile_tree(make_tree(folder / "tree"), made, shared, folder / "out")


def compile_tree(tree: Path, made: Made, shared: Path, dest: Path) -> KernelWheel:
    return make_kernel_wheel(
        tree,
        recipe=load_recipe(made.folder / "recipe" / "recipe.toml"),
        version="1.0+wide.1",
        epoch=1_700_000_000,
        options=KernelOptions(),
        store=Store(shared / "cache"),
        log=Console(stream=io.StringIO()).bind("test"),
        dest=dest,
    )


@pytest.fixture
def compare(
    made: Made, carried: CarriedKernels, compiled: KernelWheel, context: FetchContext, tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[..., Reproduced]:  # fmt: skip
    """Return a function that packs changed objects as the wheel that is to be reproduced, and compares."""

    @contextmanager
    def tree(*_: object, **__: object) -> Iterator[SimpleNamespace]:
        yield SimpleNamespace(tree=SimpleNamespace(root=make_tree(tmp_path / "tree")))

    monkeypatch.setattr(reproduce_kernels, "patched_tree", tree)
    monkeypatch.setattr(reproduce_kernels, "write_generated", lambda tree, *_, **__: tree)
    monkeypatch.setattr(reproduce_kernels, "make_kernel_wheel", lambda *_, **__: compiled)

    def run(change: Callable[[bytes], bytes], *, text: str = "", build: KernelWheel = compiled) -> Reproduced:
        (module,) = build.build.modules
        path = tmp_path / "changed" / "demo_ops.so"
        path.parent.mkdir()
        with zipfile.ZipFile(build.wheel.path) as archive:
            path.write_bytes(change(archive.read("demo_kernels/objects/demo_ops/demo_ops.so")))
        other = replace(module, path=path, sha256=sha256_file(path), size=path.stat().st_size)
        theirs = replace(build.build, modules=(other,))
        config = load_kernels(made.folder / "recipe" / "kernels.toml").wheel
        files = tuple((name, content + text) for name, content in config.files)
        lock = load_toolchain_lock(made.folder / "recipe")
        packed = pack_jit_cache(
            theirs,
            config=replace(config, files=files),
            version="1.0+wide.1",
            epoch=1_700_000_000,
            tree=make_tree(tmp_path / "licensed"),
            tagging=build_environment(lock.of("tagging"), store=context.store, log=context.log),
            dest=tmp_path / "theirs",
            records={"forkwheel/kernels.json": write_json(kernels_document(theirs))},
        )
        subject = replace(carried, wheel=packed.path)
        return reproduce_kernels.reproduce_kernels(
            subject, context=context, console=Console(stream=io.StringIO()), kind=None, dest=tmp_path / "again"
        )

    return run


def other_string(content: bytes) -> bytes:
    assert b"norm.cu\0" in content
    return content.replace(b"norm.cu\0", b"norm.cx\0")


def other_compiler(content: bytes) -> bytes:
    at = content.index(b"GCC: (")
    end = content.index(b"\0", at)
    named = b"GCC: (Elsewhere) 11.3.0".ljust(end - at, b" ")
    return other_string(content[:at] + named + content[end:])


def test_equal_bytes_are_identical(compare: Callable[..., Reproduced]) -> None:
    assert compare(bytes).verdict == "identical"


def test_another_host_compiler_is_named_beside_identical_device_code(compare: Callable[..., Reproduced]) -> None:
    result = compare(other_compiler)
    assert (result.differences, result.verdict) == ((), "device code identical")
    assert result.apart.startswith("device code identical, host code differs: gcc 11.3.0 (Elsewhere)")
    assert " / gcc " in result.apart


def test_other_host_code_by_the_same_compiler_is_a_difference(compare: Callable[..., Reproduced]) -> None:
    (difference,) = compare(other_string).differences
    assert (difference.kind, difference.member) == ("host code", "demo_ops")
    assert "device code identical, but gcc" in difference.detail


def test_other_device_code_is_a_difference_whoever_compiled_the_rest(
    compare: Callable[..., Reproduced], made: Made, shared: Path, tmp_path: Path
) -> None:
    tree = make_tree(tmp_path / "other", guard="__CUDA_ARCH__ >= 901")
    (tree / "src" / "norm.cuh").write_text((tree / "src" / "norm.cuh").read_text().replace("3.0f", "5.0f"))
    result = compare(other_compiler, build=compile_tree(tree, made, shared, tmp_path / "out"))
    assert result.verdict == "different"
    assert result.differences[0].kind == "device code"


def test_another_member_is_a_difference_whoever_compiled_the_rest(compare: Callable[..., Reproduced]) -> None:
    result = compare(other_compiler, text="import os\n")
    assert result.verdict == "different"
    assert "demo_kernels/__init__.py" in {one.member for one in result.differences}


@pytest.mark.skipif(not can_unshare(), reason="`unshare -rn` does not work here: no network to take away")
def test_a_bundle_compiles_the_same_kernels_without_a_network(made: Made, tmp_path: Path) -> None:
    recipe = made.folder / "recipe"
    run = made.run("fetch", "--recipe", recipe, "--bundle", tmp_path / "bundle", "--no-tools")
    assert run.returncode == 0, run.stdout + run.stderr
    environment = command_environment(tmp_path / "cache") | {"PIP_FIND_LINKS": ""}
    environment["MAX_JOBS"] = "2"
    for command in (["kernels"], ["build", "--with-kernels"]):
        words = [
            sys.executable,
            "-m",
            "forkwheel",
            *command,
            "--recipe",
            str(recipe),
            "--out",
            str(tmp_path / command[0]),
        ]
        words += ["--from-bundle", str(tmp_path / "bundle")]
        run = subprocess.run(
            ["unshare", "-rn", *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
        )
        assert run.returncode == 0, run.stdout + run.stderr
        assert sha256_file(tmp_path / command[0] / made.kernels.name) == sha256_file(made.kernels)
    for wheel in (tmp_path / "bundle" / "files").glob("nvidia_cuda_nvcc-*"):
        wheel.unlink()
    environment |= command_environment(tmp_path / "second")
    run = subprocess.run(
        ["unshare", "-rn", *words], env=environment, cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert run.returncode == 3
    assert f"lacks nvidia-cuda-nvcc 13.0.88 for {os.uname().machine}" in run.stderr
