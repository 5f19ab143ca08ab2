"""The report: everything is on it, nothing on it is taken as markup, and what is absent is said."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from publish_support import make_lock, make_set
from report_support import audit, bench, census, make_report, smoke

from forkwheel.release.page.markup import Html, safe, tag
from forkwheel.release.page.page import render
from forkwheel.release.page.record import _lock_state, _records
from forkwheel.release.page.style import STYLE

VOID = {"meta", "br"}


class Reader(HTMLParser):
    """Reads a page strictly: every element is closed in order, and no id is given twice."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.ids: list[str] = []
        self.names: list[str] = []
        self.attributes: list[tuple[str, str | None]] = []
        self.words: list[str] = []

    def handle_starttag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(name)
        self.attributes += attributes
        self.ids += [value or "" for key, value in attributes if key == "id"]
        if name not in VOID:
            self.open.append(name)

    def handle_startendtag(self, name: str, attributes: list[tuple[str, str | None]]) -> None:
        self.names.append(name)
        self.attributes += attributes

    def handle_endtag(self, name: str) -> None:
        assert self.open.pop() == name

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] != "style":
            self.words.append(data)


def read(page: bytes) -> Reader:
    reader = Reader()
    reader.feed(page.decode())
    reader.close()
    assert reader.open == []
    return reader


def text(page: bytes) -> str:
    return re.sub(r"\s+", " ", " ".join(read(page).words))


@pytest.fixture
def full(tmp_path: Path) -> bytes:
    return render(make_report(tmp_path, smoke(), bench(), census(), audit(), signed=True))


def test_every_text_is_escaped(full: bytes) -> None:
    reader = read(full)
    assert "script" not in reader.names
    assert b"<script" not in full
    assert b"<b>markup" not in full
    assert full.count(b"&lt;script&gt;") > 8
    assert not [name for name, _ in reader.attributes if name.startswith("on")]


def test_characters_that_reorder_text_are_shown(full: bytes) -> None:
    assert "\N{RIGHT-TO-LEFT OVERRIDE}".encode() not in full
    assert "U+202E" in text(full)


def test_the_page_is_self_contained(full: bytes) -> None:
    reader = read(full)
    assert not {"script", "link", "img", "iframe", "object"} & set(reader.names)
    assert not [value for name, value in reader.attributes if name in ("src", "srcset", "background")]
    assert all(str(value).startswith("#") for name, value in reader.attributes if name == "href")
    assert "url(" not in STYLE
    assert "@import" not in STYLE


def test_every_link_leads_somewhere_and_no_id_is_given_twice(full: bytes) -> None:
    reader = read(full)
    targets = {str(value)[1:] for name, value in reader.attributes if name == "href"}
    assert targets <= set(reader.ids)
    named = {str(value) for name, value in reader.attributes if name == "aria-labelledby"}
    assert named <= set(reader.ids)


def test_headings_go_down_one_level_at_a_time(full: bytes) -> None:
    levels = [int(name[1]) for name in read(full).names if re.fullmatch("h[1-6]", name)]
    assert levels[0] == 1
    assert levels.count(1) == 1
    assert all(after <= before + 1 for before, after in pairwise(levels))


def test_what_an_approver_needs_is_there(full: bytes, tmp_path: Path) -> None:
    said = text(full)
    wheels = make_report(tmp_path / "again").wheels
    for wanted in (
        "2023-11-14",
        "a" * 40,
        "submodule 3rdparty/part",
        "A reason of its own",
        "+second = 2",
        "closed on the path",
        "184",
        "leave it off",
        "They cross at about 400 tokens",
        "SIGNED",
        "forkwheel reproduce",
        *(wheel.sha256 for wheel in wheels.wheels),
    ):
        assert wanted in said, wanted
    assert read(full).names.count("svg") == 2


def test_gates_are_counted_before_and_after(full: bytes) -> None:
    assert "before 1 1 1" in text(full)
    assert "after 1 1 0" in text(full)


def test_what_was_not_run_is_said_plainly(tmp_path: Path) -> None:
    said = text(render(make_report(tmp_path)))
    assert said.count("NOT RUN") == 8
    for wanted in ("no audit of the gates", "no kernel census", "Nothing was run on a GPU", "Nothing was timed"):
        assert wanted in said
    assert "PASS" in said  # the lock's
    assert "UNSIGNED" in said


def test_a_pass_elsewhere_is_no_pass_on_the_target(tmp_path: Path) -> None:
    record = smoke(
        verdict="PASS", checks=[], ran_on_target=False, gpu={"architecture": "SM90", "count": 1, "name": "x"}
    )
    said = text(render(make_report(tmp_path, record)))
    assert "PASS ON SM90" in said


def test_records_of_other_wheels_are_stale(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    ours = [{"filename": wheel.filename, "sha256": wheel.sha256} for wheel in wheels.wheels]
    evidence = tmp_path / "evidence" / "h200"
    evidence.mkdir(parents=True)
    (evidence / "fork.smoke.json").write_text(json.dumps({"kind": "smoke", "wheels": ours[:1]}))
    (evidence / "other.json").write_text(json.dumps({"kind": "something"}))
    wheels.beside("smoke.json").write_text(json.dumps({"kind": "smoke", "wheels": ours}))
    found = {record.file: record.current for record in _records(wheels, tmp_path / "evidence")}
    assert found == {"fork.smoke.json": True, "evidence/h200/fork.smoke.json": False}


@pytest.mark.parametrize(("lock", "said"), [("differs", "other wheels than the lock"), ("unknown", "NOT LOCKED")])
def test_the_lock_is_compared(tmp_path: Path, lock: str, said: str) -> None:
    assert said in text(render(make_report(tmp_path, lock=lock)))


def test_the_same_report_gives_the_same_bytes(tmp_path: Path, full: bytes) -> None:
    again = make_report(tmp_path / "again", smoke(), bench(), census(), audit(), signed=True)
    assert render(again) == full


def test_a_bench_without_points_has_no_plot(tmp_path: Path) -> None:
    record = bench()
    empty = type(record)(record.file, "bench", record.document | {"points": [], "failures": ["2 ranks: died"]}, True)
    said = text(render(make_report(tmp_path, empty)))
    assert "2 ranks: died" in said
    assert "no plot" in said


def test_markup_is_only_what_was_made_as_such() -> None:
    assert safe("<&\"'") == "&lt;&amp;&quot;&#x27;"
    assert tag("p", "<", Html("<i>x</i>"), title='"').text == '<p title="&quot;">&lt;<i>x</i></p>'


def colours(block: str) -> dict[str, str]:
    return dict(re.findall(r"--([a-z]+): (#[0-9a-f]{6})", block))


def luminance(colour: str) -> float:
    parts = [int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_every_text_has_contrast_enough(scheme: str) -> None:
    """WCAG 2.1 AA: 4.5 to 1 for text."""
    light, dark = (colours(block) for block in STYLE.split("@media (prefers-color-scheme: dark)")[:2])
    named = light if scheme == "light" else dark
    for ink in ("ink", "quiet", "link", "pass", "fail", "open", "first", "second"):
        for paper in ("paper", "raised", "add", "remove", "hunk"):
            if paper in ("add", "remove", "hunk") and ink not in ("ink", "quiet"):
                continue
            high, low = sorted((luminance(named[ink]), luminance(named[paper])), reverse=True)
            assert (high + 0.05) / (low + 0.05) >= 4.5, (scheme, ink, paper)


def test_a_lock_of_other_bytes_is_told_apart(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    lock = make_lock(tmp_path / "wheels.lock.toml", wheels)
    assert _lock_state(wheels, lock) == "locked"
    lock.write_text(lock.read_text().replace(wheels.wheels[0].sha256, "0" * 64))
    assert _lock_state(wheels, lock) == "differs"
    assert _lock_state(wheels, tmp_path / "none") == "unknown"
