"""The functions of C, C++ and CUDA sources and the conditions in them, through tree-sitter."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
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
    """A function: its last name, and the lines of the whole and of its body; ``head`` has its parameters."""

    name: str
    first: int
    last: int
    body_first: int
    body_last: int
    head: tree_sitter.Node | None = field(repr=False)
    source: bytes = field(repr=False)
    text: str
    is_kernel: bool

    @cached_property
    def parameters(self) -> tuple[str, ...]:
        """The parameters' names."""
        return tuple(_parameters(self.head, self.source)) if self.head else ()

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
    column: int
    holds: str
    cases: tuple[str, ...] = ()
    refuses: bool = False


@dataclass
class CppSyntax:
    """A parsed file."""

    source: bytes
    root: tree_sitter.Node
    functions: list[CppFunction] = field(default_factory=list)

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


def read_syntax(text: str) -> CppSyntax:
    """Parse a file; what the grammar does not know is skipped, never an error."""
    source = text.encode("utf-8", "surrogateescape")
    root = tree_sitter.Parser(_language()).parse(source).root_node
    syntax = CppSyntax(source, root)
    for node in tree_sitter.QueryCursor(_query(_FUNCTIONS)).captures(root).get("function", []):
        if node.type == "function_definition" and (function := _function(node, source)):
            syntax.functions.append(function)
    syntax.functions.sort(key=lambda function: (function.first, -function.last))
    return syntax


def _text(node: tree_sitter.Node, source: bytes) -> str:
    return source[node.start_byte : node.end_byte].decode("utf-8", "replace")


def _function(node: tree_sitter.Node, source: bytes) -> CppFunction | None:
    declarator = node.child_by_field_name("declarator")
    while declarator is not None and declarator.type != "function_declarator":
        inner = declarator.child_by_field_name("declarator")
        inner = inner or next((c for c in declarator.children if c.type.endswith("declarator")), None)
        declarator = inner
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
        head=declarator.child_by_field_name("parameters"),
        source=source,
        text=_text(node, source),
        is_kernel=b"__global__" in source[node.start_byte : body.start_byte],
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


def conditions_between(syntax: CppSyntax, first: int, last: int) -> Iterator[CppCondition]:
    """Yield the largest conditions of some lines, outermost first."""
    cursor = tree_sitter.QueryCursor(_query(_CONDITIONS))
    cursor.set_point_range((first - 1, 0), (last, 0))
    for node in cursor.captures(syntax.root).get("condition", []):
        if node.start_point[0] + 1 < first or node.end_point[0] + 1 > last:
            continue
        if node.type == "switch_statement":
            yield from _switch(node, syntax.source)
        elif node.type == "call_expression":
            yield from _check(node, syntax.source)
        elif _compares(node, syntax.source) and not _is_operand(node, syntax.source):
            yield _condition(node, syntax.source)


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
    return CppCondition(
        text, node.start_point[0] + 1, node.end_point[0] + 1, node.start_point[1], holds, refuses=refuses
    )


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
    yield CppCondition(text, node.start_point[0] + 1, node.end_point[0] + 1, node.start_point[1], "an assertion")


def _switch(node: tree_sitter.Node, source: bytes) -> Iterator[CppCondition]:
    condition, body = node.child_by_field_name("condition"), node.child_by_field_name("body")
    if condition is None or body is None:
        return
    cases = [c.child_by_field_name("value") for c in body.named_children if c.type == "case_statement"]
    texts = tuple(_text(case, source) for case in cases if case)
    line = node.start_point[0] + 1
    yield CppCondition(_text(condition, source).strip("()"), line, line, node.start_point[1], "a switch", cases=texts)
