"""Write the tables of docs/performance.md from benchmarks/results/*.json: python benchmarks/performance_page.py.

The page holds no measured number of its own: what stands between a pair of markers is exactly what the function of that
name makes of the newest results, and a test compares them.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

from measured import OURS, Results, read

PAGE = Path(__file__).resolve().parent.parent / "docs" / "performance.md"
PART = re.compile(r"(<!-- measured: (\w+) -->\n)(?:.*?\n)??(<!-- measured: end -->)", re.DOTALL)


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


PARTS: dict[str, Callable[[Results], str]] = {
    part.__name__: part for part in (machine, stages, latency, floor, anchors)
}


def filled(page: str, results: Results) -> str:
    """The page with its measured parts as they have to be."""
    return PART.sub(lambda part: f"{part[1]}{PARTS[part[2]](results)}\n{part[3]}", page)


if __name__ == "__main__":
    PAGE.write_text(filled(PAGE.read_text(), read()))
