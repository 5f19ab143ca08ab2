"""HTML, built so that every text is escaped: only ``Html`` is taken as it is."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from html import escape

_HIDDEN = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]")
_VOID = ("meta", "br", "line", "path", "circle", "rect", "polyline")


@dataclass(frozen=True)
class Html:
    """Markup that is safe to put on a page."""

    text: str


Content = Html | str | int | float


def safe(content: Content) -> str:
    """Return markup for some content; text is escaped, and characters that hide or reorder text are shown."""
    if isinstance(content, Html):
        return content.text
    return escape(
        _HIDDEN.sub(
            lambda match: f"\N{LEFT WHITE SQUARE BRACKET}U+{ord(match[0]):04X}\N{RIGHT WHITE SQUARE BRACKET}",
            str(content),
        )
    )


def tag(name: str, /, *content: Content, **attributes: str | int | float) -> Html:
    """Return an element; ``_`` in an attribute's name stands for ``-``, and one at its end for nothing."""
    text = "".join(f' {key.rstrip("_").replace("_", "-")}="{safe(str(value))}"' for key, value in attributes.items())
    if name in _VOID and not content:
        return Html(f"<{name}{text}>" if name in ("meta", "br") else f"<{name}{text}/>")
    return Html(f"<{name}{text}>" + "".join(safe(one) for one in content) + f"</{name}>")


def joined(parts: Iterable[Content], separator: str = "") -> Html:
    """Return several pieces of content as one."""
    return Html(separator.join(safe(part) for part in parts))


def table(
    caption: str, columns: Sequence[str], rows: Iterable[Sequence[Content]], *, numbers: Sequence[int] = ()
) -> Html:
    """Return a table whose first column heads its rows; where it is too wide it scrolls, or on a phone is stacked.

    ``numbers`` are the columns whose cells are numbers, by position. The roles are stated
    because a stacked table is none to some browsers otherwise.
    """
    head = tag(
        "tr", *(_cell("th", name, at, numbers, role="columnheader") for at, name in enumerate(columns)), role="row"
    )
    body = [
        tag(
            "tr",
            *(
                _cell(
                    "td" if at else "th", cell, at, numbers, role="cell" if at else "rowheader", data_label=columns[at]
                )
                for at, cell in enumerate(row)
            ),
            role="row",
        )
        for row in rows
    ]
    made = tag(
        "table",
        tag("caption", caption),
        tag("thead", head, role="rowgroup"),
        tag("tbody", *body, role="rowgroup"),
        role="table",
        class_="figures" if len(numbers) > 3 else "texts",
    )
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _cell(name: str, content: Content, at: int, numbers: Sequence[int], **attributes: str) -> Html:
    if name == "th":
        attributes["scope"] = "row" if "data_label" in attributes else "col"
    if at in numbers:
        attributes["class_"] = "number"
    return tag(name, content, **attributes)


def section(name: str, title: str, *content: Content) -> Html:
    """Return a section of the page, which the list of contents links to."""
    return tag("section", tag("h2", title, id_=f"{name}-title"), *content, id_=name, aria_labelledby=f"{name}-title")


def code(text: str) -> Html:
    """Return a short piece of code, such as a digest, that may break anywhere."""
    return tag("code", text)


def prose(text: str) -> list[Content]:
    """Return a text in which what stands between backquotes is code."""
    parts = text.split("`")
    if len(parts) % 2 == 0:  # one of them has no other
        return [text]
    return [code(part) if number % 2 else part for number, part in enumerate(parts)]


def keep(text: str) -> Html:
    """Return a short text, such as a date, that is not broken over two lines."""
    return tag("span", text, class_="keep")


def name(text: str) -> Html:
    """Return a long name of a program's, which is broken where its parts end, if anywhere."""
    return Html(safe(text).replace("::", "::<wbr>").replace("_", "_<wbr>").replace("/", "/<wbr>"))


def block(text: str, *, label: str) -> Html:
    """Return lines of code, such as commands."""
    return tag("pre", tag("code", text), tabindex=0, role="region", aria_label=label)


def mark(status: str) -> Html:
    """Return a verdict, told by its word and by its colour."""
    kind = {"PASS": "pass", "FAIL": "fail", "UNREADABLE": "fail", "RECORDED": "note"}.get(
        status, "note" if status.isdigit() else "open"
    )
    return tag("strong", status, class_=f"mark {kind}")


def absent(what: str, how: str) -> Html:
    """Say plainly that something is not there, and what would make it."""
    return tag("p", mark("NOT RUN"), f" {what} ", tag("span", *prose(how), class_="quiet"), class_="absent")
