"""A recipe made on the spot for a real third project: small, pure, another build backend."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

SDIST = "tomli_w-1.2.0.tar.gz"
SHA256 = "2dd14fac5a47c27be9cd4c976af5a12d87fb1f0b4512f81d69cce3b35ae25021"

RECIPE = f"""\
[recipe]
name = "small"
local = "wide"
revision = 1
target = "sm_120a"

[[package]]
name = "tomli-w"
version = "1.2.0"
epoch = 1736899330
series = "patches"
exclude = ["PKG-INFO"]
version_file = "src/tomli_w/__init__.py"
must_contain = ["tomli_w/py.typed"]

[[package.substitute]]
path = "pyproject.toml"
text = 'version = "1.2.0"'
replacement = 'version = "{{version}}"'

[[package.substitute]]
path = "src/tomli_w/__init__.py"
text = '__version__ = "1.2.0"'
replacement = '__version__ = "{{version}}"'

[[package.source]]
kind = "sdist"
filename = "{SDIST}"
sha256 = "{SHA256}"
"""

PATCH = """\
Description: Let lines be longer
Origin: forkwheel's tests
Forwarded: not-needed
Last-Update: 2026-11-29

--- a/src/tomli_w/_writer.py
+++ b/src/tomli_w/_writer.py
@@ -16,7 +16,7 @@
     "abcdefghijklmnopqrstuvwxyz" "ABCDEFGHIJKLMNOPQRSTUVWXYZ" "0123456789" "-_"
 )
 ARRAY_TYPES = (list, tuple)
-MAX_LINE_LENGTH = 100
+MAX_LINE_LENGTH = 120
 
 COMPACT_ESCAPES = MappingProxyType(
     {
"""  # noqa: W293


def write_recipe(folder: Path) -> Path:
    """Write the recipe and its series below ``folder`` and return the recipe's file."""
    patches = folder / "patches"
    patches.mkdir(parents=True)
    (patches / "series").write_text("longer-lines.patch\n")
    (patches / "longer-lines.patch").write_text(PATCH)
    file = folder / "recipe.toml"
    file.write_text(RECIPE)
    return file


def forkwheel(
    *arguments: str | Path, cache: Path, environment: Mapping[str, str] | None = None, cwd: Path | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command in a process of its own."""
    return subprocess.run(
        [sys.executable, "-m", "forkwheel", *map(str, arguments)],
        env=command_environment(cache) | dict(environment or {}),
        cwd=cwd,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=False,
    )


def command_environment(cache: Path) -> dict[str, str]:
    """Return an environment in which the command uses a cache and a HOME of the test's own."""
    home = cache.parent / "home"
    home.mkdir(exist_ok=True)
    return {**os.environ, "FORKWHEEL_CACHE": str(cache), "XDG_CACHE_HOME": str(home / ".cache")}


def events(file: Path) -> list[dict[str, str]]:
    """Read the events that a run wrote."""
    return [json.loads(line) for line in file.read_text().splitlines()]
