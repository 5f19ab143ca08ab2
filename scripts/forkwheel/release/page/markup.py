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
    """Return a table that scrolls by itself where it is too wide; the first column heads its row.

    ``numbers`` are the columns whose cells are numbers, by position.
    """
    head = tag("tr", *(tag("th", column, scope="col", **_class(at, numbers)) for at, column in enumerate(columns)))
    body = [
        tag(
            "tr",
            *(
                tag("th" if at == 0 else "td", cell, **({"scope": "row"} if at == 0 else {}), **_class(at, numbers))
                for at, cell in enumerate(row)
            ),
        )
        for row in rows
    ]
    made = tag("table", tag("caption", caption), tag("thead", head), tag("tbody", *body))
    return tag("div", made, class_="scroll", tabindex=0, role="region", aria_label=caption)


def _class(at: int, numbers: Sequence[int]) -> dict[str, str]:
    return {"class_": "number"} if at in numbers else {}


def section(name: str, title: str, *content: Content) -> Html:
    """Return a section of the page, which the list of contents links to."""
    return tag("section", tag("h2", title, id_=f"{name}-title"), *content, id_=name, aria_labelledby=f"{name}-title")


def code(text: str) -> Html:
    """Return a short piece of code, such as a digest, that may break anywhere."""
    return tag("code", text)


def block(text: str, *, label: str) -> Html:
    """Return lines of code, such as commands."""
    return tag("pre", tag("code", text), tabindex=0, role="region", aria_label=label)


def mark(status: str) -> Html:
    """Return a verdict, told by its word and by its colour."""
    kind = {"PASS": "pass", "FAIL": "fail"}.get(status, "open")
    return tag("strong", status, class_=f"mark {kind}")


def absent(what: str, how: str) -> Html:
    """Say plainly that something is not there, and what would make it."""
    return tag("p", mark("NOT RUN"), f" {what} ", tag("span", how, class_="quiet"), class_="absent")
