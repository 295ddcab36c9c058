"""Write the README's table of measured numbers from benchmarks/results/*.json: python benchmarks/readme_table.py.

The README holds no number of its own: the text between the two markers is exactly what `render` makes of the newest
results that a GPU produced, and a test compares them.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
README = ROOT / "README.md"
BEGIN = "<!-- measured: benchmarks/readme_table.py writes what stands between these markers -->"
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


def measured_part(readme: str) -> str:
    """What stands between the markers."""
    return readme.split(BEGIN)[1].split(END)[0].strip()


def main() -> None:
    """Rewrite the README's measured part."""
    readme = README.read_text()
    before, rest = readme.split(BEGIN)
    after = rest.split(END, 1)[1]
    README.write_text(f"{before}{BEGIN}\n{render(newest())}\n{END}{after}")


if __name__ == "__main__":
    main()
