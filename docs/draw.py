"""Draw the pictures of docs/kernels.md and docs/architecture.md: python docs/draw.py.

They are drawn from what they show: the chart of rooms, and a column that is compressed here. The same inputs give the
same bytes (with the same matplotlib). Every picture carries what it shows, as JSON in its description.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import matplotlib
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure
from matplotlib.patches import FancyArrowPatch, Rectangle

import cudf_fsst

FOLDER = Path(__file__).resolve().parent
PICTURES = FOLDER / "drawings"
STYLE = {"svg.hashsalt": "cudf-fsst", "svg.fonttype": "path", "font.family": "DejaVu Sans", "font.size": 9}
# Of Okabe and Ito's palette, which colour-blind readers can tell apart; pale, for letters on them.
PALE_ORANGE, PALE_BLUE, PALE_GREEN, PALE_GREY = "#F2C6A5", "#BBD9EC", "#BFE0D3", "#E8E8E8"
INK, GREY = "#222222", "#666666"

Picture = tuple[Figure, Any]


def sheet(width: float, height: float) -> tuple[Figure, Axes]:
    """An empty figure whose units are inches, from the top left."""
    figure = Figure((width, height), facecolor="white")
    FigureCanvasAgg(figure)
    axes = figure.add_axes((0, 0, 1, 1))
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.axis("off")
    return figure, axes


def box(axes: Axes, x: float, y: float, width: float, text: str, colour: str, **style: Any) -> None:
    """A box of one line; its place is that of its top left corner."""
    height = style.pop("height", 0.28)
    axes.add_patch(Rectangle((x, y), width, height, facecolor=colour, edgecolor="white", linewidth=1.5, zorder=2))
    axes.text(x + width / 2, y + height / 2, text, ha="center", va="center", color=INK, zorder=3, **style)


def label(axes: Axes, x: float, y: float, text: str, **style: Any) -> None:
    """A text; its place is that of its left end."""
    axes.text(x, y, text, **{"ha": "left", "va": "center", "color": GREY, "zorder": 3, **style})


def arrow(axes: Axes, start: tuple[float, float], end: tuple[float, float], bend: float = 0.0) -> None:
    """An arrow between two places."""
    style = {"arrowstyle": "-|>", "mutation_scale": 9, "color": GREY, "lw": 0.9, "connectionstyle": f"arc3,rad={bend}"}
    axes.add_patch(FancyArrowPatch(start, end, shrinkA=1, shrinkB=3, zorder=1, **style))


# Rooms ------------------------------------------------------------------------------------------------------------


def rooms(page: str) -> dict[str, Any]:
    """Rooms and arrows of the flowchart in docs/architecture.md: what each room holds, and who uses whom."""
    chart = re.search(r"^```mermaid\n(.*?)^```", page, re.MULTILINE | re.DOTALL)[1]
    holds = dict(re.findall(r"(\w+)\[\w+: (.*?)\]", chart))
    arrows = re.findall(r"^ +(\w+)(?:\[.*?\])? --> (\w+)", chart, re.MULTILINE)
    return {"holds": holds, "arrows": [list(one) for one in arrows]}


def levels(arrows: list[list[str]]) -> dict[str, int]:
    """Room -> how many steps it is below the top, by the longest way."""
    found = {name: 0 for one in arrows for name in one}
    for _ in found:
        for above, below in arrows:
            found[below] = max(found[below], found[above] + 1)
    return found


def draw_rooms() -> Picture:
    """The rooms of the package; an arrow leads to a room that is used."""
    shown = rooms((FOLDER / "architecture.md").read_text())
    level = levels(shown["arrows"])
    rows: dict[int, list[str]] = {}
    for name in sorted(level, key=lambda one: level[one]):
        rows.setdefault(level[name], []).append(name)
    width, step, height = 5.4, 0.82, 0.5
    figure, axes = sheet(width, 0.2 + step * len(rows))
    at: dict[str, tuple[float, float]] = {}
    for number, names in sorted(rows.items()):
        share = (width - 0.2) / len(names)
        for place, name in enumerate(names):
            wide = min(share - 0.15, 2.9)
            x = 0.1 + share * (place + 0.5)
            y = 0.1 + step * number
            at[name] = x, y
            colour = PALE_BLUE if number < 3 else PALE_GREEN if number < 7 else PALE_ORANGE
            box(axes, x - wide / 2, y, wide, "", colour, height=height)
            label(axes, x, y + 0.15, name, ha="center", weight="bold", color=INK)
            label(axes, x, y + 0.35, shown["holds"].get(name, ""), ha="center", fontsize=7.5)
    for above, below in shown["arrows"]:
        (x, y), (to_x, to_y) = at[above], at[below]
        skips = level[below] - level[above] > 1
        bend = 0.0 if not skips else 0.3 if x <= width / 2 else -0.3
        arrow(axes, (x, y + height), (to_x, to_y), bend)
    return figure, shown


# A column ---------------------------------------------------------------------------------------------------------

#: Rows of the column that is shown.
ROWS = ("carefully final requests", "final deposits", None, "quickly final accounts sleep", "special requests")


def column() -> cudf_fsst.CompressedColumn:
    """The rows, again and again, compressed."""
    return pd.Series(list(ROWS) * 40, name="comment").fsst.compress(tile_size=128)


def parsed(text: bytes, symbols: tuple[bytes, ...]) -> list[bytes]:
    """The parse of level `max`: the fewest codes."""
    best: list[tuple[int, bytes]] = [(0, b"")] * (len(text) + 1)
    for place in range(len(text) - 1, -1, -1):
        found = [one for one in symbols if text.startswith(one, place)]
        best[place] = min(
            [(1 + best[place + len(one)][0], one) for one in found]
            or [(2 + best[place + 1][0], text[place : place + 1])]
        )
    steps, place = [], 0
    while place < len(text):
        steps.append(best[place][1])
        place += len(best[place][1])
    return steps


def code_of(symbol: bytes, symbols: tuple[bytes, ...]) -> str:
    """The code of a symbol; a byte that is none is escaped."""
    return str(symbols.index(symbol)) if symbol in symbols else "255+"


def visible(symbol: bytes) -> str:
    """A symbol as text, with its spaces to be seen."""
    return symbol.decode().replace(" ", "\u2423")


def draw_symbols() -> Picture:
    """A text, cut into symbols of a table, and the code of each."""
    symbols = cudf_fsst.train(pd.Series(list(ROWS) * 40), level="max").symbols
    shown = []
    figure, axes = sheet(5.2, 2.9)
    for line, text in enumerate((ROWS[0], ROWS[3])):
        steps = parsed(text.encode(), symbols)
        y = 0.15 + 1.4 * line
        nbytes = sum(1 if symbol in symbols else 2 for symbol in steps)
        label(axes, 0.1, y + 0.1, f"{len(text)} characters become {nbytes} bytes of codes:")
        x, letter = 0.1, 0.112
        for number, symbol in enumerate(steps):
            width = max(0.34, letter * len(symbol) + 0.06)
            colour = (PALE_ORANGE, PALE_BLUE)[number % 2]
            box(axes, x, y + 0.3, width, visible(symbol), colour, family="DejaVu Sans Mono")
            arrow(axes, (x + width / 2, y + 0.6), (x + width / 2, y + 0.84))
            box(axes, x, y + 0.86, width, code_of(symbol, symbols), PALE_GREY, fontsize=8)
            x += width + 0.03
        shown.append({"text": text, "symbols": [visible(one) for one in steps], "codes": nbytes})
    return figure, shown


def draw_tiles() -> Picture:
    """Rows end anywhere in tiles; a tile's codes are as long as they need to be."""
    compressed = column()
    (segment,) = compressed.segments
    lengths = [len(row or "") for row in ROWS] * 40
    tile, count = 128, 4
    figure, axes = sheet(5.2, 3.1)
    scale = 4.9 / (tile * count)
    label(axes, 0.1, 0.2, "rows: any length, a missing one has none")
    x = row = 0
    while x < tile * count:
        width = min(lengths[row], tile * count - x)
        box(axes, 0.1 + x * scale, 0.35, width * scale, "", (PALE_BLUE, PALE_GREEN)[row % 2])
        x, row = x + width, row + 1
    label(axes, 0.1, 0.95, "tiles: here 128 bytes each, wherever rows end")
    codes = [1 + int(one) for one in segment.section("tile_lengths")[:count]]
    for number in range(count):
        left = 0.1 + number * tile * scale
        box(axes, left, 1.1, tile * scale, f"tile {number}", PALE_ORANGE)
        arrow(axes, (left + tile * scale / 2, 1.42), (left + tile * scale / 2, 1.88))
    label(axes, 0.1, 2.5, "codes: each tile is encoded, and decoded, by a GPU thread of its own")
    for number, nbytes in enumerate(codes):
        left = 0.1 + number * tile * scale
        box(axes, left, 1.95, max(nbytes * scale, 0.5), f"{nbytes} B", PALE_GREY, fontsize=8)
    label(axes, 0.1, 2.8, "row lengths, null mask and symbol table are kept beside them")
    return figure, {"tile": tile, "codes": codes, "rows": lengths[:row]}


def draw_row() -> Picture:
    """From a row's number to the tile that has it."""
    figure, axes = sheet(5.2, 3.3)
    steps = (
        ("row 1000", "the number that you ask for", PALE_BLUE),
        ("block 3", "of 256 rows: 1000 // 256", PALE_GREEN),
        ("row_starts[3]", "where the block's characters start", PALE_GREEN),
        ("+ 232 lengths", "packed in a few bits each, summed", PALE_GREEN),
        ("character 31,744", "where the row starts", PALE_BLUE),
        ("tile 124", "31,744 // 256: the one to decode", PALE_ORANGE),
    )
    for number, (text, note, colour) in enumerate(steps):
        y = 0.15 + 0.52 * number
        box(axes, 0.1, y, 1.75, text, colour, weight="bold")
        label(axes, 2.0, y + 0.14, note)
        if number:
            arrow(axes, (0.97, y - 0.22), (0.97, y))
    return figure, [list(step[:2]) for step in steps]


DRAWINGS: dict[str, Callable[[], Picture]] = {
    "rooms": draw_rooms,
    "symbols": draw_symbols,
    "tiles": draw_tiles,
    "row": draw_row,
}


def draw(folder: Path = PICTURES) -> list[Path]:
    """Draw all of them."""
    paths = []
    for name, drawing in DRAWINGS.items():
        with matplotlib.rc_context(STYLE):
            figure, shown = drawing()
            described = {"Title": drawing.__doc__, "Description": json.dumps(shown), "Date": None, "Creator": None}
            paths.append(folder / f"{name}.svg")
            figure.savefig(paths[-1], format="svg", metadata=described)
    return paths


if __name__ == "__main__":
    for path in draw():
        print(path)
