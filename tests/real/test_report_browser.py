"""The report in a real browser: its layout, at the widths of a phone and of a desk, and on paper."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest
from publish_support import served
from report_support import audit, bench, census, make_report, smoke
from small import forkwheel, write_recipe

from forkwheel.release.page.page import render

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
pytestmark = pytest.mark.skipif(CHROMIUM is None, reason="there is no chromium here (Debian: apt install chromium)")

MEASURE = """<!DOCTYPE html><html><body style="margin:0"><iframe src="page.html" width="WIDTH" height="2000"></iframe>
<pre id="found"></pre><script>
document.querySelector("iframe").onload = event => {
  const page = event.target.contentDocument, window = event.target.contentWindow;
  const scrolls = element => element.closest("pre, .scroll") !== null;
  const wide = [...page.querySelectorAll("body *")].filter(element =>
    !scrolls(element) && !element.closest("svg, .skip") && element.getBoundingClientRect().right > WIDTH + 1);
  const small = [...page.querySelectorAll("nav a, summary")].filter(e => e.getBoundingClientRect().height < 24);
  document.querySelector("#found").textContent = JSON.stringify({
    width: page.documentElement.scrollWidth,
    wide: wide.map(element => element.outerHTML.slice(0, 120)),
    small: small.length,
    font: parseFloat(window.getComputedStyle(page.body).fontSize),
    height: page.documentElement.scrollHeight,
    cut: [...page.querySelectorAll("h1, h2, h3, h4, p, dd")].filter(e => e.scrollWidth > e.clientWidth + 1).length,
  });
};
</script></body></html>"""


def browser(*arguments: str, home: Path) -> subprocess.CompletedProcess[str]:
    """Run the browser without a window; what a page writes to its console comes on standard error."""
    assert CHROMIUM is not None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={home}", "--enable-logging=stderr"]
    return subprocess.run(
        [CHROMIUM, *options, "--hide-scrollbars", "--virtual-time-budget=8000", *arguments],
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )


@pytest.fixture
def page(tmp_path: Path) -> Path:
    """Return a folder with a page that has everything, and long words in it."""
    report = make_report(tmp_path, smoke(), bench(), census(), audit(), signed=True)
    folder = tmp_path / "served"
    folder.mkdir()
    (folder / "page.html").write_bytes(render(report))
    return folder


@pytest.mark.parametrize("width", [320, 390, 768, 1280])
def test_nothing_is_wider_than_the_window(page: Path, width: int, tmp_path: Path) -> None:
    (page / "measure.html").write_text(MEASURE.replace("WIDTH", str(width)))
    with served(page) as url:
        done = browser("--window-size=1400,2100", "--dump-dom", f"{url}/measure.html", home=tmp_path / "profile")
    found = re.search(r'<pre id="found">(.*?)</pre>', done.stdout, re.DOTALL)
    assert found is not None
    assert found[1], done.stdout[:2000]
    measured = json.loads(found[1].replace("&lt;", "<").replace("&gt;", ">").replace("&amp;", "&"))
    assert measured["width"] <= width
    assert measured["wide"] == []
    assert measured["cut"] == 0
    assert measured["small"] == 0
    assert measured["font"] >= 16
    assert measured["height"] > 1000


@pytest.mark.parametrize("scheme", ["0", "1"])
def test_the_console_stays_silent_and_no_alert_is_raised(page: Path, scheme: str, tmp_path: Path) -> None:
    arguments = [f"--blink-settings=preferredColorScheme={scheme}", "--window-size=390,3000"]
    shot = tmp_path / "page.png"
    done = browser(*arguments, f"--screenshot={shot}", (page / "page.html").as_uri(), home=tmp_path / "profile")
    assert "CONSOLE" not in done.stderr
    assert shot.read_bytes().startswith(b"\x89PNG")


def test_light_and_dark_differ(page: Path, tmp_path: Path) -> None:
    shots = []
    for scheme in ("0", "1"):
        shot = tmp_path / f"{scheme}.png"
        arguments = [f"--blink-settings=preferredColorScheme={scheme}", "--window-size=390,800", f"--screenshot={shot}"]
        browser(*arguments, (page / "page.html").as_uri(), home=tmp_path / "profile")
        shots.append(shot.read_bytes())
    assert shots[0] != shots[1]


def test_it_can_be_printed(page: Path, tmp_path: Path) -> None:
    paper = tmp_path / "page.pdf"
    browser(f"--print-to-pdf={paper}", (page / "page.html").as_uri(), home=tmp_path / "profile")
    content = paper.read_bytes()
    assert content.startswith(b"%PDF")
    assert len(re.findall(rb"/Type\s*/Page\b", content)) > 1


def test_the_command_writes_the_page_of_a_real_build(tmp_path: Path) -> None:
    recipe = write_recipe(tmp_path / "recipes" / "small")
    for command in (["lock", "--inputs"], ["build"]):
        run = forkwheel(command[0], "--recipe", recipe, *command[1:], cache=tmp_path / "cache", cwd=tmp_path)
        assert run.returncode == 0, run.stdout + run.stderr
    run = forkwheel("report", cache=tmp_path / "cache", cwd=tmp_path)
    assert run.returncode == 0, run.stderr
    written = (tmp_path / "dist" / "small.report.html").read_text()
    assert "longer-lines.patch" in written
    assert "+MAX_LINE_LENGTH = 120" in written
    assert "locked, and not yet released" in written
    done = browser("--dump-dom", (tmp_path / "dist" / "small.report.html").as_uri(), home=tmp_path / "profile")
    assert "CONSOLE" not in done.stderr


def test_the_measure_notices_what_is_too_wide(page: Path, tmp_path: Path) -> None:
    """The control: the same page with one word that does not fit."""
    file = page / "page.html"
    file.write_text(file.read_text().replace("</main>", f"<p style='white-space:nowrap'>{'wide' * 300}</p></main>"))
    (page / "measure.html").write_text(MEASURE.replace("WIDTH", "390"))
    with served(page) as url:
        done = browser("--window-size=1400,2100", "--dump-dom", f"{url}/measure.html", home=tmp_path / "profile")
    assert '"width":390' not in done.stdout.split('id="found"')[1]
