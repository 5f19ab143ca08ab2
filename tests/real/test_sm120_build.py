"""``build --recipe sm120`` on the real sources: what it leaves, and what the wheels do once installed."""

from __future__ import annotations

import json
import subprocess
import zipfile
from dataclasses import dataclass
from pathlib import Path

import pytest
from parity import UNLIKE_ITSELF, UPSTREAM, VERSION_FILES, differing, members
from small import events, forkwheel

from forkwheel.fetch import FetchContext
from forkwheel.fetch.index import cached_archive
from forkwheel.recipe import Recipe

REPOSITORY = Path(__file__).resolve().parents[2]
FLASHINFER = "flashinfer_python-0.6.3+sm120.1-py3-none-any.whl"
SGLANG = "sglang-0.5.9+sm120.1-py3-none-any.whl"


@dataclass(frozen=True)
class Built:
    dist: Path
    cache: Path
    output: str


@pytest.fixture(scope="module")
def built(shared: Path, tmp_path_factory: pytest.TempPathFactory) -> Built:
    """Build with an empty cache, from the sources that can be reached."""
    folder = tmp_path_factory.mktemp("sm120")
    run = build(folder / "dist", folder / "cache")
    assert run.returncode == 0, run.stdout + run.stderr
    return Built(folder / "dist", folder / "cache", run.stdout)


def build(dist: Path, cache: Path, *more: str, environment: dict[str, str] | None = None):
    return forkwheel(
        "build", "--recipe", "sm120", "--source", "sdist", "--out", dist, *more,
        cache=cache, cwd=REPOSITORY, environment=environment,
    )  # fmt: skip


def test_the_build_leaves_exactly_these_files(built: Built) -> None:
    names = {file.name for file in built.dist.iterdir()}
    records = ("manifest.json", "observed.json", "provenance.json", "requirements.txt", "constraints.txt")
    assert names == {FLASHINFER, SGLANG, "SHA256SUMS", *(f"sm120.{record}" for record in records)}
    subprocess.run(["sha256sum", "-c", "SHA256SUMS"], cwd=built.dist, check=True, capture_output=True)
    assert "warning" not in built.output


def test_a_second_build_says_that_the_keys_are_unchanged(built: Built, tmp_path: Path) -> None:
    log = tmp_path / "events"
    run = build(built.dist, built.cache, "--locked", environment={"FORKWHEEL_EVENTS": str(log)})
    assert run.returncode == 0, run.stderr
    assert run.stdout.count("is unchanged: nothing was built") == 2
    assert {event["stage"] for event in events(log)} == {"write"}


def test_the_manifest_holds_inputs_only_and_names_every_patched_file(built: Built) -> None:
    manifest = json.loads((built.dist / "sm120.manifest.json").read_text())
    flashinfer, sglang = manifest["packages"]
    assert {"flashinfer/jit/comm.py", "include/flashinfer/comm/trtllm_allreduce.cuh"} <= set(
        flashinfer["patched_files"]
    )
    assert set(sglang["patched_files"]) >= {"sglang/srt/layers/communicator.py", "sglang/srt/server_args.py"}
    text = (built.dist / "sm120.manifest.json").read_text()
    assert str(built.cache) not in text
    assert "started" not in text


def test_sglang_requires_the_fork_and_nothing_else_changed(built: Built) -> None:
    with zipfile.ZipFile(built.dist / SGLANG) as wheel:
        metadata = wheel.read("sglang-0.5.9+sm120.1.dist-info/METADATA").decode().splitlines()
    requirements = [line for line in metadata if line.lower().startswith("requires-dist: flashinfer")]
    assert requirements == [
        "Requires-Dist: flashinfer_python==0.6.3+sm120.1",
        "Requires-Dist: flashinfer_cubin==0.6.3",
    ]
    assert "Version: 0.5.9+sm120.1" in metadata


SHOW = """
import json, os, sys
import flashinfer
from flashinfer.jit.comm import gen_trtllm_comm_module
from importlib.metadata import version
result = {"version": flashinfer.__version__, "file": flashinfer.__file__, "cubin": version("flashinfer_cubin")}
try:
    result["flags"] = gen_trtllm_comm_module().extra_cuda_cflags
except RuntimeError as error:
    result["error"] = str(error)
print(json.dumps(result))
"""


def show(python: Path, *, site: Path, home: Path) -> dict[str, object]:
    """Import the FlashInfer in ``site`` beside the real cubin package, without any setting but the target's."""
    run = subprocess.run(
        [str(python), "-c", f"import sys; sys.path.insert(0, {str(site)!r})\n{SHOW}"],
        env={"PATH": "/usr/bin:/bin", "HOME": str(home), "FLASHINFER_CUDA_ARCH_LIST": "12.0a"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert run.returncode == 0, run.stderr
    return json.loads(run.stdout.splitlines()[-1])


def install(python: Path, target: Path, *what: str | Path) -> Path:
    command = [str(python), "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target), *map(str, what)]
    subprocess.run(command, check=True)
    return target


def test_the_fork_imports_beside_the_real_cubin_package_and_compiles_for_sm120(
    built: Built, cpu_torch_python: Path, tmp_path: Path
) -> None:
    site = install(cpu_torch_python, tmp_path / "fork", built.dist / FLASHINFER)
    found = show(cpu_torch_python, site=site, home=tmp_path)
    assert found["version"] == "0.6.3+sm120.1"
    assert found["cubin"] == "0.6.3"
    assert str(found["file"]).startswith(str(site))
    assert any("compute_120a" in flag for flag in found["flags"])  # type: ignore[attr-defined]


def test_stock_flashinfer_refuses_sm120(cpu_torch_python: Path, tmp_path: Path) -> None:
    site = install(cpu_torch_python, tmp_path / "stock", "flashinfer-python==0.6.3")
    found = show(cpu_torch_python, site=site, home=tmp_path)
    assert found["version"] == "0.6.3"
    assert "No supported CUDA architectures found for major versions [9, 10]" in str(found["error"])


@pytest.mark.parametrize("name", sorted(UPSTREAM))
def test_with_the_series_the_wheel_differs_from_upstreams_only_where_it_must(
    name: str, built: Built, recipe: Recipe, context: FetchContext
) -> None:
    theirs_path, _ = cached_archive(recipe.package(name), UPSTREAM[name], context=context)
    ours, theirs = members(built.dist / (FLASHINFER if name.startswith("flashinfer") else SGLANG)), members(theirs_path)
    manifest = json.loads((built.dist / "sm120.manifest.json").read_text())
    patched = next(item["patched_files"] for item in manifest["packages"] if item["name"] == name)
    shipped = {path if path in ours else f"flashinfer/data/{path}" for path in patched}
    created = shipped - theirs.keys()
    assert created == ({"flashinfer/jit/prebuilt.py"} if name.startswith("flashinfer") else set())
    assert shipped - created <= differing(ours, theirs)
    assert differing(ours, theirs) - shipped <= UNLIKE_ITSELF | VERSION_FILES | {"@.dist-info/METADATA"}
    added = (ours.keys() ^ theirs.keys()) - created
    assert all(member.startswith(("@.dist-info/forkwheel/", "@.dist-info/sboms/")) for member in added)


def test_the_series_are_as_exported_listed_and_apply(built: Built) -> None:
    run = forkwheel("patches", "--recipe", "sm120", "--check", cache=built.cache, cwd=REPOSITORY)
    assert run.returncode == 0, run.stdout + run.stderr
