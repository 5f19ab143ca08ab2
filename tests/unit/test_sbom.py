"""The bill of materials: what it says, that others can read it, and that it is the same everywhere."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cyclonedx.model.bom import Bom
from support import PACKAGE

from forkwheel.patching.series import Series, load_series
from forkwheel.recipe import GitSource, Submodule
from forkwheel.release.inputs import LockedRequirement
from forkwheel.release.sbom import sbom

GIT = GitSource("https://host/demo.git", "a" * 40, "v1.0", "python", (Submodule("3rdparty/lib", "b" * 40),))
DEMO = replace(PACKAGE, sources=(GIT, *PACKAGE.sources))
INPUTS = (
    LockedRequirement("setuptools", "80.0", None, (("setuptools-80.0-py3-none-any.whl", "1" * 64),)),
    LockedRequirement("tomli", "2.0", 'python_version == "3.10"', (("tomli-2.0-py3-none-any.whl", "2" * 64),)),
)
PATCH = """\
Description: Say {word}
Origin: these tests
Forwarded: not-needed
Last-Update: 2026-11-29

--- a/{word}.txt
+++ b/{word}.txt
@@ -1 +1 @@
-old {word}
+new {word}
"""


@pytest.fixture
def series(tmp_path: Path) -> Series:
    for word in ("zebra", "apple"):
        (tmp_path / f"{word}.patch").write_text(PATCH.format(word=word))
    (tmp_path / "latin.patch").write_bytes(PATCH.format(word="latin").replace("old", "\xe9").encode("latin-1"))
    (tmp_path / "series").write_text("zebra.patch\napple.patch\nlatin.patch\n")
    return load_series(tmp_path)


def document(series: Series, **changes: Any) -> dict[str, Any]:
    arguments: dict[str, Any] = {"package": DEMO, "version": "1.0+us.1", "key": "ab" * 32, "inputs": INPUTS}
    found: dict[str, Any] = json.loads(sbom(series=series, **{**arguments, **changes}))
    return found


def test_it_describes_the_wheel_and_its_ancestor(series: Series) -> None:
    component = document(series)["metadata"]["component"]

    (ancestor,) = component["pedigree"]["ancestors"]
    references = {reference["type"]: reference for reference in ancestor["externalReferences"]}
    assert (component["name"], component["version"]) == ("demo", "1.0+us.1")
    assert component["purl"] == "pkg:pypi/demo@1.0%2Bus.1"
    assert ancestor["purl"] == "pkg:pypi/demo@1.0"
    assert references["vcs"]["url"] == f"git+https://host/demo.git@{'a' * 40}"
    assert references["source-distribution"]["url"] == "demo-1.0.tar.gz"
    assert references["source-distribution"]["hashes"] == [{"alg": "SHA-256", "content": "0" * 64}]


def test_it_holds_every_patch_in_full(series: Series) -> None:
    pedigree = document(series)["metadata"]["component"]["pedigree"]

    diffs = {patch["diff"]["url"].rpartition("/")[2]: patch["diff"]["text"] for patch in pedigree["patches"]}
    texts = {
        name: base64.b64decode(text["content"]) if "encoding" in text else text["content"].encode()
        for name, text in diffs.items()
    }
    assert texts == {patch.name: patch.content for patch in series.patches}
    assert "encoding" in diffs["latin.patch"]
    assert pedigree["notes"].endswith(": zebra.patch, apple.patch, latin.patch")


def test_vendored_code_is_delivered_and_build_requirements_are_not(series: Series) -> None:
    found = document(series)

    scopes = {component["purl"]: component["scope"] for component in found["components"]}
    assert scopes == {
        f"pkg:generic/lib@{'b' * 40}": "required",
        "pkg:pypi/setuptools@80.0": "excluded",
        "pkg:pypi/tomli@2.0": "excluded",
    }
    root = next(item for item in found["dependencies"] if item["ref"] == "pkg:pypi/demo@1.0%2Bus.1")
    assert root["dependsOn"] == ["build:pkg:pypi/setuptools@80.0", "build:pkg:pypi/tomli@2.0", "vendored:3rdparty/lib"]


def test_serial_and_time_are_derived_from_inputs(series: Series) -> None:
    found = document(series)

    assert found["metadata"]["timestamp"] == "2023-11-14T22:13:20+00:00"
    assert found["serialNumber"] == document(series)["serialNumber"]
    assert found["serialNumber"] != document(series, key="cd" * 32)["serialNumber"]
    assert found["serialNumber"] != document(series, package=replace(DEMO, name="other"))["serialNumber"]


@pytest.mark.parametrize("inputs", [(), INPUTS])
def test_an_unpatched_package_has_one_too(inputs: tuple[LockedRequirement, ...]) -> None:
    component = document(load_series(None), package=PACKAGE, inputs=inputs)["metadata"]["component"]

    assert "patches" not in component["pedigree"]
    assert component["pedigree"]["notes"].endswith("none")


def test_others_read_it(series: Series) -> None:
    found = document(series)

    read = Bom.from_json(data=found)  # type: ignore[attr-defined]

    assert (found["bomFormat"], found["specVersion"]) == ("CycloneDX", "1.6")
    assert read.metadata.component is not None
    assert len(read.components) == 3
    assert read.validate()


def test_the_order_of_inputs_and_the_hash_seed_do_not_matter(series: Series, tmp_path: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from test_sbom import DEMO, INPUTS\n"
        "from forkwheel.patching.series import load_series\n"
        "from forkwheel.release.sbom import sbom\n"
        "sys.stdout.buffer.write(sbom(package=DEMO, version='1.0+us.1', key='ab' * 32,"
        f" series=load_series(Path({str(tmp_path)!r})), inputs=INPUTS[::-1]))"
    )
    here = Path(__file__).parent
    path = ":".join(str(folder) for folder in (here, here.parent, here.parents[1] / "scripts"))
    ours = sbom(package=DEMO, version="1.0+us.1", key="ab" * 32, series=series, inputs=INPUTS)

    for seed in ("1", "2"):
        environment = {"PYTHONPATH": path, "PYTHONHASHSEED": seed, "TZ": "Asia/Tokyo", "LC_ALL": "C"}
        run = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, check=True)
        assert run.stdout == ours
