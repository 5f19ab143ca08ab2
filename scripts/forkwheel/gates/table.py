"""Rows of the tables that an audit prints, and its SARIF report."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any
from urllib.parse import quote

from forkwheel import __version__
from forkwheel.gates.compare import Difference, Verdict
from forkwheel.gates.model import Audit, Gate, Step

PATH_COLUMNS = ("layer", "place", "condition", "admits", "state", "guards", "beside it")
DIFFERENCE_COLUMNS = ("change", "layer", "place", "condition")
SARIF_SCHEMA = "https://json.schemastore.org/sarif-2.1.0.json"


def path_rows(audit: Audit, verdict: Verdict) -> list[tuple[str, ...]]:
    """Return a row for each gate on the path that is closed, or that differs."""
    expected = {id(step): expectation.reason for step, expectation in verdict.expected}
    rows: list[tuple[str, ...]] = []
    for step in audit.path:
        if not step.gate.differs(audit.target, audit.references) and not step.gate.closed(
            audit.target, audit.references
        ):
            continue
        state = state_of(step, audit)
        if id(step) in expected:
            state = f"closed on purpose: {expected[id(step)]}"
        gate = step.gate
        beside = "; ".join(gate.others)
        rows.append(
            (
                step.layer,
                str(gate.place),
                short(gate.condition),
                " ".join(gate.admitted),
                state,
                gate.holds,
                short(beside, 160),
            )
        )
    return rows


def state_of(step: Step, audit: Audit) -> str:
    """Say in a word how the target fares at a gate of the path."""
    if step.gate.closed(audit.target, audit.references):
        return "CLOSED" if step.counts else "definition"
    return "undecided" if step.gate.kind == "undecided" else "open"


def elsewhere_rows(audit: Audit) -> list[tuple[str, ...]]:
    """Return a row for each differing gate that is not on the path."""
    on_path = {id(step.gate) for step in audit.path}
    rest = [gate for gate in audit.differing if id(gate) not in on_path]
    return [(str(g.place), g.kind, short(g.condition), " ".join(g.admitted), g.holds) for g in rest]


def difference_rows(difference: Difference) -> list[tuple[str, ...]]:
    """Return a row for each gate that a series opens, leaves closed, closes, or opens elsewhere."""
    rows: list[tuple[str, ...]] = []
    for name, steps in (
        ("opened", difference.opened),
        ("still closed", difference.still_closed),
        ("newly closed", difference.newly_closed),
    ):
        rows += [(name, s.layer, str(s.gate.place), short(s.gate.condition)) for s in steps]
    rows += [("opened elsewhere", "", str(g.place), short(g.condition)) for g in difference.opened_elsewhere]
    return rows


def short(text: str, most: int = 90) -> str:
    """Cut a text that is too long for a table."""
    return text if len(text) <= most else text[: most - 1] + "…"


def to_sarif(audit: Audit, verdict: Verdict) -> dict[str, Any]:
    """Write the closed gates on the path as errors, and the other differing gates as notes."""
    unexpected = {id(step.gate) for step in verdict.unexpected}
    layers = {id(step.gate): step.layer for step in audit.path}
    results = [
        _result(gate, audit, level="error" if id(gate) in unexpected else "note", layers=layers)
        for gate in audit.differing
    ]
    driver = {"name": "forkwheel", "version": __version__, "rules": _rules(audit.differing)}
    notes = [{"level": "warning", "message": {"text": failure}} for failure in audit.failures]
    run = {
        "tool": {"driver": driver},
        "invocations": [{"executionSuccessful": True, "toolExecutionNotifications": notes}],
        "results": results,
    }
    return {"$schema": SARIF_SCHEMA, "version": "2.1.0", "runs": [run]}


def _rules(gates: Sequence[Gate]) -> list[dict[str, Any]]:
    """Describe the kinds of gates; code hosts want all three texts."""
    kinds = sorted({gate.kind for gate in gates})
    return [
        {
            "id": f"gate/{kind}",
            "shortDescription": {"text": f"An architecture gate: {kind}"},
            "fullDescription": {"text": "The outcome differs between a GPU that has the feature and the target."},
            "help": {"text": "Open the gate with a patch, or list it in gates.toml as [[expected]], with the reason."},
        }
        for kind in kinds
    ]


def _result(gate: Gate, audit: Audit, *, level: str, layers: dict[int, str]) -> dict[str, Any]:
    admitted = ", ".join(gate.admitted) or "none"
    where = f" on the path, in layer {layers[id(gate)]}" if id(gate) in layers else ""
    return {
        "ruleId": f"gate/{gate.kind}",
        "level": level,
        "message": {"text": f"{gate.condition} admits {admitted}; {audit.target} {gate.state(audit.target)}{where}"},
        "locations": [
            {
                "physicalLocation": {
                    "artifactLocation": {"uri": quote(gate.place.path.encode("utf-8", "surrogateescape"))},
                    "region": {"startLine": gate.place.line, "endLine": max(gate.place.line, gate.last)},
                }
            }
        ],
    }


def summary(audit: Audit, verdict: Verdict, *, has_entries: bool) -> Iterable[str]:
    """Yield the lines that end a report."""
    references = ", ".join(map(str, audit.references))
    path = f"{len(audit.path)} conditions are on the path, {len(audit.closed)} of them closed"
    if not has_entries:
        path = "no entry points: name them in gates.toml or with --entry"
    yield f"{len(audit.differing)} gates differ between {audit.target} and {references}; {path}"
    for step in verdict.unexpected:
        yield f"closed: {step.layer}: {step.gate.place}: {step.gate.condition}"
