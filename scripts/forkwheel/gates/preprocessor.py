"""The conditional sections of C, C++ and CUDA sources, and what their macros are per architecture."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import partial

from forkwheel.gates import c_expressions
from forkwheel.gates.arch import Arch, macros
from forkwheel.gates.values import Unknown, Value, Varying, conjunction, negate, per_arch, same, truth, varying

_DIRECTIVE = re.compile(r"^[ \t]*#[ \t]*(if|ifdef|ifndef|elif|else|endif|define)\b((?:\\\r?\n|[^\n])*)", re.MULTILINE)
_COMMENT = re.compile(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'|//(?:\\\n|[^\n])*|/\*.*?\*/', re.DOTALL)
_DEFINE = re.compile(r"\s*([A-Za-z_]\w*)(\(?)[ \t]*(.*)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w*")
# Of these it is known that a CUDA compiler on Linux does not define them.
_ABSENT = re.compile(
    r"__CUDA_ARCH_\w+__|__CUDA_ARCH_FEAT_\w+|__HIP\w*|USE_ROCM|\w*_ROCM\b|_WIN32|_MSC_VER|__MUSA_ARCH__|__CUDACC_RTC__"
)


@dataclass
class Branch:
    """One branch of a conditional section: its directive's line, and the lines that it guards."""

    keyword: str
    text: str
    line: int
    start: int
    end: int = 0
    defines: list[str] = field(default_factory=list)


@dataclass
class Conditional:
    """A section from ``#if`` to ``#endif``; ``outer`` is the branch around it, if any."""

    branches: list[Branch]
    outer: tuple[Conditional, int] | None


@dataclass(frozen=True)
class Definition:
    """A macro's definition and the branch that it stands in."""

    name: str
    value: str
    line: int
    where: tuple[Conditional, int] | None


@dataclass
class Directives:
    """All conditional sections and definitions of a file."""

    conditionals: list[Conditional]
    definitions: list[Definition]
    failures: list[str]


def strip_comments(text: str) -> str:
    """Blank out comments, keeping strings and line numbers."""

    def blank(match: re.Match[str]) -> str:
        found = match[0]
        return found if found[0] in "\"'" else "\n" * found.count("\n") or " "

    return _COMMENT.sub(blank, text) if "//" in text or "/*" in text else text


def read_directives(text: str) -> Directives:
    """Read the directives of a file whose comments are blanked out."""
    found = Directives([], [], [])
    stack: list[Conditional] = []
    line, position = 1, 0
    for match in _DIRECTIVE.finditer(text):
        line += text.count("\n", position, match.start())
        position = match.start()
        end_line = line + match[0].count("\n")
        _directive(found, stack, match[1], match[2].replace("\\\r\n", " ").replace("\\\n", " ").strip(), line, end_line)
    if stack:
        found.failures.append(f"{stack[-1].branches[0].line}: #if without #endif")
    return found


def _directive(found: Directives, stack: list[Conditional], word: str, rest: str, line: int, end_line: int) -> None:
    here = (stack[-1], len(stack[-1].branches) - 1) if stack else None
    if word == "define":
        match = _DEFINE.match(rest)
        if match and not match[2]:
            found.definitions.append(Definition(match[1], match[3].strip(), line, here))
        if match and stack:
            stack[-1].branches[-1].defines.append(match[1])
        return
    if word in ("if", "ifdef", "ifndef"):
        if word != "if":
            name = _NAME.match(rest)
            rest = ("!" if word == "ifndef" else "") + f"defined({name[0] if name else 'unknown_feature'})"
        stack.append(Conditional([Branch(word, rest, line, end_line + 1)], here))
        found.conditionals.append(stack[-1])
        return
    if not stack:
        found.failures.append(f"{line}: #{word} without #if")
        return
    stack[-1].branches[-1].end = line - 1
    if word == "endif":
        stack.pop()
    else:
        stack[-1].branches.append(Branch(word, rest, line, end_line + 1))


class Macros:
    """What macros are for each architecture, in one file and in all."""

    def __init__(self, archs: tuple[Arch, ...]) -> None:
        self.archs = archs
        self.predefined = [macros(arch) for arch in archs]
        self.table: dict[str, Value] = {}  # macros whose value depends on the architecture
        self.local: dict[str, Value] = {}  # those of the file that is being read
        self._values: dict[str, Value] = {}  # of conditions
        self._taken: dict[tuple[int, int], Value] = {}  # of branches

    def enter(self, local: dict[str, Value], *, table: dict[str, Value] | None = None) -> None:
        """Begin with another file, or with another table of the macros of all files."""
        self.local = local
        self.table = self.table if table is None else table
        self._values.clear()
        self._taken.clear()

    def evaluate(self, text: str) -> Value:
        """Evaluate a condition for every architecture."""
        if text not in self._values:
            count = len(self.archs) if self._may_vary(text) else 1
            values = (c_expressions.decide(text, partial(self._lookup, position=i)) for i in range(count))
            self._values[text] = varying(values)
        return self._values[text]

    def _may_vary(self, text: str) -> bool:
        """Tell whether a text mentions anything that depends on the architecture."""
        if "__CUDA_ARCH_" in text:
            return True
        words = _NAME.findall(text)
        return any(word in self.local or word in self.table for word in words)

    def _lookup(self, name: str, position: int) -> Value:
        is_test = name.startswith("defined ")
        macro = name[8:] if is_test else name
        known = self.predefined[position]
        if macro in known:
            return True if is_test else known[macro]
        for table in (self.local, self.table):
            if macro in table:
                value = per_arch(table[macro], len(self.archs))[position]
                return self._tested(value, macro) if is_test else 0 if value is None else value
        if _ABSENT.fullmatch(macro) or macro.startswith("__CUDA_ARCH_FEAT_"):
            return False if is_test else 0
        return None

    def _tested(self, value: Value, macro: str) -> Value:
        return (
            Unknown(f"defined({macro})")
            if isinstance(value, Unknown) and value.text == f"{macro}?"
            else value is not None
        )

    def branch_values(self, conditional: Conditional) -> list[Value]:
        """Return each branch's own condition; an ``#else`` is True."""
        return [True if b.keyword == "else" else self.evaluate(b.text) for b in conditional.branches]

    def taken(self, where: tuple[Conditional, int] | None) -> Value:
        """Tell for every architecture whether a branch, and those around it, are compiled."""
        chain = []
        while where is not None and (id(where[0]), where[1]) not in self._taken:
            chain.append(where)
            where = where[0].outer
        result = True if where is None else self._taken[(id(where[0]), where[1])]
        for conditional, index in reversed(chain):
            count = len(self.archs)
            around = per_arch(result, count)
            values = [per_arch(value, count) for value in self.branch_values(conditional)[: index + 1]]
            result = varying(
                truth(conjunction([around[i], *(negate(v[i]) for v in values[:-1]), values[-1][i]], every=True))
                for i in range(count)
            )
            self._taken[(id(conditional), index)] = result
        return result

    def learn(self, directives: Directives) -> dict[str, Value]:
        """Return the macros of a file whose definition depends on the architecture."""
        by_name: dict[str, list[Definition]] = {}
        for definition in directives.definitions:
            if definition.where is not None:
                by_name.setdefault(definition.name, []).append(definition)
        found = {name: self._value(name, definitions) for name, definitions in by_name.items()}
        return {name: value for name, value in found.items() if isinstance(value, Varying)}

    def _value(self, name: str, definitions: list[Definition]) -> Value:
        if not any(isinstance(self.taken(definition.where), Varying) for definition in definitions):
            return None
        count = len(self.archs)
        result: list[Value] = [None] * count
        for definition in definitions:
            taken = per_arch(self.taken(definition.where), count)
            value = per_arch(self.evaluate_value(definition.value), count)
            for i in range(count):
                if taken[i] is True:
                    result[i] = value[i]
                elif isinstance(taken[i], Unknown) and result[i] is None:
                    result[i] = Unknown(f"{name}?")
        return varying(result)

    def evaluate_value(self, text: str) -> Value:
        """Evaluate a macro's replacement; an empty one counts as defined."""
        if not text:
            return 1
        return varying(c_expressions.evaluate(text, partial(self._lookup, position=i)) for i in range(len(self.archs)))


def agree(tables: list[dict[str, Value]]) -> dict[str, Value]:
    """Join the macros of several files; those on which files differ are left out."""
    joined: dict[str, Value] = {}
    differing: set[str] = set()
    for table in tables:
        for name, value in table.items():
            if name in joined and not same(joined[name], value):
                differing.add(name)
            joined[name] = value
    return {name: value for name, value in joined.items() if name not in differing}


def sections(directives: Directives) -> Iterator[tuple[Conditional, int]]:
    """Yield every branch of every section."""
    for conditional in directives.conditionals:
        for index in range(len(conditional.branches)):
            yield conditional, index
