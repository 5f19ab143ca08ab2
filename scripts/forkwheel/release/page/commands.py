"""The command ``report``."""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console, readable_size
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
    parser.add_argument("--from", dest="source", type=Path, default=Path("dist"), help="the set (default: dist)")
    parser.add_argument("--recipe", help="which set, where the folder holds several")
    parser.add_argument("--recipe-folder", type=Path, help="lock and evidence (default: recipes/RECIPE)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Write the page beside the manifest."""
    wheels = load_set(find_manifest(options.source, recipe=options.recipe))
    verify_set(wheels)
    folder = options.recipe_folder or Path("recipes") / wheels.recipe
    with tempfile.TemporaryDirectory(prefix="forkwheel-report-") as temporary:
        report = collect(wheels, recipe_folder=folder, work=Path(temporary))
    file = wheels.beside("report.html")
    content = render(report)
    write_whole(file, content)
    if console.json_mode:
        console.data({"schema": SCHEMA, "file": str(file), "bytes": len(content)})
    console.line(f"wrote {file}, {readable_size(len(content))}", kind="done")
    return 0
