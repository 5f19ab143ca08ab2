"""The functions of C, C++ and CUDA sources and the conditions in them, through tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache

import tree_sitter
import tree_sitter_cuda

from forkwheel.gates.cuda_facts import Facts, asks, read_facts

_NAME = re.compile(r"[A-Za-z_]\w*")
_FUNCTIONS = "[(function_definition) (lambda_expression)] @function"
_CONDITIONS = """
[(binary_expression) (switch_statement) (call_expression)] @condition
"""
_CHECKS = re.compile(r"[A-Z][A-Z0-9_]*_(EQ|NE|GE|GT|LE|LT)")
_CHECKED = {"EQ": "==", "NE": "!=", "GE": ">=", "GT": ">", "LE": "<=", "LT": "<"}
_COMPARING = frozenset({"==", "!=", "<", ">", "<=", ">=", "&&", "||"})


@dataclass(eq=False)
class CppFunction:
    """A function: its last name, the lines of the whole and of its body, and its place in the file's text.

    No syntax tree is kept, which would take thirty times the text's room: what is asked of few
    functions is parsed again, the function alone.
    """

    name: str
    first: int
    last: int
    body_first: int
    body_last: int
    is_kernel: bool
    start: int
    end: int
    source: str = field(repr=False)

    @property
    def text(self) -> str:
        """The function's text."""
        return self.source[self.start : self.end]

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters' names."""
        source = self.text.encode()
        nodes = _captures(_FUNCTIONS, _parse(source))
        head = _head(nodes[0]) if nodes and nodes[0].type == "function_definition" else None
        parameters = head.child_by_field_name("parameters") if head else None
        return tuple(_parameters(parameters, source)) if parameters else ()

    @cached_property
    def words(self) -> frozenset[str]:
        """Every identifier of the function."""
        return frozenset(_NAME.findall(self.text))

    @cached_property
    def asks(self) -> bool:
        """Whether it asks the CUDA runtime for the architecture."""
        return asks(self.text)

    @cached_property
    def facts(self) -> Facts:
        """What the function says of its names."""
        return read_facts(self.text)


@dataclass(frozen=True)
class CppCondition:
    """A comparison or a test in a function: its text, lines, and what it decides."""

    text: str
    first: int
    last: int
    holds: str
    cases: tuple[str, ...] = ()
    refuses: bool = False


@dataclass(frozen=True)
class CppSyntax:
    """What is kept of a file that was parsed."""

    functions: tuple[CppFunction, ...]

    def around(self, line: int) -> CppFunction | None:
        """Return the innermost function whose lines hold a line."""
        inside = [function for function in self.functions if function.first <= line <= function.last]
        return min(inside, key=lambda function: function.last - function.first, default=None)


@lru_cache(maxsize=1)
def _language() -> tree_sitter.Language:
    return tree_sitter.Language(tree_sitter_cuda.language())


@lru_cache(maxsize=8)
def _query(text: str) -> tree_sitter.Query:
    query: tree_sitter.Query = tree_sitter.Query(_language(), text)
    return query


def _parse(source: bytes) -> tree_sitter.Node:
    return tree_sitter.Parser(_language()).parse(source).root_node


def _captures(query: str, root: tree_sitter.Node) -> list[tree_sitter.Node]:
    found = tree_sitter.QueryCursor(_query(query)).captures(root)
    return [node for nodes in found.values() for node in nodes]


def read_syntax(text: str) -> CppSyntax:
    """Parse a file; what the grammar does not know is skipped, never an error."""
    source = text.encode()
    nodes = _captures(_FUNCTIONS, _parse(source))
    nodes = sorted((node for node in nodes if node.type == "function_definition"), key=lambda node: node.start_byte)
    place = _Places(source, ascii_only=len(source) == len(text))
    functions = [function for node in nodes if (function := _function(node, source, text, place))]
    return CppSyntax(tuple(sorted(functions, key=lambda function: (function.first, -function.last))))


class _Places:
    """Turns places in bytes into places in text."""

    def __init__(self, source: bytes, *, ascii_only: bool) -> None:
        self._source = source
        self._ascii_only = ascii_only

    def __call__(self, place: int) -> int:
        return place if self._ascii_only else len(self._source[:place].decode())


def _text(node: tree_sitter.Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _head(node: tree_sitter.Node) -> tree_sitter.Node | None:
    """Return the part of a function's definition that has its name and its parameters."""
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator")
        inner = inner or next((c for c in declarator.children if c.type.endswith("declarator")), None)
        declarator = inner
    return declarator


def _function(node: tree_sitter.Node, source: bytes, text: str, place: _Places) -> CppFunction | None:
    declarator = _head(node)
    body = node.child_by_field_name("body")
    if declarator is None or body is None:
        return None
    head = declarator.child_by_field_name("declarator")
    names = _NAME.findall(_without_templates(_text(head, source))) if head else []
    if not names:
        return None
    return CppFunction(
        name=names[-1],
        first=node.start_point[0] + 1,
        last=node.end_point[0] + 1,
        body_first=body.start_point[0] + 1,
        body_last=body.end_point[0] + 1,
        is_kernel=b"__global__" in source[node.start_byte : body.start_byte],
        start=place(node.start_byte),
        end=place(node.end_byte),
        source=text,
    )


def _without_templates(text: str) -> str:
    while (shorter := re.sub(r"<[^<>]*>", "", text)) != text:
        text = shorter
    return text


def _parameters(node: tree_sitter.Node, source: bytes) -> Iterator[str]:
    for child in node.named_children:
        if "parameter" in child.type:
            declarator = child.child_by_field_name("declarator")
            names = _NAME.findall(_text(declarator, source)) if declarator else []
            yield names[-1] if names else ""


def conditions_in(function: CppFunction) -> Iterator[CppCondition]:
    """Yield the largest conditions of a function, outermost first."""
    source = function.text.encode()
    for node in _captures(_CONDITIONS, _parse(source)):
        if node.type == "switch_statement":
            found = _switch(node, source)
        elif node.type == "call_expression":
            found = _check(node, source)
        elif _compares(node, source) and not _is_operand(node, source):
            found = iter([_condition(node, source)])
        else:
            continue
        for each in found:
            yield replace(each, first=each.first + function.first - 1, last=each.last + function.first - 1)


def _compares(node: tree_sitter.Node, source: bytes) -> bool:
    return node.type == "binary_expression" and _operator(node, source) in _COMPARING


def _operator(node: tree_sitter.Node, source: bytes) -> str:
    operator = node.child_by_field_name("operator")
    return _text(operator, source) if operator else ""


def _is_operand(node: tree_sitter.Node, source: bytes) -> bool:
    parent = node.parent
    while parent is not None and parent.type in ("parenthesized_expression", "unary_expression", "condition_clause"):
        parent = parent.parent
    return parent is not None and parent.type == "binary_expression" and _operator(parent, source) in ("&&", "||")


def _condition(node: tree_sitter.Node, source: bytes) -> CppCondition:
    whole, negated = node, False
    while whole.parent is not None and whole.parent.type in ("parenthesized_expression", "unary_expression"):
        whole = whole.parent
        negated = negated != (
            whole.type == "unary_expression" and source[whole.start_byte : whole.start_byte + 1] == b"!"
        )
    holds, refuses = _outcome(whole, source)
    text = _text(whole if negated else node, source)
    return CppCondition(text, node.start_point[0] + 1, node.end_point[0] + 1, holds, refuses=refuses)


def _outcome(node: tree_sitter.Node, source: bytes) -> tuple[str, bool]:
    parent = node.parent
    while parent is not None and parent.type in ("condition_clause", "argument_list", "call_expression"):
        if parent.type == "call_expression":
            return f"an argument of {_text(parent.children[0], source)[:40]}", False
        parent = parent.parent
    if parent is None:
        return "", False
    if parent.type == "if_statement":
        body = parent.child_by_field_name("consequence")
        text = _text(body, source) if body else ""
        if re.search(r"\bthrow\b|_ERROR\s*\(|_CHECK\w*\s*\(\s*false|\babort\s*\(", text) and text.count(";") <= 2:
            return "an error", True
        return ("an early return" if "return" in text and text.count(";") <= 2 else "a branch"), False
    if parent.type in ("init_declarator", "assignment_expression"):
        return f"the value of {_text(parent.children[0], source)[:40]}", False
    return {"conditional_expression": "a choice of a value", "return_statement": "a result"}.get(parent.type, ""), False


def _check(node: tree_sitter.Node, source: bytes) -> Iterator[CppCondition]:
    """Read a checking macro such as ``CHECK_EQ(a, b)``."""
    function, arguments = node.child_by_field_name("function"), node.child_by_field_name("arguments")
    match = _CHECKS.fullmatch(_text(function, source)) if function else None
    if match is None or arguments is None or len(arguments.named_children) != 2:
        return
    left, right = (_text(argument, source) for argument in arguments.named_children)
    text = f"{left} {_CHECKED[match[1]]} {right}"
    yield CppCondition(text, node.start_point[0] + 1, node.end_point[0] + 1, "an assertion")


def _switch(node: tree_sitter.Node, source: bytes) -> Iterator[CppCondition]:
    condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    if condition is None or body is None:
        return
    cases = [c.child_by_field_name("value") for c in body.named_children if c.type == "case_statement"]
    texts = tuple(_text(case, source) for case in cases if case)
    line = node.start_point[0] + 1
    yield CppCondition(_text(condition, source).strip("()"), line, line, "a switch", cases=texts)
