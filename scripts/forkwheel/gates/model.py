"""What an audit finds: gates, and the places they stand at."""

from __future__ import annotations

from dataclasses import dataclass

from forkwheel.gates.arch import Arch

YES, NO, DEPENDS = "yes", "no", "depends"


@dataclass(frozen=True, order=True)
class Place:
    """A line of a file of one of the audited trees; lines count from 1."""

    root: str
    path: str
    line: int

    def __str__(self) -> str:
        return f"{self.path}:{self.line}"


@dataclass(frozen=True)
class Gate:
    """A condition, or a list of architectures, whose outcome differs between architectures.

    ``place`` is the line of the part that depends on the architecture; ``first`` and ``last`` are
    the lines of the whole condition. ``admits`` says, for each architecture of the audit, whether
    the way that has the feature is taken: yes, no, or depends on ``others``, the conditions beside
    it that the architecture does not decide. ``holds`` says in a word what is guarded.
    ``symbol`` is the function or the definition that the gate stands in.
    """

    place: Place
    first: int
    last: int
    kind: str
    condition: str
    admits: tuple[tuple[Arch, str], ...]
    others: tuple[str, ...]
    symbol: str
    holds: str = ""
    guarded: tuple[str, ...] = ()

    def state(self, arch: Arch) -> str:
        """Tell whether the gate admits an architecture: yes, no or depends."""
        return dict(self.admits)[arch]

    def closed(self, target: Arch, references: tuple[Arch, ...]) -> bool:
        """Tell whether the target is kept out of what some reference may have."""
        return self.state(target) == NO and any(self.state(reference) != NO for reference in references)

    @property
    def admitted(self) -> tuple[str, ...]:
        """The architectures that may pass, as text."""
        return tuple(str(arch) for arch, state in self.admits if state != NO)
