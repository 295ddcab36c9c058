"""Draw docs/pictures/*.svg from benchmarks/results/*.json: python benchmarks/plots.py.

The same results give the same bytes (with the same matplotlib). Every picture carries the values that it shows, as JSON
in its description.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator
from matplotlib.transforms import Bbox
from measured import DATASET, OURS, Results, read

PICTURES = Path(__file__).resolve().parent.parent / "docs" / "pictures"
STYLE = {
    "svg.hashsalt": "cudf-fsst",
    "svg.fonttype": "path",  # looks the same whatever fonts the reader has
    "font.family": "DejaVu Sans",  # comes with matplotlib
    "font.size": 9,
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": "#888888",
    "axes.titlelocation": "left",
    "axes.titleweight": "bold",
    "axes.titlesize": 10,
    "figure.facecolor": "white",
}
# Of Okabe and Ito's palette, which colour-blind readers can tell apart.
ORANGE, BLUE, GREY, PALE = "#D55E00", "#0072B2", "#555555", "#F2C6A5"

MARKS = ((ORANGE, "\u25cf cudf-fsst"), (BLUE, "\u25cf nvCOMP, same run"))

Point = tuple[float, float]
Picture = tuple[Figure, dict[str, Any]]


def new_figure(width: float, height: float) -> Figure:
    figure = Figure((width, height))
    FigureCanvasAgg(figure)
    return figure


def grouped_digits(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 else f"{value:.3g}"


def rate_axis(axes: Axes, low: float, high: float, label: str) -> None:
    """A logarithmic x axis of GB/s with readable ticks."""
    axes.set_xscale("log")
    axes.set_xlim(low, high)
    axes.xaxis.set_major_locator(
        FixedLocator([d * 10**e for e in range(-2, 6) for d in (1, 3) if low <= d * 10**e <= high])
    )
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: grouped_digits(value)))
    axes.set_xlabel(label)


def put_labels(axes: Axes, labels: Sequence[tuple[Point, str, dict[str, Any]]], lines: Iterable[Any]) -> None:
    """Write a text beside each point, where it touches no other text or point, and if possible no line."""
    renderer = axes.figure.canvas.get_renderer()
    unit = axes.figure.dpi / 72
    points = axes.transData.transform([point for point, _, _ in labels])
    inside = axes.get_window_extent(renderer)
    taken = [Bbox.from_bounds(x - 5 * unit, y - 5 * unit, 10 * unit, 10 * unit) for x, y in points]
    taken += [text.get_window_extent(renderer) for text in axes.texts]
    corners = [axes.transData.transform(np.column_stack(line)) for line in lines]
    on_lines = np.concatenate([np.linspace(each[:-1], each[1:], 64).reshape(-1, 2) for each in corners])
    sides = [(1, 0), (-1, 0), (0, 1), (0, -1), (1, 1), (-1, 1), (1, -1), (-1, -1)]
    for point, text, style in labels:
        best = None
        for far in (7, 11, 16):
            for h, v in sides:
                note = axes.annotate(
                    text,
                    point,
                    (far * h * (0.8 if v else 1), far * v * (0.7 if h else 1)),
                    textcoords="offset points",
                    ha=("center", "left", "right")[h],
                    va=("center", "bottom", "top")[v],
                    bbox={"facecolor": "white", "alpha": 0.7, "linewidth": 0, "pad": 0.5},
                    **style,
                )
                box = note.get_window_extent(renderer).padded(unit)
                crossed = np.all((box.min <= on_lines) & (on_lines <= box.max), axis=1).any()
                cost = 100 * box.count_overlaps(taken) + 2 * crossed + far / 10
                cost += 50 * (not (inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0))
                if best is None or cost < best[0]:
                    if best is not None:
                        best[1].remove()
                    best = cost, note, box
                else:
                    note.remove()
        assert best is not None
        taken.append(best[2])


def name_of(codec: str) -> str:
    names = {"lz4": "LZ4", "ans": "ANS", "gdeflate": "GDeflate"}
    short = codec.removeprefix("nvcomp.")
    return "cudf-fsst" if codec == OURS else names.get(short, short if short == codec else short.capitalize())


def pareto(points: Iterable[Point]) -> list[Point]:
    """The points that no other equals or beats in both respects, from slow to fast."""
    front: list[Point] = []
    for point in sorted(points, reverse=True):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front[::-1]


def ratio_against_rate(results: Results) -> Picture:
    """Ratio of characters against the throughput of both calls, with the Pareto front."""
    figure = new_figure(10, 4.3)
    shown: dict[str, Any] = {}
    ratios = {codec: one["value"] for codec, one in results.reference("ratio_chars").items()}
    for i, call in enumerate(("compress", "decompress")):
        axes = figure.add_axes((0.055 + 0.485 * i, 0.125, 0.44, 0.70))
        measured = {
            codec: (one[f"{call}_call_gbps"], one["ratio_chars"])
            for codec, one in results.values().items()
            if f"{call}_call_gbps" in one and "ratio_chars" in one
        }
        anchors = results.reference(f"{call}_gbps")
        quoted = {codec: (float(one["value"]), float(ratios[codec])) for codec, one in anchors.items()}
        points = measured | quoted
        shown[call] = points
        rates = [rate for rate, _ in points.values()]
        low, high = min(rates) / 1.8, max(rates) * 2.6
        rate_axis(axes, low, high, f"{call} GB/s of characters")
        axes.set_ylim(0.8, max(ratio for _, ratio in points.values()) * 1.06)
        front = pareto(points.values())
        steps = np.array([(low, front[0][1]), *front, (front[-1][0], 0)]).T
        axes.step(*steps, where="pre", color="#999999", lw=1, ls="--", zorder=1)
        axes.fill_between(*steps, step="pre", color="#999999", alpha=0.08, lw=0, zorder=0)
        labels = []
        for codec, (rate, ratio) in sorted(points.items(), key=lambda point: point[0] != OURS):
            colour = ORANGE if codec == OURS else BLUE if codec in measured else GREY
            size = 11 if codec == OURS else 7
            axes.plot(rate, ratio, "o", color=colour, ms=size, mfc=colour if codec in measured else "white", zorder=3)
            text = name_of(codec)
            style: dict[str, Any] = {"color": colour, "fontsize": 8.5}
            if codec == OURS:
                text += f"\n{rate:,.0f} GB/s"
                style |= {"fontweight": "bold", "fontsize": 10}
            elif codec in quoted and anchors[codec]["gpu"] != results.run["machine"]["gpu"]:
                text += f" ({anchors[codec]['gpu'].removeprefix('NVIDIA ')})"
            labels.append(((rate, ratio), text, style))
        corners = np.repeat(steps, 2, axis=1)
        put_labels(axes, labels, [(corners[0, :-1], corners[1, 1:])])
        axes.set_title(f"{call.capitalize()}: up and right is better", pad=9)
    axes = figure.axes[0]
    axes.set_ylabel("ratio of characters")
    marks = [*MARKS, (GREY, "\u25cb figures of others"), (GREY, "- - Pareto front")]
    put_heading(figure, subject(results), marks)
    return figure, shown


def put_heading(figure: Figure, text: str, marks: Iterable[tuple[str, str]] = ()) -> None:
    """One line over the panels: what it is, and at the right what the marks are."""
    top = 1 - 0.25 / figure.get_figheight()
    figure.text(0.02, top, text, weight="bold")
    right = 0.98
    for colour, mark in reversed(list(marks)):
        drawn = figure.text(right, top, mark, color=colour, fontsize=8, ha="right")
        right -= drawn.get_window_extent(figure.canvas.get_renderer()).width / figure.bbox.width + 0.014


def subject(results: Results) -> str:
    gpu = results.run["machine"]["gpu"]
    return f"TPC-H {DATASET.split('.')[1]}, {results.chars() / 1e9:.2f} GB in the memory of one {gpu}"


def every_column(results: Results) -> Picture:
    """Both calls on every column, with the ratio."""
    ours = {dataset: results.ours(dataset) for dataset in results.datasets()}
    smallest = min(one["bytes"] for one in results.run["records"] if one["measure"] == "ratio_chars") / 1e9
    names = sorted(ours, key=lambda dataset: ours[dataset]["ratio_chars"])
    figure = new_figure(10, 1.25 + 0.25 * len(names))
    bottom, top = 0.5 / figure.get_figheight(), 1 - 0.7 / figure.get_figheight()
    gpu = results.run["machine"]["gpu"]
    put_heading(figure, f"Columns of {smallest:.1f} GB and more in the memory of one {gpu}")
    for i, (call, kernel) in enumerate((("compress", "encode"), ("decompress", "decode"))):
        axes = figure.add_axes((0.215 + 0.395 * i, bottom, 0.37, top - bottom))
        rates = [ours[name][f"{call}_call_gbps"] for name in names]
        kernels = [ours[name][f"{kernel}_kernel_gbps"] for name in names]
        axes.barh(range(len(names)), kernels, 0.66, color=PALE)
        axes.barh(range(len(names)), rates, 0.66, color=ORANGE)
        for y, rate in enumerate(rates):
            axes.text(rate, y, f"{rate:,.0f} ", ha="right", va="center", color="white", weight="bold", fontsize=8)
        axes.text(kernels[-1], len(names) - 1, "kernels alone ", ha="right", va="center", fontsize=8, color=GREY)
        axes.set_xlabel("GB/s of characters")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:,.0f}"))
        axes.set_title(f"{call}()")
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(len(names)), [column_name(name) for name in names] if i == 0 else [""] * len(names))
        if i == 0:
            across = axes.get_yaxis_transform()
            for y, name in enumerate(names):
                ratio = f"{ours[name]['ratio_chars']:.2f}"
                axes.text(-0.03, y, ratio, transform=across, ha="right", va="center", weight="bold")
            axes.tick_params(axis="y", pad=40)
            axes.set_title("ratio", x=-0.03, loc="right", fontsize=9)
    return figure, {name: ours[name] for name in names}


def column_name(dataset: str) -> str:
    source, column = dataset.split(".")[:2]
    return f"{column} ({ {'tpch': 'TPC-H', 'dbtext': 'DBText'}.get(source, source) })"


def time_per_stage(results: Results) -> Picture:
    """Milliseconds of every stage beside those of the whole call."""
    stages = results.stages()
    figure = new_figure(10, 1.35 + 0.27 * (2 + sum(map(len, stages.values()))))
    put_heading(figure, subject(results))
    height = figure.get_figheight()
    top = height - 0.45
    longest = max(max(results.call_milliseconds(call)[0], *parts.values()) for call, parts in stages.items())
    shown: dict[str, Any] = {}
    for call, parts in stages.items():
        whole, span = results.call_milliseconds(call)
        bars = {f"{call}()": whole, **parts}
        shown[call] = bars | {"span": span}
        rows = 0.27 * len(bars)
        axes = figure.add_axes((0.24, (top - rows) / height, 0.72, rows / height))
        axes.barh(list(bars), list(bars.values()), 0.7, color=[PALE] + [BLUE] * len(parts))
        axes.barh(0, span, 0.7, color=ORANGE)
        inside: dict[str, Any] = {"va": "center", "ha": "center", "fontsize": 8}
        axes.text(span / 2, 0, f"codec kernels {span:.2f}", color="white", weight="bold", **inside)
        axes.text((span + whole) / 2, 0, f"rest {whole - span:.2f}", **inside)
        for y, value in enumerate(bars.values()):
            axes.text(value + longest / 150, y, f"{value:.2f}", va="center", fontsize=8)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(0, longest * 1.06)
        axes.tick_params(axis="y", length=0)
        axes.get_yticklabels()[0].set_weight("bold")
        top -= rows + 0.4
    axes.set_xlabel("milliseconds")
    return figure, shown


def ingested_gbps(ratio: float, decoder: Any, link: float) -> Any:
    """Ingestion model of the GSST thesis (chapter 3), transfer and decoding one after the other."""
    return 1 / (1 / (ratio * link) + 1 / decoder)


def ingestion(results: Results) -> Picture:
    """How fast a column arrives over PCIe, by ratio and decoder."""
    figure = new_figure(10, 4.3)
    axes = figure.add_axes((0.065, 0.125, 0.87, 0.76))
    link = float(results.reference("pinned_copy_gbps")["copy"]["value"])
    measured = {
        codec: (one["decompress_call_gbps"], one["ratio_chars"])
        for codec, one in results.values().items()
        if "decompress_call_gbps" in one and "ratio_chars" in one
    }
    points = {codec: (rate, ingested_gbps(ratio, rate, link)) for codec, (rate, ratio) in measured.items()}
    low, high = min(x for x, _ in points.values()) / 2, max(x for x, _ in points.values()) * 3
    rate_axis(axes, low, high, "decompress GB/s of characters")
    decoder = np.geomspace(low, high, 100)
    lines = [([low, high], [link, link])]
    for ratio in (1.5, 2, 3, 4):
        curve = ingested_gbps(ratio, decoder, link)
        lines.append((decoder, curve))
        axes.plot(decoder, curve, color="#BBBBBB", lw=1, zorder=1)
        axes.text(high, curve[-1], f" ratio {ratio:g}", va="center", color=GREY, fontsize=8.5)
    axes.set_ylim(0, ingested_gbps(4, high, link) * 1.04)
    axes.axhline(link, color="black", lw=1.2, ls="--", zorder=1)
    axes.text(high, link - 3, f"uncompressed, pinned memory: {link:.0f}", ha="right", va="top", fontsize=8.5)
    labels = []
    for codec, (rate, arriving) in sorted(points.items(), key=lambda point: point[0] != OURS):
        colour = ORANGE if codec == OURS else BLUE
        axes.plot(rate, arriving, "o", color=colour, ms=11 if codec == OURS else 7, zorder=3)
        style = {"color": colour, "fontsize": 10 if codec == OURS else 8.5}
        if codec == OURS:
            style["fontweight"] = "bold"
        labels.append(((rate, arriving), f"{name_of(codec)} {arriving:.0f}", style))
    put_labels(axes, labels, lines)
    axes.set_ylabel("GB/s of characters that arrive in GPU memory")
    put_heading(figure, "Arriving over PCIe: copy compressed, then decompress (model, measured speeds)", MARKS)
    return figure, {"link": link, "points": points}


DRAWINGS: dict[str, Callable[[Results], Picture]] = {
    "ratio_rate": ratio_against_rate,
    "columns": every_column,
    "stages": time_per_stage,
    "ingestion": ingestion,
}


def write(results: Results, folder: Path = PICTURES, format: str = "svg") -> list[Path]:
    """Draw everything into a folder."""
    paths = []
    for name, draw in DRAWINGS.items():
        with matplotlib.rc_context(STYLE):
            figure, shown = draw(results)
            described = {"Title": draw.__doc__, "Description": json.dumps(shown), "Date": None, "Creator": None}
            paths.append(folder / f"{name}.{format}")
            figure.savefig(paths[-1], format=format, metadata=described if format == "svg" else None)
    return paths


if __name__ == "__main__":
    for path in write(read()):
        print(path)
