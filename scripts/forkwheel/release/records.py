"""What a wheel carries about its own making: all that a rebuild needs."""

from __future__ import annotations

import json
from dataclasses import replace

from forkwheel.canonical import canonical_recipe
from forkwheel.plan import Plan
from forkwheel.recipe import Recipe
from forkwheel.release.inputs import lock_text
from forkwheel.release.sbom import sbom

FORMAT = 1


def wheel_records(recipe: Recipe, plan: Plan) -> dict[str, bytes]:
    """Map the names of the records, relative to the wheel's dist-info folder, to their content.

    They depend on nothing but the build key and the version.
    """
    records = {
        "forkwheel/key.json": _key_text(plan),
        "forkwheel/recipe.toml": _recipe_text(recipe, plan),
        "forkwheel/inputs.lock.toml": lock_text([plan.inputs]),
    }
    if plan.series.patches:
        records["forkwheel/patches/series"] = "".join(f"{patch.name}\n" for patch in plan.series.patches)
    contents = {name: text.encode() for name, text in records.items()}
    contents |= {f"forkwheel/patches/{patch.name}": patch.content for patch in plan.series.patches}
    contents["sboms/forkwheel.cdx.json"] = sbom(
        package=plan.package,
        version=plan.version,
        key=plan.key.digest,
        series=plan.series,
        inputs=plan.inputs.requirements,
    )
    return contents


def _recipe_text(recipe: Recipe, plan: Plan) -> str:
    package = plan.package if plan.series.patches else replace(plan.package, series=None)
    return canonical_recipe(
        package,
        name=recipe.name,
        local=recipe.local,
        revision=plan.revision,
        target=recipe.target,
        required=dict(plan.required),
    )


def _key_text(plan: Plan) -> str:
    document = {
        "format": FORMAT,
        "package": plan.package.name,
        "version": plan.version,
        "key": plan.key.digest,
        "parts": dict(plan.key.parts),
    }
    return json.dumps(document, indent=2, sort_keys=True) + "\n"
