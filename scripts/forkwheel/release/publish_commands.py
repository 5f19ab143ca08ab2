"""The command ``publish``."""

from __future__ import annotations

import argparse
import os
import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console
from forkwheel.errors import UsageError
from forkwheel.hints import recipe_argument
from forkwheel.options import add_recipe_option
from forkwheel.release.index import SIMPLE
from forkwheel.release.index_pages import IndexedSet
from forkwheel.release.lock import load_lock, wheels_lock_file
from forkwheel.release.named_recipe import named_recipe
from forkwheel.release.provenance import SUFFIX
from forkwheel.release.publish import Published, publish_set, yank
from forkwheel.release.publishable import check_publishable, kernel_wheels
from forkwheel.release.signing import sign, signature_of
from forkwheel.release.wheel_set import WheelSet, find_manifest, load_set
from forkwheel.tree import sha256_file

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1
KEY_VARIABLE = "FORKWHEEL_SIGNING_KEY"


def register(commands: Commands) -> None:
    """Add ``publish``."""
    publish = commands.add("publish", help="put a built set into an index: a folder, or a server's upload API")
    publish.add_argument(
        "--from", dest="source", type=Path, metavar="DIR", default=Path("dist"), help="the set (default: dist)"
    )
    add_recipe_option(publish, note="which set, where there are several")
    publish.add_argument("--to", type=Path, metavar="DIR", help="a folder that a web server serves")
    publish.add_argument("--repository", metavar="NAME-or-URL", help="an upload API, as twine knows it")
    publish.add_argument(
        "--lock", type=Path, metavar="FILE", help="the recipe's lock (default: recipes/RECIPE/wheels.lock.toml)"
    )
    publish.add_argument(
        "--key", type=Path, metavar="FILE", help=f"sign with this SSH key (default: {KEY_VARIABLE}, or unsigned)"
    )
    publish.add_argument("--yank", metavar="WHEEL", help="take a published wheel out of ordinary installs")
    publish.add_argument("--reason", metavar="TEXT", help="why, for --yank")
    publish.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Publish a set, or yank a wheel of an index."""
    if options.yank is not None:
        return _yank(options, console)
    if (options.to is None) == (options.repository is None):
        raise UsageError("say where to publish", hint="give either --to DIR or --repository NAME-or-URL")
    named = named_recipe(options.recipe)
    wheels = load_set(find_manifest(options.source, recipe=named.name))
    options.recipe = options.recipe or wheels.recipe  # which hints name
    log = console.bind(wheels.recipe)
    with log.stage("check"):
        lock = options.lock or wheels_lock_file(named.folder(wheels.recipe))
        check_publishable(wheels, lock=lock)
        kernels = kernel_wheels(wheels, recipe_folder=lock.parent)
        more = [wheel for wheel in kernels if wheel.filename not in {one.filename for one in wheels.wheels}]
    _sign(wheels, options.key, console)
    with log.stage("publish"):
        if options.to is not None:
            published = publish_set(options.to, wheels, more=more)
        else:
            from forkwheel.release.upload import upload_set

            published = upload_set(options.repository, wheels, more=more)
    revision = load_lock(lock).revision(wheels.revision)
    released = revision is not None and revision.released
    _report(wheels, published, console, index=options.to, released=released)
    if not released:
        console.line(
            f"revision {wheels.revision} is not marked released, so `lock` may still give it other bytes: "
            f"`nox -s lock -- --recipe {recipe_argument(lock.parent)} --release` marks it",
            kind="warning",
            package=wheels.recipe,
        )
    return 0


def _yank(options: argparse.Namespace, console: Console) -> int:
    if options.to is None or not options.reason:
        raise UsageError("a wheel is yanked from a folder, with a reason", hint="add --to DIR and --reason TEXT")
    yank(options.to, options.yank, reason=options.reason)
    console.line(f"yanked {options.yank}: {options.reason}", kind="done")
    return 0


def _sign(wheels: WheelSet, key: Path | None, console: Console) -> None:
    named = key or os.environ.get(KEY_VARIABLE)
    statement = wheels.beside(SUFFIX)
    if named:
        console.line(f"signed: {sign(statement, key=Path(named).expanduser()).name}", package=wheels.recipe)
    elif not signature_of(statement).is_file():
        console.line(
            f"the provenance is unsigned: no --key and no {KEY_VARIABLE}", kind="warning", package=wheels.recipe
        )


def _report(wheels: WheelSet, published: Published, console: Console, *, index: Path | None, released: bool) -> None:
    if console.json_mode:
        console.data(
            {
                "schema": SCHEMA,
                "recipe": wheels.recipe,
                "revision": wheels.revision,
                "released": released,
                "index": str(index.absolute()) if index is not None else None,
                "added": list(published.added),
                "present": list(published.present),
            }
        )
    rows = [(name, "added") for name in published.added] + [(name, "was there") for name in published.present]
    console.table(("wheel", ""), rows)
    if index is not None:
        _tell_index(index.absolute(), wheels, console)


def _tell_index(index: Path, wheels: WheelSet, console: Console) -> None:
    """Say where the index is, and how a person installs from it."""
    folder = IndexedSet(wheels.recipe, wheels.revision, sha256_file(wheels.manifest)).folder
    requirements = shlex.quote(f"{index}/{folder}/{wheels.recipe}.requirements.txt")
    links = f"--find-links {shlex.quote(str(index))}"
    console.line(f"the index: {links}, or --index-url {(index / SIMPLE).as_uri()}/")
    console.line(f"install: pip install --no-deps --require-hashes {links} -r {requirements}")
