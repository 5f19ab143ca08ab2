"""Pack compiled modules as the wheel that the package looks for."""

from __future__ import annotations

import json
import platform
import re
from collections.abc import Mapping
from hashlib import sha256
from pathlib import Path

from forkwheel.cuda.built_module import BuiltModule
from forkwheel.cuda.kernel_config import PrebuiltWheel
from forkwheel.cuda.kernels import KernelBuild
from forkwheel.cuda.platform_tag import platform_tag
from forkwheel.errors import RecipeError, UsageError
from forkwheel.store import write_whole
from forkwheel.wheels.archive import Member, archive
from forkwheel.wheels.finish import Wheel
from forkwheel.wheels.record import write_record

RECORD_FORMAT = 1
"""Of the record beside each object, which a patch of the package reads."""


def pack_jit_cache(
    build: KernelBuild,
    *,
    config: PrebuiltWheel,
    version: str,
    epoch: int,
    tree: Path,
    tagging: Path,
    dest: Path,
    records: Mapping[str, bytes] | None = None,
) -> Wheel:
    """Pack the modules of ``build`` into a wheel of ``version`` in the folder ``dest``.

    ``tree`` holds the licence files, ``tagging`` is the Python of an environment with
    auditwheel, ``records`` are added below the ``.dist-info`` folder. Every member is dated
    ``epoch``. Raise UsageError for a fast build under a version that could be published.
    """
    if build.fast and ".dev." not in version:
        raise UsageError(
            f"a fast build gives other bytes each time, so it can't be {version}", hint="build it without --fast"
        )
    name = re.sub(r"[-_.]+", "_", config.distribution)
    dist_info = f"{name}-{version}.dist-info"
    members = [*_package(build, config, version), *_metadata(config, version, tree, dist_info)]
    members += [Member(f"{dist_info}/{path}", content) for path, content in (records or {}).items()]
    lowest = _lowest_platform(members, dist_info, config=config, epoch=epoch, tagging=tagging, dest=dest)
    tag = f"{config.tag}-{lowest}"
    content = _packed(members, dist_info, tag=tag, epoch=epoch)
    path = dest / f"{name}-{version}-{tag}.whl"
    write_whole(path, content)
    return Wheel(path, path.name, sha256(content).hexdigest(), len(content))


def object_record(build: KernelBuild, module: BuiltModule) -> bytes:
    """Return what lies beside an object: the targets it was compiled for and the driver it needs.

    ``driver`` counts as ``cuDriverGetVersion`` does: 13000 is CUDA 13.0.
    """
    document = {
        "format": RECORD_FORMAT,
        "targets": [target.name for target in build.targets],
        "driver": build.toolchain.needs_driver,
        "sha256": module.sha256,
    }
    return (json.dumps(document, indent=2, sort_keys=True) + "\n").encode()


def _package(build: KernelBuild, config: PrebuiltWheel, version: str) -> list[Member]:
    members = [Member(path, text.lstrip("\n").replace("{version}", version).encode()) for path, text in config.files]
    for module in build.modules:
        folder = f"{config.objects}/{module.name}"
        members.append(Member(f"{folder}/{module.name}.so", module.path.read_bytes(), executable=True))
        members.append(Member(f"{folder}/{module.name}.json", object_record(build, module)))
    return members


def _metadata(config: PrebuiltWheel, version: str, tree: Path, dist_info: str) -> list[Member]:
    lines = [
        "Metadata-Version: 2.4",
        f"Name: {config.distribution}",
        f"Version: {version}",
        f"Summary: {config.summary}",
        f"License-Expression: {config.license}",
        *(f"License-File: {path}" for path in config.license_files),
        "Requires-Python: >=3.9",
        *(f"Requires-Dist: {text.replace('{version}', version)}" for text in config.requires),
    ]
    members = [Member(f"{dist_info}/METADATA", ("\n".join(lines) + "\n").encode())]
    for path in config.license_files:
        if not (tree / path).is_file():
            raise RecipeError(f"`license_files` names {path}, which the tree lacks", hint="correct kernels.toml")
        members.append(Member(f"{dist_info}/licenses/{path}", (tree / path).read_bytes()))
    return members


def _lowest_platform(
    members: list[Member], dist_info: str, *, config: PrebuiltWheel, epoch: int, tagging: Path, dest: Path
) -> str:
    """Ask for the tag of a wheel that has none yet: auditwheel reads wheels only."""
    probe = dest / ".probe" / f"{dist_info.removesuffix('.dist-info')}-{config.tag}-linux_{_machine()}.whl"
    stored = [member for member in members if member.name.endswith((".so", "METADATA"))]
    write_whole(probe, _packed(stored, dist_info, tag=f"{config.tag}-linux_{_machine()}", epoch=epoch))
    try:
        return platform_tag(probe, python=tagging)
    finally:
        probe.unlink()
        probe.parent.rmdir()


def _machine() -> str:
    return platform.machine()


def _packed(members: list[Member], dist_info: str, *, tag: str, epoch: int) -> bytes:
    wheel = f"Wheel-Version: 1.0\nGenerator: forkwheel\nRoot-Is-Purelib: false\nTag: {tag}\n"
    ordered = sorted(
        [*members, Member(f"{dist_info}/WHEEL", wheel.encode())],
        key=lambda member: (member.name.startswith(f"{dist_info}/"), member.name),
    )
    record = f"{dist_info}/RECORD"
    ordered.append(Member(record, write_record(ordered, name=record)))
    return b"".join(archive(ordered, epoch=epoch))
