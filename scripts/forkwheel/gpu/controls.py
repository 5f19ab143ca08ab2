"""See that the checks fail where they must: each control breaks one thing, and the failure is the proof."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from forkwheel.gpu import preflight
from forkwheel.gpu.checks import FAIL, PASS, Check, failed, passed, skipped
from forkwheel.gpu.environment import InstalledWheel, make_environment
from forkwheel.gpu.hardware import probe_hardware
from forkwheel.gpu.job import Limits
from forkwheel.gpu.judge import Judged
from forkwheel.gpu.plan import cases_like
from forkwheel.gpu.rank_group import RankGroup
from forkwheel.gpu.smoke import Report, Setting, numeric_program, numerics, run_cases
from forkwheel.tree import sha256_file

_QUICK = Limits(start=900, case=8)


def run_controls(setting: Setting, report: Report, *, stock: Path | None, prebuilt: Path | None = None) -> list[Check]:
    """Run every control. ``stock`` is the unpatched wheel; ``prebuilt`` an object already made from it."""
    checks: list[Check] = []

    def take(check: Check) -> None:
        checks.append(check)
        report(check)

    take(_planted(setting))
    take(_lost_stores(setting))
    wanted = dict(setting.plan.controls)
    if "passing" in wanted:
        take(_noop(setting, wanted["passing"]))
        take(_stopped(setting, wanted["passing"]))
    for name in (name for name in wanted if name.startswith("limit")):
        check = _one(setting, wanted[name], settings={"forced": True}, limits=_QUICK)
        take(_limit(name, check, wanted[name]))
    if stock is None:
        take(skipped("control: the stock wheel fails", "no --stock-wheel was given"))
    else:
        for check in _stock(setting, stock, wanted, prebuilt):
            take(check)
    return checks


def _expect(name: str, check: Check, marks: tuple[str, ...]) -> Check:
    """Turn a check that must fail, and whose detail must hold all marks, into the control's outcome."""
    name = f"control: {name}"
    missing = [mark for mark in marks if mark not in check.detail]
    if check.status == FAIL and not missing:
        return passed(name, f"fails as it must: {check.detail}")
    if check.status == FAIL:
        return failed(name, f"failed for another reason: {check.detail}")
    return failed(name, f"did not fail, but: {check.status} {check.detail}")


def _limit(name: str, check: Check, wanted: Mapping[str, Any]) -> Check:
    """Judge a known fault of the kernels; a race that did not show proves nothing either way."""
    if wanted.get("race") and check.status == PASS:
        return skipped(f"control: {name} is one", f"a race, and it did not show in {wanted.get('calls')} calls")
    return _expect(f"{name} is one", check, (wanted["error"],))


def _planted(setting: Setting) -> Check:
    """Plant an object that would be loaded instead of what the JIT compiles."""
    cache = setting.recipe.package(setting.plan.package).jit_cache
    if cache is None or not cache.prebuilt:
        return skipped("control: a planted object", "the recipe names no place for prebuilt objects")
    path = _prebuilt_path(setting, setting.environment.site)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"not what was built")
    try:
        known = preflight.known_objects(setting.wheels)
        check = preflight.planted(setting.recipe, setting.plan, setting.environment, known)
    finally:
        path.unlink()
        path.parent.rmdir()
    return _expect("a planted object is named", check, (str(path),))


def _prebuilt_path(setting: Setting, site: Path) -> Path:
    cache = setting.recipe.package(setting.plan.package).jit_cache
    assert cache is not None
    return site / cache.prebuilt[0].replace("*/*", f"{setting.plan.object}/{setting.plan.object}")


def _lost_stores(setting: Setting) -> Check:
    checks = probe_hardware(setting.machine, setting.environment, setting.work / "lost", lost=True)
    return _expect("stores that a peer loses are noticed", checks[-1], ("never arrived",))


def _one(setting: Setting, wanted: Mapping[str, Any], **options: Any) -> Check:
    """Run one case and return it as a check."""
    case = next(cases_like(setting.plan, wanted))
    case |= {"calls": wanted.get("calls", case["calls"])}
    operation = setting.plan.operation(case["operation"])
    judged = run_cases(setting, operation, min(setting.worlds), (case,), **{"settings": {}} | options)
    return _as_check(judged[0])


def _as_check(judged: Judged) -> Check:
    return Check("case", judged.status, judged.reason)


def _noop(setting: Setting, wanted: Mapping[str, Any]) -> Check:
    """Launch nothing: the outputs stay NaN, and the profiler sees no kernel."""
    check = _one(setting, wanted, settings={"noop": True})
    return _expect("an output left unwritten", check, ("never written", "did not run"))


def _stopped(setting: Setting, wanted: Mapping[str, Any]) -> Check:
    """Stop the second rank once both have run a case."""

    def stop(group: RankGroup) -> None:
        if None not in group.last() and group.states()[1] not in "TZ":
            os.kill(group.pid(1), signal.SIGSTOP)

    case = next(cases_like(setting.plan, wanted))
    operation = setting.plan.operation(case["operation"])
    many = tuple(case | {"seed": case["seed"] + number} for number in range(400))
    judged = run_cases(
        setting, operation, min(setting.worlds), many, settings={}, interfere=stop, limits=_QUICK, most_broken=1
    )
    last = next((item for item in judged if item.status == FAIL), judged[-1])
    return _expect(
        "a stopped rank is a hang with both stacks",
        _as_check(last),
        ("hang", "rank 1 is stopped", "stack of rank 0", "stack of rank 1", "correctness.py"),
    )


def _stock(
    setting: Setting, stock: Path, wanted: Mapping[str, Mapping[str, Any]], prebuilt: Path | None
) -> list[Check]:
    """Install the unpatched wheel and see it fail where the series mends it."""
    wheels = (InstalledWheel(stock.resolve(), sha256_file(stock)),)
    folder = setting.work / "stock"
    plan = setting.plan
    environment = make_environment(
        folder / "env", base=setting.environment.base, wheels=wheels, needs=dict(plan.needs), torch=plan.torch
    )
    if prebuilt is not None:
        place = _prebuilt_path(setting, environment.site)
        place.parent.mkdir(parents=True)
        place.write_bytes(prebuilt.read_bytes())
    other = replace(setting, environment=environment, wheels=wheels, work=folder)
    if prebuilt is None:
        # The ranks have a short limit: what takes minutes to compile is there before they start.
        known = preflight.known_objects(wheels)
        compiled = preflight.loaded_object(plan, environment, other.variables, known, setting.limits.start)
        if compiled.status == FAIL:
            return [failed("control: the stock wheel compiles", compiled.detail)]
    checks = []
    if "failing" in wanted:
        check = _one(other, wanted["failing"])
        checks.append(_expect("the stock wheel fails where the series mends it", check, (wanted["failing"]["error"],)))
    if "passing" in wanted:
        check = _one(other, wanted["passing"])
        name = "control: the stock wheel passes elsewhere"
        checks.append(passed(name, "passes") if check.status == PASS else failed(name, check.detail))
    program = setting.plan.numerics
    if program is not None:
        for ours in numerics(setting):
            check = numeric_program(other, environment.site, ours.name) if ours.status != "SKIP" else ours
            checks.append(_expect(f"{program.source.stem} fails with the stock header", check, ("expected",)))
    return checks
