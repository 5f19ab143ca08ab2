"""What several tests share."""

from __future__ import annotations

from pathlib import Path

from forkwheel.recipe import FileSource, Package

PACKAGE = Package(
    name="demo",
    version="1.0",
    epoch=1_700_000_000,
    sources=(FileSource("sdist", "demo-1.0.tar.gz", "0" * 64),),
    series=None,
    include=(),
    exclude=(),
    executable=(),
    generated=(),
    substitutions=(),
    manifest_file=None,
    version_file=None,
    requires=(),
    required_versions=(),
    must_contain=(),
    not_shipped=(),
    environment=(),
    config_settings=(),
    jit_cache=None,
)


def is_running(pid: int) -> bool:
    """Tell whether a process is there and no zombie that nobody has waited for."""
    file = Path(f"/proc/{pid}/stat")
    return file.exists() and file.read_text().rpartition(")")[2].split()[0] != "Z"
