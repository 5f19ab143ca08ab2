"""What a wheel carries for its own rebuild, written out as a recipe's folder."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from packaging.utils import canonicalize_name

from forkwheel.errors import ForkwheelError, VerificationError
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
    write_carried(read_wheel(wheel), folder)
    inside = folder / "forkwheel"
    try:
        recipe = load_recipe(inside / "recipe.toml", series_root=inside)
    except ForkwheelError as error:
        message = error.message.replace(f"{inside.resolve()}/", "").replace(f"{inside}/", "")
        raise VerificationError(f"{wheel.name}: what it carries cannot be read: {message}", hint=error.hint) from error
    except RecursionError as error:
        raise VerificationError(
            f"{wheel.name}: what it carries is nested too deeply", hint="the wheel was changed: do not use it"
        ) from error
    names = [canonicalize_name(package.name) for package in recipe.packages]
    if names != [canonicalize_name(key["package"])]:
        raise VerificationError(
            f"{wheel.name} carries the recipe of {', '.join(names)}, and its key is of {key['package']}",
            hint="the wheel was changed after it was built: do not use it",
        )
    return Carried(wheel, recipe, key)
