"""The locked CUDA toolkit compiles, packs and reads a small module of an invented package."""

from __future__ import annotations

import ctypes
import io
import json
import os
import shutil
import socket
import subprocess
import time
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from kernel_support import load_demo, make_tree, open_shop, with_store

from forkwheel.cuda import build_root
from forkwheel.cuda.census import census
from forkwheel.cuda.census_rules import check_rules
from forkwheel.cuda.compile_cache import URL_VARIABLE, open_compile_cache
from forkwheel.cuda.kernel_config import Kernels
from forkwheel.cuda.kernel_documents import kernels_document
from forkwheel.cuda.kernels import KernelBuild, KernelShop, build_kernels, reading_tools
from forkwheel.cuda.prebuilt import pack_jit_cache
from forkwheel.cuda.targets import parse_targets
from forkwheel.cuda.toolchain import system_toolchain
from forkwheel.errors import BuildError, UsageError, VerificationError
from forkwheel.store import Store
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.verify import verify_wheel

TARGET = parse_targets("12.0a")


@pytest.fixture(scope="module")
def kernels(tmp_path_factory: pytest.TempPathFactory) -> Kernels:
    return load_demo(tmp_path_factory.mktemp("demo-recipe"))


@pytest.fixture(scope="module")
def shop(store: Store, kernels: Kernels) -> KernelShop:
    return open_shop(store, kernels)


@pytest.fixture(scope="module")
def built(shop: KernelShop, tmp_path_factory: pytest.TempPathFactory) -> KernelBuild:
    folder = tmp_path_factory.mktemp("built")
    return build_kernels(make_tree(folder / "tree"), shop=shop, targets=TARGET, dest=folder / "out", fresh=True)


def packed(built: KernelBuild, shop: KernelShop, folder: Path, *, version: str = "1.0+wide.1") -> Path:
    tagging = build_environment(shop.lock.of("tagging"), store=shop.store, log=shop.log)
    return pack_jit_cache(
        built,
        config=shop.kernels.wheel,
        version=version,
        epoch=1_700_000_000,
        tree=make_tree(folder / "licensed"),
        tagging=tagging,
        dest=folder,
    ).path


def test_the_toolkit_is_laid_out_as_a_cuda_home(shop: KernelShop) -> None:
    home = shop.toolchain.cuda_home

    for name in ("bin/nvcc", "include/cuda_runtime.h", "lib64/libcudart.so", "lib64/stubs/libcuda.so"):
        assert (home / name).is_file()
    assert shop.toolchain.release == (13, 0)


def test_the_object_needs_no_cuda_library(built: KernelBuild) -> None:
    (module,) = built.modules

    needed = subprocess.run(["readelf", "-d", str(module.path)], check=True, capture_output=True, text=True).stdout
    symbols = subprocess.run(["nm", "-D", str(module.path)], check=True, capture_output=True, text=True).stdout

    assert "libcu" not in needed
    assert " T cuda" not in symbols
    assert ctypes.CDLL(str(module.path)).demo_fill(0) != 0  # no driver, or one without a GPU: an error, not a crash


def test_recorded_commands_are_relative_to_the_roots(built: KernelBuild) -> None:
    document = json.dumps(kernels_document(built))

    assert "toolkit/bin/nvcc" in document
    assert "tree/src/other.cu" in document
    assert "generated/norm.half.cu" in document
    assert str(build_root.ROOT) not in document
    assert os.environ["HOME"] not in document


def test_another_checkout_and_root_give_the_same_object(
    built: KernelBuild, shop: KernelShop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A copy in another folder, under another umask and HOME, in a folder of our own instead of a namespace."""
    monkeypatch.setattr(build_root, "_NAMESPACES", ())
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("CPATH", "/nowhere")
    old = os.umask(0o077)
    try:
        tree = make_tree(tmp_path / "deeply" / "nested" / "tree")
        again = build_kernels(tree, shop=shop, targets=TARGET, dest=tmp_path / "out", fresh=True)
    finally:
        os.umask(old)

    assert again.modules[0].sha256 == built.modules[0].sha256
    assert again.key == built.key


def test_what_a_split_instantiates_is_part_of_the_key(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    (split,) = shop.kernels.splits
    more = replace(split, functions=(*split.functions, "__global__ void norm<{type}>({type}*)"))
    changed = replace(shop, kernels=replace(shop.kernels, splits=(more,)))

    other = build_kernels(make_tree(tmp_path / "tree"), shop=changed, targets=TARGET, dest=tmp_path / "out", fresh=True)

    assert other.key != built.key


def test_a_part_that_needs_what_its_prelude_takes_away_is_an_error(shop: KernelShop, tmp_path: Path) -> None:
    (split,) = shop.kernels.splits
    saying = replace(split, functions=("int choose<{type}>({type}*, bool)",))
    changed = replace(shop, kernels=replace(shop.kernels, splits=(saying,)))

    with pytest.raises(BuildError, match=r"(?s)norm\.half\.cu: .*this unit says nothing"):
        build_kernels(make_tree(tmp_path / "tree"), shop=changed, targets=TARGET, dest=tmp_path / "out", fresh=True)


def test_the_same_key_is_not_built_again_and_an_interrupted_build_goes_on(
    shop: KernelShop, store: Store, tmp_path: Path
) -> None:
    output = io.StringIO()
    other = with_store(open_shop(store, shop.kernels, output=output), Store(tmp_path / "cache"), toolchains=store)
    tree = make_tree(tmp_path / "tree")
    wrong = "#error not yet\n" + (tree / "src" / "other.cu").read_text()
    right = (tree / "src" / "other.cu").read_text()
    (tree / "src" / "other.cu").write_text(wrong)
    serial = replace(other, environment={**os.environ, "MAX_JOBS": "1"})

    with pytest.raises(BuildError, match="not yet") as caught:
        build_kernels(tree, shop=serial, targets=TARGET, dest=tmp_path / "out")

    assert caught.value.message.startswith("other.cu: its compiler failed")
    assert not (tmp_path / "out").exists()
    assert list((tmp_path / "cache" / "objects").rglob("norm.o"))
    output.truncate(0)
    (tree / "src" / "other.cu").write_text(right)
    assert not build_kernels(tree, shop=serial, targets=TARGET, dest=tmp_path / "out").reused
    assert build_kernels(tree, shop=serial, targets=TARGET, dest=tmp_path / "out").reused
    objects = list((tmp_path / "cache" / "objects").iterdir())
    assert len(objects) == 1  # of the other source, for `cache --prune`; those that were linked are gone


def test_the_wheel_is_sound_and_says_what_it_is_for(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    wheel = packed(built, shop, tmp_path)

    verify_wheel(wheel, must_contain={"demo_kernels/objects/demo_ops/demo_ops.so": built.modules[0].sha256})
    assert wheel.name.startswith("demo_kernels-1.0+wide.1-cp39-abi3-manylinux_2_")
    with zipfile.ZipFile(wheel) as archive:
        record = json.loads(archive.read("demo_kernels/objects/demo_ops/demo_ops.json"))
        metadata = archive.read("demo_kernels-1.0+wide.1.dist-info/METADATA").decode()
        module = archive.read("demo_kernels/__init__.py").decode()
    assert (record["targets"], record["driver"]) == (["sm_120a"], 13000)
    assert record["sha256"] == built.modules[0].sha256
    assert "Requires-Dist: demo==1.0+wide.1\n" in metadata
    assert module == '__version__ = "1.0+wide.1"\n'
    assert [path.name for path in tmp_path.iterdir()] == ["licensed", wheel.name]


def test_the_wheel_is_the_same_each_time(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    first, second = (packed(built, shop, tmp_path / name) for name in ("one", "two"))

    assert first.read_bytes() == second.read_bytes()
    assert first.name == second.name


def test_a_fast_build_has_another_key(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    fast = build_kernels(
        make_tree(tmp_path / "tree"), shop=shop, targets=TARGET, dest=tmp_path / "out", fast=True, fresh=True
    )

    assert fast.fast
    assert fast.key != built.key
    assert all("--split-compile=0" in command for _, command in fast.modules[0].units)


def test_a_fast_build_cannot_be_a_release(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="fast build"):
        packed(replace(built, fast=True), shop, tmp_path)

    assert packed(replace(built, fast=True), shop, tmp_path, version="1.0+wide.dev.k1234567")


def test_an_object_that_needs_a_library_of_cuda_is_refused(
    built: KernelBuild, shop: KernelShop, tmp_path: Path
) -> None:
    (module,) = built.modules
    (tmp_path / "a.c").write_text("int cudaGetLastError(void); int f(void) { return cudaGetLastError(); }")
    libraries = shop.toolchain.cuda_home / "lib"
    command = ["gcc", "-shared", "-fPIC", str(tmp_path / "a.c"), f"-L{libraries}", "-l:libcudart.so.13"]
    subprocess.run([*command, "-o", str(tmp_path / "a.so")], check=True)
    dynamic = replace(built, modules=(replace(module, path=tmp_path / "a.so"),))

    with pytest.raises(VerificationError, match=r"libcudart\.so\.13"):
        packed(dynamic, shop, tmp_path / "out")


def test_the_census_reads_wheels_and_objects(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    tools = reading_tools(shop.lock, store=shop.store, log=shop.log)

    from_object = census([built.modules[0].path], tools=tools)
    from_wheel = census([packed(built, shop, tmp_path)], tools=tools)

    assert from_object == from_wheel
    assert from_object.targets == ("sm_120a",)
    counted = {family.name: len(family.kernels) for family in from_object.families}
    assert counted == {"demo::norm": 2, "demo::fill": 1}
    assert tuple(sha256 for _, sha256 in from_object.objects) == built.modules[0].device
    check_rules(from_object, shop.kernels.rules, targets=["sm_120a"])


def test_a_guard_that_leaves_the_bodies_out_breaks_the_rules(shop: KernelShop, tmp_path: Path) -> None:
    tree = make_tree(tmp_path / "tree", guard="__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200")
    built = build_kernels(tree, shop=shop, targets=TARGET, dest=tmp_path / "out", fresh=True)
    taken = census([built.modules[0].path], tools=reading_tools(shop.lock, store=shop.store, log=shop.log))

    with pytest.raises(VerificationError) as caught:
        check_rules(taken, shop.kernels.rules, targets=["sm_120a"])

    assert "demo::norm: 2 of 2 kernels are empty" in caught.value.message
    assert "guards.patch" in caught.value.hint


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    """Start a Redis server of our own on loopback and return its address."""
    program = shutil.which("redis-server")
    assert program, "redis-server is missing: apt install redis-server"
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port = found.getsockname()[1]
    folder = tmp_path / "redis"
    folder.mkdir()
    options = ["--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(folder), "--appendonly", "no"]
    with subprocess.Popen([program, *options], stdout=subprocess.DEVNULL) as server:
        try:
            _wait_for(port)
            yield f"redis://127.0.0.1:{port}"
        finally:
            server.terminate()


def _wait_for(port: int) -> None:
    for _ in range(200):
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return
    raise AssertionError("redis-server did not start")


def test_a_fleet_compiles_each_unit_once(
    built: KernelBuild, shop: KernelShop, store: Store, redis: str, tmp_path: Path
) -> None:
    """Two builders with empty caches of their own share a server: the second one compiles nothing."""
    uses, digests = [], []
    for name in ("first", "second"):
        builder = with_store(shop, Store(tmp_path / name), toolchains=store)
        environment = {**os.environ, URL_VARIABLE: redis}
        cache = open_compile_cache(
            shop.toolchain, lock=shop.lock, store=builder.store, log=shop.log, environment=environment
        )
        tree = make_tree(tmp_path / f"{name}-tree")
        made = build_kernels(tree, shop=builder, targets=TARGET, dest=tmp_path / f"{name}-out", cache=cache)
        assert made.cache_use is not None
        uses.append((made.cache_use.hits, made.cache_use.misses, made.cache_use.errors))
        digests.append(made.modules[0].sha256)

    assert uses == [(0, 3, 0), (3, 0, 0)]
    assert set(digests) == {built.modules[0].sha256}


def test_a_warm_local_cache_gives_the_same_bytes(
    built: KernelBuild, shop: KernelShop, store: Store, tmp_path: Path
) -> None:
    local = with_store(shop, Store(tmp_path / "cache"), toolchains=store)
    cache = open_compile_cache(shop.toolchain, lock=shop.lock, store=local.store, log=shop.log, environment={})
    tree = make_tree(tmp_path / "tree")

    made = [
        build_kernels(tree, shop=local, targets=TARGET, dest=tmp_path / name, cache=cache, fresh=True)
        for name in ("cold", "warm")
    ]

    assert [build.cache_use.misses for build in made if build.cache_use] == [3, 0]
    assert {build.modules[0].sha256 for build in made} == {built.modules[0].sha256}


def test_an_address_that_is_none_is_refused_without_showing_it(shop: KernelShop) -> None:
    with pytest.raises(UsageError) as caught:
        open_compile_cache(
            shop.toolchain,
            lock=shop.lock,
            store=shop.store,
            log=shop.log,
            environment={URL_VARIABLE: "http://user:secret@host"},
        )

    assert "secret" not in caught.value.message + caught.value.hint


def test_two_targets_are_compiled_and_counted(shop: KernelShop, tmp_path: Path) -> None:
    targets = parse_targets("9.0a 12.0a")

    built = build_kernels(make_tree(tmp_path / "tree"), shop=shop, targets=targets, dest=tmp_path / "out", fresh=True)
    taken = census([built.modules[0].path], tools=reading_tools(shop.lock, store=shop.store, log=shop.log))

    assert taken.targets == ("sm_120a", "sm_90a")
    assert len(taken.kernels) == 6
    with pytest.raises(VerificationError, match="3 kernels are for sm_90a"):
        check_rules(taken, shop.kernels.rules, targets=["sm_120a"])


def test_the_installed_toolkit_serves_too(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    """The locked toolkit, named by CUDA_HOME: the same device code, from another path."""

    copied = tmp_path / "cuda"
    shutil.copytree(shop.toolchain.cuda_home, copied, symlinks=True, copy_function=os.link)
    system = system_toolchain({**os.environ, "CUDA_HOME": str(copied)})

    made = build_kernels(
        make_tree(tmp_path / "tree"),
        shop=replace(shop, toolchain=system),
        targets=TARGET,
        dest=tmp_path / "out",
        fresh=True,
    )

    assert made.modules[0].device == built.modules[0].device


def test_a_cubin_by_itself_tells_its_target(built: KernelBuild, shop: KernelShop, tmp_path: Path) -> None:
    tools = reading_tools(shop.lock, store=shop.store, log=shop.log)
    command = [str(tools.cuobjdump), "-xelf", "all", str(built.modules[0].path.resolve())]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    (tmp_path / "demo_ops.2.sm_120a.cubin").rename(tmp_path / "lying.sm_90a.cubin")

    assert census([tmp_path / "lying.sm_90a.cubin"], tools=tools).targets == ("sm_120a",)
