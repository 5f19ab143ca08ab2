"""The two files that make an install of a set safe: requirements for its wheels, constraints for the rest.

``NAME.requirements.txt`` pins the set's wheels by version, local part included, and by hash. It is
installed alone and without dependencies: pip refuses a requirements file in which only some
files have hashes. ``NAME.constraints.txt`` then holds those versions while the dependencies are
installed from another index; it has no hashes, since they would count for everything.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from forkwheel.release.wheel_set import other_entries, package_wheels


def requirements_text(manifest: Mapping[str, Any]) -> str:
    """Return the requirements file of a set: exact versions with the hashes of all their wheels."""
    name = manifest["recipe"]["name"]
    lines = [
        f"# The wheels of {name}, and nothing else. Install them with --no-deps --require-hashes,",
        f"# and then their dependencies with -c {name}.constraints.txt.",
    ]
    for package in (*manifest["packages"], *other_entries(manifest)):
        hashes = sorted({wheel["sha256"] for wheel in package_wheels(package)})
        lines.append(f"{package['name']}=={package['version']}" + "".join(f" --hash=sha256:{one}" for one in hashes))
    return "\n".join(lines) + "\n"


def constraints_text(manifest: Mapping[str, Any]) -> str:
    """Return the constraints file of a set: exact versions, so that no public release is taken in their place."""
    lines = [f"# Holds the versions of {manifest['recipe']['name']} while dependencies are installed."]
    packages = (*manifest["packages"], *other_entries(manifest))
    lines += [f"{package['name']}=={package['version']}" for package in packages]
    return "\n".join(lines) + "\n"
