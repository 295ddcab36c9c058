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
from measured import OURS, Results, name_of, read, stages_of

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
ORANGE, BLUE, GREEN, GREY, PALE = "#D55E00", "#0072B2", "#00825F", "#555555", "#F2C6A5"
DARK_PALE, PALE_BLUE = "#DD9D6F", "#5B9FC9"  # for letters

MARKS = ((ORANGE, "\u25cf cudf-fsst"), (BLUE, "\u25cf nvCOMP, same run"))
CUDF_MARK = (GREEN, "\u25cf cuDF, same run")

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
        for far in (7, 11, 16, 24):
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
                cost = 100 * box.count_overlaps(taken) + 2 * crossed + far / 10 + 10 * (far > 16)
                cost += 50 * (not (inside.x0 <= box.x0 and box.x1 <= inside.x1 and inside.y0 <= box.y0))
                if best is None or cost < best[0]:
                    if best is not None:
                        best[1].remove()
                    best = cost, note, box
                else:
                    note.remove()
        assert best is not None
        taken.append(best[2])


def colour_of(codec: str) -> str:
    """Colour of a codec that ran beside ours."""
    kind = codec.partition(".")[0]
    return {OURS: ORANGE, "nvcomp": BLUE}.get(kind, GREEN)


def ours_first(point: tuple[str, Point]) -> tuple[bool, bool]:
    """Key to sort points by, so that our labels get the best places."""
    return point[0] != OURS, colour_of(point[0]) != ORANGE


def pareto(points: Iterable[Point]) -> list[Point]:
    """The points that no other equals or beats in both respects, from slow to fast."""
    front: list[Point] = []
    for point in sorted(points, reverse=True):
        if not front or point[1] > front[-1][1]:
            front.append(point)
    return front[::-1]


def ratio_against_rate(results: Results) -> Picture:
    """Ratio against the throughput of both calls, with the Pareto front."""
    figure = new_figure(10, 5.4 if results.compared else 4.3)
    shown: dict[str, Any] = {}
    of_column = results.compared
    ratio_measure = "ratio_column" if of_column else "ratio_chars"
    ratios = {codec: one["value"] for codec, one in results.reference("ratio_chars").items()}
    swept = results.sweep("chunk")
    for i, call in enumerate(("compress", "decompress")):
        axes = figure.add_axes((0.055 + 0.485 * i, 0.125, 0.44, 0.70))
        measured = {
            codec: (one[f"{call}_call_gbps"], one[ratio_measure])
            for codec, one in results.values().items()
            if f"{call}_call_gbps" in one and ratio_measure in one
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
        axes.step(*steps, where="pre", color="#777777", lw=1.3, ls="--", zorder=1)
        axes.fill_between(*steps, step="pre", color="#999999", alpha=0.08, lw=0, zorder=0)
        for codec in dict.fromkeys(one["codec"] for one in swept):
            chunks = by_key((one for one in swept if one["codec"] == codec), "chunk_bytes")
            line = [(one[f"{call}_call_gbps"], one[ratio_measure]) for one in chunks.values()]
            axes.plot(*zip(*line, strict=True), "-o", color=BLUE, alpha=0.35, lw=0.8, ms=2.5, zorder=2)
        labels = []
        for codec, (rate, ratio) in sorted(points.items(), key=ours_first):
            colour = GREY if codec in quoted else colour_of(codec)
            size = 11 if codec == OURS else 9 if colour == ORANGE else 7
            axes.plot(rate, ratio, "o", color=colour, ms=size, mfc=colour if codec in measured else "white", zorder=3)
            text = name_of(codec)
            style: dict[str, Any] = {"color": colour, "fontsize": 8 if results.compared else 8.5}
            if codec == OURS:
                text += f"\n{rate:,.0f} GB/s"
                style |= {"fontweight": "bold", "fontsize": 10}
            elif colour == ORANGE:
                style["fontweight"] = "bold"
            elif codec in quoted and anchors[codec]["gpu"] != results.run["machine"]["gpu"]:
                text += f" ({anchors[codec]['gpu'].removeprefix('NVIDIA ')})"
            labels.append(((rate, ratio), text, style))
        corners = np.repeat(steps, 2, axis=1)
        put_labels(axes, labels, [(corners[0, :-1], corners[1, 1:])])
        axes.set_title(f"{call.capitalize()}: up and right is better", pad=9)
    axes = figure.axes[0]
    axes.set_ylabel("ratio of the column (hollow: of characters)" if of_column else "ratio of characters")
    marks = [*MARKS, *([CUDF_MARK] if of_column else []), (GREY, "\u25cb figures of others")]
    if swept:
        marks.insert(2, (PALE_BLUE, "\u2022 its other chunk sizes"))
    put_heading(figure, results.subject, [*marks, (GREY, "- - Pareto front")])
    return figure, shown


def by_key(records: Iterable[dict[str, Any]], key: str) -> dict[Any, dict[str, float]]:
    """Value of a key -> measure -> value, in order of the key; records without the key are left out."""
    found: dict[Any, dict[str, float]] = {}
    for record in records:
        if key in record and "stage" not in record:
            found.setdefault(record[key], {}).setdefault(record["measure"], record["value"])
    return dict(sorted(found.items()))


def put_heading(figure: Figure, text: str, marks: Iterable[tuple[str, str]] = ()) -> None:
    """One line over the panels: what it is, and at the right, or below if that is too long, what the marks are."""
    top = 1 - 0.25 / figure.get_figheight()
    renderer = figure.canvas.get_renderer()
    heading = figure.text(0.02, top, text, weight="bold").get_window_extent(renderer)
    right, drawn = 0.98, []
    for colour, mark in reversed(list(marks)):
        drawn.append(figure.text(right, top, mark, color=colour, fontsize=8, ha="right"))
        right -= drawn[-1].get_window_extent(renderer).width / figure.bbox.width + 0.014
    if right * figure.bbox.width < heading.x1:
        for one in drawn:
            one.set_y(top - 0.2 / figure.get_figheight())


def every_column(results: Results) -> Picture:
    """Both calls on every column, with the ratio."""
    ours = {dataset: results.ours(dataset) for dataset in results.datasets()}
    smallest = (
        min(
            one["bytes"]
            for one in results.run["records"]
            if one["measure"] == "ratio_chars" and one["codec"] == OURS and "sweep" not in one
        )
        / 1e9
    )
    names = sorted(ours, key=lambda dataset: ours[dataset]["ratio_chars"])
    figure = new_figure(10, 1.25 + 0.25 * len(names))
    bottom, top = 0.5 / figure.get_figheight(), 1 - 0.7 / figure.get_figheight()
    gpu = results.run["machine"]["gpu"]
    marks = [(ORANGE, "\u25a0 whole call"), (DARK_PALE, "\u25a0 its kernels alone")]
    put_heading(figure, f"Columns of {smallest:.1f} GB and more in the memory of one {gpu}", marks)
    for i, (call, kernel) in enumerate((("compress", "encode"), ("decompress", "decode"))):
        axes = figure.add_axes((0.215 + 0.395 * i, bottom, 0.37, top - bottom))
        rates = [ours[name][f"{call}_call_gbps"] for name in names]
        kernels = [ours[name][f"{kernel}_kernel_gbps"] for name in names]
        axes.barh(range(len(names)), kernels, 0.66, color=PALE)
        axes.barh(range(len(names)), rates, 0.66, color=ORANGE)
        for y, rate in enumerate(rates):
            axes.text(rate, y, f"{rate:,.0f} ", ha="right", va="center", color="white", weight="bold", fontsize=8)
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
    figure = new_figure(10, 1.5 + 0.27 * (2 + sum(map(len, stages.values()))))
    note = "blue: sums over launches; encoding and compaction run beside each other, on two streams"
    put_heading(figure, results.subject, [(GREY, note)])
    height = figure.get_figheight()
    top = height - 0.6
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
        beside = [f"{value:.2f}" for value in bars.values()]
        if whole - span > longest / 10:
            axes.text((span + whole) / 2, 0, f"rest {whole - span:.2f}", **inside)
        else:
            beside[0] += f", rest {whole - span:.2f}"
        for y, (value, text) in enumerate(zip(bars.values(), beside, strict=True)):
            axes.text(value + longest / 150, y, text, va="center", fontsize=8)
        axes.set_ylim(len(bars) - 0.4, -0.6)
        axes.set_xlim(0, longest * 1.06)
        axes.tick_params(axis="y", length=0)
        axes.get_yticklabels()[0].set_weight("bold")
        top -= rows + 0.4
    axes.set_xlabel("milliseconds")
    return figure, shown


def stages_against_tile(results: Results) -> Picture | None:
    """Milliseconds of every stage against the tile size."""
    swept = results.sweep("tile")
    sizes = sorted({one["tile_size"] for one in swept})
    found = {size: stages_of(one for one in swept if one["tile_size"] == size) for size in sizes}
    if not any(stages for calls in found.values() for stages in calls.values()):
        return None
    figure = new_figure(10, 4)
    shown: dict[str, Any] = {}
    for i, call in enumerate(("compress", "decompress")):
        axes = figure.add_axes((0.05 + 0.49 * i, 0.13, 0.32, 0.68))
        ends: list[tuple[float, str, str]] = []
        names = list(dict.fromkeys(stage for calls in found.values() for stage in calls[call]))
        shown[call] = {name: [(size, found[size][call].get(name, 0.0)) for size in sizes] for name in names}
        most = max(y for line in shown[call].values() for _, y in line)
        for name, line in shown[call].items():
            minor = max(y for _, y in line) < most / 20
            colour = "#AAAAAA" if minor else (ORANGE, BLUE, GREEN, "black")[len(ends) % 4]
            axes.plot(*zip(*line, strict=True), "-o", color=colour, ms=4 if minor else 6, zorder=1 if minor else 3)
            if not minor:
                ends.append((line[-1][1], name.replace(", ", ",\n"), colour))
        if len(ends) < len(names):
            text = "grey: less than a twentieth of the longest"
            axes.text(0.02, 1.01, text, color=GREY, fontsize=7.5, transform=axes.transAxes)
        axes.set_xscale("log")
        axes.set_xlim(sizes[0] / 1.2, sizes[-1] * 1.2)
        axes.set_ylim(0, most * 1.1)
        axes.xaxis.set_major_locator(FixedLocator(sizes))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.grid(axis="y", color="#E5E5E5", lw=0.8)
        axes.set_xlabel("tile, bytes")
        axes.set_title(f"{call}(), milliseconds", pad=14)
        put_ends(axes, ends)
    put_heading(figure, results.subject)
    keep_apart(figure)
    return figure, shown


def ingested_gbps(ratio: float, decoder: Any, link: float) -> Any:
    """Ingestion model of the GSST thesis (chapter 3), transfer and decoding one after the other."""
    return 1 / (1 / (ratio * link) + 1 / decoder)


def overlapped_gbps(ratio: float, decoder: Any, link: float, blocks: Any) -> Any:
    """The same with N blocks, one copied while that before it is decoded: bound by the transfer or by the decoder."""
    transfer_bound = 1 / (1 / (ratio * link) + 1 / (blocks * decoder))
    decode_bound = 1 / (1 / decoder + 1 / (blocks * ratio * link))
    return np.minimum(transfer_bound, decode_bound)


def ingestion(results: Results) -> Picture:
    """How fast a column arrives over PCIe, by ratio and decoder."""
    figure = new_figure(10, 4.3)
    axes = figure.add_axes((0.065, 0.125, 0.87, 0.76))
    arrived = {one["codec"]: one for one in reversed(results.sweep("ingestion")) if one["blocks"] == 1}
    link = float(results.reference("pinned_copy_gbps")["copy"]["value"])
    plain = link
    if "copy" in arrived:
        plain = arrived["copy"]["value"]
        link = plain * arrived["copy"]["moved_bytes"] / arrived["copy"]["bytes"]
    measured = {
        codec: (one["decompress_call_gbps"], one["ratio_chars"])
        for codec, one in results.values().items()
        if "decompress_call_gbps" in one and "ratio_chars" in one and codec != f"{OURS}.cpu"
    }
    points = {codec: (rate, ingested_gbps(ratio, rate, link)) for codec, (rate, ratio) in measured.items()}
    crossed = {codec: (points[codec][0], one["value"]) for codec, one in arrived.items() if codec in points}
    low, high = min(x for x, _ in points.values()) / 2, max(x for x, _ in points.values()) * 3
    rate_axis(axes, low, high, "decompress GB/s of characters")
    decoder = np.geomspace(low, high, 100)
    lines = [([low, high], [plain, plain])]
    for ratio in (1.5, 2, 3, 4):
        curve = ingested_gbps(ratio, decoder, link)
        lines.append((decoder, curve))
        axes.plot(decoder, curve, color="#BBBBBB", lw=1, zorder=1)
        axes.text(high, curve[-1], f" ratio {ratio:g}", va="center", color=GREY, fontsize=8.5)
    highest = max(arriving for _, arriving in points.values())
    axes.set_ylim(0, max(ingested_gbps(4, high, link) * 1.04, highest * 1.2))
    axes.axhline(plain, color="black", lw=1.2, ls="--", zorder=1)
    axes.text(high, plain - 3, f"uncompressed, pinned memory: {plain:.0f}", ha="right", va="top", fontsize=8.5)
    labels = []
    for codec, (rate, arriving) in sorted(points.items(), key=ours_first):
        colour = colour_of(codec)
        axes.plot(rate, arriving, "o", color=colour, ms=11 if codec == OURS else 7, zorder=3)
        if codec in crossed:
            axes.plot(*crossed[codec], "D", color=colour, mfc="white", ms=6, zorder=4)
        style = {"color": colour, "fontsize": 10 if codec == OURS else 8.5}
        if codec == OURS:
            style["fontweight"] = "bold"
        labels.append(((rate, arriving), f"{name_of(codec)} {arriving:.0f}", style))
    put_labels(axes, labels, lines)
    axes.set_ylabel("GB/s of characters that arrive in GPU memory")
    marks = [*MARKS, (GREY, "\u25c7 columns that really crossed")] if crossed else MARKS
    put_heading(figure, "Arriving over PCIe: copy compressed, then decompress (model, measured speeds)", marks)
    return figure, {"link": link, "points": points} | ({"crossed": crossed} if crossed else {})


def ingestion_in_blocks(results: Results) -> Picture | None:
    """How fast a column really arrives over PCIe in N blocks, and what the model says."""
    crossed = results.sweep("ingestion")
    ours = [one for one in crossed if one["codec"] == OURS]
    plain = next((one for one in crossed if one["codec"] == "copy"), None)
    if plain is None or not ours:
        return None
    link = plain["value"] * plain["moved_bytes"] / plain["bytes"]
    one_block = next(one for one in ours if one["blocks"] == 1)
    ratio = one_block["bytes"] / one_block["moved_bytes"]
    decoder = results.ours()["decompress_call_gbps"]
    figure = new_figure(10, 4.3)
    axes = figure.add_axes((0.065, 0.125, 0.70, 0.76))
    most = max(one["blocks"] for one in ours)
    blocks = np.geomspace(1, most, 100)
    limit = ratio * link
    curves = {
        "compressed,\noverlapped": (ORANGE, overlapped_gbps(ratio, decoder, link, blocks), True),
        "compressed,\nthen decompressed": (BLUE, np.full_like(blocks, ingested_gbps(ratio, decoder, link)), False),
        "uncompressed": ("black", np.full_like(blocks, plain["value"]), None),
    }
    shown: dict[str, Any] = {"link": link, "ratio": ratio, "decoder": decoder, "plain": plain["value"]}
    ends = []
    for text, (colour, curve, overlapped) in curves.items():
        axes.plot(blocks, curve, color=colour, lw=1.2, zorder=1)
        if overlapped is None:
            here = [(1, plain["value"])]
        else:
            here = [
                (one["blocks"], one["value"])
                for one in ours
                if one.get("overlapped", False) == overlapped or one["blocks"] == 1
            ]
        shown[text.replace("\n", " ")] = here
        axes.plot(*zip(*here, strict=True), "o", color=colour, ms=7, zorder=3)
        ends.append((curve[-1], f"{text}", colour))
    axes.axhline(limit, color=GREY, lw=1, ls=":", zorder=0)
    axes.text(1, limit, f"link x ratio: {limit:.0f} ", va="bottom", ha="left", fontsize=8.5, color=GREY)
    axes.set_xscale("log")
    axes.set_xlim(0.92, most * 1.08)
    counts = sorted({one["blocks"] for one in ours})
    axes.xaxis.set_major_locator(FixedLocator(counts))
    axes.xaxis.set_minor_locator(NullLocator())
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.set_ylim(0, limit * 1.12)
    put_ends(axes, ends)
    axes.set_xlabel("blocks")
    axes.set_ylabel("GB/s of characters that arrive in GPU memory")
    marks = [(GREY, "\u25cf measured"), (GREY, "\u2013 model")]
    put_heading(figure, f"{results.main_column} over PCIe", marks)
    keep_apart(figure)
    return figure, shown


def keep_apart(figure: Figure) -> None:
    """Make all panels narrower where texts at the right of one reach into the next, or out of the figure."""
    renderer = figure.canvas.get_renderer()
    boxes = [(axes.get_window_extent(renderer), axes.get_tightbbox(renderer)) for axes in figure.axes]
    gap = 6 * figure.dpi / 72
    over = 0.0
    for inner, outer in boxes:
        beside = [
            other.x0 for place, other in boxes if place.x0 > inner.x1 and place.y0 < inner.y1 and inner.y0 < place.y1
        ]
        over = max(over, outer.x1 + gap - min([*beside, figure.bbox.x1]))
    for axes in figure.axes:
        place = axes.get_position()
        place.x1 -= over / figure.bbox.width
        axes.set_position(place)


def put_ends(axes: Axes, ends: Sequence[tuple[float, str, str]]) -> None:
    """Name lines at their right ends, one name above the other."""
    renderer = axes.figure.canvas.get_renderer()
    inside = axes.get_window_extent(renderer)
    below = -np.inf
    for y, text, colour in sorted(ends):
        at = axes.transData.transform((axes.get_xlim()[1], y))[1]
        note = axes.text(1.015, 0, text, color=colour, fontsize=8.5, va="center", transform=axes.transAxes)
        height = note.get_window_extent(renderer).height
        at = max(at, below + height / 2)
        note.set_y((at - inside.y0) / inside.height)
        below = at + height / 2 + 2


def peak_memory(results: Results) -> Picture | None:
    """GPU memory at the peak of both calls, beyond input and result, per byte of characters."""
    peaks = {
        codec: [one.get(f"{call}_peak_extra_bytes") for call in ("compress", "decompress")]
        for codec, one in results.values().items()
    }
    peaks = {codec: both for codec, both in peaks.items() if None not in both}
    if not results.compared or not peaks:
        return None
    names = sorted(peaks, key=lambda codec: -max(peaks[codec]))
    chars = results.chars()
    figure = new_figure(10, 1.25 + 0.27 * len(names))
    bottom, top = 0.5 / figure.get_figheight(), 1 - 0.7 / figure.get_figheight()
    put_heading(figure, results.subject, [*MARKS, CUDF_MARK])
    for i, call in enumerate(("compress", "decompress")):
        axes = figure.add_axes((0.165 + 0.42 * i, bottom, 0.38, top - bottom))
        values = [peaks[name][i] / chars for name in names]
        longest = max(max(values), 1e-9)
        axes.barh(range(len(names)), values, 0.66, color=[colour_of(name) for name in names])
        for y, value in enumerate(values):
            axes.text(value + longest / 80, y, f"{value * chars / 2**20:,.0f} MiB", va="center", fontsize=8)
        axes.set_xlim(0, longest * 1.22)
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(len(names)), [name_of(name) for name in names] if i == 0 else [""] * len(names))
        axes.set_xlabel("bytes a character, beyond input and result")
        axes.set_title(call.capitalize())
    return figure, {name: peaks[name] for name in names}


def size_name(nbytes: float) -> str:
    power = round(float(np.log2(nbytes)))
    return f"{2 ** (power % 10)} {('B', 'KiB', 'MiB', 'GiB')[power // 10]}"


def rate_against_size(results: Results) -> Picture | None:
    """Throughput of both calls against the size of the column."""
    swept = results.sweep("size")
    if not swept:
        return None
    codecs = list(dict.fromkeys(one["codec"] for one in swept))
    figure = new_figure(10, 4.3)
    shown: dict[str, Any] = {}
    lowest = min(one["value"] for one in swept if one["measure"].endswith("_call_gbps"))
    highest = max(one["value"] for one in swept if one["measure"].endswith("_call_gbps"))
    for i, call in enumerate(("compress", "decompress")):
        axes = figure.add_axes((0.06 + 0.475 * i, 0.125, 0.385, 0.72))
        shown[call], ends = {}, []
        sizes = sorted({1 << round(float(np.log2(one["bytes"]))) for one in swept})
        for codec in codecs:
            found = by_key((one for one in swept if one["codec"] == codec), "bytes")
            line = [(nbytes, one[f"{call}_call_gbps"]) for nbytes, one in found.items() if f"{call}_call_gbps" in one]
            shown[call][codec] = line
            axes.plot(*zip(*line, strict=True), "-o", color=colour_of(codec), ms=5, lw=1.5, zorder=3 - (codec != OURS))
            ends.append((line[-1][1], name_of(codec), colour_of(codec)))
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_ylim(lowest / 1.5, highest * 1.5)
        axes.set_xlim(sizes[0] / 1.5, sizes[-1] * 1.5)
        axes.xaxis.set_major_locator(FixedLocator(sizes[::2]))
        axes.xaxis.set_minor_locator(NullLocator())
        axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: size_name(value)))
        axes.yaxis.set_minor_locator(NullLocator())
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: grouped_digits(value)))
        axes.grid(axis="y", color="#E5E5E5", lw=0.8)
        axes.set_title(f"{call.capitalize()}, GB/s of characters")
        axes.set_xlabel("characters of the column")
        put_ends(axes, ends)
    gpu = results.run["machine"]["gpu"]
    put_heading(figure, f"{results.main_column}, cut or repeated, in the memory of one {gpu}")
    keep_apart(figure)
    return figure, shown


def tiles_and_scopes(results: Results) -> Picture | None:
    """Ratio and throughput against tile size and table scope."""
    if not results.sweep("tile") or not results.sweep("scope"):
        return None
    datasets = dict.fromkeys(one["dataset"] for one in results.run["records"] if one.get("sweep") in ("tile", "scope"))
    figure = new_figure(10, 6)
    shown: dict[str, Any] = {}
    put_heading(figure, f"cudf-fsst on one {results.run['machine']['gpu']}")
    lines = {"compress_call_gbps": ",\ncompress()", "decompress_call_gbps": ",\ndecompress()"}
    colours = dict(zip(datasets, (ORANGE, BLUE), strict=False))
    for column, (kind, key, label) in enumerate(
        (("tile", "tile_size", "tile, bytes"), ("scope", "table_scope", "characters a table serves"))
    ):
        for row, measures in enumerate(({"ratio_column": ""}, lines)):
            axes = figure.add_axes((0.06 + 0.49 * column, 0.565 - 0.48 * row, 0.345, 0.32))
            ends: list[tuple[float, str, str]] = []
            seen: set[float] = set()
            for dataset in datasets:
                found = by_key(results.sweep(kind, dataset), key)
                seen |= found.keys()
                for measure, name in measures.items():
                    line = [(x, one[measure]) for x, one in found.items() if measure in one]
                    if line:
                        shown[f"{kind} {dataset} {measure}"] = line
                        dashed = "--" if measure == "compress_call_gbps" else "-"
                        axes.plot(*zip(*line, strict=True), f"o{dashed}", color=colours[dataset], ms=5, lw=1.3)
                        ends.append((line[-1][1], dataset.split(".")[1] + name, colours[dataset]))
            axes.set_xscale("log")
            if row == 0:
                axes.margins(y=0.25)
            else:
                axes.set_ylim(bottom=0)
            axes.set_xlim(min(seen) / 1.2, max(seen) * 1.2)
            places = sorted(seen) if kind == "tile" else [2**25, 2**27, 2**29, 2**31]
            axes.xaxis.set_major_locator(FixedLocator(places))
            axes.xaxis.set_minor_locator(NullLocator())
            axes.xaxis.set_major_formatter(
                FuncFormatter(lambda x, _, k=kind: f"{x:g}" if k == "tile" else scope_name(x))
            )
            axes.grid(axis="y", color="#E5E5E5", lw=0.8)
            axes.set_title(f"{('Ratio of the column', 'GB/s of characters')[row]}")
            axes.yaxis.set_major_formatter(FuncFormatter((lambda y, _: f"{y:.2f}", lambda y, _: f"{y:,.0f}")[row]))
            axes.set_xlabel(label)
            put_ends(axes, ends)
    keep_apart(figure)
    return figure, shown


def scope_name(nbytes: float) -> str:
    return f"{nbytes / 2**20:,.0f} MiB" if nbytes < 2**30 else f"{nbytes / 2**30:.2g} GiB"


#: Name of the file -> what draws it; None where the results do not have what it shows.
DRAWINGS: dict[str, Callable[[Results], Picture | None]] = {
    "ratio_rate": ratio_against_rate,
    "columns": every_column,
    "stages": time_per_stage,
    "ingestion": ingestion,
    "memory": peak_memory,
    "sizes": rate_against_size,
    "tiles_scopes": tiles_and_scopes,
    "stages_tiles": stages_against_tile,
    "blocks": ingestion_in_blocks,
}


def write(results: Results, folder: Path = PICTURES, format: str = "svg") -> list[Path]:
    """Draw everything into a folder."""
    paths = []
    for name, draw in DRAWINGS.items():
        with matplotlib.rc_context(STYLE):
            drawn = draw(results)
            if drawn is None:
                continue
            figure, shown = drawn
            described = {"Title": draw.__doc__, "Description": json.dumps(shown), "Date": None, "Creator": None}
            paths.append(folder / f"{name}.{format}")
            figure.savefig(paths[-1], format=format, metadata=described if format == "svg" else None)
    return paths


if __name__ == "__main__":
    for path in write(read()):
        print(path)
