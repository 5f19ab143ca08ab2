"""Making a wheel from a source tree: patch, build, pack, verify."""

from __future__ import annotations

from pathlib import Path

from forkwheel.console import Log
from forkwheel.fetch import FetchContext
from forkwheel.patching.apply import Change, write_changes
from forkwheel.plan import Plan
from forkwheel.projection import copy_tree, write_generated
from forkwheel.recipe import Recipe
from forkwheel.release.inputs import Inputs
from forkwheel.release.records import wheel_records
from forkwheel.release.resolution import build_system_requires
from forkwheel.shipped import expected_members
from forkwheel.sources import mending
from forkwheel.tree import Tree
from forkwheel.wheels.build import build_wheel
from forkwheel.wheels.environment import build_environment
from forkwheel.wheels.finish import Wheel, finish_wheel
from forkwheel.wheels.verify import member_names, verify_wheel


def make_from_source(
    recipe: Recipe,
    plan: Plan,
    changes: tuple[Change, ...],
    *,
    inputs: Inputs,
    context: FetchContext,
    work: Path,
    made: Path,
    log: Log,
) -> Wheel:
    """Make a plan's wheel in the folder ``made``, with everything on the way to it in ``work``.

    ``changes`` is what the plan's series makes of its source.
    """
    package, store = plan.package, context.store
    with log.stage("patch"):
        tree = _patch(plan, changes, work / "tree", context=context, log=log)
    with log.stage("environment"):
        inputs.check_requires(package.name, build_system_requires(tree.root, package))
        python = build_environment(plan.inputs.requirements, store=store, log=log, offline=context.offline)
    with log.stage("build"):
        raw = build_wheel(
            tree.root,
            package,
            version=plan.version,
            python=python,
            dest=work / "raw",
            log=log,
            log_file=store.path("logs", f"{package.name}-{plan.version}.log"),
        )
    with log.stage("pack"):
        wheel = finish_wheel(
            raw,
            package=package,
            version=plan.version,
            requires=dict(plan.required),
            records=wheel_records(recipe, plan),
            dest=made,
        )
    with log.stage("verify"):
        expected = expected_members(package, changes, members=member_names(wheel.path), tree=tree)
        verify_wheel(wheel.path, must_contain=expected)
    return wheel


def _patch(plan: Plan, changes: tuple[Change, ...], dest: Path, *, context: FetchContext, log: Log) -> Tree:
    with mending(plan.source, context.store):
        copied = copy_tree(plan.source.tree, dest)
    patched = write_changes(changes, copied)
    if plan.series.patches and not changes:
        log.warning("the source has the whole series already: nothing was patched")
    return write_generated(patched.tree, plan.package, version=plan.version)
