"""The gates of SGLang's all-reduce fusion, as they stand in the real files, for each architecture and size."""

from __future__ import annotations

import ast
import functools
import importlib.util
import logging
import sys
import warnings
from pathlib import Path
from types import MethodType, ModuleType, SimpleNamespace
from typing import Any

import pytest
from series_python import Namespace, function, imported, parse, run, run_top_level

CAPABILITIES = ((8, 9), (9, 0), (10, 0), (12, 0))
SIZES = (1, 2, 4, 8)
PREDICATES = {"is_sm90_supported", "is_sm100_supported", "is_sm120_supported"}
LIMIT = "SGLANG_SM120_ALLREDUCE_FUSION_MAX_TP_SIZE"
ARCHITECTURES = (
    "DeepseekV3ForCausalLM",
    "GptOssForCausalLM",
    "Glm4MoeForCausalLM",
    "Glm4MoeLiteForCausalLM",
    "Qwen3MoeForCausalLM",
    "KimiK25ForConditionalGeneration",
)


@pytest.fixture
def stock(stock_trees: dict[str, Path]) -> Path:
    return stock_trees["sglang"] / "sglang" / "srt"


@pytest.fixture
def patched(patched_trees: dict[str, Path]) -> Path:
    return patched_trees["sglang"] / "sglang" / "srt"


def torch_with(capability: tuple[int, int], *, cuda: str = "12.8", gpus: int = 8, peers: bool = True) -> Any:
    """Return a torch that sees ``gpus`` GPUs of one capability, which do or do not reach each other."""
    return SimpleNamespace(
        cuda=SimpleNamespace(
            get_device_capability=lambda: capability,
            device_count=lambda: gpus,
            can_device_access_peer=lambda gpu, peer: peers,
        ),
        version=SimpleNamespace(cuda=cuda),
    )


def predicates(srt: Path, torch: Any) -> Namespace:
    """Return SGLang's own architecture predicates, on this torch."""
    stand_ins = {"torch": torch, "partial": functools.partial, "lru_cache": functools.lru_cache}
    stand_ins |= {"List": list, "Tuple": tuple}
    names = PREDICATES | {"_check_cuda_device_version"}
    module = parse(srt / "utils" / "common.py")
    statements = [
        node
        for node in module.body
        if getattr(node, "name", "") in names
        or (isinstance(node, ast.Assign) and {getattr(target, "id", "") for target in node.targets} & names)
    ]
    namespace = run(statements, imported(module, stand_ins) | {"is_cuda": lambda: True})
    return {name: namespace[name] for name in PREDICATES}


def layer_gate(srt: Path, capability: tuple[int, int], *, flag: bool = True, tokens: int = 16) -> bool:
    """Return what ``apply_flashinfer_allreduce_fusion`` says in a process of that architecture."""
    stand_ins = predicates(srt, torch_with(capability)) | {
        "is_cuda": lambda: True,
        "is_flashinfer_available": lambda: True,
        "is_dp_attention_enabled": lambda: False,
        "get_global_server_args": lambda: SimpleNamespace(enable_flashinfer_allreduce_fusion=flag),
    }
    file = srt / "layers" / "communicator.py"
    names = {"_is_cuda", "_is_flashinfer_available", "FUSE_ALLREDUCE_MAX_BATCH_SIZE"}
    names |= {"_is_sm90_supported", "_is_sm100_supported", "apply_flashinfer_allreduce_fusion"}
    if "_is_sm120_supported" in file.read_text(encoding="utf-8"):
        names |= {"_is_sm120_supported"}
    return bool(run_top_level(file, names, stand_ins)["apply_flashinfer_allreduce_fusion"](tokens))


def environ(srt: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Import SGLang's real ``environ.py``, with an empty module for the one that it imports."""
    for name in ("sglang", "sglang.srt", "sglang.srt.debug_utils", "sglang.srt.debug_utils.cuda_coredump"):
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
    spec = importlib.util.spec_from_file_location("sglang_environ", srt / "environ.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        spec.loader.exec_module(module)
    return module.envs


def auto_enabled(
    srt: Path,
    monkeypatch: pytest.MonkeyPatch,
    *,
    capability: tuple[int, int],
    torch: Any = None,
    architecture: str = "Qwen3MoeForCausalLM",
    device_name: str = "NVIDIA RTX PRO 6000 Blackwell Server Edition",
    **arguments: Any,
) -> bool:
    """Return ``enable_flashinfer_allreduce_fusion`` after SGLang's own detection has run."""
    torch = torch or torch_with(capability)
    monkeypatch.setitem(sys.modules, "torch", torch)
    module = parse(srt / "server_args.py")
    stand_ins = predicates(srt, torch) | {"envs": environ(srt, monkeypatch), "get_device_name": lambda: device_name}
    server = SimpleNamespace(**{**DEFAULTS, **arguments})
    helpers = methods(module, "_ranks_can_share_memory")
    names = imported(module, stand_ins) | {"self": server, "model_arch": architecture, "logger": logging}
    for helper in helpers:
        server._ranks_can_share_memory = MethodType(run([helper], dict(names))[helper.name], server)
    run(detection(module), names)
    return bool(server.enable_flashinfer_allreduce_fusion)


@functools.cache
def methods(module: ast.Module, name: str) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(module) if isinstance(node, ast.FunctionDef) and node.name == name]


DEFAULTS = {
    "enable_flashinfer_allreduce_fusion": False,
    "enable_dp_attention": False,
    "nnodes": 1,
    "moe_a2a_backend": "none",
    "tp_size": 2,
    "pp_size": 1,
    "base_gpu_id": 0,
    "gpu_id_step": 1,
}


def detection(module: ast.Module) -> list[ast.stmt]:
    """Return the statements from the device's name to the ``if`` that enables the fusion."""
    body = function(module, "_handle_model_specific_adjustments").body
    first = next(index for index, node in enumerate(body) if "device_name = " in ast.unparse(node)[:20])
    last = next(
        index
        for index, node in enumerate(body)
        if isinstance(node, ast.If) and "self.enable_flashinfer_allreduce_fusion = True" in ast.unparse(node.body[0])
    )
    return body[first : last + 1]


@pytest.mark.parametrize(
    ("capability", "stock_admits", "patched_admits"),
    [((8, 9), False, False), ((9, 0), True, True), ((10, 0), True, True), ((12, 0), False, True)],
)
def test_layer_gate_admits_sm120_besides_what_it_did(
    stock: Path, patched: Path, capability: tuple[int, int], stock_admits: bool, patched_admits: bool
) -> None:
    assert layer_gate(stock, capability) == stock_admits
    assert layer_gate(patched, capability) == patched_admits


@pytest.mark.parametrize("capability", CAPABILITIES)
def test_layer_gate_stays_shut_without_the_argument(patched: Path, capability: tuple[int, int]) -> None:
    assert not layer_gate(patched, capability, flag=False)


@pytest.mark.parametrize(("tokens", "admitted"), [(0, False), (1, True), (2048, True), (2049, False)])
def test_layer_gate_keeps_its_bounds_on_sm120(patched: Path, tokens: int, admitted: bool) -> None:
    assert layer_gate(patched, (12, 0), tokens=tokens) == admitted


@pytest.mark.parametrize(("cuda", "admitted"), [("12.7", False), ("12.8", True), ("13.0", True)])
def test_sm120_predicate_needs_cuda_12_8(patched: Path, cuda: str, admitted: bool) -> None:
    assert predicates(patched, torch_with((12, 0), cuda=cuda))["is_sm120_supported"]() == admitted


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_auto_enable_for_each_architecture_and_size(
    stock: Path, patched: Path, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], size: int
) -> None:
    before = auto_enabled(stock, monkeypatch, capability=capability, tp_size=size)
    after = auto_enabled(patched, monkeypatch, capability=capability, tp_size=size)

    assert before == (capability in ((9, 0), (10, 0)))
    assert after == (before or (capability == (12, 0) and size == 2))


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("capability", CAPABILITIES)
def test_explicit_argument_enables_at_any_size(
    patched: Path, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], size: int
) -> None:
    assert auto_enabled(
        patched, monkeypatch, capability=capability, tp_size=size, enable_flashinfer_allreduce_fusion=True
    )


@pytest.mark.parametrize(
    ("limit", "enabled"),
    [("0", ()), ("1", ()), ("2", (2,)), ("3", (2,)), ("4", (2, 4)), ("8", (2, 4, 8)), ("99", (2, 4, 8)), ("-1", ())],
)
def test_environment_moves_the_limit_on_sm120(
    patched: Path, monkeypatch: pytest.MonkeyPatch, limit: str, enabled: tuple[int, ...]
) -> None:
    monkeypatch.setenv(LIMIT, limit)

    sizes = [size for size in range(1, 17) if auto_enabled(patched, monkeypatch, capability=(12, 0), tp_size=size)]

    assert tuple(sizes) == enabled


@pytest.mark.parametrize("value", ["two", "", "2.0", "0x2"])
def test_bad_value_warns_and_leaves_the_default(patched: Path, monkeypatch: pytest.MonkeyPatch, value: str) -> None:
    monkeypatch.setenv(LIMIT, value)

    with pytest.warns(UserWarning, match=f"Invalid value for {LIMIT}"):
        assert auto_enabled(patched, monkeypatch, capability=(12, 0), tp_size=2)
    with pytest.warns(UserWarning, match=f"Invalid value for {LIMIT}"):
        assert not auto_enabled(patched, monkeypatch, capability=(12, 0), tp_size=4)


@pytest.mark.parametrize("capability", [(9, 0), (10, 0)])
@pytest.mark.parametrize("limit", ["0", "8", "bad"])
def test_environment_means_nothing_elsewhere(
    patched: Path, monkeypatch: pytest.MonkeyPatch, capability: tuple[int, int], limit: str
) -> None:
    monkeypatch.setenv(LIMIT, limit)

    assert all(auto_enabled(patched, monkeypatch, capability=capability, tp_size=size) for size in SIZES)


@pytest.mark.parametrize(
    "arguments",
    [
        {"enable_dp_attention": True},
        {"nnodes": 2},
        {"moe_a2a_backend": "deepep"},
        {"architecture": "LlamaForCausalLM"},
        {"pp_size": 2},
        {"base_gpu_id": 7},
    ],
)
def test_sm120_keeps_the_other_conditions(
    patched: Path, monkeypatch: pytest.MonkeyPatch, arguments: dict[str, Any]
) -> None:
    assert not auto_enabled(patched, monkeypatch, capability=(12, 0), **arguments)


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_sm120_is_enabled_for_the_six_architectures(
    patched: Path, monkeypatch: pytest.MonkeyPatch, architecture: str
) -> None:
    assert auto_enabled(patched, monkeypatch, capability=(12, 0), architecture=architecture)


def test_sm120_needs_gpus_that_reach_each_other(patched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    apart = torch_with((12, 0), peers=False)

    assert not auto_enabled(patched, monkeypatch, capability=(12, 0), torch=apart)


def test_one_unreachable_pair_is_enough_to_leave_it_off(patched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(LIMIT, "4")
    torch = torch_with((12, 0))
    torch.cuda.can_device_access_peer = lambda gpu, peer: (gpu, peer) != (3, 1)

    assert not auto_enabled(patched, monkeypatch, capability=(12, 0), torch=torch, tp_size=4)
    assert auto_enabled(patched, monkeypatch, capability=(12, 0), torch=torch, tp_size=2)


def test_the_gpus_asked_about_are_those_of_the_ranks(patched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = torch_with((12, 0))
    asked: list[tuple[int, int]] = []

    def can_device_access_peer(gpu: int, peer: int) -> bool:
        asked.append((gpu, peer))
        return True

    torch.cuda.can_device_access_peer = can_device_access_peer

    assert auto_enabled(patched, monkeypatch, capability=(12, 0), torch=torch, base_gpu_id=2, gpu_id_step=3)
    assert asked == [(2, 5), (5, 2)]


def test_h20_stays_out(patched: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert not auto_enabled(patched, monkeypatch, capability=(9, 0), device_name="NVIDIA H20")
