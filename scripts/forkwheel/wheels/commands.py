"""The command ``show``: what wheels say of how they were made."""

from __future__ import annotations

from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console, plural
from forkwheel.errors import UsageError
from forkwheel.wheels.show import ShownWheel, document, show_wheel

if TYPE_CHECKING:
    from forkwheel.cli import Commands


def register(commands: Commands) -> None:
    """Add ``show``."""
    parser = commands.add("show", help="print how wheels were made: key, pins, patches, build requirements, SBOM")
    parser.add_argument("wheels", nargs="+", type=Path, metavar="WHEEL", help="a wheel that forkwheel built")
    parser.set_defaults(run=run)


def run(args: Namespace, console: Console) -> int:
    """Show each wheel named on the command line."""
    for path in args.wheels:
        if not path.exists():
            raise UsageError(f"there is no {path}", hint="name the file of a wheel")
    wheels = [show_wheel(path) for path in args.wheels]
    if args.json:
        console.data(document(wheels))
        return 0
    for wheel in wheels:
        _print(wheel, console)
    return 0


def _print(wheel: ShownWheel, console: Console) -> None:
    console.line(wheel.filename)
    for name, value in _rows(wheel):
        console.line(f"  {name}: {value}")


def _rows(wheel: ShownWheel) -> list[tuple[str, str]]:
    return [
        ("sha256", wheel.sha256),
        ("size", f"{wheel.size} bytes"),
        ("package", f"{wheel.package} {wheel.version}"),
        ("key", wheel.key),
        ("recipe", f"{wheel.recipe}, target {wheel.target}"),
        *(("pin", pin) for pin in wheel.pins),
        *(("patch", f"{patch.name}: {patch.description.splitlines()[0]}") for patch in wheel.patches),
        *(("build requirement", f"{item.name} {item.version}{_only(item.marker)}") for item in wheel.requirements),
        ("SBOM", f"{wheel.sbom.format}, {plural(wheel.sbom.components, 'component')}, {wheel.sbom.serial_number}"),
    ]


def _only(marker: str | None) -> str:
    return f" (where {marker})" if marker else ""
