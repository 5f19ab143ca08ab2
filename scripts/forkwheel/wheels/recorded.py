"""What a wheel records of its own making, loaded as a rebuild would.

Whether it is true, agreement.py tells.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import ForkwheelError, VerificationError
from forkwheel.key import BUILD_FORMAT, Key
from forkwheel.patching.header import PATCH_NAME
from forkwheel.patching.series import SERIES, Series, load_series
from forkwheel.recipe import Package, Recipe, load_recipe
from forkwheel.release.inputs import FILENAME, PackageInputs, load_inputs
from forkwheel.wheels.verify import WheelRecords

FORMAT = 1
KEY = "forkwheel/key.json"
RECIPE = "forkwheel/recipe.toml"
INPUTS = f"forkwheel/{FILENAME}"
PATCHES = "forkwheel/patches/"
SBOM = "sboms/forkwheel.cdx.json"

_HINT = "the wheel was changed after it was built, or not built by forkwheel; do not use it before you know why"
_SHA256 = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Recorded:
    """A wheel's key and what it was computed from.

    ``name`` and ``version`` are those beside the key; ``sbom`` is the bill of materials, as it
    is in the wheel.
    """

    key: Key
    name: str
    version: str
    recipe: Recipe
    package: Package
    series: Series
    inputs: PackageInputs
    sbom: Mapping[str, Any]


def load_recorded(records: WheelRecords, folder: Path) -> Recorded:
    """Load a wheel's records by way of the empty ``folder``; raise VerificationError at the first fault."""
    document, key = read_key(records)
    recipe, package, series, inputs = _loaded(records, folder)
    return Recorded(
        key=key,
        name=document["package"],
        version=document["version"],
        recipe=recipe,
        package=package,
        series=series,
        inputs=inputs,
        sbom=read_json(records, SBOM),
    )


def read_key(records: WheelRecords) -> tuple[Mapping[str, Any], Key]:
    """Return a wheel's record of its key (``package``, ``version``, ``key``, ``parts``) and the key, checked."""
    document = _key_document(records)
    return document, _checked_key(records, document)


def write_carried(records: WheelRecords, folder: Path) -> None:
    """Write the recipe, the lock and the patches that a wheel carries, and nothing else, to ``folder``.

    Raise VerificationError where among the patches is what is neither one nor the series.
    """
    wanted = {name: records.files[name] for name in (RECIPE, INPUTS) if name in records.files}
    for name, content in records.files.items():
        if name.startswith(PATCHES):
            plain = name.removeprefix(PATCHES)
            if plain != SERIES and not PATCH_NAME.fullmatch(plain):
                raise contradiction(records, f"{name!r} is neither {SERIES} nor a patch")
            wanted[name] = content
    try:
        for name, content in wanted.items():
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            (folder / name).write_bytes(content)
    except OSError as error:
        raise VerificationError(
            f"{records.filename}: its records cannot be written to {folder}: {error.strerror or error}",
            hint="see that the disk of the temporary folder (TMPDIR) has room",
        ) from error


def read_json(records: WheelRecords, file: str) -> dict[str, Any]:
    """Return the JSON object in a record; raise VerificationError where it holds none."""
    try:
        value = json.loads(records.files[file])
    except KeyError:
        raise damaged(records, file, "it is missing") from None
    except RecursionError as error:
        raise damaged(records, file, "it is nested too deeply") from error
    except ValueError as error:
        raise damaged(records, file, error) from error
    if not isinstance(value, dict):
        raise damaged(records, file, "it is no JSON object")
    return value


def damaged(records: WheelRecords, file: str, reason: object) -> VerificationError:
    """Return the error that says why one of a wheel's records cannot be read."""
    return VerificationError(
        f"{records.filename}: {file} cannot be read: {reason}", hint="use a newer forkwheel, or build the wheel again"
    )


def contradiction(records: WheelRecords, what: str) -> VerificationError:
    """Return the error that says which of a wheel's records is not true."""
    return VerificationError(f"{records.filename}: {what}", hint=_HINT)


def _key_document(records: WheelRecords) -> dict[str, Any]:
    document = read_json(records, KEY)
    number = document.get("format")
    if number != FORMAT:
        raise damaged(records, KEY, f"its format is {number!r}, and {FORMAT} is what is known here")
    for field, kind in (("key", str), ("package", str), ("version", str), ("parts", dict)):
        if not isinstance(document.get(field), kind):
            raise damaged(records, KEY, f"its `{field}` is missing or of another type")
    for part, value in document["parts"].items():
        if not isinstance(value, str):
            raise damaged(records, KEY, f"the part {part!r} is {value!r}, which is no string")
    return document


def _checked_key(records: WheelRecords, document: Mapping[str, Any]) -> Key:
    """Return the key whose parts a wheel records, after its digest, its format and the tree's digest were checked."""
    key = Key(tuple(sorted(document["parts"].items())))
    if key.digest != document["key"]:
        raise contradiction(
            records, f"{KEY} gives the key {document['key']!r}, and the digest of its parts is {key.digest}"
        )
    parts = dict(key.parts)
    if parts.get("format") != str(BUILD_FORMAT):
        raise VerificationError(
            f"{records.filename} is of build format {parts.get('format', '-')}, "
            f"and {BUILD_FORMAT} is what this forkwheel writes",
            hint="use the forkwheel that made it",
        )
    if not _SHA256.fullmatch(parts.get("tree", "")):
        raise contradiction(records, f"{KEY} gives the part tree {parts.get('tree', '-')!r}, which is no SHA-256")
    return key


def _loaded(records: WheelRecords, folder: Path) -> tuple[Recipe, Package, Series, PackageInputs]:
    write_carried(records, folder)
    try:
        recipe = load_recipe(folder / RECIPE, series_root=folder)
        package = recipe.package(records.name)
        if package.series not in (None, (folder / PATCHES).resolve()):
            raise contradiction(records, f"the series of {RECIPE} is not the folder {PATCHES} that the wheel carries")
        return recipe, package, load_series(package.series), load_inputs(folder / INPUTS).part(package.name)
    except VerificationError:
        raise
    except RecursionError as error:
        raise damaged(records, "what it records", "it is nested too deeply") from error
    except (ForkwheelError, ValueError, OSError) as error:
        message = error.message if isinstance(error, ForkwheelError) else str(error)
        message = message.replace(f"{folder.resolve()}/", "").replace(f"{folder}/", "")
        raise damaged(records, "what it records", message) from error
