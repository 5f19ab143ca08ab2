"""The bench as a picture: microseconds over tokens, both axes logarithmic, with the crossover."""

from __future__ import annotations

from importlib import import_module
from pathlib import Path
from typing import Any

_INK, _MUTED, _FUSED, _OTHER = "#1f2328", "#8a9099", "#0b6e4f", "#b4451f"


def write_plot(document: dict[str, Any], stem: Path) -> list[str]:
    """Write ``stem``.png and ``stem``.svg; return a line on what was written or why nothing was."""
    if not document["points"]:
        return ["SKIP plot: there is nothing to draw"]
    try:
        matplotlib: Any = import_module("matplotlib")
    except ImportError:
        return ["SKIP plot: matplotlib is not installed; pip install 'forkwheel[bench]' brings it"]
    matplotlib.use("Agg")
    matplotlib.rcParams.update({"svg.hashsalt": "forkwheel", "font.size": 9, "axes.edgecolor": _MUTED})
    figure = _figure(import_module("matplotlib.pyplot"), document)
    files = [stem.with_name(stem.name + suffix) for suffix in (".png", ".svg")]
    figure.savefig(files[0], dpi=160, metadata={"Software": None})
    figure.savefig(files[1], metadata={"Date": None, "Creator": None})
    import_module("matplotlib.pyplot").close(figure)
    return [f"wrote {file}" for file in files]


def _figure(pyplot: Any, document: dict[str, Any]) -> Any:
    panels = sorted({(point["world_size"], point["hidden"]) for point in document["points"]})
    columns = min(len(panels), 2)
    rows = -(-len(panels) // columns)
    figure, axes = pyplot.subplots(rows, columns, figsize=(5.4 * columns, 3.9 * rows), squeeze=False)
    for axis in axes.flat[len(panels) :]:
        axis.set_visible(False)
    for axis, (world_size, hidden) in zip(axes.flat, panels, strict=False):
        points = [p for p in document["points"] if (p["world_size"], p["hidden"]) == (world_size, hidden)]
        _draw(axis, points)
        axis.set_title(f"{world_size} GPUs, hidden {hidden}, {document['dtype']}", fontsize=9, color=_INK)
        _mark(axis, document, world_size, hidden)
    figure.suptitle(f"All-reduce + residual + RMSNorm: {document['statement']}", fontsize=10, color=_INK)
    figure.tight_layout()
    return figure


def _draw(axis: Any, points: list[dict[str, Any]]) -> None:
    tokens = [point["tokens"] for point in points]
    best = [min(one["median"] for one in point["fused"].values()) for point in points]
    other = [min(one["median"] for one in point["others"].values()) for point in points]
    for name, style in zip(sorted({shot for point in points for shot in point["fused"]}), ("--", ":"), strict=False):
        pairs = [(p["tokens"], p["fused"][name]["median"]) for p in points if name in p["fused"]]
        axis.plot(*zip(*pairs, strict=True), style, color=_FUSED, linewidth=0.9, alpha=0.7, label=f"fused, {name}")
    axis.plot(tokens, best, "-o", color=_FUSED, markersize=3, linewidth=1.6, label="fused, the faster shot")
    axis.plot(tokens, other, "-s", color=_OTHER, markersize=3, linewidth=1.6, label="unfused, the fastest")
    axis.set_xscale("log", base=2)
    axis.set_yscale("log")
    axis.set_xticks(tokens, [str(count) for count in tokens], rotation=45)
    axis.set_xlabel("tokens")
    axis.set_ylabel("microseconds a call")
    axis.grid(visible=True, which="major", color="#e3e6ea", linewidth=0.6)
    axis.legend(frameon=False, fontsize=7.5)


def _mark(axis: Any, document: dict[str, Any], world_size: int, hidden: int) -> None:
    for item in document["crossovers"]:
        if (item["world_size"], item["hidden"]) == (world_size, hidden) and item["tokens"]:
            axis.axvline(item["tokens"], color=_INK, linewidth=0.8, linestyle="-.")
            text = f" crossover at {item['tokens']} tokens"
            axis.text(item["tokens"], axis.get_ylim()[0] * 1.1, text, rotation=90, ha="right", fontsize=7.5, color=_INK)
