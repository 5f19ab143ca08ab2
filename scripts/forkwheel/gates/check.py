"""The gate check of a build: a series that opens a path halfway is refused before anything is made."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from forkwheel.gates.kept import Slot
from forkwheel.patching.overlay import Change
from forkwheel.plan import Plan
from forkwheel.store import Store
from forkwheel.tree import sha256_file

if TYPE_CHECKING:
    from forkwheel.gates.files import SourceFile

Patched = tuple[Plan, tuple[Change, ...]]  # what a plan's series changes


def needs_check(plans: Sequence[Plan], *, gates_file: Path, target: str, store: Store) -> Slot | None:
    """Return where to note that the plans passed; None where there is nothing to check, or they passed before."""
    if not gates_file.is_file():
        return None
    asked = (sha256_file(gates_file), target, sorted(plan.key.digest for plan in plans))
    slot = Slot.of(store, (), ("passed", asked))
    return None if slot.read() else slot


def check_plans(patched: Sequence[Patched], *, gates_file: Path, target: str, store: Store) -> None:
    """Audit the path through the patched trees, for a recipe's target such as ``sm_120a``.

    Raise VerificationError, naming both places, where the series opens one gate of the path and
    leaves another closed: only then the stock trees are audited, too.
    """
    # Imported here because most builds have passed before, and these imports take longer than the rest.
    from forkwheel.gates.arch import parse_arch
    from forkwheel.gates.audit import audit_all
    from forkwheel.gates.compare import check_consistent, judge
    from forkwheel.gates.model import Question
    from forkwheel.gates.settings import load_settings

    settings = load_settings(gates_file)
    question = Question(parse_arch(target), settings.references, settings.entries, settings.layers)
    with ExitStack() as stack:
        files = _Files(patched, stack)
        for state in _states(patched):
            (last,) = audit_all([files.after(state)], question, store=store, path_only=True)
            if judge(last, settings.expectations).unexpected:
                (first,) = audit_all([files.before(state)], question, store=store, path_only=True)
                check_consistent(first, last, expectations=settings.expectations)


class _Files:
    """The files of plans; a wheel that is taken as it is stays packed, and is listed once."""

    def __init__(self, patched: Sequence[Patched], stack: ExitStack) -> None:
        from forkwheel.gates.files import files_in_wheel

        self._packed: dict[int, list[SourceFile]] = {}
        for plan, _ in patched:
            if plan.package.is_taken:
                (wheel,) = plan.source.tree.entries
                path = plan.source.tree.root / wheel.path
                self._packed[id(plan)] = files_in_wheel(plan.package.name, path, digest=wheel.sha256, stack=stack)

    def before(self, state: Sequence[Patched]) -> list[SourceFile]:
        """Return the files of some plans as they are fetched."""
        return self.after([(plan, ()) for plan, _ in state])

    def after(self, state: Sequence[Patched]) -> list[SourceFile]:
        """Return the files of some plans after their series."""
        from forkwheel.gates.files import files_of

        return [
            file
            for plan, changes in state
            for file in self._packed.get(id(plan)) or files_of(plan.package.name, plan.source.tree, changes)
        ]


def _states(patched: Sequence[Patched]) -> Iterator[list[Patched]]:
    """Yield the sets of trees that are installed together: one of each package, and every variant once."""
    first = {plan.package.name: (plan, changes) for plan, changes in reversed(patched)}
    yield list(first.values())
    for plan, changes in patched:
        if first[plan.package.name][0] is not plan:
            yield list({**first, plan.package.name: (plan, changes)}.values())
