"""Write the tables of docs/spilling.md, codecs.md, parquet.md and engines.md: python benchmarks/spill_page.py.

They are made of spill.json, spill_job.json, dask.json, codecs.json, ratios.json, parquet.json and pdsh.json in
benchmarks/results; a test compares them.
"""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS = ROOT / "benchmarks" / "results"
END = "<!-- measured: end -->"
#: Codecs and columns of codecs.json in words.
_PARAMETERS = ("dim", "symbol", "window", "chunk")


LINEITEM_COLUMNS = 16


def read(name: str, folder: Path = RESULTS) -> dict[str, Any] | None:
    """A results file, if it is there."""
    path = folder / f"{name}.json"
    return json.loads(path.read_text()) if path.exists() else None


def provenance(name: str, content: dict[str, Any]) -> str:
    machine = content["machine"]
    gpus = machine.get("gpus", 1)
    host = f"driver {machine['driver']}, {machine['cpu_cores']} CPU cores"
    return (
        f"{'One' if gpus == 1 else gpus} {machine['gpu']} ({host}), {content['date']}: "
        f"[`{name}.json`](RESULTS/{name}.json), `{content['command']}`.{content.get('note', '')}"
    )


def table(head: list[str], lines: list[list[str]]) -> str:
    rows = ["| " + " | ".join(cells) + " |" for cells in (head, *lines)]
    return "\n".join([rows[0], "|---" + "|--:" * (len(head) - 1) + "|", *rows[1:]])


def spill(folder: Path = RESULTS) -> str:
    """What leaves the GPU and comes back."""
    content = read("spill", folder)
    if content is None:
        return "Not measured yet."
    found: dict[str, dict[str, float]] = {}
    for record in content["records"]:
        found.setdefault(record["dataset"], {})[record["measure"]] = record["value"]
    whole = [(name, one) for name, one in found.items() if "to_host_gbps" in one]
    measures = {
        "to pinned host memory, compressed on the way": "to_host_gbps",
        "plain pinned copy": "plain_to_host_gbps",
        "back to cuDF": "to_cudf_gbps",
        "plain pinned copy back": "plain_to_device_gbps",
        "compressed in place": "compress_gbps",
        "decompressed": "decompress_gbps",
    }
    lines = [[label, *(f"{one[measure]:,.0f}" for _, one in whole)] for label, measure in measures.items()]
    lines.append(["GPU memory freed by compressing", *(f"{one['memory_freed']:.0%}" for _, one in whole)])
    lines.append(
        ["out and back, times as fast as plain", *(f"{one['round_trip_against_plain']:.2f}" for _, one in whole)]
    )
    own = [f"{found[whole[0][0]][measure]:.1f}" for measure in ("host_serialize_gbps", "host_deserialize_gbps")]
    note = (
        "GB/s of characters for the column, of cuDF's buffers for the table. cuDF's `host_serialize` and "
        f"`host_deserialize`, which dask-cuda spills with: {' and '.join(own)}."
    )
    return "\n\n".join([table(["", *(name for name, _ in whole)], lines), note, provenance("spill", content)])


def job(folder: Path = RESULTS) -> str:
    """The job over more data than there is memory for, and Dask."""
    parts = []
    content = read("spill_job", folder)
    if content is not None:
        ways = {record["way"]: record for record in content["records"] if "way" in record}
        [speedup] = [record["value"] for record in content["records"] if record.get("measure") == "pool_speedup"]
        lines = [
            [label, f"{one['load_seconds']:.2f}", *(f"{seconds:.2f}" for seconds in one["seconds"])]
            for label, one in (("`SpillPool`", ways["pool"]), ("cuDF spilling on demand", ways["cudf"]))
        ]
        passes = [f"pass {i + 1}, s" for i in range(len(ways["pool"]["seconds"]))]
        nbytes, limit = (f"{ways['pool'][key] / 1e9:.1f} GB" for key in ("bytes", "limit"))
        parts.append(
            f"A group-by and join job over {nbytes} of lineitem with {limit} of GPU memory: the passes take "
            f"`SpillPool` 1/{speedup:.1f} of the time that cuDF's own spilling takes."
        )
        parts += [table(["", "load, s", *passes], lines), provenance("spill_job", content)]
    content = read("dask", folder)
    if content is not None:
        medians = [one for one in content["records"] if "label" in one]
        if len(medians) != 2:
            raise ValueError("dask.json has no rounds behind the first")
        plain, ours = ([one[key] for key in ("seconds", "spilled_nbytes")] for one in medians)
        nbytes, limit = (f"{content['records'][0][key] / 1e9:.1f} GB" for key in ("bytes", "limit"))
        parts.append(
            f"The same job with dask-cuda on {medians[0]['workers']} GPUs, {nbytes} with a limit of {limit} a GPU: "
            f"`cudf_fsst.dask.enable()` makes its passes {plain[0] / ours[0]:.1f} times as fast, and "
            f"1/{plain[1] / ours[1]:.1f} of the bytes are spilled, loading included."
        )
        lines = [
            [
                one["label"],
                *(f"{one[key]:.1f}" for key in ("load_seconds", "seconds")),
                f"{one['spilled_nbytes'] / 1e9:.1f}",
            ]
            for one in medians
        ]
        head = ["", "load, s", f"{content['records'][0]['passes']} passes, s", "spilled, GB"]
        parts += [table(head, lines), cost_of_a_column(content["records"]), provenance("dask", content)]
    return "\n\n".join(parts) if parts else "Not measured yet."


def cost_of_a_column(records: list[dict[str, Any]]) -> str:
    """What moving a column costs each way, of those of bench_dask.py, and what a MB costs without us."""
    warm = {one["way"]: one["spilled"] for one in records if one.get("round")}  # the last round's
    objects, plain = warm["compressed"], warm["plain"]
    cost = {how: objects[how][1] / objects[how][0] / LINEITEM_COLUMNS for how in ("out", "back")}
    rate = {how: plain[how][1] / plain[how][2] for how in ("out", "back")}
    nbytes = objects["out"][2] / objects["out"][0] / LINEITEM_COLUMNS
    even = sum(cost.values()) / sum(rate.values())
    return (
        f"A column of {nbytes / 1e6:.0f} MB, one of {LINEITEM_COLUMNS}, took {cost['out'] * 1e3:.1f} ms out of the GPU "
        f"and {cost['back'] * 1e3:.1f} ms back, most of it launches and Python, which smaller ones need as well; plain "
        f"dask-cuda took {rate['out'] * 1e9:.2f} and {rate['back'] * 1e9:.2f} ms a MB. So columns of less than about "
        f"{even / 1e6:.1f} MB should move faster without compression."
    )


def columns(folder: Path = RESULTS) -> str:
    """Every column of lineitem."""
    content = read("spill", folder)
    if content is None:
        return "Not measured yet."
    found: dict[str, dict[str, Any]] = {}
    for record in content["records"]:
        if "codec" in record:
            column = found.setdefault(record["dataset"].rpartition(".")[2], {"codec": record["codec"]})
            column[record["measure"]] = record["value"]
    forms = {"ratio": "{:.2f}", "compress_gbps": "{:,.0f}", "decompress_gbps": "{:,.0f}"}
    lines = [
        [f"`{name}`", one["codec"], *(form.format(one[measure]) for measure, form in forms.items())]
        for name, one in found.items()
    ]
    return table(["column", "codec", "ratio", "compress, GB/s", "decompress, GB/s"], lines)


def codecs(folder: Path = RESULTS) -> str:
    """The codecs of fixed-width values beside their authors' programs."""
    content = read("codecs", folder)
    if content is None:
        return "Not measured yet."
    lines: dict[str, list[str]] = {}
    for record in content["records"]:
        options = ", ".join(f"{key} {record[key]}" for key in _PARAMETERS if key in record)
        key = f"{record['codec']} | {record['dataset']} {record['dtype']}{', ' if options else ''}{options}"
        form = "{:.2f}" if record["measure"] == "ratio" else "{:,.0f}"
        authors = f" ({record['authors']:,g})" if "authors" in record else ""
        lines.setdefault(key, []).append(form.format(record["value"]) + authors)
    rows = [[*key.split(" | "), *cells] for key, cells in lines.items()]
    text = table(["codec", "values (numbers: 268 MB)", "ratio", "compress, GB/s", "decompress, GB/s"], rows)
    return f"{text}\n\n{provenance('codecs', content)} In brackets the authors' programs, rebuilt, on an H200."


def ratios(folder: Path = RESULTS) -> str:
    """Relatives of FSST, on the CPU."""
    content = read("ratios", folder)
    if content is None:
        return "Not measured yet."
    found: dict[str, dict[str, float]] = {}
    for record in content["records"]:
        if record["measure"] == "ratio":
            found.setdefault(record["dataset"], {})[record["codec"]] = record["value"]
    heads = {
        "fsst": "`fsst`",
        "fsst_max": '`fsst`, level "max"',
        "onpair": "`onpair`",
        "max": 'level "max"',
        "fsst_plus": "shared prefixes",
        "onpair12": "OnPair, rows",
        "onpair12_tiles": "OnPair, tiles",
    }
    lines = [[f"`{name}`", *(f"{one[system]:.2f}" for system in heads)] for name, one in found.items()]
    means = [math.prod(one[system] for one in found.values()) ** (1 / len(found)) for system in heads]
    lines.append(["geometric mean", *(f"{mean:.2f}" for mean in means)])
    made = f"{content['date']}: [`ratios.json`](RESULTS/ratios.json), `{content['command']}`."
    return f"{table(['column', *heads.values()], lines)}\n\n{made}"


def parquet(folder: Path = RESULTS) -> str:
    """Reading into a compressed frame beside reading plain, and with little memory."""
    content = read("parquet", folder)
    if content is None:
        return "Not measured yet."
    found: dict[str, dict[str, dict[str, dict[str, Any]]]] = {}
    for record in content["records"]:
        found.setdefault(record["dataset"], {}).setdefault(record["codec"], {})[record["measure"]] = record
    readers = {"cudf_fsst": "`cudf_fsst.read_parquet`", "cudf": "`cudf.read_parquet`"}
    forms = {"read_parquet_gbps": (1, "{:.1f}"), "peak_bytes": (1e9, "{:.1f}"), "result_bytes": (1e9, "{:.1f}")}
    lines, limits = [], []
    for dataset, codecs in found.items():
        scale = dataset.split(".")[2].removeprefix("sf")
        for codec, name in readers.items():
            one = codecs.get(codec, {})
            if "read_parquet_gbps" in one:
                groups = f"{one['peak_bytes']['row_groups']:,} row groups, {name}"
                lines.append([groups, *(form.format(one[key]["value"] / unit) for key, (unit, form) in forms.items())])
            if "limited_query_seconds" in one:
                whole, query = (one[f"limited_{key}_seconds"] for key in ("read", "query"))
                times = f"{whole['value']:.2f} s, and with a text query {query['value']:.2f} s"
                memory = [
                    f"{one[key]['value'] / 1e9:.1f}" if whole["value"] and key in one else "" for key in list(forms)[1:]
                ]
                takes = times if whole["value"] else "fails"
                limits.append([scale, f"{whole['limit_bytes'] / 1e9:.1f}", name, takes, *memory])
    head = ["TPC-H's lineitem, scale factor 10", "GB/s, as Arrow counts", "most memory, GB", "what is left, GB"]
    short = ["scale factor", "GB of GPU memory", "reader", "takes", *head[2:]]
    tables = [table(head, lines), *([table(short, limits)] if limits else [])]
    return "\n\n".join([*tables, provenance("parquet", content)])


def pdsh(folder: Path = RESULTS) -> str:
    """The 22 queries by Polars' GPU engine, on compressed frames beside Parquet."""
    content = read("pdsh", folder)
    if content is None:
        return "Not measured yet."
    found: dict[tuple[str, str, str | None], float] = {}
    for record in content["records"]:
        found[record["codec"], record["measure"], record.get("query")] = record["value"]
    limit = next((record["limit_bytes"] for record in content["records"] if "limit_bytes" in record), 0)
    lines = []
    for query in dict.fromkeys(query for _, measure, query in found if measure == "seconds"):
        line = [str(query).upper()]
        for measure, unit, form in (("seconds", 1e-3, "{:.0f}"), ("peak_bytes", 1e9, "{:.1f}")):
            line += [form.format(found[codec, measure, query] / unit) for codec in ("cudf_fsst", "cudf_polars")]
        within = found.get(("cudf_fsst", "limited_seconds", query), 0)
        lines.append([*line, f"{within / 1e-3:.0f}" if within else "fails"])
    means = [found[codec, "geomean_seconds", None] / 1e-3 for codec in ("cudf_fsst", "cudf_polars")]
    lines.append(["geometric mean", *(f"{one:.0f}" for one in means), "", "", ""])
    head = ["TPC-H, scale factor 10", "frames, ms", "Parquet, ms", "most memory, GB", "of Parquet, GB"]
    resident, plain = found["cudf_fsst", "resident_bytes", "q1"] / 1e9, found["arrow", "plain_bytes", "q1"] / 1e9
    said = (
        f"The eight frames take {resident:.1f} GB of GPU memory, the plain tables {plain:.1f} GB. The frames take "
        f"{means[0] / means[1]:.2f} of the time. The most memory is that of all frames, and of the query. The last "
        f"column is one run in which all together may take {limit / 1e9:.1f} GB."
    )
    return "\n\n".join([said, table([*head, "within the limit, ms"], lines), provenance("pdsh", content)])


PARTS = {
    "pdsh": pdsh,
    "spill": spill,
    "job": job,
    "columns": columns,
    "codecs": codecs,
    "ratios": ratios,
    "parquet": parquet,
}
PAGES = {
    ROOT / "docs" / "spilling.md": ("spill", "job"),
    ROOT / "docs" / "codecs.md": ("columns", "codecs", "ratios"),
    ROOT / "docs" / "parquet.md": ("parquet",),
    ROOT / "docs" / "engines.md": ("pdsh",),
}


def marker(part: str) -> str:
    return f"<!-- measured: {part}, by benchmarks/spill_page.py -->"


def written(page: Path, text: str, folder: Path = RESULTS) -> str:
    """The page with its measured parts as they should be."""
    for part in PAGES[page]:
        before, rest = text.split(marker(part))
        after = rest.split(END, 1)[1]
        made = PARTS[part](folder).replace("RESULTS/", "../benchmarks/results/")
        text = f"{before}{marker(part)}\n{made}\n{END}{after}"
    return text


def main() -> None:
    """Rewrite the measured parts of the pages."""
    for page in PAGES:
        page.write_text(written(page, page.read_text()))


if __name__ == "__main__":
    main()
