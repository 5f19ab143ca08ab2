"""What a wheel carries for its own rebuild, written out as a recipe's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from forkwheel.errors import ForkwheelError, VerificationError
from forkwheel.key import BUILD_FORMAT
from forkwheel.recipe import Package, Recipe, load_recipe
from forkwheel.release.wheel_set import read_key
from forkwheel.wheels.recorded import write_carried
from forkwheel.wheels.verify import read_wheel, verify_wheel


@dataclass(frozen=True)
class Carried:
    """A wheel, the recipe that it carries, and the key that it records."""

    wheel: Path
    recipe: Recipe
    key: Mapping[str, Any]

    @property
    def package(self) -> Package:
        """The one package of the recipe."""
        return self.recipe.packages[0]


def carried_by(wheel: Path, folder: Path, *, verified: bool = False) -> Carried:
    """Write a wheel's records to the new ``folder`` and read them, after its RECORD was checked row by row.

    ``verified`` tells that it was checked before.

    Raise VerificationError where the wheel is damaged, was not made by forkwheel, or records
    another build format than this forkwheel's.
    """
    if not verified:
        verify_wheel(wheel, must_contain={})
    key = read_key(wheel)
    number = key["parts"].get("format", str(BUILD_FORMAT))
    if number != str(BUILD_FORMAT):
        raise VerificationError(
            f"{wheel.name} is of build format {number}, and {BUILD_FORMAT} is what this forkwheel writes",
            hint="use the forkwheel that made it",
        )
    write_carried(read_wheel(wheel), folder)
    inside = folder / "forkwheel"
    try:
        return Carried(wheel, load_recipe(inside / "recipe.toml", series_root=inside), key)
    except ForkwheelError as error:
        message = error.message.replace(f"{inside.resolve()}/", "").replace(f"{inside}/", "")
        raise VerificationError(f"{wheel.name}: what it carries cannot be read: {message}", hint=error.hint) from error
