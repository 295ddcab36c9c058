"""Ratios of two relatives of FSST beside it, on the CPU: what they would save decides whether they are worth kernels.

    CUDF_FSST_DBTEXT=DIR python benchmarks/bench_ratios.py --out benchmarks/results/ratios.json

DIR holds the text files of the FSST paper, one string a line. Beside them stand lines, addresses and paths that are
made here. Each ratio is characters / bytes.

* ``fsst``, ``fsst_max``: this library with both levels, codes alone. ``onpair``: its other codec of text. ``max``: the
  smaller one at level max, as it is chosen where a call names no codec.
* ``fsst_plus``: common prefixes are kept once. In every 128 rows, sorted, neighbours share a prefix where that saves
  bytes. A row is then the number of its prefix (a byte) and the rest. Prefixes (a byte of length each) and rests go
  through FSST together. FSST+ (cwida/fsst_plus) stores two bytes more a row, so this is the most that it could reach.
* ``onpair12``: 4,096 symbols of up to 16 bytes, 12 bits a code. Symbols are found as OnPair does: one pass over the
  rows in random order, in which two neighbours become a symbol when they have met often enough; then greedy matching.
  ``onpair12_tiles``: the same, and no code crosses the end of a tile of 512 bytes, as in FSST's layout here.
* ``..._table``: the same with what the table takes, once for the file.

The decoder needs the symbols at hand: 8 bytes for each of 255 symbols are 2 KiB of shared memory, 16 bytes for each of
4,096 are 64 KiB.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator
from functools import partial
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from bench_cpu import read
from datasets import DBTEXT, SEED, SYLLABLES, email_addresses, log_lines
from numba import njit

from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs.registry import of_text
from cudf_fsst.codecs.text import cpu

BLOCK = 128
CODES, LONGEST = 4096, 16
SLOTS = 1 << 14


def paths(count: int, seed: int = SEED) -> list[str]:
    """Paths of files in nested folders, as a listing of a disk has them: some files of a folder after another."""
    rand = Random(seed).random

    def name(parts: int) -> str:
        return "".join(SYLLABLES[int(len(SYLLABLES) * rand())] for _ in range(parts))

    lines: list[str] = []
    folder = ["home"]
    while len(lines) < count:
        folder = [*folder[: 1 + int(len(folder) * rand())], name(3), name(2)][:9]
        kind = (".py", ".parquet", ".json", ".png", ".txt")[int(5 * rand())]
        lines += ["/" + "/".join([*folder, name(3)]) + kind for _ in range(1 + int(30 * rand() * rand()))]
    return lines[:count]


def column(lines: list[str]) -> HostStrings:
    """Lines as a column of strings."""
    rows = [line.encode() for line in lines]
    return HostStrings(len(rows), np.frombuffer(b"".join(rows), np.uint8), np.cumsum([0, *map(len, rows)]))


def datasets(folder: Path) -> Iterator[tuple[str, HostStrings]]:
    """Name and rows of every column."""
    for name in DBTEXT:
        yield f"dbtext.{name}", read(folder / name)[1]
    yield "generated.log_lines", column(log_lines(50_000))
    yield "generated.email_addresses", column(email_addresses(100_000))
    yield "generated.paths", column(paths(100_000))


def ours(*codecs: str, level: str = "default") -> Callable[[HostStrings], tuple[int, int]]:
    """What gives the bytes of codes and of tables, by the smallest of some codecs of text."""

    def measure(strings: HostStrings) -> tuple[int, int]:
        segments = cpu.compress(strings, *map(of_text, codecs), level=level)
        tables: Any = {id(segment.table): segment.table for segment in segments}
        return sum(segment.codes_nbytes for segment in segments), sum(
            len(b"".join(table.symbols)) for table in tables.values()
        )

    return measure


# --- prefixes ---------------------------------------------------------------------------------------------------------


@njit()
def _shared(common: Any, sizes: Any) -> Any:
    """Where sorted rows are cut into groups, and how much each group shares: the cuts that save the most bytes."""
    rows = sizes.size
    best = np.zeros(rows + 1, np.int64)
    start, prefix = np.zeros(rows + 1, np.int64), np.zeros(rows + 1, np.int64)
    for end in range(1, rows + 1):
        best[end], start[end] = best[end - 1], end - 1
        shared = sizes[end - 1]
        for first in range(end - 2, -1, -1):
            shared = min(shared, common[first + 1])
            if shared == 0:
                break
            saved = best[first] + (end - first - 1) * shared - 2  # the length of the prefix, as characters
            if saved > best[end]:
                best[end], start[end], prefix[end] = saved, first, shared
    return start, prefix


def fsst_plus(strings: HostStrings) -> tuple[int, int]:
    """Bytes with shared prefixes: of codes, lengths and numbers, and of tables."""
    pieces: list[bytes] = []
    prefixes = 0

    def common_bytes(one: bytes, other: bytes) -> int:
        return next((i for i, (a, b) in enumerate(zip(one, other, strict=False)) if a != b), min(len(one), len(other)))

    chars, offsets = strings.chars.tobytes(), strings.offsets.tolist()
    for first in range(0, strings.rows, BLOCK):
        ends = offsets[first : first + BLOCK + 1]
        block = sorted(chars[a:b] for a, b in pairwise(ends))
        common = [0, *(common_bytes(a, b) for a, b in pairwise(block))]
        start, prefix = _shared(np.array(common), np.array([len(row) for row in block]))
        end = len(block)
        while end > 0:
            begin, size = int(start[end]), int(prefix[end])
            if size:
                pieces.append(block[begin][:size])
                prefixes += 1
            pieces += [row[size:] for row in block[begin:end]]
            end = begin
    split = HostStrings(len(pieces), np.frombuffer(b"".join(pieces), np.uint8), np.cumsum([0, *map(len, pieces)]))
    codes, tables = ours("fsst")(split)
    return codes + prefixes + strings.rows, tables


# --- symbols of 12 bits -----------------------------------------------------------------------------------------------


@njit()
def _slot(low: Any, high: Any, size: int, keys: Any) -> int:
    mixed = (low ^ (high * np.uint64(0xFF51AFD7ED558CCD)) ^ np.uint64(size)) * np.uint64(0x9E3779B97F4A7C15)
    slot = np.int64(mixed >> np.uint64(50))
    while keys[slot, 2] != 0 and (keys[slot, 0] != low or keys[slot, 1] != high or keys[slot, 2] != size):
        slot = (slot + 1) % SLOTS
    return slot


@njit()
def _match(chars: Any, at: int, end: int, keys: Any, codes: Any, longest: Any) -> tuple[int, int]:
    """Code and length of the longest symbol at a place."""
    low, high = np.zeros(LONGEST + 1, np.uint64), np.zeros(LONGEST + 1, np.uint64)
    size = min(end - at, longest[chars[at]])
    for i in range(size):
        byte = np.uint64(chars[at + i])
        low[i + 1], high[i + 1] = low[i], high[i]
        if i < 8:
            low[i + 1] |= byte << np.uint64(8 * i)
        else:
            high[i + 1] |= byte << np.uint64(8 * (i - 8))
    for length in range(size, 1, -1):
        slot = _slot(low[length], high[length], length, keys)
        if keys[slot, 2] != 0:
            return codes[slot], length
    return np.int64(chars[at]), 1


@njit()
def _onpair(chars: Any, offsets: Any, order: Any, threshold: int, cuts: Any) -> tuple[int, int, int]:
    """Codes of the whole file, symbols, and their bytes; `cuts`: places that no code crosses."""
    keys, codes = np.zeros((SLOTS, 3), np.uint64), np.zeros(SLOTS, np.int64)
    longest = np.ones(256, np.int64)
    sizes = np.ones(CODES, np.int64)
    met = np.zeros((CODES, CODES), np.uint16)
    count = 256
    for row in order:
        at, end, before, before_at = offsets[row], offsets[row + 1], -1, 0
        while at < end and count < CODES:
            code, length = _match(chars, at, end, keys, codes, longest)
            if before >= 0 and sizes[before] + length <= LONGEST:
                met[before, code] += 1
                if met[before, code] >= threshold:
                    low, high, size = np.uint64(0), np.uint64(0), sizes[before] + length
                    for i in range(size):
                        byte = np.uint64(chars[before_at + i])
                        if i < 8:
                            low |= byte << np.uint64(8 * i)
                        else:
                            high |= byte << np.uint64(8 * (i - 8))
                    slot = _slot(low, high, size, keys)
                    if keys[slot, 2] == 0:
                        keys[slot, 0], keys[slot, 1], keys[slot, 2] = low, high, size
                        codes[slot], sizes[count] = count, size
                        longest[chars[before_at]] = max(longest[chars[before_at]], size)
                        count += 1
                    code, length, at = codes[slot], size, before_at
            before, before_at = code, at
            at += length
        if count == CODES:
            break
    found = 0
    for i in range(cuts.size - 1):
        at, end = cuts[i], cuts[i + 1]
        while at < end:
            at += _match(chars, at, end, keys, codes, longest)[1]
            found += 1
    return found, count, sizes[:count].sum()


def onpair12(strings: HostStrings, tile: int = 0) -> tuple[int, int]:
    """Bytes of codes and of the table, with the best of some thresholds; `tile`: cut like FSST's tiles, not by rows."""
    order = np.random.Generator(np.random.PCG64(SEED)).permutation(strings.rows)
    chars, offsets = np.ascontiguousarray(strings.chars), strings.offsets.astype(np.int64)
    cuts = np.append(np.arange(0, chars.size, tile), chars.size) if tile else offsets
    tried = [_onpair(chars, offsets, order, threshold, cuts) for threshold in (2, 3, 4, 6, 8, 12, 16, 24, 32, 64)]
    codes, _, table = min(tried)
    return -(-codes * 12 // 8), int(table)


SYSTEMS = {
    "fsst": ours("fsst"),
    "fsst_max": ours("fsst", level="max"),
    "onpair": ours("onpair"),
    "max": ours("fsst", "onpair", level="max"),
    "fsst_plus": fsst_plus,
    "onpair12": onpair12,
    "onpair12_tiles": partial(onpair12, tile=512),
}


def main() -> None:
    """Print a line for each column."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, help="results file to write")
    options = parser.parse_args()
    folder = os.environ.get("CUDF_FSST_DBTEXT")
    if folder is None:
        sys.exit("set CUDF_FSST_DBTEXT to the folder of the text files")
    records: list[dict[str, Any]] = []
    print(f"{'column':26}" + "".join(f"{name:>12}{'+table':>8}" for name in SYSTEMS))
    logs: dict[str, list[float]] = {name: [] for name in SYSTEMS}
    for name, strings in datasets(Path(folder)):
        line, nbytes = f"{name:26}", int(strings.offsets[-1])
        for system, measure in SYSTEMS.items():
            codes, table = measure(strings)
            common = {"dataset": name, "codec": system, "bytes": nbytes, "rows": strings.rows}
            records.append({**common, "measure": "ratio", "value": round(nbytes / codes, 4)})
            records.append({**common, "measure": "ratio_table", "value": round(nbytes / (codes + table), 4)})
            logs[system].append(np.log(nbytes / codes))
            line += f"{nbytes / codes:12.3f}{nbytes / (codes + table):8.3f}"
        print(line, flush=True)
    print(f"{'geometric mean':26}" + "".join(f"{np.exp(np.mean(one)):12.3f}{'':8}" for one in logs.values()))
    if options.out:
        command = f"python {' '.join(['bench_ratios.py', *sys.argv[1:]])}"
        machine = {"python": platform.python_version(), "numpy": np.__version__}
        content = {
            "machine": machine,
            "date": datetime.date.today().isoformat(),
            "command": command,
            "records": records,
        }
        options.out.write_text(json.dumps(content, indent=1) + "\n")


if __name__ == "__main__":
    main()
