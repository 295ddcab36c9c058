"""Write docs/questions.md's tables, and its pictures: python benchmarks/query_page.py.

They are made of benchmarks/results/query.json, query_cpu.json, real_text.json and tpch.json; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import matplotlib
from measured import DATASET
from plots import BLUE, GREY, ORANGE, PALE_BLUE, PICTURES, STYLE, Picture, new_figure, put_heading
from spill_page import END, RESULTS, ROOT, provenance, read, table

PAGE = ROOT / "docs" / "questions.md"

#: Measure of query.json -> what it is called.
MEASURES = {
    "contains_gbps": "contains",
    "contains_dense_gbps": "contains",
    "like_gbps": "like",
    "equals_gbps": "== value",
    "isin_gbps": "isin",
    "startswith_gbps": "startswith",
    "endswith_gbps": "endswith",
    "len_gbps": "len",
    "regex_gbps": "contains, a regular expression",
    "contains_nocase_gbps": "contains, case=False",
    "like_any_gbps": "like",
    "less_gbps": "<",
    "between_gbps": "between",
    "byte_count_gbps": "byte_count",
    "upper_gbps": "upper",
    "map_chunks_upper_gbps": "map_chunks, upper",
    "map_chunks_contains_gbps": "map_chunks, contains",
}
#: Inches of a picture, which a phone shows whole.
WIDTH = 5.4
#: What is shown of the TPC-H queries: measure, heading, unit.
SHARES = (
    ("seconds", "time", 1e-3, "ms"),
    ("resident_bytes", "GPU memory of the frames", 1e9, "GB"),
    ("peak_bytes", "GPU memory at the peak", 1e9, "GB"),
)


def asked(record: dict[str, Any]) -> str:
    """A question in words."""
    name = MEASURES[record["measure"]]
    if "pattern" in record:
        shown = "".join(char if char.isprintable() else repr(char)[1:-1] for char in record["pattern"])
        return f"{name} `{shown}`".replace("|", "\\|")  # which would end a cell of a table
    return f"{name}, {record['values']} values" if "values" in record else name


def pairs(content: dict[str, Any]) -> dict[str, dict[str, dict[str, dict[str, Any]]]]:
    """Dataset -> question -> codec -> record, of rates."""
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for record in content["records"]:
        if record["measure"] in MEASURES:
            found.setdefault(record["dataset"], {}).setdefault(asked(record), {})[record["codec"]] = record
    return found


def rows_found(record: dict[str, Any]) -> str:
    """The share of rows for which the answer is true."""
    return f"{record['found'] / record['rows']:.2%}" if "found" in record else ""


def questions(folder: Path = RESULTS) -> str:
    """All questions of the compared column."""
    content = read("query", folder)
    if content is None:
        return "Not measured yet."
    lines = []
    for question, codecs in pairs(content)[DATASET].items():
        ours, plain = codecs["cudf_fsst"], codecs["cudf"]
        times = ours["value"] / plain["value"]
        lines.append([question, rows_found(ours), f"{ours['value']:,.0f}", f"{plain['value']:,.0f}", f"{times:.2g}"])
    head = ["question", "rows found", "compressed, GB/s", "cuDF, plain column, GB/s", "times as fast"]
    notes = dict.fromkeys(one["note"] for one in content["parts"].values() if "note" in one)
    return "\n\n".join([table(head, lines), *notes, provenance("query", content)])


def faster(folder: Path = RESULTS) -> str:
    """How often each kind of question is faster than cuDF on the plain column."""
    content = read("query", folder)
    if content is None:
        return "Not measured yet."
    kinds: dict[str, list[bool]] = {}
    for found in pairs(content).values():
        for codecs in found.values():
            ours = codecs["cudf_fsst"]
            kinds.setdefault(MEASURES[ours["measure"]], []).append(ours["value"] > codecs["cudf"]["value"])
    asked = sorted(
        ((kind, won) for kind, won in kinds.items() if kind.split(",")[0] not in ("upper", "map_chunks")),
        key=lambda one: -sum(one[1]) / len(one[1]),
    )
    said = ", ".join(f"`{kind.removesuffix(' value')}` {sum(won)} of {len(won)}" for kind, won in asked)
    return (
        "Mostly; ends of strings take about as long, and `<` longer. This is how many of the measured questions were "
        f"faster than cuDF on the plain column: {said}."
    )


def columns(folder: Path = RESULTS) -> str:
    """The same of other columns."""
    content = read("query", folder)
    if content is None:
        return "Not measured yet."
    lines = []
    for dataset, found in pairs(content).items():
        if dataset != DATASET:
            for question, codecs in found.items():
                ours, plain = codecs["cudf_fsst"]["value"], codecs["cudf"]["value"]
                name = dataset.partition(".")[2]
                lines.append([name, question, f"{ours:,.0f}", f"{plain:,.0f}", f"{ours / plain:.2g}"])
    return table(["column", "question", "compressed, GB/s", "cuDF, plain column, GB/s", "times as fast"], lines)


def sizes(folder: Path = RESULTS) -> str:
    """Milliseconds of small columns, and of a filter on two columns."""
    content = read("query", folder)
    if content is None:
        return "Not measured yet."
    found: dict[tuple[str, int], dict[str, float]] = {}
    for record in content["records"]:
        if record["measure"].endswith("_ms"):
            found.setdefault((record["measure"], record["bytes"]), {})[record["codec"]] = record["value"]
    names = {
        "contains_ms": "contains",
        "equals_ms": "== value",
        "filter_sum_ms": "filter on two columns, sum of a third",
    }
    lines = [
        [names[measure], f"{nbytes / 1e6:,.0f}", f"{one['cudf_fsst']:.2f}", f"{one['cudf']:.2f}"]
        for (measure, nbytes), one in found.items()
    ]
    return table(["question", "MB", "compressed, ms", "cuDF, plain, ms"], lines)


def cpu(folder: Path = RESULTS) -> str:
    """Questions in host memory, beside pyarrow's, by the number of threads."""
    content = read("query_cpu", folder)
    if content is None:
        return "Not measured yet."
    found: dict[tuple[str, str], dict[int, dict[str, float]]] = {}
    for record in content["records"]:
        by_threads = found.setdefault((record["dataset"].split(".")[1], asked(record)), {})
        by_threads.setdefault(record["threads"], {})[record["codec"]] = record["value"]
    counts = sorted({record["threads"] for record in content["records"]})
    head = ["column", "question"]
    for count in counts:
        threads = "1 thread" if count == 1 else f"{count} threads"
        head += [f"compressed, {threads}, GB/s", f"pyarrow, {threads}", "times as fast"]
    lines = []
    for names, by_threads in found.items():
        cells = []
        for count in counts:
            ours, plain = by_threads[count]["cudf_fsst.cpu"], by_threads[count]["pyarrow"]
            cells += [f"{ours:.2f}", f"{plain:.2f}", f"{ours / plain:.2g}"]
        lines.append([*names, *cells])
    machine = content["machine"]
    source = f"[`query_cpu.json`](RESULTS/query_cpu.json), `{content['command']}`."
    return "\n\n".join([table(head, lines), f"{machine['cpu']}, {content['date']}: {source}"])


def real_text(folder: Path = RESULTS) -> str:
    """Questions of real text in host memory, beside pandas' and Polars'."""
    content = read("real_text", folder)
    if content is None:
        return "Not measured yet."
    found: dict[tuple[str, str], dict[str, float]] = {}
    for record in content["records"]:
        if record["measure"] == "ms":
            found.setdefault((record["dataset"], record["question"]), {})[record["codec"]] = record["value"]
    lines = [
        [*names, *(f"{one[codec]:,.2f}" for codec in ("cudf_fsst.cpu", "pandas", "polars"))]
        for names, one in found.items()
    ]
    machine = content["machine"]
    source = f"[`real_text.json`](RESULTS/real_text.json), `{content['command']}`."
    head = ["column", "question", "compressed, ms", "pandas", "Polars"]
    return "\n\n".join([table(head, lines), f"{machine['cpu']}, {content['date']}: {source}"])


def queries(content: dict[str, Any]) -> dict[str, dict[str, dict[str, float]]]:
    """Query -> codec -> measure -> value."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for record in content["records"]:
        found.setdefault(record["query"], {}).setdefault(record["codec"], {})[record["measure"]] = record["value"]
        if "limit_bytes" in record:
            found[record["query"]][record["codec"]]["limit_bytes"] = record["limit_bytes"]
    return found


def within(seconds: float) -> str:
    return f"{1e3 * seconds:,.1f}" if seconds else "out of memory"


def tpch(folder: Path = RESULTS) -> str:
    """The queries, both ways."""
    content = read("tpch", folder)
    if content is None:
        return "Not measured yet."
    lines = []
    for query, codecs in queries(content).items():
        ours, plain = codecs["cudf_fsst"], codecs["cudf"]
        cells = [f"{one['seconds'] * 1e3:,.1f}" for one in (plain, ours)]
        for measure in ("resident_bytes", "peak_bytes"):
            cells += [f"{one[measure] / 1e9:,.2f}" for one in (plain, ours)]
        lines.append([query.upper(), *cells, *(within(one["limited_seconds"]) for one in (plain, ours))])
    head = ["", "plain, ms", "compressed, ms", "plain, resident GB", "compressed", "plain, peak GB", "compressed"]
    head += ["plain, half the memory, ms", "compressed, the same memory, ms"]
    return "\n\n".join([table(head, lines), provenance("tpch", content)])


def draw_questions(content: dict[str, Any]) -> Picture:
    """Questions of a compressed column beside cuDF's of the plain one."""
    found = pairs(content)[DATASET]
    names = list(reversed(found))
    figure = new_figure(WIDTH, 1.15 + 0.36 * len(names))
    height = figure.get_figheight()
    marks = [(ORANGE, "\u25a0 compressed column"), (BLUE, "\u25a0 cuDF, plain column")]
    put_heading(figure, f"GB/s of characters, TPC-H l_comment, one {content['machine']['gpu']}", marks)
    axes = figure.add_axes((0.38, 0.5 / height, 0.59, (height - 1.15) / height))
    for y, name in enumerate(names):
        for place, codec, colour in ((y + 0.19, "cudf_fsst", ORANGE), (y - 0.19, "cudf", PALE_BLUE)):
            value = found[name][codec]["value"]
            axes.barh(place, value, 0.36, color=colour)
            axes.text(value, place, f" {value:,.0f}", va="center", fontsize=8, color=GREY)
    axes.set_yticks(range(len(names)), [name.replace("`", "'") for name in names])
    axes.tick_params(axis="y", length=0)
    axes.set_ylim(-0.6, len(names) - 0.4)
    axes.margins(x=0.17)
    axes.set_xlabel("GB/s")
    values = {name: {codec: one["value"] for codec, one in codecs.items()} for name, codecs in found.items()}
    return figure, values


def draw_tpch(content: dict[str, Any]) -> Picture:
    """TPC-H's questions about text: time and memory of compressed frames, as shares of plain cuDF's."""
    found = queries(content)
    names = list(reversed(found))
    bars = 0.24 * len(names)
    figure = new_figure(WIDTH, 0.95 + len(SHARES) * (bars + 0.42))
    height = figure.get_figheight()
    marks = [(ORANGE, "\u25a0 compressed frames"), (GREY, "| plain frames = 1")]
    put_heading(figure, f"TPC-H's questions about text, one {content['machine']['gpu']}", marks)
    for i, (measure, title, scale, unit) in enumerate(SHARES):
        bottom = 0.35 + (len(SHARES) - 1 - i) * (bars + 0.42)
        axes = figure.add_axes((0.09, bottom / height, 0.88, bars / height))
        for y, name in enumerate(names):
            ours, plain = (found[name][codec][measure] for codec in ("cudf_fsst", "cudf"))
            share = ours / plain
            axes.barh(y, share, 0.7, color=ORANGE)
            label = f"{ours / scale:,.2g} of {plain / scale:,.2g} {unit}"
            axes.text(max(share, 1) + 0.04, y, label, va="center", fontsize=8.5, color=GREY)  # right of the line
        axes.axvline(1, color=GREY, linewidth=1)
        axes.set_xlim(0, 1.8)
        axes.set_xticks([0, 0.5, 1, 1.5], [] if i < len(SHARES) - 1 else None)
        axes.set_ylim(-0.6, len(names) - 0.4)
        axes.set_title(title)
        axes.tick_params(axis="y", length=0)
        axes.set_yticks(range(len(names)), [name.upper() for name in names])
    return figure, found


PARTS = {
    "faster": faster,
    "questions": questions,
    "columns": columns,
    "sizes": sizes,
    "cpu": cpu,
    "real_text": real_text,
    "tpch": tpch,
}
DRAWINGS = {"questions": ("query", draw_questions), "tpch": ("tpch", draw_tpch)}


def marker(part: str) -> str:
    return f"<!-- measured: {part}, by benchmarks/query_page.py -->"


def written(text: str, folder: Path = RESULTS) -> str:
    """The page with its measured parts as they should be."""
    for part, make in PARTS.items():
        made = make(folder).replace("RESULTS/", "../benchmarks/results/")
        before, rest = text.split(marker(part))
        text = f"{before}{marker(part)}\n{made}\n{END}{rest.split(END, 1)[1]}"
    return text


def draw(results: Path = RESULTS, folder: Path = PICTURES) -> list[Path]:
    """Draw the pictures whose results are there."""
    paths = []
    for name, (file, drawing) in DRAWINGS.items():
        content = read(file, results)
        if content is None:
            continue
        with matplotlib.rc_context(STYLE):
            figure, shown = drawing(content)
            described = {"Title": drawing.__doc__, "Description": json.dumps(shown), "Date": None, "Creator": None}
            paths.append(folder / f"{name}.svg")
            figure.savefig(paths[-1], format="svg", metadata=described)
    return paths


if __name__ == "__main__":
    PAGE.write_text(written(PAGE.read_text()))
    for path in draw():
        print(path)
