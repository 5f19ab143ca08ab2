"""Evaluates the gate of SGLang's layers for the GPU at hand, for forkwheel's GPU checks.

The two files are read and not imported (their dependencies are many): of the layer's module the
gate and the names it reads, of the utilities the predicates of the architectures.
"""

import ast
import importlib.metadata
from functools import lru_cache, partial

import torch

GATE = "apply_flashinfer_allreduce_fusion"
LIMIT = "FUSE_ALLREDUCE_MAX_BATCH_SIZE"


class Arguments:
    """The server's arguments, as the flag sets them."""

    enable_flashinfer_allreduce_fusion = True


def source(path):
    file = importlib.metadata.distribution("sglang").locate_file(path)
    return ast.parse(file.read_text(), filename=str(file))


def keep(tree, wanted):
    """Return a module of those top-level statements that define a wanted name."""
    kept = []
    for statement in tree.body:
        if isinstance(statement, ast.FunctionDef):
            names = [statement.name]
        elif isinstance(statement, ast.Assign):
            names = [target.id for target in statement.targets if isinstance(target, ast.Name)]
        else:
            names = []
        if any(wanted(name) for name in names):
            kept.append(statement)
    return ast.Module(body=kept, type_ignores=[])


def run(tree, values):
    exec(compile(tree, "gate", "exec", dont_inherit=True), values)
    return values


def gate():
    """Return the layer's gate, bound to the fork's own predicates and this GPU."""
    annotations = {"List": list, "Tuple": tuple}
    values = {"torch": torch, "lru_cache": lru_cache, "partial": partial, **annotations}
    values["is_cuda"] = lambda: torch.cuda.is_available() and torch.version.cuda is not None
    predicates = source("sglang/srt/utils/common.py")
    run(
        keep(
            predicates,
            lambda name: name == "_check_cuda_device_version" or (name.startswith("is_sm") and "supported" in name),
        ),
        values,
    )
    values |= {
        "is_flashinfer_available": lambda: True,
        "is_dp_attention_enabled": lambda: False,
        "get_global_server_args": Arguments,
    }
    layer = source("sglang/srt/layers/communicator.py")
    names = {"_is_cuda", "_is_flashinfer_available", GATE, LIMIT}
    run(keep(layer, lambda name: name in names or name.startswith("_is_sm")), values)
    return values[GATE], values[LIMIT]


class Worker:
    def run(self, case):
        admits, limit = gate()
        asked = {tokens: bool(admits(tokens)) for tokens in (0, 1, limit, limit + 1)}
        wanted = {0: False, 1: True, limit: True, limit + 1: False}
        major, minor = torch.cuda.get_device_capability()
        return {
            "passed": asked == wanted,
            "detail": f"SM{major}{minor}: the layer's gate admits 1 to {limit} tokens"
            if asked == wanted
            else f"SM{major}{minor}: tokens and what the layer's gate says: {asked}, not {wanted}",
        }

    def close(self):
        pass


def start(rank):
    torch.cuda.set_device(rank.device)
    return Worker()
