"""Compare the gates before a patch series and after it."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from forkwheel.errors import VerificationError
from forkwheel.gates.model import Audit, Expectation, Gate, Step


@dataclass(frozen=True)
class Difference:
    """What a series does to the gates; steps and gates are those before it, but where said."""

    opened: tuple[Step, ...]
    still_closed: tuple[Step, ...]  # after it
    newly_closed: tuple[Step, ...]  # after it
    opened_elsewhere: tuple[Gate, ...]  # off the path


@dataclass(frozen=True)
class Verdict:
    """Whether the closed gates on the path are those that are expected."""

    unexpected: tuple[Step, ...]
    expected: tuple[tuple[Step, Expectation], ...]
    vanished: tuple[Expectation, ...]


def judge(audit: Audit, expectations: Sequence[Expectation]) -> Verdict:
    """Sort the closed gates on the path into expected and unexpected ones."""
    expected = [(s, e) for s in audit.closed if (e := next((e for e in expectations if e.covers(s.gate)), None))]
    covered = {id(step) for step, _ in expected}
    used = {id(expectation) for _, expectation in expected}
    return Verdict(
        unexpected=tuple(step for step in audit.closed if id(step) not in covered),
        expected=tuple(expected),
        vanished=tuple(each for each in expectations if not each.optional and id(each) not in used),
    )


def compare(before: Audit, after: Audit) -> Difference:
    """Match the gates of two audits of one set of trees by where they stand."""
    moved = _Moves(before, after)
    closed_after = {_key(step.gate): step for step in after.closed}
    opened = tuple(step for step in before.closed if moved.key(step.gate) not in closed_after)
    known = {moved.key(step.gate) for step in before.closed}
    on_path = {id(step.gate) for step in before.path}
    now_closed = {_key(gate) for gate in after.gates if gate.closed(after.target, after.references)}
    return Difference(
        opened=opened,
        still_closed=tuple(step for key, step in closed_after.items() if key in known),
        newly_closed=tuple(step for key, step in closed_after.items() if key not in known),
        opened_elsewhere=tuple(
            gate
            for gate in before.gates
            if id(gate) not in on_path
            and moved.changed(gate.place.root, gate.place.path)
            and gate.closed(before.target, before.references)
            and moved.key(gate) not in now_closed
        ),
    )


def check_consistent(
    before: Audit, after: Audit, *, expectations: Sequence[Expectation] = (), difference: Difference | None = None
) -> None:
    """Raise VerificationError where a series opens one gate of the path and leaves another closed.

    Both places are named: the one that admits the target now, and the one that keeps it out.
    ``difference`` is that of the two, where it is known already.
    """
    difference = difference or compare(before, after)
    verdict = judge(after, expectations)
    if not difference.opened or not verdict.unexpected:
        return
    closed = verdict.unexpected[0]
    opened = next((step for step in difference.opened if step.layer != closed.layer), difference.opened[0])
    others = len(verdict.unexpected) - 1
    raise VerificationError(
        f"{after.target} is admitted by {opened.gate.place} ({opened.layer}) but kept out by "
        f"{closed.gate.place} ({closed.layer}): {closed.gate.condition}" + (f"; and {others} more" if others else ""),
        hint="add the patch that opens the second, or list it in gates.toml as [[expected]], with the reason",
    )


def _key(gate: Gate) -> tuple[str, str, str, int]:
    return (gate.place.root, gate.place.path, (gate.kind == "list" and "list") or "", gate.place.line)


class _Moves:
    """Finds where a line of the tree before is in the tree after."""

    def __init__(self, before: Audit, after: Audit) -> None:
        self._before = {(file.root, file.path): file for file in before.files}
        self._after = {(file.root, file.path): file for file in after.files}
        self._lines = lru_cache(maxsize=None)(self._map)

    def key(self, gate: Gate) -> tuple[str, str, str, int]:
        """Return the key that a gate has after the series, if it is still there."""
        root, path, kind, line = _key(gate)
        moves = self._lines(root, path)
        return (root, path, kind, moves.get(line, line) if moves is not None else line)

    def changed(self, root: str, path: str) -> bool:
        """Tell whether a file is another one after the series."""
        return self._lines(root, path) is not None

    def _map(self, root: str, path: str) -> dict[int, int] | None:
        old, new = self._before[(root, path)], self._after.get((root, path))
        if new is None:
            return {}
        return None if old.digest == new.digest else _moved(old.read().splitlines(), new.read().splitlines())


def _moved(a: list[bytes], b: list[bytes]) -> dict[int, int]:
    shorter = min(len(a), len(b))
    head = next((i for i in range(shorter) if a[i] != b[i]), shorter)
    tail = next((i for i in range(shorter - head) if a[-1 - i] != b[-1 - i]), shorter - head)
    moves = {line: line for line in range(1, head + 1)}
    moves.update({len(a) - i: len(b) - i for i in range(tail)})
    inner_a, inner_b = a[head : len(a) - tail], b[head : len(b) - tail]
    for tag, a1, a2, b1, b2 in difflib.SequenceMatcher(None, inner_a, inner_b, autojunk=False).get_opcodes():
        if tag == "equal":
            moves.update({head + a1 + i + 1: head + b1 + i + 1 for i in range(a2 - a1)})
        elif tag == "replace":
            moves.update({head + a1 + i + 1: head + min(b1 + i, b2 - 1) + 1 for i in range(a2 - a1)})
    return moves
