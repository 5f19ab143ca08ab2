"""The command ``report``."""

from __future__ import annotations

import argparse
import shlex
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console, readable_size
from forkwheel.hints import recipe_argument
from forkwheel.options import add_recipe_option
from forkwheel.release.named_recipe import named_recipe
from forkwheel.release.page.page import render
from forkwheel.release.page.record import collect
from forkwheel.release.wheel_set import find_manifest, load_set, verify_set
from forkwheel.store import write_whole

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1


def register(commands: Commands) -> None:
    """Add ``report``."""
    parser = commands.add("report", help="write one page on a set, for the person who has to approve it")
    parser.add_argument(
        "--from", dest="source", type=Path, metavar="DIR", default=Path("dist"), help="the set (default: dist)"
    )
    add_recipe_option(parser, note="which set, where there are several")
    parser.add_argument("--recipe-folder", type=Path, metavar="DIR", help="lock and evidence (default: recipes/RECIPE)")
    parser.epilog = (
        "The page shows what records lie beside the manifest. A build checks the gates and keeps no record: "
        "`forkwheel audit --recipe NAME --json > dist/NAME.audit.json` makes one. `smoke`, `bench` and `kernels` "
        "leave theirs."
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Write the page beside the manifest."""
    named = named_recipe(options.recipe)
    wheels = load_set(find_manifest(options.source, recipe=named.name))
    verify_set(wheels)
    folder = options.recipe_folder or named.folder(wheels.recipe)
    if not folder.is_dir():
        said = f"there is no {folder}, so lock and kept evidence are not in the report: give --recipe-folder DIR"
        console.line(said, kind="warning", package=wheels.recipe)
    with tempfile.TemporaryDirectory(prefix="forkwheel-report-") as temporary:
        report = collect(wheels, recipe_folder=folder, work=Path(temporary))
    file = wheels.beside("report.html")
    content = render(report)
    write_whole(file, content)
    if console.json_mode:
        console.data({"schema": SCHEMA, "file": str(file), "bytes": len(content)})
    console.line(f"wrote {file}, {readable_size(len(content))}", kind="done")
    if not report.of("audit"):
        record = wheels.beside("audit.json")
        how = f"`forkwheel audit --recipe {recipe_argument(folder)} --json > {shlex.quote(str(record))}`"
        console.line(f"the page shows no gates: {how} records them for the next one", kind="hint")
    return 0
