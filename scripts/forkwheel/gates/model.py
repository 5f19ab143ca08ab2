"""What an audit finds: gates, and the places they stand at."""

from __future__ import annotations

from dataclasses import dataclass, field

from forkwheel.gates.arch import Arch
from forkwheel.gates.files import SourceFile

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

    def differs(self, target: Arch, references: tuple[Arch, ...]) -> bool:
        """Tell whether the target fares otherwise than a reference."""
        return self.kind == "undecided" or any(self.state(target) != self.state(each) for each in references)

    def closed(self, target: Arch, references: tuple[Arch, ...]) -> bool:
        """Tell whether the target is kept out of what some reference may have."""
        return self.state(target) == NO and any(self.state(reference) != NO for reference in references)

    @property
    def admitted(self) -> tuple[str, ...]:
        """The architectures that may pass, as text."""
        return tuple(str(arch) for arch, state in self.admits if state != NO)


@dataclass(frozen=True)
class Entry:
    """A function that the path starts from: ``package.module:Class.function``.

    With ``concerns``, only its gates around something of that name count, and nothing that it
    calls beside them.
    """

    symbol: str
    concerns: str | None = None


@dataclass(frozen=True)
class Layer:
    """A named part of the path: the files (globs) that belong to it."""

    name: str
    files: tuple[str, ...]


@dataclass(frozen=True)
class Expectation:
    """A gate that stays closed on purpose, known by file, function and its condition, or a part of that."""

    file: str
    symbol: str
    condition: str
    reason: str
    exact: bool = False  # the condition is the whole of the gate's
    optional: bool = False  # some versions have no such gate

    def covers(self, gate: Gate) -> bool:
        """Tell whether this is about a gate."""
        return (
            gate.place.path.endswith(self.file)
            and gate.symbol.endswith(self.symbol)
            and (gate.condition == self.condition if self.exact else self.condition in gate.condition)
        )


@dataclass(frozen=True)
class Question:
    """What is asked of some trees: the target against its references, and where its path starts."""

    target: Arch
    references: tuple[Arch, ...]
    entries: tuple[Entry, ...] = ()
    layers: tuple[Layer, ...] = ()


@dataclass(frozen=True)
class Step:
    """A gate on the path: its layer, and how many calls lie between it and an entry."""

    gate: Gate
    layer: str
    distance: int
    counts: bool  # False for a definition, whose uses are what counts


@dataclass(frozen=True)
class Audit:
    """Everything that was found in some trees, for a target against its references."""

    target: Arch
    references: tuple[Arch, ...]
    gates: tuple[Gate, ...]
    path: tuple[Step, ...]
    failures: tuple[str, ...]
    files: tuple[SourceFile, ...] = field(compare=False, repr=False)

    @property
    def differing(self) -> tuple[Gate, ...]:
        """The gates at which the target fares otherwise than a reference."""
        return tuple(gate for gate in self.gates if gate.differs(self.target, self.references))

    @property
    def closed(self) -> tuple[Step, ...]:
        """The gates on the path that keep the target out."""
        return tuple(step for step in self.path if step.counts and step.gate.closed(self.target, self.references))
