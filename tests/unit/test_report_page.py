"""The report: everything is on it, nothing on it is taken as markup, and what is absent is said."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from html.parser import HTMLParser
from itertools import pairwise
from pathlib import Path

import pytest
from publish_support import make_lock, make_set
from report_support import audit, bench, census, make_report, smoke

from forkwheel.cli import run
from forkwheel.cuda.kernels_lock import KernelsLock, LockedKernels
from forkwheel.errors import VerificationError
from forkwheel.release.page import commands
from forkwheel.release.page.markup import Html, prose, safe, tag
from forkwheel.release.page.page import render
from forkwheel.release.page.record import Record, _lock_state, _records
from forkwheel.release.page.style import STYLE
from forkwheel.release.wheel_set import KERNELS, TAKEN

VOID = {"meta", "br", "wbr"}


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


def test_the_top_of_the_page_says_what_was_found(full: bytes, tmp_path: Path) -> None:
    assert "Gates PASS closed on the path: 1 before the series, 0 after it" in text(full)
    assert "3 kernels for sm_120a" in text(full)
    record = audit()
    closed = replace(record, document={**record.document, "after": record.document["before"]})
    assert "Gates CLOSED closed on the path: 1 before the series, 1 after it" in text(
        render(make_report(tmp_path, closed))
    )


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


FORMS = [
    {},
    {"verdict": 3, "gpu": 3, "ran_on_target": False},
    {"families": 3, "targets": 3, "points": 3, "checks": 3, "before": {}, "after": {}},
    {"families": {"a": []}, "targets": [], "points": [{}], "checks": ["FAIL"], "difference": [{}]},
    {"points": [{"world_size": 2, "hidden": 1, "tokens": 0, "fused": {}, "others": {}, "ratio": 0, "wins": 0}]},
    {"failures": {"a": 1}, "not_run": 3, "counts": [], "advice": 3, "changes": [3], "wheels": [3]},
]


@pytest.mark.parametrize("kind", ["smoke", "controls", "bench", "census", "audit"])
@pytest.mark.parametrize("document", FORMS)
def test_a_record_of_another_form_is_said_to_be_unreadable_and_hides_no_other(
    tmp_path: Path, kind: str, document: dict[str, object]
) -> None:
    whole = (
        smoke() if kind == "controls" else {"smoke": smoke, "bench": bench, "census": census, "audit": audit}[kind]()
    )
    page = render(make_report(tmp_path, Record("fork.odd.json", kind, document, None), whole))
    said = text(page)
    assert "fork.odd.json" in said or "UNREADABLE" in said
    assert whole.file in said


def test_a_record_that_is_no_json_is_one_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    wheels = make_set(tmp_path / "dist")
    wheels.beside("bench.json").write_text("{")
    with pytest.raises(VerificationError, match=r"fork\.bench\.json cannot be read"):
        list(_records(wheels, tmp_path / "evidence"))


def test_one_of_several_wheels_of_a_package_was_enough_to_run(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    first, second = wheels.wheels
    both = replace(wheels, wheels=(first, second, replace(second, sha256="0" * 64)))
    wheels.beside("smoke.json").write_text(
        json.dumps({"wheels": [{"sha256": first.sha256}, {"sha256": second.sha256}]})
    )
    (record,) = _records(both, tmp_path / "evidence")
    assert record.current is True


def test_kernels_are_compared_with_their_own_lock(tmp_path: Path) -> None:
    wheels = make_set(tmp_path / "dist")
    lock = make_lock(tmp_path / "wheels.lock.toml", wheels)
    kernels = replace(wheels.wheels[0], kind=KERNELS, path=tmp_path / "k-1.0-py3-none-any.whl", sha256="1" * 64)
    more = replace(wheels, wheels=(*wheels.wheels, kernels))
    assert _lock_state(more, lock) == "differs"
    build = LockedKernels("1.0", "0" * 64, "gcc 12", kernels.filename, kernels.sha256, ())
    KernelsLock(tmp_path / "kernels.lock.toml", (build,)).write()
    assert _lock_state(more, lock) == "locked"


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


def test_every_source_of_a_package_and_every_taken_wheel_is_a_pin(tmp_path: Path) -> None:
    report = make_report(tmp_path)
    taken = replace(report.wheels.wheels[0], kind=TAKEN, package="upstream", version="3.0", key="", sha256="7" * 64)
    wheels = replace(report.wheels, wheels=(*report.wheels.wheels, taken))
    sources = [{"kind": "wheel", "filename": f"demo-{tag}.whl", "sha256": tag * 64} for tag in ("a", "b", "c")]
    parts = (replace(report.parts[0], entry={**report.parts[0].entry, "sources": sources}),)
    said = text(render(replace(report, wheels=wheels, parts=parts)))
    for wanted in ("a" * 64, "b" * 64, "c" * 64, "with upstream's own upstream 3.0", "wheel, as it is", "7" * 64):
        assert wanted in said, wanted


@pytest.mark.parametrize(("said", "shown"), [("a `b` c", "a <code>b</code> c"), ("a ` b", "a ` b"), ("`<`", "&lt;")])
def test_what_stands_between_backquotes_is_code(said: str, shown: str) -> None:
    assert shown in tag("p", *prose(said)).text


def report_with(tmp_path: Path, *forwarded: str) -> str:
    report = make_report(tmp_path)
    part = report.parts[0]
    (patch,) = part.series.patches
    patches = tuple(replace(patch, header=replace(patch.header, forwarded=value)) for value in forwarded)
    said = text(render(replace(report, parts=(replace(part, series=replace(part.series, patches=patches)),))))
    return said[said.index("Patches", said.index("Lock")) :]


@pytest.mark.parametrize(
    ("forwarded", "said"),
    [
        (("not-needed", "not-needed", "no"), "3 1 not yet sent, 2 not needed there"),
        (("https://example.com/1", "yes", "no"), "3 2 sent upstream, 1 not yet sent"),
        ((), "0 none"),
    ],
)
def test_patches_are_counted_by_where_they_stand_upstream(
    tmp_path: Path, forwarded: tuple[str, ...], said: str
) -> None:
    assert report_with(tmp_path, *forwarded).startswith(f"Patches {said}")


def test_the_command_says_what_the_page_lacks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    wheels = make_set(tmp_path / "dist")
    monkeypatch.setattr(commands, "collect", lambda *_, **__: make_report(tmp_path / "report"))
    assert run(["report"]) == 0
    said = capsys.readouterr().out
    assert said.count("warning: ") == 1
    assert "there is no recipes/fork, so lock and kept evidence are not in the report" in said
    assert "`forkwheel audit --recipe fork --json > dist/fork.audit.json`" in said
    (tmp_path / "recipes/fork").mkdir(parents=True)
    assert run(["report"]) == 0
    said = capsys.readouterr().out
    assert "warning: " not in said
    assert "`forkwheel audit --recipe fork --json > " in said
    assert wheels.beside("report.html").is_file()
