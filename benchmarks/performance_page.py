"""Write the tables of docs/performance.md, and one of CONTRIBUTING.md, from benchmarks/results/*.json.

    python benchmarks/performance_page.py

The pages hold no measured number of their own: what stands between a pair of markers is exactly what the function of
that name makes of the newest results, and a test compares them. What the results do not have is not mentioned.
"""

from __future__ import annotations

import contextlib
import math
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from measured import DATASET, OURS, Results, name_of, read

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "performance.md"
#: The page, and where it says what has to be reached.
PAGES = (PAGE, ROOT / "CONTRIBUTING.md")
PART = re.compile(r"(<!-- measured: (?!end)(\w+) -->\n)(?:.*?\n)??(<!-- measured: end -->)", re.DOTALL)


def table(heading: str, rows: list[list[str]]) -> str:
    """Markdown; a column is set to the right unless there are letters in its first row."""
    lines = [heading, "|" + "|".join("---" if re.search("[a-zA-Z]", cell) else "--:" for cell in rows[0]) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows])


def short(value: float) -> str:
    """A number with three digits that count, without an exponent."""
    text = f"{value:,.3g}"
    return text if "e" not in text else f"{float(text):,.0f}"


def machine(results: Results) -> str:
    found = results.run["machine"]
    versions = ", ".join(f"{name} {version}" for name, version in found["versions"].items())
    return (
        f"One {found['gpu']}, driver {found['driver']}, CUDA {found['cuda']}, Python {found['python']}, {versions}; "
        f"{results.run['date'][:10]}. The commands stand in the files."
    )


def protocol(results: Results) -> str:
    """How the others were measured; runs of ours alone had nvCOMP beside them in a simpler way."""
    if not results.compared:
        return (
            "* All memory comes from one RMM pool. The GPU's own copy rate is measured in the same run.\n"
            "* nvCOMP runs in the same process on the same characters, with its default chunks. The same clock times "
            "it, with fewer repetitions.\n\n"
            "Before a column is timed, it is decompressed and compared with the original."
        )
    return (
        "* All memory comes from one RMM pool, nvCOMP's too. `rmm.statistics` counts a call's peak, in a call that is "
        "not timed.\n"
        "* The GPU's own copy rate is measured in the same run.\n"
        "* nvCOMP, cuDF's categories and cuDF's Parquet run in the same process on the same column. The same clock "
        "times them, with fewer repetitions.\n\n"
        "Before a codec is timed, its result is decompressed and compared with the original."
    )


#: What is timed of a call's codec kernels.
SPANS = {
    "compress": "its stages 2 to 5, without tables and row lengths",
    "decompress": "its codec kernel",
}


def stages(results: Results) -> str:
    chars = results.chars() / 1e6
    rows = []
    for call, parts in results.stages().items():
        whole, span = results.call_milliseconds(call)
        bold = {f"**`{call}()`**": whole, SPANS[call]: span}
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

#: Label of a limit: what stands in the way of its aim, with numbers of `facts`.
REASONS = {
    "decode kernel, GB/s": "shared memory is busy for {decode_shared:.0f} % of the cycles, and {decode_conflicts:.0f} "
    "% of its wavefronts are bank conflicts, as each lane looks up the symbols of its own tile. Issue slots are at "
    "{decode_issue:.0f} %. Fewer instructions with more shared memory traffic were tried, and were slower. Eight "
    "copies of the table avoid conflicts but leave room for fewer warps: hardly faster here, slower on other columns.",
    "`decompress()`, GB/s": "the decode kernel takes {decompress_codec:.2f} of {decompress_call:.2f} ms, row lengths "
    "{decompress_rows:.2f}. The rest is allocation, launches and Python.",
    "encode kernels, GB/s": "a step waits for its look-ups in shared memory, which is busy for {encode_shared:.0f} % "
    "of the cycles ({encode_conflicts:.0f} % of its wavefronts are bank conflicts). {encode_issue:.0f} % of the issue "
    "slots are used. Beside the tables there is room for {encode_warps:.0f} warps a multiprocessor, too few to hide "
    "the wait. The last tiles of a segment leave multiprocessors idle where the next segment is not under way yet.",
    "`compress()`, GB/s": "stages 2 to 5 take {compress_codec:.2f} of {compress_call:.2f} ms. Tables take "
    "{compress_tables:.2f} ms on the GPU, and row lengths {compress_rows:.2f}, partly beside other work. The host "
    "waits three times: for the ends of the characters, the cut into segments, and the size of every segment's codes.",
    "`compress()`, MiB beyond input and result": "codes lie in two slots of 1/18 of the column, so that one segment is "
    "compacted while the next is encoded. 64 MiB would be slots of less than 1/50 here. The limit is an eighth of the "
    "column, or 64 MiB if that is more.",
    "`take` of 1M random rows, times cuDF's own": "a row costs the decoding of each tile that it touches, from the "
    "tile's start, where cuDF copies the row; lanes of a warp wait for the longest.",
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
    take = [results.values().get(codec, {}).get("take_1m_ms") for codec in (OURS, "cudf")]
    if None not in take:
        yield "`take` of 1M random rows, times cuDF's own", take[0] / take[1], 1.0, 2.0, False, "{:.2f}".format


def _verdicts(results: Results) -> list[list[str]]:
    """What is aimed for, measured, aim, must, and which of them was reached."""
    rows = []
    for label, value, aim, must, more, form in limits_met(results):
        sign = 1 if more else -1
        verdict = "aim" if sign * value >= sign * aim else "must" if sign * value >= sign * must else "**missed**"
        rows.append([label, form(value), form(aim), form(must), verdict])
    return rows


def targets(results: Results) -> str:
    """For those who change kernels."""
    if not results.compared:
        return ""
    hard: dict[float, list[str]] = {}
    for dataset, share in WORST.items():
        hard.setdefault(share, []).append(dataset)
    shares = "; ".join(f"{share:g} of them on {', '.join(names)}" for share, names in hard.items())
    return table("| | measured | aim | must | reached |", _verdicts(results)) + (
        f"\n\nRates of {results.main_column}. Hard columns must reach a share: {shares}."
    )


def limits(results: Results) -> str:
    """What the rates wait for, where they could be higher."""
    if not results.compared:
        return ""
    known, reasons = facts(results), []
    for label, measured, *_, verdict in _verdicts(results):
        if verdict != "aim" and label in REASONS:
            what, _, unit = label.partition(", ")
            with contextlib.suppress(KeyError):  # not all was counted
                reasons.append(f"* {what}, {measured} {unit}: {REASONS[label].format(**known)}")
    return "\n".join([f"## What limits the rates?\n\nOf {results.main_column}:\n", *reasons]) if reasons else ""


def facts(results: Results) -> dict[str, float]:
    """Numbers for `REASONS`: milliseconds of calls, counters of kernels in percent."""
    found = {}
    for call, parts in results.stages().items():
        found[f"{call}_call"], found[f"{call}_codec"] = results.call_milliseconds(call)
        found[f"{call}_rows"] = sum(value for name, value in parts.items() if name.startswith("row lengths"))
        found |= {f"{call}_tables": value for name, value in parts.items() if name == "1 tables"}
    for (_, kernel), one in counted(results).items():
        name = kernel.removeprefix("fsst_")
        if {"shared_pipe_pct", "issue_slots_pct", "shared_wavefronts"} <= one.keys():
            found[f"{name}_shared"], found[f"{name}_issue"] = one["shared_pipe_pct"], one["issue_slots_pct"]
            found[f"{name}_conflicts"] = 100 * one["shared_conflicts"] / one["shared_wavefronts"]
            found |= {f"{name}_warps": one["block_threads"] / 32} if "block_threads" in one else {}
    return found


def worst(results: Results) -> str:
    measured = {dataset: results.ours(dataset) for dataset in results.datasets() if dataset in WORST}
    if not results.compared or not measured:
        return ""
    rates = {measure: one for measure, one in LIMITS.items() if measure.endswith("_gbps")}
    rows, slow = [], []
    for dataset, ours in measured.items():
        rows.append([dataset, f"{ours['ratio_chars']:.2f}", f"{ours['ratio_column']:.2f}"])
        rows[-1] += [f"{ours[measure]:,.0f}" for measure in rates]
        if ours["encode_kernel_gbps"] < WORST[dataset] * rates["encode_kernel_gbps"][2]:
            slow.append(dataset)
    names = " | ".join(label.removesuffix(", GB/s") for label, _, _ in rates.values())
    return (
        "These columns are hard, by content or by row length. Rates are GB/s.\n\n"
        + table(f"| column | ratio of characters | of the column | {names} |", rows)
        + "".join(
            f"\n\n{dataset}: a tile of {tile} bytes takes {tile / measured[dataset]['ratio_chars']:.0f} codes instead "
            f"of the {tile / results.ours()['ratio_chars']:.0f} of {results.main_column}, and encoding takes a step a "
            "code."
            for dataset in slow
            for tile in [tile_size(results, dataset)]
        )
    )


def tile_size(results: Results, dataset: str) -> int:
    """Bytes of a tile where the column was measured without choosing one."""
    records = (one for one in results.run["records"] if one["dataset"] == dataset and one["codec"] == OURS)
    return int(next((one["tile_size"] for one in records if "tile_size" in one and "sweep" not in one), 256))


def comparison(results: Results) -> str:
    if not results.compared:
        return ""
    sample = next((one for one in results.run["records"] if one["codec"] == f"{OURS}.cpu" and "threads" in one), None)
    cpu = (
        f"\n* Our CPU codec ran on the first {sample['bytes'] / 1e6:,.0f} MB, with {sample['threads']} threads, in "
        "a run of its own."
        if sample
        else ""
    )
    return (
        f"{results.subject}. GB/s count characters. MiB are GPU memory at a call's peak, beyond its input and result."
        "\n\n* Each nvCOMP codec is shown with its best chunk size: the one whose ratio times both rates is highest.\n"
        "* nvCOMP's codecs compress the characters. Their offsets count as packed by its Cascaded codec, and that "
        "takes no time here.\n"
        f"* Parquet and the pinned copy go to host memory and come from there.{cpu}\n{before_choice(results)}\n"
        f"{compared(results)}"
    )


def before_choice(results: Results) -> str:
    """What is to be said of level max where it was measured before GPUs compared tables."""
    part = results.run["parts"].get(f"onpair_max:{DATASET}", {})
    return (
        '* onpair "max" was measured when the host still compared tables.\n'
        if part.get("date", "9") < "2026-11-28"
        else ""
    )


def compared(results: Results) -> str:
    """The table of all codecs."""
    rows = []
    chunks = {one["codec"]: one["chunk_bytes"] for one in reversed(results.run["records"]) if best_of_chunks(one)}
    found = {codec: one for codec, one in results.values().items() if "ratio_column" in one}
    for codec, one in sorted(found.items(), key=lambda item: (not item[0].startswith(OURS), item[0])):
        peaks = [one.get(f"{call}_peak_extra_bytes") for call in ("compress", "decompress")]
        cells = [short(one[f"{call}_call_gbps"]) for call in ("compress", "decompress")]
        memory = ["" if peak is None else f"{peak / MIB:,.0f}" for peak in peaks]
        name = name_of(codec)
        if codec in chunks:
            name = f"nvCOMP {name}, chunks of {chunks[codec] >> 10} KiB"
        rows.append([name, f"{one['ratio_column']:.2f}", *cells, *memory])
    heading = "| | ratio of the column | compress, GB/s | decompress, GB/s | compress, MiB | decompress, MiB |"
    return table(heading, rows)


def best_of_chunks(record: dict[str, Any]) -> bool:
    return "chunk_bytes" in record and "sweep" not in record


#: Kind of parts that a short machine time may not reach -> what it measures.
KINDS_OF_PARTS = {
    "nvcomp": "nvCOMP",
    "cudf": "cuDF's categories and Parquet",
    "cpu": "our CPU codec",
    "max": '`level="max"`',
}


def unmeasured(results: Results) -> str:
    """What the run did not reach, and what failed in it."""
    if not results.compared:
        return ""
    from compare import KINDS, parts

    names = results.datasets()
    missing: dict[str, list[str]] = {}
    failed: dict[str, list[str]] = {}
    for part in parts(names, list(KINDS)):
        kind, _, dataset = part.partition(":")
        if part not in results.run["parts"] and kind in KINDS_OF_PARTS:
            missing.setdefault(KINDS_OF_PARTS[kind], []).append(dataset)
        for text in results.run["parts"].get(part, {}).get("failed", ()):
            columns = failed.setdefault(re.split(r"\W", text)[0], [])
            columns += [dataset] if dataset not in columns else []
    texts = []
    if missing:
        on = {
            what: ", ".join(found) if len(found) < 4 else f"{len(found)} of {len(names)} columns"
            for what, found in missing.items()
        }
        texts.append(
            "Not measured, for want of time: " + "; ".join(f"{what} on {those}" for what, those in on.items()) + "."
        )
    for codec, columns in failed.items():
        texts.append(
            f"{codec} is missing on {len(columns)} of {len(names)} columns, {columns[0]} the first of them: it failed, "
            "or did not give the characters back."
        )
    return " ".join(texts)


#: Picture -> its heading and a sentence.
PICTURES = {
    "memory": (
        "Memory",
        "GPU memory at the peak of a call beyond its input and result, all from one RMM pool.",
    ),
    "sizes": (
        "Columns of other sizes",
        "The left end shows what a call costs however small the column is. nvCOMP has chunks of 64 KiB, and columns of "
        "up to 1 GiB.",
    ),
    "tiles_scopes": (
        "Tile size and table scope",
        "Larger tiles cut fewer symbols. Smaller tiles are more parallel work. A table that serves more characters is "
        "trained less often, and may fit them less. A segment has one table, so segments are smaller and more where a "
        "table serves few characters.",
    ),
    "stages_tiles": (
        "Stages and tile size",
        "Sums over launches, with tiles of other sizes. Grey: tables and row lengths.",
    ),
    "blocks": (
        "Over PCIe in blocks",
        "Points are measured: columns that crossed from pinned memory. Lines are a model of N blocks, where one block "
        "is copied while the block before it is decompressed. It says the smaller of "
        "1 / (1 / (ratio x link) + 1 / (N x decoder)) and 1 / (1 / decoder + 1 / (N x ratio x link)). The ratio is "
        "that of the whole column, and the decoder the decompress call as measured on one block. The model leaves "
        "out the launches, waits and Python of each block.",
    ),
}


def blocks_cost(results: Results) -> str:
    """What a block more costs, where columns crossed in blocks."""
    texts = []
    for overlapped, how in ((False, "one after the other"), (True, "overlapped by a thread of Python that copies")):
        took = {
            one["blocks"]: one["bytes"] / 1e6 / one["value"]
            for one in results.sweep("ingestion")
            if one["codec"] == OURS and (one["blocks"] == 1 or one.get("overlapped", False) == overlapped)
        }
        if len(took) > 1:
            most = max(took)
            texts.append(f"{(took[most] - took[1]) / (most - 1):.2f} ms {how}")
    return f" Each further block costs {', '.join(texts)} (from 1 to {most} blocks)." if texts else ""


def pictures(results: Results) -> str:
    from plots import DRAWINGS

    shown = [
        f"## {heading}\n\n![{heading}](pictures/{name}.svg)\n\n{text}{blocks_cost(results) if name == 'blocks' else ''}"
        for name, (heading, text) in PICTURES.items()
        if DRAWINGS[name](results) is not None
    ]
    return "\n\n".join(shown)


#: Counter -> its heading, and how it is written; what was not counted of any kernel is left out.
COUNTED: dict[str, tuple[str, Callable[[dict[str, float]], str]]] = {
    "bytes": ("MB of characters", lambda one: f"{one['bytes'] / 1e6:,.0f}"),
    "duration_ns": ("ms", lambda one: f"{one['duration_ns'] / 1e6:.3f}"),
    "dram_read_bytes": (
        "bytes moved a character",
        lambda one: f"{(one['dram_read_bytes'] + one['dram_write_bytes']) / one['bytes']:.2f}",
    ),
    "instructions": (
        "a warp's instructions for 32 bytes of codes",
        lambda one: f"{32 * one['instructions'] / one['codes_bytes']:.1f}",
    ),
    "active_lanes": ("lanes active of 32", lambda one: f"{one['active_lanes']:.1f}"),
    "shared_wavefronts": (
        "shared wavefronts a character",
        lambda one: f"{one['shared_wavefronts'] / one['bytes']:.3f}",
    ),
    "shared_conflicts": (
        "of them conflicts",
        lambda one: f"{one['shared_conflicts'] / max(one['shared_wavefronts'], 1):.0%}",
    ),
    "shared_pipe_pct": ("shared memory busy", lambda one: f"{one['shared_pipe_pct']:.0f}%"),
    "issue_slots_pct": ("issue slots", lambda one: f"{one['issue_slots_pct']:.0f}%"),
    "occupancy_pct": ("occupancy", lambda one: f"{one['occupancy_pct']:.0f}%"),
    "alu_pct": ("ALU", lambda one: f"{one['alu_pct']:.0f}%"),
    "fma_pct": ("FMA", lambda one: f"{one['fma_pct']:.0f}%"),
    "lsu_pct": ("LSU", lambda one: f"{one['lsu_pct']:.0f}%"),
    "dram_pct": ("DRAM", lambda one: f"{one['dram_pct']:.0f}%"),
}


def counted(results: Results) -> dict[tuple[str, str], dict[str, Any]]:
    """Call and kernel -> counter -> value; a counter that the GPU does not have is no number, and left out."""
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for record in results.kernels["records"] if results.kernels else ():
        one = rows.setdefault((record["call"], record["kernel"]), dict(record))
        if not math.isnan(record["value"]):
            one[record["measure"]] = record["value"]
    return rows


def kernels(results: Results) -> str:
    found, rows = results.kernels, counted(results)
    if found is None:
        return ""
    shown = [measure for measure in COUNTED if any(measure in one for one in rows.values())]
    lines = [
        [f"{call}: `{kernel}`", *(COUNTED[measure][1](one) if measure in one else "" for measure in shown)]
        for (call, kernel), one in rows.items()
    ]
    first = next(iter(rows.values()))
    moved = 1 + first["codes_bytes"] / first["bytes"]
    machine = found["machine"]
    note = f" {found['note']}" if "note" in found else ""
    return (
        f"These are Nsight Compute's counters of l_comment, with caches flushed before each kernel. Ideal is "
        f"{moved:.2f} bytes moved a character (1 + 1 / ratio), no conflicts, and 100% of the issue slots or of the "
        f"DRAM's rate. {machine['gpu']}, driver {machine['driver']}, {found['date'][:10]}, by `{found['command']}`."
        f"{note}\n\n" + table("| kernel | " + " | ".join(COUNTED[measure][0] for measure in shown) + " |", lines)
    )


#: Measure of latency.json: its line of the table.
CALLS = {
    "frame16_100k_compress_ms": "lineitem, 16 columns, 100,000 rows: `compress()`, ms",
    "frame16_100k_decompress_ms": "lineitem, 100,000 rows: `decompress()`, ms",
    "frame16_100k_to_host_ms": "lineitem, 100,000 rows: `to_host()`, ms",
    "frame16_100k_to_cudf_ms": "lineitem, 100,000 rows: `to_cudf()`, ms",
    "col_1mb_compress_ms": "l_comment, 1 MB: `compress()`, ms",
    "col_1mb_compress_given_table_ms": "l_comment, 1 MB: `compress(table=...)`, ms",
    "col_1mb_decompress_ms": "l_comment, 1 MB: `decompress()`, ms",
    "col_100mb_compress_ms": "l_comment, 100 MB: `compress()`, ms",
    "col_100mb_decompress_ms": "l_comment, 100 MB: `decompress()`, ms",
    "take10_ms": "l_comment, whole: `take` of 10 rows, ms",
    "filter_ms": "l_comment, whole: `filter` to {filter_ms:.1f} million rows, ms",
    "frame_mask_ms": "lineitem, whole: `f[mask]` of {frame_mask_ms:.1f} million rows, ms",
    "frame_take1m_ms": "lineitem, whole: `take` of a million random rows, ms",
    "mask_half_ms": "lineitem, whole: `f[mask]` of {mask_half_ms:.0f} million rows, ms",
    "take_all_ms": "lineitem, whole: `take` of all {take_all_ms:.0f} million rows, in random order, ms",
    "frame_ratio": "lineitem, whole: Arrow bytes / compressed bytes",
    "frame_compress_gbps": "lineitem, whole: `compress()`, GB/s",
    "frame_decompress_gbps": "lineitem, whole: `decompress()`, GB/s",
    "frame_onpair_ratio": "lineitem, l_comment by `onpair`: Arrow bytes / compressed bytes",
    "frame_onpair_compress_gbps": "lineitem, l_comment by `onpair`: `compress()`, GB/s",
    "frame_onpair_decompress_gbps": "lineitem, l_comment by `onpair`: `decompress()`, GB/s",
    "first_to_host_gbps": "lineitem, whole: the first `to_host()` of a process, GB/s",
}


def calls(results: Results) -> str:
    """What single calls cost, where that was measured."""
    content = results.latency
    if content is None:
        return ""
    found: dict[str, dict[str, float]] = {}
    rows: dict[str, float] = {}
    for record in content["records"]:
        found.setdefault(record["measure"], {})[record["codec"]] = record["value"]
        rows[record["measure"]] = record.get("rows", 0) / 1e6
    lines = [
        [label.format(**rows), *(short(found[measure][codec]) for codec in (OURS, "cudf"))]
        for measure, label in CALLS.items()
        if found.get(measure, {}).keys() >= {OURS, "cudf"}
    ]
    machine = content["machine"]
    return (
        "## What a call costs\n\nA call on a small column, or for a few rows, costs launches, waits and Python.\n\n"
        "* Milliseconds are the host's: medians of many calls, from an idle GPU to an idle GPU.\n"
        "* GB/s count Arrow bytes. CUDA events time whole calls. The host's clock times the first `to_host()`, in a "
        "process of its own.\n"
        "* cuDF's column shows `copy(deep=True)` beside `compress()` and `decompress()`, `host_serialize()` and "
        "`host_deserialize()` beside `to_host()` and `to_cudf()`, and the same rows of the plain column or frame.\n\n"
        + table("| | cudf-fsst | cuDF |", lines)
        + f"\n\nOne {machine['gpu']}, driver {machine['driver']}, {machine['cpu_cores']} CPU cores; {content['date']}, "
        f"by `{content['command']}`."
    )


def runs(results: Results) -> str:
    """The run that the rest of the page is about beside earlier ones, where there are some."""
    if not results.earlier or not results.compared:
        return ""
    shown = (results, *(Results(one, ()) for one in results.earlier))

    def row(label: str, what: Callable[[Results], float], form: str) -> list[str]:
        found = []
        for one in shown:
            try:
                found.append(what(one))
            except (KeyError, StopIteration):
                found.append(math.nan)  # not measured in this run
        numbers = [value for value in found if not math.isnan(value)]
        spread = f"{max(numbers) / min(numbers) - 1:.0%}" if len(numbers) > 1 else ""
        return [label, *("" if math.isnan(value) else format(value, form) for value in found), spread]

    def rate(measure: str, dataset: str = DATASET, codec: str = OURS) -> Callable[[Results], float]:
        return lambda one: one.values(dataset)[codec][measure]

    def small(call: str, size: float) -> Callable[[Results], float]:
        return lambda one: next(
            record["value"]
            for record in one.run["records"]
            if (record["codec"], record["measure"]) == (OURS, f"{call}_latency_ms")
            and round(math.log10(record["bytes"] / size)) == 0
        )

    def stage(call: str, name: str) -> Callable[[Results], float]:
        return lambda one: one.stages()[call][name]

    rows = [
        row("GPU's own copies, GB/s", Results.copy_gbps, ",.0f"),
        row("decode kernel, GB/s", rate("decode_kernel_gbps"), ",.0f"),
        row("encode kernels, GB/s", rate("encode_kernel_gbps"), ",.0f"),
        row("encode kernels, Chinese text, GB/s", rate("encode_kernel_gbps", "dbtext.chinese"), ",.0f"),
        row("row lengths measure, ms", stage("compress", "row lengths measure"), ".2f"),
        row("row lengths pack, ms", stage("compress", "row lengths pack"), ".2f"),
        row("row lengths unpack, ms", stage("decompress", "row lengths unpack"), ".2f"),
        row("`compress()`, GB/s", rate("compress_call_gbps"), ",.0f"),
        row("`decompress()`, GB/s", rate("decompress_call_gbps"), ",.0f"),
        *(row(f"`compress()` of {size / 1e6:.0f} MB, ms", small("compress", size), ".2f") for size in (1e6, 1e7, 1e8)),
        row("`decompress()` of 1 MB, ms", small("decompress", 1e6), ".2f"),
        row("`take` of 1M random rows, ms", rate("take_1m_ms"), ".2f"),
        row("cuDF's own, ms", rate("take_1m_ms", codec="cudf"), ".2f"),
    ]
    names = [f"run {number}" for number in range(2, len(shown) + 1)]
    notes = [
        f"* {name}: {one['date']}, {one['machine']['gpu']}, driver {one['machine']['driver']}, "
        f"{one['machine']['cpu_cores']} CPU cores. {one['note']}".rstrip()
        for name, one in zip(names, results.earlier, strict=True)
    ]
    return "\n".join(
        [
            f"This is {results.main_column} in this page's run and in earlier ones, which "
            "[`compare_runs.json`](../benchmarks/results/compare_runs.json) keeps. cuDF's own `take` tells how fast a "
            "host is. *Spread* is how much the highest is above the lowest.",
            "",
            *notes,
            "",
            table(f"| | this run | {' | '.join(names)} | spread |", rows),
        ]
    )


PARTS: dict[str, Callable[[Results], str]] = {
    part.__name__: part
    for part in (
        machine,
        protocol,
        anchors,
        comparison,
        unmeasured,
        worst,
        limits,
        targets,
        stages,
        latency,
        floor,
        calls,
        kernels,
        runs,
        pictures,
    )
}


def filled(page: str, results: Results) -> str:
    """The page with its measured parts as they have to be."""

    def part(found: re.Match[str]) -> str:
        text = PARTS[found[2]](results)
        return f"{found[1]}{text}\n{found[3]}" if text else found[1] + found[3]

    return PART.sub(part, page)


if __name__ == "__main__":
    for one in PAGES:
        one.write_text(filled(one.read_text(), read()))
