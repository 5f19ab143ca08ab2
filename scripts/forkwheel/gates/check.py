"""The gate check of a build: a series that opens a path halfway is refused before anything is compiled."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from forkwheel.gates.arch import parse_arch
from forkwheel.gates.audit import audit
from forkwheel.gates.compare import check_consistent
from forkwheel.gates.settings import load_settings
from forkwheel.store import Store


def check_series(
    before: Mapping[str, Path], after: Mapping[str, Path], *, gates_file: Path, target: str, store: Store
) -> None:
    """Audit the stock and the patched trees, by package name, for a recipe's target such as ``sm_120a``.

    Raise VerificationError, naming both places, where one gate of the path admits the target and
    another keeps it out. Trees that were audited before are not read again.
    """
    settings = load_settings(gates_file)
    first, last = (
        audit(
            roots,
            target=parse_arch(target),
            references=settings.references,
            entries=settings.entries,
            layers=settings.layers,
            store=store,
        )
        for roots in (before, after)
    )
    check_consistent(first, last, expectations=settings.expectations)
