"""Write the tables of docs/performance.md, and some of the README's, from benchmarks/results/*.json.

    python benchmarks/performance_page.py

The page holds no measured number of its own: what stands between a pair of markers is exactly what the function of that
name makes of the newest results, and a test compares them. What the results do not have is not mentioned.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measured import OURS, Results, name_of, read

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
README = ROOT / "README.md"
PART = re.compile(r"(<!-- measured: (?!end)(\w+) -->\n)(?:.*?\n)??(<!-- measured: end -->)", re.DOTALL)


def table(heading: str, rows: list[list[str]]) -> str:
    """Markdown; a column is set to the right unless there are letters in its first row."""
    lines = [heading, "|" + "|".join("---" if re.search("[a-zA-Z]", cell) else "--:" for cell in rows[0]) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def machine(results: Results) -> str:
    found = results.run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return (
        f"One {found['gpu']}, driver {found['driver']}, CUDA {found['cuda']}, Python {found['python']}, {versions}; "
        f"{results.run['date'][:10]}, by `{results.run['command']}`."
    )


def protocol(results: Results) -> str:
    """How the others were measured; runs of ours alone had nvCOMP beside them in a simpler way."""
    if not results.compared:
        return (
            "* memory comes from an RMM pool; the GPU's own copy rate is measured in the same run;\n"
            "* nvCOMP runs in the same process on the same characters, with its default chunks, timed by the same "
            "clock with fewer repetitions.\n\n"
            "Before a column is timed, it is decompressed and compared with the original."
        )
    return (
        "* memory comes from an RMM pool, nvCOMP's too; a call's peak is what `rmm.statistics` counts, in a call that "
        "is not timed. The GPU's own copy rate is measured in the same run;\n"
        "* nvCOMP and cuDF's own ways out run in the same process on the same column, timed by the same clock with "
        "fewer repetitions.\n\n"
        "Before a codec is timed, its result is decompressed and compared with the original."
    )


def stages(results: Results) -> str:
    chars = results.chars() / 1e6
    rows = []
    for call, parts in results.stages().items():
        whole, span = results.call_milliseconds(call)
        bold = {f"**`{call}()`**": whole, "its codec kernels, from the first's start to the last's end": span}
        for name, milliseconds in (bold | parts).items():
            rows.append([name, f"{milliseconds:.2f}", f"{chars / milliseconds:,.0f}"])
    return table("| call, kernel or stage | ms | GB/s of characters |", rows)


def latency(results: Results) -> str:
    found: dict[int, dict[str, float]] = {}
    for record in results.run["records"]:
        if record["codec"] == OURS and record["measure"].endswith("_latency_ms"):
            found.setdefault(record["bytes"], {})[record["measure"]] = record["value"]
    rows = [
        [f"{size / 1e6:,.0f} MB", *(f"{one[f'{call}_latency_ms']:.2f}" for call in ("compress", "decompress"))]
        for size, one in found.items()
    ]
    return table("| column | compress(), ms | decompress(), ms |", rows)


def floor(results: Results) -> str:
    ours, copy = results.ours(), results.copy_gbps()
    moved = 1 + 1 / ours["ratio_chars"]
    best = copy / moved
    rows = []
    for call, kernel in (("compress", "encode"), ("decompress", "decode")):
        rates = ours[f"{kernel}_kernel_gbps"], ours[f"{call}_call_gbps"]
        reached = [cell for rate in rates for cell in (f"{rate:,.0f}", f"{rate / best:.0%}")]
        rows.append([call, f"{moved:.2f}", f"{best:,.0f}", *reached])
    return "\n".join(
        [
            f"Copy rate: {copy:,.0f} GB/s, read and written; ratio of characters: {ours['ratio_chars']:.2f}.",
            "",
            table("| | bytes moved a character | GB/s at the copy rate | kernels | of that | call | of that |", rows),
        ]
    )


def anchors(results: Results) -> str:
    rows = []
    for codec, ratio in results.reference("ratio_chars").items():
        found = [results.reference(f"{call}_gbps").get(codec) for call in ("compress", "decompress")]
        rates = [f"{one['value']:g}" if one else "" for one in found]
        rows.append([codec, f"{ratio['value']:.2f}", *rates, ratio["gpu"], f"{ratio['provenance']} ({ratio['note']})"])
    return table("| system | ratio | compress, GB/s | decompress, GB/s | GPU | from |", rows)


#: Measure, label: aim, and what must be reached, on the compared column.
LIMITS = {
    "decode_kernel_gbps": ("decode kernel, GB/s", 2000, 1200),
    "decompress_call_gbps": ("`decompress()`, GB/s", 1400, 900),
    "encode_kernel_gbps": ("encode kernels, GB/s", 1000, 600),
    "compress_call_gbps": ("`compress()`, GB/s", 600, 350),
    "ratio_chars": ("ratio of characters", 2.95, 2.90),
}
#: Bytes of a column: what its `compress()` may take, in milliseconds.
LATENCY_LIMITS = {6: (0.5, 1.0), 7: (0.6, 1.0), 8: (1.2, 2.0)}
MIB = 2**20
#: Columns that are hard in one way or another: share of the compared column's limits that must be reached there.
WORST = {
    "tpch.l_shipinstruct.sf10": 0.6,
    "dbtext.urls2": 0.6,
    "dbtext.uuid": 0.6,
    "dbtext.hex": 0.6,
    "dbtext.chinese": 0.6,
    "generated.random": 0.3,
}

Limit = tuple[str, float, float, float, bool, Callable[[float], str]]


def limits_met(results: Results) -> Iterator[Limit]:
    """What, value, aim, must, whether more is better, and how to write a value."""
    ours = results.ours()
    for measure, (label, aim, must) in LIMITS.items():
        form = "{:.2f}" if must < 10 else "{:,.0f}"
        yield label, ours[measure], aim, must, True, form.format
    gains = []
    for dataset in results.datasets():
        both = results.values(dataset)
        if dataset.startswith("dbtext.") and f"{OURS}.max" in both:
            gains.append(both[f"{OURS}.max"]["ratio_chars"] / both[OURS]["ratio_chars"])
    if gains:
        mean = math.exp(sum(map(math.log, gains)) / len(gains))
        what = f'ratio at `level="max"` / default, geometric mean of {len(gains)} DBText files'
        yield what, mean, 1.07, 1.04, True, "{:.3f}".format
    most = max(64 * MIB, results.chars() / 8)
    for call in ("compress", "decompress"):
        peak = ours[f"{call}_peak_extra_bytes"]
        label = f"`{call}()`, MiB beyond input and result"
        yield label, peak, 64 * MIB, most, False, lambda value: f"{value / MIB:,.0f}"
    for record in results.run["records"]:
        if record["measure"] == "compress_latency_ms" and record["codec"] == OURS:
            size = record["bytes"]
            aim, must = LATENCY_LIMITS[round(math.log10(size))]
            yield f"`compress()` of {size / 1e6:,.0f} MB, ms", record["value"], aim, must, False, "{:.2f}".format
    take = [results.values().get(codec, {}).get("take_1m_ms") for codec in (OURS, "cudf")]
    if None not in take:
        yield "`take` of 1M random rows, times cuDF's own", take[0] / take[1], 1.0, 2.0, False, "{:.2f}".format


def limits(results: Results) -> str:
    if not results.compared:
        return ""
    rows = []
    for label, value, aim, must, more, form in limits_met(results):
        sign = 1 if more else -1
        verdict = "aim" if sign * value >= sign * aim else "must" if sign * value >= sign * must else "**missed**"
        rows.append([label, form(value), form(aim), form(must), verdict])
    return "## Limits\n\n" + table("| | measured | aim | must | reached |", rows)


def worst(results: Results) -> str:
    measured = {dataset: results.ours(dataset) for dataset in results.datasets() if dataset in WORST}
    if not results.compared or not measured:
        return ""
    rates = {measure: one for measure, one in LIMITS.items() if measure.endswith("_gbps")}
    rows = []
    for dataset, ours in measured.items():
        cells = []
        for measure, (_, _, must) in rates.items():
            text = f"{ours[measure]:,.0f}"
            cells.append(text if ours[measure] >= WORST[dataset] * must else f"**{text}**")
        rows.append([dataset, f"{ours['ratio_chars']:.2f}", f"{ours['ratio_column']:.2f}", *cells])
    for share in dict.fromkeys(WORST[dataset] for dataset in measured):
        asked = [f"{share * must:,.0f}" for _, _, must in rates.values()]
        rows.append([f"at least, where {share:g} of the limits is asked for", "", "", *asked])
    names = " | ".join(label.removesuffix(", GB/s") for label, _, _ in rates.values())
    few, least = [name for name, share in WORST.items() if share == min(WORST.values())], min(WORST.values())
    return (
        f"Columns that are hard, by content or by row length: {max(WORST.values()):g} of what is asked for on "
        f"{results.main_column} in GB/s, {least:g} on {' and '.join(few)}. Rates below that are bold.\n\n"
        + table(f"| column | ratio of characters | of the column | {names} |", rows)
    )


def comparison(results: Results) -> str:
    if not results.compared:
        return ""
    rows = []
    chunks = {one["codec"]: one["chunk_bytes"] for one in reversed(results.run["records"]) if best_of_chunks(one)}
    found = {codec: one for codec, one in results.values().items() if "ratio_column" in one}
    sample = next((one for one in results.run["records"] if one["codec"] == f"{OURS}.cpu" and "threads" in one), None)
    for codec, one in sorted(found.items(), key=lambda item: (not item[0].startswith(OURS), item[0])):
        peaks = [one.get(f"{call}_peak_extra_bytes") for call in ("compress", "decompress")]
        cells = [f"{one[f'{call}_call_gbps']:,.3g}" for call in ("compress", "decompress")]
        cells = [cell if "e" not in cell else f"{float(cell):,.0f}" for cell in cells]
        memory = ["" if peak is None else f"{peak / MIB:,.0f}" for peak in peaks]
        name = name_of(codec)
        if codec in chunks:
            name = f"nvCOMP {name}, chunks of {chunks[codec] >> 10} KiB"
        rows.append([name, f"{one['ratio_column']:.2f}", *cells, *memory])
    heading = "| | ratio of the column | compress, GB/s | decompress, GB/s | compress, MiB | decompress, MiB |"
    cpu = (
        f" Our CPU codec ran on the first {sample['bytes'] / 1e6:,.0f} MB, with {sample['threads']} threads."
        if sample
        else ""
    )
    return (
        f"{results.subject}. GB/s count characters; MiB are GPU memory at a call's peak beyond its input and "
        "result. nvCOMP's codecs are shown with the chunk size whose ratio times both rates is highest; they compress "
        "the characters, and the offsets count as packed by its Cascaded codec, in no time. Parquet and the copy go to "
        f"host memory and come from there.{cpu}\n\n" + table(heading, rows)
    )


def best_of_chunks(record: dict[str, Any]) -> bool:
    return "chunk_bytes" in record and "sweep" not in record


#: Picture -> its heading and a sentence.
PICTURES = {
    "memory": (
        "Memory",
        "GPU memory at the peak of a call beyond its input and result, all from one RMM pool.",
    ),
    "sizes": ("Columns of other sizes", "What one call costs however small the column is shows at the left."),
    "tiles_scopes": (
        "Tile size and table scope",
        "Larger tiles cut fewer symbols, smaller ones are more parallel work; a table that serves more characters is "
        "trained less often and fits them less.",
    ),
    "stages_tiles": ("Stages and tile size", "Times of stages as above, with tiles of other sizes."),
    "blocks": (
        "Over PCIe in blocks",
        "Points are columns that really crossed from pinned memory, lines what the model says: with N blocks, copying "
        "one while that before it is decompressed, the smaller of 1 / (1 / (ratio x link) + 1 / (N x decoder)) and "
        "1 / (1 / decoder + 1 / (N x ratio x link)), with the ratio of the whole column and the decompress call as "
        "measured on one block.",
    ),
}


def pictures(results: Results) -> str:
    from plots import DRAWINGS

    shown = [
        f"## {heading}\n\n![{heading}](pictures/{name}.svg)\n\n{text}"
        for name, (heading, text) in PICTURES.items()
        if DRAWINGS[name](results) is not None
    ]
    return "\n\n".join(shown)


#: What is shown of the counters.
COUNTED = (
    "duration_ns dram_read_bytes dram_write_bytes thread_instructions active_lanes shared_wavefronts "
    "shared_conflicts issue_slots_pct occupancy_pct alu_pct fma_pct lsu_pct dram_pct"
).split()
PERCENTAGES = COUNTED[-6:]


def kernels(results: Results) -> str:
    found = results.kernels
    if found is None:
        return ""
    rows: dict[tuple[str, str], dict[str, float]] = {}
    for record in found["records"]:
        rows.setdefault((record["call"], record["kernel"]), dict(record))[record["measure"]] = record["value"]
    lines = []
    for (call, kernel), one in rows.items():
        # A counter that the GPU does not have is no number.
        one = dict.fromkeys(COUNTED, math.nan) | one
        chars, wavefronts = one["bytes"], max(one["shared_wavefronts"], 1)
        cells = [
            f"{one['duration_ns'] / 1e6:.3f}",
            f"{(one['dram_read_bytes'] + one['dram_write_bytes']) / chars:.2f}",
            f"{one['thread_instructions'] / one['codes_bytes']:.1f}",
            f"{one['active_lanes']:.1f}",
            f"{one['shared_wavefronts'] / chars:.3f}",
            f"{one['shared_conflicts'] / wavefronts:.0%}",
            *(f"{one[name]:.0f}%" for name in PERCENTAGES),
        ]
        lines.append([f"{call}: `{kernel}`", *("" if "nan" in cell else cell for cell in cells)])
    size = next(iter(rows.values()))["bytes"]
    ratio = size / next(iter(rows.values()))["codes_bytes"]
    machine = found["machine"]
    heading = (
        "| kernel | ms | bytes moved a character | instructions a byte of codes | lanes active of 32 | "
        "shared wavefronts a character | of them conflicts | issue slots | occupancy | ALU | FMA | LSU | DRAM |"
    )
    return (
        f"Nsight Compute's counters ({machine['gpu']}, driver {machine['driver']}, {found['date'][:10]}, by "
        f"`{found['command']}`), {size / 1e6:,.0f} MB of l_comment, caches flushed before each kernel. The floor of "
        f"encoding and decoding is {1 + 1 / ratio:.2f} bytes moved a character (1 + 1 / ratio), no conflicts, and 100% "
        "of the issue slots or of the DRAM's rate.\n\n" + table(heading, lines)
    )


def readme(results: Results) -> str:
    """The README's own part: the comparison, the hard columns and the pictures under one heading."""
    if not results.compared:
        return ""
    shown = [comparison(results), worst(results), *re.findall(r"!\[.*\)", pictures(results))]
    text = "\n\n".join(["## Against others", *filter(None, shown)])
    return text.replace("](pictures", "](docs/pictures")


PARTS: dict[str, Callable[[Results], str]] = {
    part.__name__: part
    for part in (
        machine,
        protocol,
        anchors,
        comparison,
        worst,
        limits,
        stages,
        latency,
        floor,
        kernels,
        pictures,
        readme,
    )
}


def filled(page: str, results: Results) -> str:
    """The page with its measured parts as they have to be."""

    def part(found: re.Match[str]) -> str:
        text = PARTS[found[2]](results)
        return f"{found[1]}{text}\n{found[3]}" if text else found[1] + found[3]

    return PART.sub(part, page)


if __name__ == "__main__":
    for page in (PAGE, README):
        page.write_text(filled(page.read_text(), read()))
