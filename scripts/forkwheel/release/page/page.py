"""The page: what is in it, in which order, and what it says at a glance."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from forkwheel.release.page import results, sources
from forkwheel.release.page.markup import Html, joined, mark, safe, tag
from forkwheel.release.page.record import Report
from forkwheel.release.page.style import STYLE
from forkwheel.release.wheel_set import TAKEN

_SECTIONS = (
    ("patches", "Patches"),
    ("pins", "Pins"),
    ("gates", "Gates"),
    ("census", "Census"),
    ("smoke", "Smoke"),
    ("bench", "Bench"),
    ("hashes", "Hashes"),
    ("reproduce", "Reproduce"),
)
_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_FORWARDED = {"no": "not yet sent", "not-needed": "not needed there"}
_LOCKS = {
    "released": ("PASS", "a released revision"),
    "locked": ("PASS", "locked, and not yet released"),
    "differs": ("FAIL", "other wheels than the lock's"),
    "unknown": ("NOT LOCKED", "no lock that was read has this revision"),
}


def render(report: Report) -> bytes:
    """Return the whole page; the same report gives the same bytes."""
    title = f"{report.wheels.recipe} revision {report.wheels.revision}"
    head = joined(
        [
            tag("meta", charset="utf-8"),
            tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
            tag("meta", http_equiv="Content-Security-Policy", content=_POLICY),
            tag("meta", name="color-scheme", content="light dark"),
            tag("title", f"{title}: forkwheel report"),
            Html(f"<style>{STYLE}</style>"),
        ]
    )
    body = joined(
        [
            tag("a", "Skip to the content", href="#content", class_="skip"),
            _header(report, title),
            _main(report),
            _footer(),
        ]
    )
    return (
        f'<!DOCTYPE html>\n<html lang="en">\n<head>{safe(head)}</head>\n<body>{safe(body)}</body>\n</html>\n'.encode()
    )


def _header(report: Report, title: str) -> Html:
    packages = " and ".join(sources.parts_line(part) for part in report.parts)
    taken = [f"{wheel.package} {wheel.version}" for wheel in report.wheels.wheels if wheel.kind == TAKEN]
    beside = f", with upstream's own {', '.join(taken)}" if taken else ""
    purpose = "This page is for whoever approves the fork: what it changes, why, and what was checked."
    links = tag("ul", *(tag("li", tag("a", text, href=f"#{name}")) for name, text in _SECTIONS))
    target = report.wheels.document["recipe"]["target"]
    return tag(
        "header",
        tag("h1", title),
        tag("p", f"{packages}, for {target}{beside}. {purpose}", class_="lead"),
        tag("ul", *_glance(report), class_="glance"),
        tag("nav", links, aria_label="Contents"),
    )  # fmt: skip


def _glance(report: Report) -> Iterator[Html]:
    state, said = _LOCKS[report.lock]
    if any(wheel.development for wheel in report.wheels.wheels):
        state, said = "DEVELOPMENT", "a development build, which can't be published"
    yield _card("Lock", mark(state), said)
    yield _card("Patches", *_patches(report))
    yield _card(
        "Provenance", mark("SIGNED" if report.signed else "UNSIGNED"),
        "check with `forkwheel verify DIR --allowed-signers FILE`"
        if report.signed else "states what the wheels were made from",
    )  # fmt: skip
    for kind, name in (("audit", "Gates"), ("census", "Census"), ("smoke", "Smoke"), ("bench", "Bench")):
        yield _checked(report, kind, name)


def _patches(report: Report) -> tuple[Html, str]:
    """Count the patches by where they stand upstream, as their headers say."""
    forwarded = [patch.header.forwarded for part in report.parts for patch in part.series.patches]
    counts = Counter(_FORWARDED.get(value, "sent upstream") for value in forwarded)
    kinds = [f"{counts[kind]} {kind}" for kind in ("sent upstream", *_FORWARDED.values()) if counts[kind]]
    return mark(str(len(forwarded))), ", ".join(kinds) or "none"


def _checked(report: Report, kind: str, name: str) -> Html:
    records = report.of(kind)
    if not records:
        return _card(name, mark("NOT RUN"), "no record of it is here; below is how to make one")
    first = records[0]
    if first.current is False:
        return _card(name, mark("STALE"), "ran other wheels than these")
    return _card(name, results.verdict_of(first), results.said_of(first))


def _card(name: str, state: Html, said: str) -> Html:
    return tag("li", tag("div", tag("span", name), state, class_="name"), tag("p", said))


def _main(report: Report) -> Html:
    parts = (
        sources.patches(report),
        sources.pins(report),
        results.gates(report),
        results.census(report),
        results.smoke(report),
        results.bench(report),
        sources.hashes(report),
        sources.again(report),
    )
    return tag("main", *parts, id_="content")


def _footer() -> Html:
    return tag("footer", tag("p", "Written by forkwheel from the set's own records. Dates are UTC."))
