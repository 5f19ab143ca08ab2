"""SGLang 0.5.23 patched in place: its gates, its compiled members, and installing it."""

from __future__ import annotations

import logging
import subprocess
import sys
import zipfile
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from series_python import Namespace, parse, run_top_level
from small import forkwheel

from forkwheel.canonical import source_text
from forkwheel.fetch import FetchContext
from forkwheel.projection import copy_tree
from forkwheel.recipe import FileSource, Package, load_recipe
from forkwheel.sources import patched_tree, source_tree
from forkwheel.wheels.verify import verify_wheel

REPOSITORY = Path(__file__).resolve().parents[2]
RECIPE = REPOSITORY / "recipes" / "sm120-current" / "recipe.toml"
PYTHON = "cp312-cp312-manylinux_2_34_x86_64"
FUSION = "sglang/srt/layers/flashinfer_comm_fusion.py"
LAYER = "sglang/srt/layers/layer_boundary/residual/add_norm.py"
OVERRIDES = "sglang/srt/arg_groups/overrides.py"
CAPABILITIES = ("8.9", "9.0", "10.0", "12.0")


@pytest.fixture(scope="module")
def package() -> Package:
    """Return the package with one of its wheels: the others differ in compiled members alone."""
    package = load_recipe(RECIPE).package("sglang")
    return next(one for one in package.variants() if PYTHON in one.sources[0].pin)


@pytest.fixture(scope="module")
def stock(package: Package, context: FetchContext) -> Path:
    return source_tree(package, context=context).tree.root


@pytest.fixture(scope="module")
def patched(package: Package, context: FetchContext, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("current") / "tree"
    with patched_tree(package, context=context) as made:
        tree = replace(made.tree, entries=tuple(entry for entry in made.tree.entries if entry.path.endswith(".py")))
        copy_tree(tree, folder)
    return folder


def platform(capability: str) -> Any:
    return SimpleNamespace(
        is_cuda=True,
        is_sm90=capability == "9.0",
        is_sm100=capability == "10.0",
        is_sm120=capability == "12.0",
        is_blackwell=capability in ("10.0", "12.0"),
    )


def resolve(root: Path, capability: str, backend: str, *, nodes: int = 1) -> str:
    stand_ins = {"get_platform": lambda: platform(capability)}
    namespace = run_top_level(root / FUSION, {"_mnnvl_supported", "_resolve_backend"}, stand_ins)
    try:
        return str(namespace["_resolve_backend"](backend, nodes > 1))
    except ValueError:
        return "refused"


@pytest.mark.parametrize(
    ("capability", "backend", "nodes", "before", "after"),
    [
        ("8.9", "auto", 1, "refused", "refused"),
        ("9.0", "auto", 1, "trtllm", "trtllm"),
        ("9.0", "auto", 2, "refused", "refused"),
        ("9.0", "mnnvl", 1, "mnnvl", "mnnvl"),
        ("10.0", "auto", 1, "mnnvl", "mnnvl"),
        ("10.0", "auto", 2, "mnnvl", "mnnvl"),
        ("10.0", "cutedsl", 1, "cutedsl", "cutedsl"),
        ("12.0", "auto", 1, "refused", "trtllm"),
        ("12.0", "trtllm", 1, "refused", "trtllm"),
        ("12.0", "auto", 2, "refused", "refused"),
        ("12.0", "trtllm", 2, "refused", "refused"),
        ("12.0", "mnnvl", 1, "refused", "refused"),
        ("12.0", "mnnvl", 2, "refused", "refused"),
        ("12.0", "cutedsl", 1, "refused", "refused"),
    ],
)
def test_sm120_gets_the_trtllm_backend_on_one_node_and_nothing_else(
    stock: Path, patched: Path, capability: str, backend: str, nodes: int, before: str, after: str
) -> None:
    assert resolve(stock, capability, backend, nodes=nodes) == before
    assert resolve(patched, capability, backend, nodes=nodes) == after


def layer_gate(root: Path, capability: str, *, backend: str | None = "trtllm", tokens: int = 16) -> bool:
    stand_ins = {
        "get_platform": lambda: platform(capability),
        "is_cuda": lambda: True,
        "is_flashinfer_available": lambda: True,
        "is_dp_attention_enabled": lambda: False,
        "is_flashinfer_allreduce_unavailable": lambda: False,
        "uses_cutedsl_ar_fusion": lambda: False,
        "get_exec": lambda: SimpleNamespace(comm=SimpleNamespace(flashinfer_allreduce_fusion_backend=backend)),
    }
    names = {"_is_cuda", "_is_flashinfer_available", "_is_sm90_supported", "_is_sm100_supported"}
    names |= {"FUSE_ALLREDUCE_MAX_BATCH_SIZE", "flashinfer_ar_fusion_applies"}
    names |= {"_is_sm120_supported"} & _assigned(root / LAYER)
    return bool(run_top_level(root / LAYER, names, stand_ins)["flashinfer_ar_fusion_applies"](tokens))


def _assigned(file: Path) -> set[str]:
    targets = [target for node in parse(file).body for target in getattr(node, "targets", ())]
    return {target.id for target in targets if hasattr(target, "id")}


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_the_layers_fuse_on_sm120_too(stock: Path, patched: Path, capability: str) -> None:
    assert layer_gate(stock, capability) == (capability in ("9.0", "10.0"))
    assert layer_gate(patched, capability) == (capability in ("9.0", "10.0", "12.0"))
    assert not layer_gate(patched, capability, backend=None)
    assert not layer_gate(patched, capability, tokens=4096)


def auto_enabled(
    root: Path, capability: str, *, size: int, nodes: int = 1, peers: bool = True, limit: int = 2, gpus: int = 8
) -> str | None:
    """Return the backend that is enabled without being asked for, for a model of the list."""
    view = SimpleNamespace(
        flashinfer_allreduce_fusion_backend=None,
        tp_size=size,
        pp_size=1,
        nnodes=nodes,
        base_gpu_id=0,
        gpu_id_step=1,
        moe_a2a_backend="none",
        disable_custom_all_reduce=False,
    )
    model = SimpleNamespace(hf_config=SimpleNamespace(architectures=["Qwen3MoeForCausalLM"], model_type="qwen3"))
    stand_ins: Namespace = {
        "logging": logging,
        "Any": Any,
        "get_platform": lambda: platform(capability),
        "model_config_of": lambda _: model,
        "envs": SimpleNamespace(SGLANG_SM120_ALLREDUCE_FUSION_MAX_TP_SIZE=SimpleNamespace(get=lambda: limit)),
    }
    names = {"logger", "_FLASHINFER_ALLREDUCE_FUSION_ARCHS", "_flashinfer_allreduce_fusion_auto_enable"}
    names |= {"_ranks_can_share_memory"} & {getattr(node, "name", "") for node in parse(root / OVERRIDES).body}
    torch = SimpleNamespace(
        cuda=SimpleNamespace(device_count=lambda: gpus, can_device_access_peer=lambda gpu, peer: peers)
    )
    local = {"register_post_process": lambda function: function, "attn_dp_enabled_of": lambda _: False}
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "torch", torch)  # type: ignore[arg-type]
        found = _run(root / OVERRIDES, names, stand_ins, local)
        return found["_flashinfer_allreduce_fusion_auto_enable"](view).get("flashinfer_allreduce_fusion_backend")


def _run(file: Path, names: set[str], stand_ins: Namespace, local: Namespace) -> Namespace:
    """Run pieces of a file that also use names which the file defines elsewhere."""
    from series_python import _defined, imported, run

    module = parse(file)
    statements = [node for node in module.body if _defined(node) & names]
    return run(statements, imported(module, stand_ins) | local)


@pytest.mark.parametrize("size", [1, 2, 4, 8])
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_fusion_enables_itself_on_sm120_for_two_gpus_only(
    stock: Path, patched: Path, capability: str, size: int
) -> None:
    before = "auto" if capability in ("9.0", "10.0") and size > 1 else None
    after = "auto" if capability == "12.0" and size == 2 else before
    assert auto_enabled(stock, capability, size=size) == before
    assert auto_enabled(patched, capability, size=size) == after


def test_the_limit_can_be_moved_and_peers_and_one_node_are_needed(patched: Path) -> None:
    assert auto_enabled(patched, "12.0", size=4, limit=4) == "auto"
    assert auto_enabled(patched, "12.0", size=2, peers=False) is None
    assert auto_enabled(patched, "12.0", size=2, gpus=1) is None
    assert auto_enabled(patched, "12.0", size=2, nodes=2) is None
    assert auto_enabled(patched, "9.0", size=2, peers=False) == "auto"


class Driver:
    """A CUDA driver on which only some questions can be asked; ``asked`` are those that were."""

    CUmemAllocationGranularity_flags = SimpleNamespace(CU_MEM_ALLOC_GRANULARITY_RECOMMENDED=1)
    CUmulticastGranularity_flags = SimpleNamespace(CU_MULTICAST_GRANULARITY_RECOMMENDED=1)
    CUresult = SimpleNamespace(CUDA_SUCCESS=0)
    CUmulticastObjectProp = SimpleNamespace

    def __init__(self, *, has_multicast: bool) -> None:
        self.has_multicast = has_multicast
        self.asked: list[str] = []

    def cuMemGetAllocationGranularity(self, prop: Any, flag: int) -> tuple[int, int]:  # noqa: N802 - CUDA's name
        self.asked.append("allocation")
        return 0, 1 << 21

    def cuMulticastGetGranularity(self, prop: Any, flag: int) -> tuple[int, int]:  # noqa: N802 - CUDA's name
        self.asked.append("multicast")
        return (0, 1 << 29) if self.has_multicast else (801, 0)


def sizes(root: Path, driver: Driver, **options: bool) -> list[int]:
    stand_ins = {"torch": SimpleNamespace(float32="float32", dtype=str)}
    stand_ins["ceil_align"] = lambda size, unit: -(-size // unit) * unit
    namespace = run_top_level(root / FUSION, {"_flashinfer_trtllm_workspace_allocation_sizes"}, stand_ins)
    made = namespace["_flashinfer_trtllm_workspace_allocation_sizes"]
    prop = SimpleNamespace(requestedHandleTypes=1)
    return list(made(driver, prop, 2, 2048, 4096, "bfloat16", **options))


def test_multicast_is_asked_for_only_where_it_is_wanted(stock: Path, patched: Path) -> None:
    with pytest.raises(RuntimeError, match="cuMulticastGetGranularity"):
        sizes(stock, Driver(has_multicast=False))
    without = Driver(has_multicast=False)
    assert len(sizes(patched, without, use_multicast=False)) == 3
    assert "multicast" not in without.asked
    for driver in (Driver(has_multicast=True),):
        assert sizes(patched, driver, use_multicast=True) == sizes(stock, Driver(has_multicast=True))


@pytest.fixture(scope="module")
def wheel(package: Package, shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build the recipe with this one wheel of SGLang, through the command."""
    folder = tmp_path_factory.mktemp("build")
    text = RECIPE.read_text().replace("../../patches", str(REPOSITORY / "patches"))
    head, _, _ = text.partition("[[package]]")
    block = text[text.rindex("[[package]]") :].partition("\n[[package.source]]")[0]
    (folder / "recipe").mkdir()
    (folder / "recipe" / "recipe.toml").write_text(head + block + "\n" + source_text(package.sources))
    (folder / "recipe" / "patches").symlink_to(REPOSITORY / "patches")
    run = forkwheel("lock", "--recipe", folder / "recipe", cache=shared / "cache")
    assert run.returncode == 0, run.stderr
    run = forkwheel("build", "--recipe", folder / "recipe", "--out", folder / "dist", cache=shared / "cache")
    assert run.returncode == 0, run.stderr
    return folder / "dist" / f"sglang-0.5.23+sm120.1-{PYTHON}.whl"


def test_the_record_is_right_and_compiled_members_are_upstreams(wheel: Path, package: Package, shared: Path) -> None:
    verify_wheel(wheel, must_contain={})
    (source,) = package.sources
    assert isinstance(source, FileSource)
    upstream = zipfile.ZipFile(shared / "cache" / "archives" / source.sha256 / source.filename)
    fork = zipfile.ZipFile(wheel)
    changed = {
        name
        for name in upstream.namelist()
        if not name.endswith("/") and ".dist-info/" not in name and fork.read(name) != upstream.read(name)
    }
    assert changed == {FUSION, LAYER, OVERRIDES, "sglang/srt/environ.py", "sglang/_version.py"}
    assert sum(name.endswith(".so") for name in upstream.namelist()) == 5
    assert b"flashinfer_python[cu13]==0.7.2\n" in fork.read("sglang-0.5.23+sm120.1.dist-info/METADATA")


@pytest.mark.parametrize("client", ["pip", "uv"])
def test_pip_and_uv_install_it(wheel: Path, client: str, tmp_path: Path) -> None:
    options = ["--target", str(tmp_path), "--no-deps", "--python-version", "3.12", str(wheel)]
    if client == "pip":
        platforms = ["--platform", "manylinux_2_34_x86_64", "--only-binary", ":all:"]
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-index", *platforms, *options]
    else:
        command = [sys.executable, "-m", "uv", "pip", "install", "--quiet", "--no-index", "--offline"]
        command += ["--python-platform", "x86_64-manylinux_2_34", *options]
    subprocess.run(command, check=True)
    version = (tmp_path / "sglang" / "_version.py").read_text()
    assert "__version__ = version = '0.5.23+sm120.1'" in version
    assert (tmp_path / "sglang-0.5.23+sm120.1.dist-info" / "METADATA").is_file()


def test_the_recipe_lists_a_wheel_for_each_python_and_platform() -> None:
    tags = {
        one.sources[0].pin.split("@")[0].split("-", 2)[2] for one in load_recipe(RECIPE).package("sglang").variants()
    }
    assert tags == {
        f"cp3{minor}-cp3{minor}-manylinux_2_34_{machine}.whl"
        for minor in (11, 12, 13)
        for machine in ("x86_64", "aarch64")
    }
    assert load_recipe(RECIPE).package("flashinfer-python").is_taken
