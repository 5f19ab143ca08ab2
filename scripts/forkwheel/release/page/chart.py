"""The bench as drawings that follow the page's colours: microseconds over tokens, both logarithmic."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from forkwheel.release.page.markup import Html, safe, tag

_WIDTH, _HEIGHT = 460, 300
_LEFT, _RIGHT, _TOP, _BOTTOM = 48, 16, 22, 40


@dataclass(frozen=True)
class _Scale:
    """Maps a value to a pixel, logarithmically."""

    low: float
    high: float
    start: float
    end: float

    def at(self, value: float) -> float:
        share = (math.log(value) - math.log(self.low)) / ((math.log(self.high) - math.log(self.low)) or 1)
        return round(self.start + share * (self.end - self.start), 1)

    def ticks(self, base: int) -> list[float]:
        first = math.floor(math.log(self.low, base) + 1e-9)
        last = math.ceil(math.log(self.high, base) - 1e-9)
        values = [float(base) ** power for power in range(first, last + 1)]
        return [value for value in values if self.low <= value * 1.001 and value <= self.high * 1.001]


def charts(document: Mapping[str, Any]) -> list[Html]:
    """Return a drawing for each world size and hidden size of a bench's record."""
    panels = sorted({(point["world_size"], point["hidden"]) for point in document["points"]})
    return [_chart(document, world_size, hidden) for world_size, hidden in panels]


def _chart(document: Mapping[str, Any], world_size: int, hidden: int) -> Html:
    points = [p for p in document["points"] if (p["world_size"], p["hidden"]) == (world_size, hidden)]
    fused = [(p["tokens"], _best(p["fused"])) for p in points]
    other = [(p["tokens"], _best(p["others"])) for p in points]
    times = [time for _, time in (*fused, *other)]
    across = _Scale(points[0]["tokens"], points[-1]["tokens"], _LEFT, _WIDTH - _RIGHT)
    up = _Scale(min(times) / 1.3, max(times) * 1.3, _HEIGHT - _BOTTOM, _TOP)
    title = f"{world_size} ranks, hidden {hidden}"
    crossover = _crossover(document, world_size, hidden)
    said = f"{title}: the fusion takes {fused[0][1]:.1f} us at {fused[0][0]} tokens and {fused[-1][1]:.1f} at "
    said += f"{fused[-1][0]}; otherwise {other[0][1]:.1f} and {other[-1][1]:.1f}. {crossover[1]}"
    drawn = [*_axes(across, up), *_line(fused, across, up, "first"), *_line(other, across, up, "second")]
    if crossover[0] is not None:
        x = across.at(crossover[0])
        drawn.append(tag("line", x1=x, x2=x, y1=_TOP, y2=_HEIGHT - _BOTTOM, class_="axis", stroke_dasharray="2 3"))
    drawn.append(tag("text", "fused", x=_LEFT + 8, y=_TOP + 6, class_="first"))
    drawn.append(tag("text", "otherwise (dashed)", x=_LEFT + 48, y=_TOP + 6, class_="second"))
    svg = tag("svg", tag("title", said), *drawn, viewBox=f"0 0 {_WIDTH} {_HEIGHT}", role="img")
    return tag("figure", tag("figcaption", f"{title}. {crossover[1]}"), svg)


def _best(timings: Mapping[str, Mapping[str, float]]) -> float:
    return min(timing["median"] for timing in timings.values())


def _crossover(document: Mapping[str, Any], world_size: int, hidden: int) -> tuple[float | None, str]:
    for item in document.get("crossovers", ()):
        if (item["world_size"], item["hidden"]) == (world_size, hidden) and item["tokens"] is not None:
            return item["tokens"], f"They cross at about {item['tokens']} tokens."
    return None, "They do not cross in the sizes that were timed."


def _axes(across: _Scale, up: _Scale) -> list[Html]:
    bottom = _HEIGHT - _BOTTOM
    drawn = [tag("text", "microseconds", x=_LEFT, y=12, class_="quiet")]
    for value in (value for base in (1, 2, 5) for value in _decades(up, base)):
        y = up.at(value)
        drawn.append(tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=y, y2=y, class_="grid"))
        drawn.append(tag("text", f"{value:g}", x=_LEFT - 6, y=y + 4, text_anchor="end", class_="quiet"))
    for value in across.ticks(4):
        x = across.at(value)
        drawn.append(tag("line", x1=x, x2=x, y1=bottom, y2=bottom + 4, class_="axis"))
        drawn.append(tag("text", f"{value:g}", x=x, y=bottom + 17, text_anchor="middle", class_="quiet"))
    drawn.append(tag("line", x1=_LEFT, x2=_WIDTH - _RIGHT, y1=bottom, y2=bottom, class_="axis"))
    drawn.append(tag("text", "tokens", x=_WIDTH - _RIGHT, y=_HEIGHT - 6, text_anchor="end", class_="quiet"))
    return drawn


def _decades(scale: _Scale, base: int) -> list[float]:
    powers = range(math.floor(math.log10(scale.low)), math.ceil(math.log10(scale.high)) + 1)
    return [value for power in powers if scale.low <= (value := base * 10.0**power) <= scale.high]


def _line(points: Sequence[tuple[float, float]], across: _Scale, up: _Scale, name: str) -> list[Html]:
    placed = [(across.at(tokens), up.at(time)) for tokens, time in points]
    path = safe(" ".join(f"{x},{y}" for x, y in placed))
    dots = [tag("circle", cx=x, cy=y, r=2.6, class_=name) for x, y in placed]
    return [tag("polyline", points=path, class_=f"{name} {name}-line"), *dots]
