"""The commands ``publish`` and ``verify``."""

from __future__ import annotations

import argparse
import os
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console
from forkwheel.errors import UsageError
from forkwheel.release.index import is_index
from forkwheel.release.provenance import SUFFIX, check_provenance
from forkwheel.release.publish import Published, check_install_files, publish_set, verify_index, yank
from forkwheel.release.publishable import check_publishable, kernel_wheels
from forkwheel.release.signing import check_signature, sign, signature_of
from forkwheel.release.wheel_set import WheelSet, find_manifest, load_set, verify_set

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1
KEY_VARIABLE = "FORKWHEEL_SIGNING_KEY"


def register(commands: Commands) -> None:
    """Add ``publish`` and ``verify``."""
    publish = commands.add("publish", help="put a built set into an index: a folder, or a server's upload API")
    publish.add_argument("--from", dest="source", type=Path, default=Path("dist"), help="the set (default: dist)")
    publish.add_argument("--recipe", help="which set, where the folder holds several")
    publish.add_argument("--to", type=Path, metavar="DIR", help="a folder that a web server serves")
    publish.add_argument("--repository", metavar="NAME-or-URL", help="an upload API, as twine knows it")
    publish.add_argument("--lock", type=Path, help="the recipe's lock (default: recipes/RECIPE/wheels.lock.toml)")
    publish.add_argument("--key", type=Path, help=f"sign with this SSH key (default: {KEY_VARIABLE}, or unsigned)")
    publish.add_argument("--yank", metavar="WHEEL", help="take a published wheel out of ordinary installs")
    publish.add_argument("--reason", help="why, for --yank")
    publish.set_defaults(run=run_publish)
    verify = commands.add("verify", help="check a set, or an index, against its manifest, provenance and signature")
    verify.add_argument("folder", type=Path, metavar="DIR", help="a folder of wheels and manifest, or an index")
    verify.add_argument("--recipe", help="which set, where the folder holds several")
    verify.add_argument("--allowed-signers", type=Path, metavar="FILE", help="who may have signed, as ssh-keygen reads")
    verify.set_defaults(run=run_verify)


def run_publish(options: argparse.Namespace, console: Console) -> int:
    """Publish a set, or yank a wheel of an index."""
    if options.yank is not None:
        return _yank(options, console)
    if (options.to is None) == (options.repository is None):
        raise UsageError("say where to publish", hint="give either --to DIR or --repository NAME-or-URL")
    wheels = load_set(find_manifest(options.source, recipe=options.recipe))
    log = console.bind(wheels.recipe)
    with log.stage("check"):
        lock = options.lock or Path("recipes") / wheels.recipe / "wheels.lock.toml"
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
    _report(wheels, published, console)
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


def _report(wheels: WheelSet, published: Published, console: Console) -> None:
    if console.json_mode:
        console.data(
            {
                "schema": SCHEMA,
                "recipe": wheels.recipe,
                "revision": wheels.revision,
                "added": list(published.added),
                "present": list(published.present),
            }
        )
    rows = [(name, "added") for name in published.added] + [(name, "was there") for name in published.present]
    console.table(("wheel", ""), rows)


def run_verify(options: argparse.Namespace, console: Console) -> int:
    """Verify a folder: an index whole, with every set in it, or one set."""
    folder: Path = options.folder
    document: dict[str, object] = {"schema": SCHEMA}
    manifests = []
    if is_index(folder):
        pages = verify_index(folder)
        count = sum(len(files) for files in pages.projects.values())
        console.line(f"index: {count} wheels of {len(pages.projects)} projects are as its pages say", kind="done")
        document["index"] = {"projects": len(pages.projects), "wheels": count}
        manifests = [folder / one.manifest for one in pages.sets]
    else:
        manifests = [find_manifest(folder, recipe=options.recipe)]
    document["sets"] = [_verify_set(file, folder, options.allowed_signers, console) for file in manifests]
    if console.json_mode:
        console.data(document)
    return 0


def _verify_set(manifest: Path, folder: Path, allowed_signers: Path | None, console: Console) -> dict[str, object]:
    wheels = load_set(manifest, wheels=folder if folder.is_dir() else manifest.parent)
    verify_set(wheels)
    statement = check_provenance(wheels)
    check_install_files(wheels)
    signer = check_signature(statement, allowed_signers=allowed_signers) if allowed_signers else None
    signed = signature_of(statement).is_file()
    log = console.bind(wheels.recipe)
    log.info(f"{len(wheels.wheels)} wheels, manifest and provenance of revision {wheels.revision} agree")
    if signer is not None:
        console.line(f"signed by {signer}", kind="done", package=wheels.recipe)
    elif signed:
        log.warning("the provenance is signed, and the signature was not checked: give --allowed-signers FILE")
    else:
        log.warning("the provenance is unsigned")
    return {"recipe": wheels.recipe, "revision": wheels.revision, "signed": signed, "signer": signer}
