"""Find the gates of C, C++ and CUDA sources: conditional sections, and checks on the host."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from forkwheel.gates.arch import Arch
from forkwheel.gates.cuda_facts import declared_properties, initialised_members
from forkwheel.gates.cuda_functions import CppFunction, CppSyntax, read_syntax
from forkwheel.gates.model import DEPENDS, NO, YES, Gate, Place
from forkwheel.gates.preprocessor import (
    Branch,
    Conditional,
    Directives,
    Macros,
    agree,
    read_directives,
    sections,
    strip_comments,
)
from forkwheel.gates.values import Unknown, Value, Varying, per_arch

_DEVICE = re.compile(r"__CUDA_ARCH|CUDA_ARCH_FEAT|__CUDA_ARCH_FAMILY")
_DEPENDENCY = re.compile(
    r"cudaGridDependencySynchronize|cudaTriggerProgrammaticLaunchCompletion|griddepcontrol"
    r"|\b(?:wait_on_dependent_grids|launch_dependent_grids)\b"
)
_TRIVIAL = re.compile(r"\b(?:namespace\s+\w+\s*=\s*[\w:]+|return|using\s+[\w:]+(?:\s*=\s*[^;]+)?)\s*;|[{};\s]+")
_REFUSING = re.compile(
    r"\b(?:static_assert|assert|printf|__trap|asm\s+volatile|__builtin_unreachable|\w*ASSERT|\w*_CHECK)\s*\([^;]*\)\s*;"
    r"|^\s*#\s*error.*$",
    re.MULTILINE,
)
_INSTRUCTION = re.compile(r"asm\s+volatile\s*\(\s*\"(?!brkpt|trap)")
_ROUNDS = 3

WHOLE_BODY = "the whole body"
DEPENDENCY_CALL = "a grid-dependency call"


@dataclass(eq=False)
class CppFile:
    """A C, C++ or CUDA file: its text without comments, directives and syntax when asked for."""

    root: str
    path: str
    read: Callable[[], str]
    failures: list[str] = field(default_factory=list)

    @cached_property
    def raw(self) -> str:
        """The text as it stands, read when it is first asked for."""
        return self.read()

    @cached_property
    def text(self) -> str:
        """The text with its comments blanked out."""
        return strip_comments(self.raw)

    @cached_property
    def directives(self) -> Directives:
        """The conditional sections; what is unbalanced is noted in ``failures``."""
        found = read_directives(self.text)
        self.failures += [f"{self.path}:{failure}" for failure in found.failures]
        return found

    @cached_property
    def syntax(self) -> CppSyntax:
        """The functions."""
        return read_syntax(self.text)

    @cached_property
    def members(self) -> tuple[tuple[str, str], ...]:
        """The members that constructors initialise by a call."""
        return initialised_members(self.text)

    @cached_property
    def properties(self) -> tuple[str, ...]:
        """The names of device properties."""
        return declared_properties(self.text)


@dataclass(frozen=True)
class Export:
    """A function that is handed to Python: its name there, its file, and its name here."""

    name: str
    root: str
    path: str
    function: str


@dataclass(frozen=True)
class CudaFindings:
    """What was found in C, C++ and CUDA sources."""

    gates: tuple[Gate, ...]
    failures: tuple[str, ...]
    exports: tuple[Export, ...] = ()


class Sections:
    """Finds conditional sections whose condition differs between architectures."""

    def __init__(self, files: Iterable[CppFile], archs: tuple[Arch, ...], concerned: tuple[int, ...]) -> None:
        self.files = tuple(files)
        self.archs = archs
        self.concerned = concerned  # the target's place among the architectures, and the references'
        self.macros = Macros(archs)
        self._local: dict[CppFile, dict[str, Value]] = {}

    def find(self) -> Iterator[Gate]:
        """Learn which macros depend on the architecture, then yield the gates."""
        concerned = [file for file in self.files if "CUDA_ARCH" in file.raw and _DEVICE.search(file.raw)]
        known: set[str] = set()
        for _ in range(_ROUNDS):
            self._learn(concerned)
            fresh = set(self.macros.table) - known
            if not fresh:
                break
            known |= fresh
            concerned += self._mentioning(fresh, set(concerned))
        for file in concerned:
            self.macros.enter(self._local.get(file, {}))
            yield from self._gates(file)

    def _mentioning(self, names: set[str], known: set[CppFile]) -> list[CppFile]:
        """Return the other files that ask for one of some macros."""
        pattern = re.compile(r"#[ \t]*(?:el)?if.*\b(?:" + "|".join(sorted(map(re.escape, names))) + r")\b")
        others = (file for file in self.files if file not in known)
        return [file for file in others if any(name in file.raw for name in names) and pattern.search(file.raw)]

    def _learn(self, files: list[CppFile]) -> None:
        for file in files:
            self.macros.enter(self._local.get(file, {}))
            self._local[file] = self.macros.learn(file.directives)
        self.macros.enter({}, table=agree([self._local[file] for file in files]))

    def _gates(self, file: CppFile) -> Iterator[Gate]:
        lines: list[str] = []
        for conditional, index in sections(file.directives):
            branch = conditional.branches[index]
            if branch.keyword == "else":
                continue
            value = self.macros.evaluate(branch.text)
            if not isinstance(value, Varying) or self._is_dead(conditional, index):
                continue
            lines = lines or file.text.split("\n")
            yield self._gate(file, lines, conditional, branch, per_arch(value, len(self.archs)))

    def _is_dead(self, conditional: Conditional, index: int) -> bool:
        """Tell whether no architecture gets as far as evaluating this condition."""
        around = per_arch(self.macros.taken(conditional.outer), len(self.archs))
        earlier = [per_arch(value, len(self.archs)) for value in self.macros.branch_values(conditional)[:index]]
        return all(around[i] is False or any(value[i] is True for value in earlier) for i in self.concerned)

    def _gate(
        self,
        file: CppFile,
        lines: list[str],
        conditional: Conditional,
        branch: Branch,
        states: tuple[Value, ...],
    ) -> Gate:
        function = file.syntax.around(branch.line)
        return Gate(
            place=Place(file.root, file.path, branch.line),
            first=branch.line,
            last=max(branch.line, branch.start - 1),
            kind="preprocessor",
            condition=" ".join(branch.text.split()),
            admits=admits(self.archs, states),
            others=(),
            symbol=function.name if function else "",
            holds=contents(lines, conditional, branch, function),
            guarded=tuple(branch.defines),
        )


def admits(archs: tuple[Arch, ...], states: tuple[Value, ...]) -> tuple[tuple[Arch, str], ...]:
    """Pair each architecture with yes, no or depends."""
    return tuple(
        (a, DEPENDS if isinstance(s, Unknown) else YES if s else NO) for a, s in zip(archs, states, strict=True)
    )


def contents(lines: list[str], conditional: Conditional, branch: Branch, function: CppFunction | None) -> str:
    """Say what a branch guards, so that an emptied kernel is told from a lost instruction."""
    inside = "\n".join(lines[branch.start - 1 : branch.end])
    if function is not None and _is_whole_body(lines, conditional, branch, function):
        return f"{WHOLE_BODY} of {'kernel ' if function.is_kernel else ''}{function.name}"
    if function is None and branch.defines and not _says(re.sub(r"^\s*#.*$", "", inside, flags=re.MULTILINE)):
        return f"the macro {branch.defines[0]}"
    if _only_refuses(inside):
        return "an error"
    if _DEPENDENCY.search(inside):
        statements = inside.count(";")
        return DEPENDENCY_CALL if statements <= 2 else f"{DEPENDENCY_CALL} among {statements} statements"
    if function is None:
        return "definitions"
    if re.search(r"\basm\b", inside):
        return "inline assembly"
    return "another way" if len(conditional.branches) > 1 else "a part of the body"


def _says(text: str) -> bool:
    """Tell whether a text has a statement that does something."""
    place = 0
    while place < len(text):
        match = _TRIVIAL.match(text, place)
        if match is None:
            return True
        place = match.end()
    return False


def _only_refuses(text: str) -> bool:
    """Tell whether a section does nothing but complain."""
    return bool(_REFUSING.search(text)) and not _INSTRUCTION.search(text) and not _says(_REFUSING.sub("", text))


def _is_whole_body(lines: list[str], conditional: Conditional, branch: Branch, function: CppFunction) -> bool:
    first, last = conditional.branches[0].line, conditional.branches[-1].end + 1
    if not function.body_first <= first or not last <= function.body_last:
        return False
    around = lines[function.body_first - 1 : first - 1] + lines[last : function.body_last]
    text = "\n".join(line for line in around if not line.lstrip().startswith("#"))
    text = text[text.find("{") + 1 :] if "{" in text else text
    if _says(text):
        return False
    for other in conditional.branches:
        rest = "\n".join(lines[other.start - 1 : other.end])
        if other is not branch and _says(rest) and not _only_refuses(rest):
            return False
    return _says("\n".join(lines[branch.start - 1 : branch.end]))
