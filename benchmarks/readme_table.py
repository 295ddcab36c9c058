"""Write the README's tables of measured numbers from benchmarks/results/*.json: python benchmarks/readme_table.py.

That of real text stands in docs/compress.md, too.

The README holds no number of its own: what stands between the markers is exactly what `render` makes of the newest
results that a GPU produced, and `render_real_text` of those of real text; a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
PAGE = ROOT / "docs" / "compress.md"
BEGIN = "<!-- measured: benchmarks/readme_table.py writes what stands between these markers -->"
BEGIN_REAL = "<!-- measured: real text, by benchmarks/readme_table.py -->"
END = "<!-- measured: end -->"

#: What of the results the table shows: beginnings of datasets; codecs, all but the first on the first dataset only.
DATASETS = ("tpch.",)
CODECS = ("cudf_fsst", "nvcomp.lz4", "nvcomp.zstd", "nvcomp.ans", "nvcomp.bitcomp")
#: Measure -> the table's heading, how to print it.
COLUMNS = {
    "ratio_column": ("ratio", "{:.2f}"),
    "compress_call_gbps": ("compress, GB/s", "{:,.0f}"),
    "decompress_call_gbps": ("decompress, GB/s", "{:,.0f}"),
}
NAMES = {"lz4": "LZ4", "zstd": "Zstd", "ans": "ANS", "bitcomp": "Bitcomp"}


def newest(folder: Path = RESULTS) -> tuple[str, dict[str, Any]] | None:
    """The newest results of the column benchmark that name a GPU: file name and content."""
    found = []
    for path in sorted(folder.glob("*.json")):
        content = json.loads(path.read_text())
        measures = {record.get("measure") for record in content.get("records", ())}
        if content.get("machine", {}).get("gpu") and "decompress_call_gbps" in measures:
            found.append((content["date"], path.name, content))
    return max(found)[1:] if found else None


def render(results: tuple[str, dict[str, Any]] | None) -> str:
    """Markdown of the results."""
    if results is None:
        return "Not measured yet."
    name, content = results
    values: dict[str, dict[str, dict[str, float]]] = {}
    for record in content["records"]:
        if record.get("level", "default") == "default" and not {"stage", "sweep"} & record.keys():
            row = values.setdefault(record["dataset"], {}).setdefault(record["codec"], {})
            row.setdefault(record["measure"], record["value"])
    shown = [dataset for dataset in values if dataset.startswith(DATASETS)]
    machine = content["machine"]
    versions = ", ".join(f"{key} {machine[key]}" for key in ("driver", "cuda", "python") if machine.get(key))
    lines = [
        f"One **{machine['gpu']}** ({versions}), {content['date'][:10]}: [all results](benchmarks/results/{name}).",
        "GB/s count characters, in whole calls on columns in GPU memory. All are compressed by `fsst`.",
        "Strings that repeat, as `l_shipinstruct`, get a dictionary by themselves, and are",
        "[smaller still](docs/codecs.md#how-well-does-each-column-of-a-real-table-do).",
        "",
        "| TPC-H column | " + " | ".join(heading for heading, _ in COLUMNS.values()) + " |",
        "|---|" + "--:|" * len(COLUMNS),
    ]
    for dataset in shown:
        for codec in CODECS if dataset == shown[0] else CODECS[:1]:
            if codec in values[dataset]:
                measured = values[dataset][codec]
                label = f"`{dataset.split('.')[1]}`"
                if codec != "cudf_fsst":
                    label += f", nvCOMP {NAMES[codec.partition('.')[2]]} in the same run"
                cells = [form.format(measured[key]) if key in measured else "" for key, (_, form) in COLUMNS.items()]
                lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def real_text(folder: Path = RESULTS) -> dict[str, Any]:
    """Results of bench_real_text.py."""
    return json.loads((folder / "real_text.json").read_text())


def nbytes_of(content: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Dataset -> codec -> bytes."""
    found: dict[str, dict[str, float]] = {}
    for record in content["records"]:
        if record["measure"] == "nbytes":
            found.setdefault(record["dataset"], {})[record["codec"]] = record["value"]
    return found


def times_of(content: dict[str, Any]) -> dict[str, list[dict[str, float]]]:
    """Question -> for each dataset that is asked, codec -> milliseconds."""
    found: dict[str, dict[str, dict[str, float]]] = {}
    for record in content["records"]:
        if record["measure"] == "ms":
            by_dataset = found.setdefault(record["question"], {})
            by_dataset.setdefault(record["dataset"], {})[record["codec"]] = record["value"]
    return {question: list(by_dataset.values()) for question, by_dataset in found.items()}


def span(values: list[float]) -> str:
    """The smallest and the largest, with two digits that count."""
    low, high = (f"{value:.2g}" for value in (min(values), max(values)))
    return low if low == high else f"{low} to {high}"


def render_real_text(content: dict[str, Any]) -> str:
    """Markdown of what real text takes, and what a machine without a GPU gets."""
    rows = {one["dataset"]: one["rows"] for one in content["records"]}
    found = nbytes_of(content)
    packages = ", ".join(f"{name} {content['machine']['versions'][name]}" for name in ("pandas", "pyarrow"))
    lines = [
        "Text that comes with Python and its packages, in MB "
        f"({packages}, {content['date']}: [all results](benchmarks/results/real_text.json)).",
        "*pandas* is its `str` dtype in memory, *category* the same as categories, *ratio* Arrow's bytes / ours:",
        "",
        "| text | rows | pandas | category | cudf-fsst | ratio | Parquet, Zstd |",
        "|---|--:|--:|--:|--:|--:|--:|",
    ]
    for name, sizes in found.items():
        plain, category, ours, file = (
            f"{sizes[codec] / 1e6:.2f}" for codec in ("pandas", "pandas.category", "cudf_fsst.cpu", "parquet.zstd")
        )
        ratio = sizes["arrow"] / sizes["cudf_fsst.cpu"]
        lines.append(f"| {name} | {rows[name]:,} | {plain} | {category} | {ours} | {ratio:.2f} | {file} |")
    larger = span([one["cudf_fsst.cpu"] / one["parquet.zstd"] for one in found.values()])
    times = times_of(content)

    def beside(other: str) -> str:
        shares = (span([one["cudf_fsst.cpu"] / one[other] for one in each]) for each in times.values())
        return " | ".join(shares)

    ours = [one["value"] for one in content["records"] if (one["measure"], one["codec"]) == ("ms", "cudf_fsst.cpu")]
    return "\n".join(
        [
            *lines,
            "",
            f"**Parquet is the better file**: our columns take {larger} times the bytes of one with Zstd. "
            "They are for text in memory that is read and asked.",
            f"**Without a GPU** a question takes {span(ours)} ms here ([all](docs/questions.md#in-host-memory)). "
            "Our time / theirs, one thread; below 1 ours is faster:",
            "",
            f"| our time / theirs | {' | '.join(times)} |",
            f"|---|{'--:|' * len(times)}",
            f"| pandas | {beside('pandas')} |",
            f"| Polars | {beside('polars')} |",
        ]
    )


def measured_part(readme: str, begin: str = BEGIN) -> str:
    """What stands between the markers."""
    return readme.split(begin)[1].split(END)[0].strip()


def written(readme: str, begin: str, text: str) -> str:
    """The README with another measured part."""
    before, rest = readme.split(begin)
    return f"{before}{begin}\n{text}\n{END}{rest.split(END, 1)[1]}"


def of_page(text: str) -> str:
    """What stands in the README as a page of docs/ has it."""
    return text.replace("](benchmarks/", "](../benchmarks/").replace("](docs/", "](")


def main() -> None:
    """Rewrite the measured parts."""
    text = render_real_text(real_text())
    readme = written(README.read_text(), BEGIN, render(newest()))
    README.write_text(written(readme, BEGIN_REAL, text))
    PAGE.write_text(written(PAGE.read_text(), BEGIN_REAL, of_page(text)))


if __name__ == "__main__":
    main()
