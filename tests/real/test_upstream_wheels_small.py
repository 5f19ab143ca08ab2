"""Wheels as sources, on small real ones: several wheels of one package, and one that is taken as it is."""

from __future__ import annotations

import json
import zipfile
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from small import forkwheel

TAGS = "manylinux2014_x86_64.manylinux_2_17_x86_64.manylinux_2_28_x86_64"
WHEELS = {
    f"markupsafe-3.0.3-cp311-cp311-{TAGS}.whl": "0bf2a864d67e76e5c9a34dc26ec616a66b9888e25e7b9460e1c76d3293bd9dbf",
    f"markupsafe-3.0.3-cp312-cp312-{TAGS}.whl": "d6dd0be5b5b189d31db7cda48b91d7e0a9795f31430b7f271219ab30f1d3ac9d",
}
TAKEN = "iniconfig-2.1.0-py3-none-any.whl"
TAKEN_SHA256 = "9deba5723312380e77435581c6bf4935c94cbfab9b1ed33ef8d238ea168eb760"

RECIPE = f"""\
[recipe]
name = "wheels"
local = "wide"
revision = 1
target = "sm_120a"

[[package]]
name = "iniconfig"
version = "2.1.0"
epoch = 1742407400
must_contain = ["iniconfig/py.typed"]

[[package.source]]
kind = "wheel"
filename = "{TAKEN}"
sha256 = "{TAKEN_SHA256}"

[[package]]
name = "markupsafe"
version = "3.0.3"
epoch = 1758994320
series = "patches"
must_contain = ["markupsafe/_native.py"]
""" + "".join(
    f'\n[[package.source]]\nkind = "wheel"\nfilename = "{name}"\nsha256 = "{digest}"\n'
    for name, digest in WHEELS.items()
)

PATCH = """\
Description: Escape as the older ones did
Origin: forkwheel's tests
Forwarded: not-needed
Last-Update: 2026-11-30

--- a/markupsafe/_native.py
+++ b/markupsafe/_native.py
@@ -3,6 +3,6 @@
         s.replace("&", "&amp;")
         .replace(">", "&gt;")
         .replace("<", "&lt;")
-        .replace("'", "&#39;")
+        .replace("'", "&apos;")
         .replace('"', "&#34;")
     )
"""


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Build and lock the recipe once."""
    folder = tmp_path_factory.mktemp("wheels")
    (folder / "recipe" / "patches").mkdir(parents=True)
    (folder / "recipe" / "recipe.toml").write_text(RECIPE)
    (folder / "recipe" / "patches" / "series").write_text("escape.patch\n")
    (folder / "recipe" / "patches" / "escape.patch").write_text(PATCH)
    run = command(folder, "lock")
    assert run.returncode == 0, run.stderr
    run = command(folder, "build", "--locked", "--out", folder / "dist")
    assert run.returncode == 0, run.stderr
    return folder


def command(folder: Path, name: str, *arguments: str | Path) -> Any:
    return forkwheel(name, "--recipe", folder / "recipe", *arguments, cache=folder / "cache")


def built(project: Path) -> dict[str, Path]:
    return {file.name: file for file in (project / "dist").glob("*.whl")}


def test_each_wheel_is_patched_and_the_other_is_taken_by_hash(project: Path) -> None:
    names = {name.replace("-3.0.3-", "-3.0.3+wide.1-") for name in WHEELS}
    assert set(built(project)) == {*names, TAKEN}
    assert sha256(built(project)[TAKEN].read_bytes()).hexdigest() == TAKEN_SHA256


def test_compiled_members_are_upstreams_to_the_bit(project: Path) -> None:
    for name, digest in WHEELS.items():
        upstream = zipfile.ZipFile(project / "cache" / "archives" / digest / name)
        fork = zipfile.ZipFile(built(project)[name.replace("-3.0.3-", "-3.0.3+wide.1-")])
        compiled = [member for member in upstream.namelist() if member.endswith(".so")]
        assert compiled
        for member in compiled:
            assert fork.read(member) == upstream.read(member)
        assert b"&apos;" in fork.read("markupsafe/_native.py")


def test_the_manifest_and_the_lock_know_every_wheel(project: Path) -> None:
    document = json.loads((project / "dist" / "wheels.manifest.json").read_bytes())
    (package,) = document["packages"]
    assert (package["name"], package["version"], package["development"]) == ("markupsafe", "3.0.3+wide.1", False)
    assert {wheel["filename"] for wheel in package["wheels"]} == set(built(project)) - {TAKEN}
    assert len({wheel["key"] for wheel in package["wheels"]}) == len(WHEELS)
    assert [item["wheel"]["filename"] for item in document["taken"]] == [TAKEN]
    lock = (project / "recipe" / "wheels.lock.toml").read_text()
    assert lock.count("[[revision.wheel]]") == 3
    sums = (project / "dist" / "SHA256SUMS").read_text()
    assert all(name in sums for name in built(project))


def test_nothing_is_made_again_and_the_keys_are_explained(project: Path) -> None:
    run = command(project, "build", "--out", project / "dist")
    assert run.stdout.count("is unchanged: nothing was built") == 3
    run = command(project, "lock")
    assert "is unchanged" in run.stdout
    run = command(project, "build", "--explain", "--json", "--out", project / "dist")
    packages = json.loads(run.stdout)["packages"]
    assert len({package["package"] for package in packages}) == 3
    assert not any(part["changed"] for package in packages for part in package["parts"])


def test_an_unlocked_change_gives_all_wheels_of_the_package_one_development_version(
    project: Path, tmp_path: Path
) -> None:
    changed = tmp_path / "recipe"
    changed.mkdir()
    (changed / "patches").symlink_to(project / "recipe" / "patches")
    (changed / "recipe.toml").write_text(RECIPE.replace("epoch = 1758994320", "epoch = 1758994322"))
    run = forkwheel("build", "--recipe", changed, "--out", tmp_path / "dist", cache=project / "cache")
    assert run.returncode == 0, run.stderr
    versions = {file.name.split("-")[1] for file in (tmp_path / "dist").glob("markupsafe-*.whl")}
    assert len(versions) == 1
    assert versions.pop().startswith("3.0.3+wide.dev.k")


def test_the_series_is_judged_against_another_release_of_wheels(project: Path) -> None:
    run = command(project, "upstream", "--to", "3.0.2", "--json")
    assert run.returncode == 0, run.stderr
    (revision,) = json.loads(run.stdout)["revisions"]
    assert (revision["revision"], revision["patches"][0]["verdict"]) == ("3.0.2", "clean")
