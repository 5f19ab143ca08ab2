"""A recipe of the invented package with a CUDA module, whose sdist lies in a folder that pip reads."""

from __future__ import annotations

import io
import shutil
import tarfile
from hashlib import sha256
from pathlib import Path

from kernel_support import KERNELS, RECIPE, make_tree

PROJECT = """\
[build-system]
requires = ["flit_core >=3.11,<4"]
build-backend = "flit_core.buildapi"

[project]
name = "demo"
version = "1.0"
description = "An invented package"
requires-python = ">=3.9"
"""

TEXT = """\
[recipe]
name = "kernels-demo"
local = "wide"
revision = 1
target = "sm_120a"

[[package]]
name = "demo"
version = "1.0"
epoch = 1700000000
series = "patches"
not_shipped = ["src/**"]
must_contain = ["demo/jit.py"]

[[package.substitute]]
path = "pyproject.toml"
text = 'version = "1.0"'
replacement = 'version = "{{version}}"'

[[package.source]]
kind = "sdist"
filename = "demo-1.0.tar.gz"
sha256 = "{digest}"
"""


CEILING = "__CUDA_ARCH__ >= 900 && __CUDA_ARCH__ < 1200"
PATCH = f"""\
Description: Let the kernels have bodies on SM120
Origin: forkwheel's tests
Forwarded: not-needed
Last-Update: 2026-11-30

--- a/src/guard.h
+++ b/src/guard.h
@@ -1 +1 @@
-#define DEMO_GUARD ({CEILING})
+#define DEMO_GUARD (__CUDA_ARCH__ >= 900)
"""


def write_kernel_recipe(folder: Path) -> Path:
    """Write recipe, kernels.toml and toolchain lock to ``folder``/recipe, the sdist to ``folder``/links."""
    recipe, links = folder / "recipe", folder / "links"
    for made in (recipe / "patches", links):
        made.mkdir(parents=True)
    (recipe / "patches" / "series").write_text("guards.patch\n")
    (recipe / "patches" / "guards.patch").write_text(PATCH)
    content = _sdist(make_tree(folder / "tree", guard=CEILING))
    (links / "demo-1.0.tar.gz").write_bytes(content)
    (recipe / "recipe.toml").write_text(TEXT.format(digest=sha256(content).hexdigest()).replace("{{", "{"))
    (recipe / "kernels.toml").write_text(KERNELS)
    shutil.copy(RECIPE / "toolchain.lock.toml", recipe)
    return recipe


def _sdist(tree: Path) -> bytes:
    (tree / "pyproject.toml").write_text(PROJECT)
    (tree / "demo" / "__init__.py").write_text('"""An invented package."""\n')
    stream = io.BytesIO()
    with tarfile.open(fileobj=stream, mode="w:gz") as archive:
        for file in sorted(path for path in tree.rglob("*") if path.is_file()):
            archive.add(file, arcname=f"demo-1.0/{file.relative_to(tree)}")
    return stream.getvalue()
