"""The sections on what was checked: gates, kernel census, smoke and bench. What was not run is said plainly."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from forkwheel.console import plural
from forkwheel.release.page.chart import charts
from forkwheel.release.page.markup import Content, Html, absent, mark, name, section, table, tag
from forkwheel.release.page.record import Record, Report

_SHOWN = 40
_OF_ANOTHER_FORM = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError)
"""What comes of reading a record that someone else wrote, or another version."""


def _each(records: Iterable[Record], draw: Callable[[Record], list[Content]]) -> list[Content]:
    """Draw every record; one that has another form than is known is said to be unreadable, and hides no other."""
    content: list[Content] = []
    for record in records:
        try:
            content += draw(record)
        except _OF_ANOTHER_FORM as error:
            said = f" It has another form than is known here ({type(error).__name__}: {error}): run the check again."
            content.append(tag("p", mark("UNREADABLE"), " ", tag("span", f"{record.file}:", class_="quiet"), said))
    return content


def gates(report: Report) -> Html:
    """Return the section on the gates, before and after the series."""
    records = report.of("audit")
    if not records:
        recipe = report.wheels.recipe
        how = f"`forkwheel audit --recipe {recipe} --json > {recipe}.audit.json`, beside the manifest, adds it."
        return section("gates", "Gates before and after", absent("There is no audit of the gates.", how))
    return section("gates", "Gates before and after", *_each(records, _audit))


def _audit(record: Record) -> list[Content]:
    document = record.document
    before, after = document.get("before"), document.get("after")
    content: list[Content] = [_head(record)]
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        rows: list[list[Content]] = [
            [when, len(part["gates"]), len(part["path"]), _closed(part)]
            for when, part in (("before", before), ("after", after))
        ]
        head = ("the series", "gates found", "on the path", "closed on the path")
        content.append(table(f"Gates for {after['target']}", head, rows, numbers=(1, 2, 3)))
    changes = document.get("difference") or []
    if changes:
        columns = ("gate", "layer", "place", "condition")
        content.append(table("What the series changes", columns, map(_change, changes)))
    return content


def _change(one: Mapping[str, Any]) -> list[Content]:
    return [one["change"], one["layer"], name(one["place"]), tag("code", one["condition"])]


def _closed(audit: Mapping[str, Any]) -> int:
    target, references = audit["target"], audit["references"]
    count = 0
    for step in audit["path"]:
        admits = audit["gates"][step["gate"]]["admits"]
        if step["counts"] and admits.get(target) == "no" and any(admits.get(one) != "no" for one in references):
            count += 1
    return count


def census(report: Report) -> Html:
    """Return the section on the kernels, before and after the series."""
    title = "Kernel census before and after"
    records = report.of("census")
    if not records:
        how = f"`forkwheel kernels --recipe {report.wheels.recipe}` takes one of what it compiles."
        return section("census", title, absent("There is no kernel census.", how))
    return section("census", title, *_each(records, _census))


def _census(record: Record) -> list[Content]:
    document = record.document
    content: list[Content] = [_head(record)]
    changes = document.get("changes")
    if changes is None:
        how = "`forkwheel census WHEEL --against OTHER` does."
        content.append(absent("Nothing here says what the kernels were before.", how))
    else:
        rows = [[name(one["family"]), one["what"], one["before"], one["after"]] for one in changes]
        content.append(
            table(
                f"What changed, in {len(document.get('changed_kernels', ()))} kernels",
                ("family", "what", "before", "after"),
                rows,
            )
        )
    rows = [_family(family_name, family) for family_name, family in document["families"].items()]
    columns = ("family", "kernels", "instructions", "registers", "shared", "stack", "spill", "wait", "launch")
    content.append(table(f"Kernels for {', '.join(document['targets'])}", columns, rows, numbers=range(1, 9)))
    return content


def _family(family_name: str, family: Mapping[str, Any]) -> list[Content]:
    spans = [_span(family[key]) for key in ("instructions", "registers", "shared", "stack")]
    counts = [f"{family[key]}/{family['kernels']}" for key in ("spilling", "waiting", "launching")]
    return [name(family_name), family["kernels"], *spans, *counts]


def _span(limits: Sequence[int]) -> str:
    low, high = limits
    return f"{low}" if low == high else f"{low} to {high}"


def smoke(report: Report) -> Html:
    """Return the section on the smoke checks and their controls."""
    records = [*report.of("smoke"), *report.of("controls")]
    if not records:
        return section(
            "smoke",
            "Smoke checks",
            absent("Nothing was run on a GPU.", "`nox -s gpu-smoke` runs the checks, on the target's GPU."),
        )
    return section("smoke", "Smoke checks", *_each(records, _smoke))


def _smoke(record: Record) -> list[Content]:
    document = record.document
    checks: list[Mapping[str, Any]] = list(document.get("checks") or ())
    failed = [check for check in checks if check["status"] == "FAIL"]
    skipped = Counter(check["detail"] for check in checks if check["status"] == "SKIP")
    passed = [check for check in checks if check["status"] == "PASS"]
    counts = ", ".join(f"{number} {status}" for status, number in (document.get("counts") or {}).items())
    content: list[Content] = [_head(record), tag("p", f"{counts}. {_machine(document)}")]
    content += [tag("p", f"Not run: {', '.join(document['not_run'])}.")] if document.get("not_run") else []
    if failed:
        rows = [[check["name"], check["detail"]] for check in failed]
        content.append(table("Checks that failed", ("check", "what is wrong"), rows))
    if skipped:
        rows = [[reason, number] for reason, number in skipped.most_common(_SHOWN)]
        content.append(table("Checks that could not run here", ("reason", "checks"), rows, numbers=(1,)))
    if passed:
        rows = [[check["name"], check["detail"]] for check in passed]
        summary = tag("summary", f"The {len(passed)} checks that passed")
        content.append(tag("details", summary, table("Checks that passed", ("check", "result"), rows)))
    return content


def _machine(document: Mapping[str, Any]) -> str:
    gpu, cuda = document.get("gpu") or {}, document.get("cuda") or {}
    parts = [
        f"{gpu.get('count')} x {gpu.get('name')}" if gpu else "",
        f"driver {document['driver']}" if "driver" in document else "",
        f"torch {document['torch']} (CUDA {cuda.get('torch')})" if "torch" in document else "",
    ]
    return ", ".join(part for part in parts if part) + "."


def bench(report: Report) -> Html:
    """Return the section on the bench, with its plot."""
    records = report.of("bench")
    if not records:
        return section(
            "bench",
            "Bench",
            absent("Nothing was timed.", "`nox -s gpu-bench` times the fusion on this machine's GPUs."),
        )
    return section("bench", "Bench", *_each(records, _bench))


def _bench(record: Record) -> list[Content]:
    document = record.document
    content: list[Content] = [_head(record)]
    content += [tag("p", mark("FAIL"), f" {failure}") for failure in document.get("failures") or ()]
    if document.get("advice"):
        content.append(tag("p", tag("strong", "Advice: "), document["advice"]["line"]))
    if not document.get("points"):
        return [*content, absent("Nothing could be compared.", "So there is no plot.")]
    rows = [_point(point) for point in document["points"]]
    columns = ("ranks", "hidden", "tokens", "fused, us", "otherwise, us", "ratio", "wins")
    content.append(tag("div", *charts(document), class_="charts"))
    caption = f"Microseconds for a call, {document.get('dtype')}: the best of each kind"
    content.append(table(caption, columns, rows, numbers=range(7)))
    return content


def _point(point: Mapping[str, Any]) -> list[Content]:
    best, other = (min(point[kind].items(), key=lambda item: float(item[1]["median"])) for kind in ("fused", "others"))
    cells = [f"{timing['median']:.1f} ({name})" for name, timing in (best, other)]
    sizes = [point["world_size"], point["hidden"], point["tokens"]]
    return [*sizes, *cells, f"{point['ratio']:.2f}", "yes" if point["wins"] else "no"]


def _head(record: Record) -> Html:
    """Say which record this is, what it ran on, when, and whether it is about these wheels."""
    document = record.document
    said = [str(document[key]) for key in ("statement", "date") if document.get(key)]
    stale = " It ran other wheels than these: it says nothing of them." if record.current is False else ""
    verdict: list[Content] = [mark("STALE") if record.current is False else verdict_of(record), " "]
    return tag("p", *verdict, tag("span", f"{record.file}: ", class_="quiet"), "; ".join(said) or record.kind, stale)


def said_of(record: Record) -> str:
    """Say in a line what a record found, for the top of the page."""
    document = record.document
    try:
        if record.kind == "audit":
            before, after = (_closed(document[when]) for when in ("before", "after"))
            return f"closed on the path: {before} before the series, {after} after it"
        if record.kind == "census":
            count = sum(family["kernels"] for family in document["families"].values())
            return f"{plural(count, 'kernel')} for {', '.join(document['targets'])}"
    except _OF_ANOTHER_FORM:
        pass
    return str(document.get("statement") or f"recorded in {record.file}")


def verdict_of(record: Record) -> Html:
    """Return a record's verdict as a mark; one that states none but its failures is told by these."""
    try:
        return _verdict(record)
    except _OF_ANOTHER_FORM:
        return mark("UNREADABLE")


def _verdict(record: Record) -> Html:
    document = record.document
    if "verdict" in document:
        elsewhere = f" ON {document['gpu']['architecture']}" if document.get("ran_on_target") is False else ""
        return mark(f"{document['verdict']}{elsewhere}")
    failed = bool(document.get("failures")) or any(
        one.get("change") == "newly closed" for one in document.get("difference") or ()
    )
    if record.kind == "audit" and not failed and "after" in document:
        return mark("CLOSED" if _closed(document["after"]) else "PASS")
    return mark("FAIL" if failed else "RECORDED")
