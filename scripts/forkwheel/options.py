"""Options that several commands have, so that they have one form and one text."""

from __future__ import annotations

from argparse import ArgumentParser

RECIPE = "NAME-or-PATH"
"""How ``--recipe`` is shown."""


def add_recipe_option(
    parser: ArgumentParser, *, required: bool = False, default: str | None = None, note: str = ""
) -> None:
    """Add ``--recipe``; ``note`` says what holds where it is left out."""
    text = "a recipe's name, folder or file"
    if note := note or (f"default: {default}" if default else ""):
        text += f" ({note})"
    parser.add_argument("--recipe", required=required, default=default, metavar=RECIPE, help=text)


def add_mirror_option(parser: ArgumentParser) -> None:
    """Add ``--mirror``."""
    parser.add_argument(
        "--mirror", action="append", default=[], metavar="URL=PATH", help="fetch a git URL from another place"
    )
