"""The command ``verify``."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.console import Console, plural
from forkwheel.errors import ForkwheelError, UsageError, VerificationError
from forkwheel.options import add_recipe_option
from forkwheel.release.index import Pages, is_index, read_pages
from forkwheel.release.index_pages import IndexedSet
from forkwheel.release.named_recipe import named_recipe
from forkwheel.release.provenance import check_provenance
from forkwheel.release.publish import check_install_files, verify_index
from forkwheel.release.signing import check_signature, signature_of
from forkwheel.release.wheel_set import find_manifest, load_set, verify_set

if TYPE_CHECKING:
    from forkwheel.cli import Commands

SCHEMA = 1


def register(commands: Commands) -> None:
    """Add ``verify``."""
    verify = commands.add("verify", help="check a set, or an index, against its manifest, provenance and signature")
    verify.add_argument("folder", type=Path, metavar="DIR", help="a folder of wheels and manifest, or an index")
    add_recipe_option(verify, note="its sets alone; default: all of an index")
    verify.add_argument("--allowed-signers", type=Path, metavar="FILE", help="who may have signed, as ssh-keygen reads")
    verify.set_defaults(run=run)


def run(options: argparse.Namespace, console: Console) -> int:
    """Verify a folder: an index whole, or the sets in it of one recipe, or one set.

    Everything is judged before the first fault ends the run.
    """
    folder: Path = options.folder
    recipe = named_recipe(options.recipe).name
    judge = _Judge(folder, options.allowed_signers, console)
    if is_index(folder):
        _judge_index(judge, recipe=recipe)
    else:
        judge.judge_set(find_manifest(folder, recipe=recipe), "")
    if console.json_mode:
        console.data({"schema": SCHEMA, **judge.document, "sets": judge.sets})
    judge.end()
    return 0


@dataclass
class _Judge:
    """Judges one thing after the other, and keeps what was found."""

    folder: Path
    allowed_signers: Path | None
    console: Console
    document: dict[str, object] = field(default_factory=dict)
    sets: list[dict[str, object]] = field(default_factory=list)
    faults: list[tuple[str, ForkwheelError]] = field(default_factory=list)

    def attempt(self, what: str, check: Callable[[], None]) -> bool:
        """Run a check of ``what``; keep a fault of the artefact, and tell whether there was none."""
        try:
            check()
        except (UsageError, VerificationError) as error:
            self.faults.append((what, error))
            return False
        return True

    def judge_set(self, manifest: Path, name: str, **about: object) -> None:
        """Judge the set of a manifest, which is called ``name`` and is ``about`` a recipe and revision."""
        if not self.attempt(name, lambda: self.sets.append(self._verify_set(manifest))):
            self.sets.append({**about, "fault": self.faults[-1][1].message})

    def end(self) -> None:
        """Raise the one fault that was found; name every one where there are several."""
        if not self.faults:
            return
        if len(self.faults) == 1:
            raise self.faults[0][1]
        for name, fault in self.faults:
            self.console.line(f"{name}: {fault.message}", kind="error")
        names = ", ".join(name for name, _ in self.faults)
        raise VerificationError(f"these cannot be trusted: {names}", hint=self.faults[0][1].hint)

    def _verify_set(self, manifest: Path) -> dict[str, object]:
        wheels = load_set(manifest, wheels=self.folder if self.folder.is_dir() else manifest.parent)
        verify_set(wheels)
        statement = check_provenance(wheels)
        check_install_files(wheels)
        log = self.console.bind(wheels.recipe)
        signer = check_signature(statement, allowed_signers=self.allowed_signers) if self.allowed_signers else None
        signed = signature_of(statement).is_file()
        log.info(f"{plural(len(wheels.wheels), 'wheel')}, manifest and provenance of revision {wheels.revision} agree")
        if signer is not None:
            self.console.line(f"signed by {signer}", kind="done", package=wheels.recipe)
        elif signed:
            log.warning("the provenance is signed, and the signature was not checked: give --allowed-signers FILE")
        else:
            log.warning("the provenance is unsigned")
        return {"recipe": wheels.recipe, "revision": wheels.revision, "signed": signed, "signer": signer}


def _judge_index(judge: _Judge, *, recipe: str | None) -> None:
    """Judge an index's files and sets; with ``recipe`` those of its sets alone."""
    pages = read_pages(judge.folder)
    chosen = [one for one in pages.sets if recipe in (None, one.recipe)]
    if recipe is not None and not chosen:
        known = ", ".join(sorted({one.recipe for one in pages.sets})) or "none"
        raise UsageError(f"{judge.folder} has no set of {recipe}", hint=f"its sets are of: {known}")
    if not judge.attempt("the index", lambda: _verify_files(judge, pages, chosen if recipe is not None else None)):
        judge.document["index"] = {"fault": judge.faults[-1][1].message}
    for one in chosen:
        name = f"{one.recipe} revision {one.revision}"
        judge.judge_set(judge.folder / one.manifest, name, recipe=one.recipe, revision=one.revision)


def _verify_files(judge: _Judge, pages: Pages, sets: list[IndexedSet] | None) -> None:
    """Check what an index's pages say of its files, or of those of some ``sets``."""
    only = None
    if sets is not None:
        manifests = [load_set(judge.folder / one.manifest, wheels=judge.folder) for one in sets]
        only = frozenset(wheel.filename for wheels in manifests for wheel in wheels.wheels)
        pages = pages.only(only, sets)
    verify_index(judge.folder, pages)
    count = sum(len(files) for files in pages.projects.values())
    judge.document["index"] = {"projects": len(pages.projects), "wheels": count}
    judge.console.line(
        f"index: {plural(count, 'wheel')} of {plural(len(pages.projects), 'project')}, as its pages say", kind="done"
    )
