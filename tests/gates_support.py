"""Sources for the gate audit: in memory, and a project with a gate in each layer."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from forkwheel.gates.files import SourceFile

PROJECT = {
    "app/__init__.py": "",
    "app/server.py": """
        from app.predicates import is_ten, is_nine
        def arrange(self, arch):
            if is_ten():
                self.backend = "b"
            if arch == "x" and (is_nine() or is_ten()) and self.nodes == 1:
                self.fused = True
    """,
    "app/predicates.py": """
        import torch
        def is_nine():
            return torch.cuda.get_device_capability()[0] == 9
        def is_ten():
            return torch.cuda.get_device_capability()[0] == 10
    """,
    "app/layer.py": """
        from app.predicates import is_nine, is_ten
        from lib.api import fused
        def run(x):
            if not (is_nine() or is_ten()):
                return None
            return fused(x)
    """,
    "lib/__init__.py": "",
    "lib/api.py": """
        import functools
        from types import SimpleNamespace
        from lib.jit import module, other
        @functools.cache
        def get_module():
            built = module()
            def fused_op(x):
                built.fused_op(x)
            def other_op(x):
                built.other_op(x)
            return SimpleNamespace(fused_op=fused_op, other_op=other_op)
        def fused(x):
            get_module().fused_op(x)
    """,
    "lib/jit.py": """
        import torch
        def flags(supported_major_versions):
            if torch.cuda.get_device_capability()[0] in supported_major_versions:
                return ["-arch"]
            raise RuntimeError("no")
        def module():
            return build(["fused.cu"], flags([9, 10]))
        def other():
            return build(["other.cu"], flags([9]))
    """,
    "csrc/fused.cu": """
        #include "fused.cuh"
        void fused_op(int* x) { launch(x); }
        void other_op(int* x) { unrelated(x); }
        TVM_FFI_DLL_EXPORT_TYPED_FUNC(fused_op, fused_op);
        TVM_FFI_DLL_EXPORT_TYPED_FUNC(other_op, other_op);
    """,
    "include/fused.cuh": """
        __global__ void kernel(int* x) {
        #if (__CUDA_ARCH__ >= 900) && (__CUDA_ARCH__ < 1200)
          x[0] = 1;
        #endif
        }
        void launch(int* x) { kernel<<<1, 1>>>(x); }
        __global__ void elsewhere(int* x) {
        #if __CUDA_ARCH__ < 1200
          x[0] = 1;
        #endif
        }
        void unrelated(int* x) { elsewhere<<<1, 1>>>(x); }
    """,
}
FIXES = {
    "server": ("app/server.py", "(is_nine() or is_ten())", "(is_nine() or is_ten() or is_twelve())"),
    "layer": ("app/layer.py", "(is_nine() or is_ten())", "(is_nine() or is_ten() or is_twelve())"),
    "list": ("lib/jit.py", "flags([9, 10])", "flags([9, 10, 12])"),
    "header": ("include/fused.cuh", " && (__CUDA_ARCH__ < 1200)", ""),
}


def sources(texts: Mapping[str, str | bytes], *, tree: str = "tree") -> list[SourceFile]:
    """Return files with some content, by path."""
    contents = {path: text.encode() if isinstance(text, str) else text for path, text in texts.items()}
    return [SourceFile(tree, path, sha256(data).hexdigest(), Path(path), data) for path, data in contents.items()]


def write(root: Path, fixes: set[str]) -> Path:
    """Write the project, with some of its gates opened."""
    texts = {path: textwrap.dedent(text) for path, text in PROJECT.items()}
    texts["app/predicates.py"] += "def is_twelve():\n    return torch.cuda.get_device_capability()[0] == 12\n"
    for name in ("app/server.py", "app/layer.py"):
        texts[name] = texts[name].replace("is_nine, is_ten", "is_nine, is_ten, is_twelve")
        texts[name] = texts[name].replace("is_ten, is_nine", "is_ten, is_nine, is_twelve")
    for fix in fixes:
        path, old, new = FIXES[fix]
        assert old in texts[path]
        texts[path] = texts[path].replace(old, new)
    for path, text in texts.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    return root
