"""Run a piece of host C++ from a real header, without a compiler.

The launch arithmetic is integers, ``if``, ``while`` and ``for`` alone. It is turned into
Python statement by statement; anything beyond that small part of C++ is an error.
"""

from __future__ import annotations

import re
from types import CodeType
from typing import Any

_KEYWORD = re.compile(r"(if constexpr|if|while|for)\s*\(")
_RANGE_FOR = re.compile(r"(?:int|auto)\s+(\w+)\s*:\s*\{([^{}]*)\}")
_DECLARATION = re.compile(r"(?:static\s+)?(?:const\s+)?(?:int|bool)\s+")
_TEMPLATE_ARGUMENTS = re.compile(r"(\w)<[^<>;()]*>(?=\()")
_STATEMENT = re.compile(r"\w+ (?:=|\*=|//=|\+=|-=) [^=;{}]+(?:[=!<>]=[^=;{}]+)*|check\(.*\)|\w+|break", re.DOTALL)


def compile_host_code(text: str) -> CodeType:
    """Turn the statements into Python code that works on the names in its globals."""
    return compile("\n".join(_Reader(text).block()), "<host code>", "exec")


def run_host_code(code: CodeType, **values: Any) -> dict[str, Any]:
    """Run the code on these names, and return all names afterwards."""
    exec(code, values)
    return values


class _Reader:
    def __init__(self, text: str) -> None:
        self._text = re.sub(r"//[^\n]*", "", text)
        self._at = 0

    def block(self) -> list[str]:
        """Read statements up to the closing brace or the end."""
        lines: list[str] = []
        while self._skip_spaces() and self._text[self._at] != "}":
            lines += self._statement()
        return lines or ["pass"]

    def _skip_spaces(self) -> bool:
        while self._at < len(self._text) and self._text[self._at].isspace():
            self._at += 1
        return self._at < len(self._text)

    def _statement(self) -> list[str]:
        if match := _KEYWORD.match(self._text, self._at):
            self._at = match.end()
            return self._compound(match[1])
        end = self._text.index(";", self._at)
        statement, self._at = self._text[self._at : end], end + 1
        return _simple(statement)

    def _compound(self, keyword: str) -> list[str]:
        condition = self._to_closing_parenthesis()
        lines = [_head(keyword, condition), *self._body()]
        if keyword.startswith("if") and self._skip_spaces() and re.match(r"else\b", self._text[self._at :]):
            self._at += len("else")
            lines += ["else:", *self._body()]
        return lines

    def _body(self) -> list[str]:
        self._skip_spaces()
        if self._text[self._at] != "{":
            return _indented(self._statement())
        self._at += 1
        lines = self.block()
        self._at += 1
        return _indented(lines)

    def _to_closing_parenthesis(self) -> str:
        start, depth = self._at, 1
        while depth:
            depth += {"(": 1, ")": -1}.get(self._text[self._at], 0)
            self._at += 1
        return self._text[start : self._at - 1]


def _indented(lines: list[str]) -> list[str]:
    return [f"  {line}" for line in lines]


def _head(keyword: str, condition: str) -> str:
    if keyword != "for":
        return f"{keyword.split()[0]} {_expression(condition)}:"
    match = _RANGE_FOR.fullmatch(condition.strip())
    assert match, f"not a loop over a list: {condition!r}"
    return f"for {match[1]} in ({match[2]},):"


def _simple(statement: str) -> list[str]:
    text = _expression(_DECLARATION.sub("", statement, count=1)).replace("FLASHINFER_CHECK(", "check(")
    assert _STATEMENT.fullmatch(text), f"not a plain statement: {statement!r}"
    return [] if re.fullmatch(r"\w+", text) and text != "break" else [text]


def _expression(text: str) -> str:
    text = " ".join(text.split())
    text = re.sub(r"GetQuantType<Pattern> (==|!=) QuantType::kFP4", r"fp4 \1 True", text)
    text = _TEMPLATE_ARGUMENTS.sub(r"\1", text)
    text = re.sub(r"\b(?:std|utils)::", "", text)
    for cpp, python in ((" && ", " and "), (" || ", " or "), (" / ", " // "), (" /= ", " //= ")):
        text = text.replace(cpp, python)
    text = re.sub(r"\btrue\b", "True", re.sub(r"\bfalse\b", "False", text))
    assert not re.search(r"[?~^]|->|::|!(?!=)", text), f"beyond the C++ known here: {text!r}"
    return text
