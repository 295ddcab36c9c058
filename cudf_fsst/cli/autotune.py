"""Measure which launch choices suit a GPU: what ``cudf-fsst autotune`` does. Nothing here prints.

A search of all candidates finds some fast ones; the fastest are measured again in turns with the defaults, and replace
them only where they are clearly faster.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from ..codecs.fsst import TILE_SIZE as TILE_SIZE
from ..codecs.fsst.tuning import DEFAULT, Choices, load, save
from ..codecs.fsst.tuning import path as path
from ..engine import Engine
from ..parquet.sources import reading

#: Timed calls of a candidate, rounds of the final comparison, candidates in it.
_REPEAT, _ROUNDS, _FINALISTS = 3, 9, 3
#: A choice replaces the default if it is faster by this; less may be chance, and is not worth a compilation.
_WORTH = 1.01
_POOL_WORDS = 2_000_000
#: Words and marks of the generated text, in the manner of TPC-H's comments.
_WORDS = (
    "packages requests accounts deposits foxes ideas theodolites instructions dependencies excuses platelets "
    "sleep wake are cajole haggle nag use boost affix detect integrate furiously slyly carefully blithely quickly "
    "special pending unusual express regular final ironic even bold silent about above according across after against "
    "the the the of to into among beside ; . ? ! --"
).split()


@dataclass(frozen=True)
class Tuned:
    """What was found for one direction (``"compress"`` or ``"decompress"``) and tile size; rates in GB/s."""

    tile_size: int
    direction: str
    choices: Choices
    default_gbps: float
    best_gbps: float


def generated_text(engine: Engine, nbytes: int) -> Any:
    """A Series of about `nbytes` characters in rows of 10 to 43: words cut anywhere, as dbgen does it."""
    import pyarrow as pa

    rng = np.random.default_rng(1)
    pool = " ".join(np.array(_WORDS)[rng.integers(0, len(_WORDS), _POOL_WORDS)].tolist()).encode()
    pool = pool[: max(nbytes, 1)]
    ends = np.cumsum(rng.integers(10, 44, len(pool) // 10 + 1))
    offsets = np.concatenate([[0], ends[ends < len(pool)], [len(pool)]]).astype(np.int32)
    rows = pa.StringArray.from_buffers(len(offsets) - 1, pa.py_buffer(offsets), pa.py_buffer(pool))
    return repeated(engine, engine.library.Series(rows.to_pandas()), nbytes)


def column_text(engine: Engine, file: Path, column: str, nbytes: int) -> Any:
    """A Series of about `nbytes` from the start of a Parquet file's column; repeated where it has fewer."""
    import pyarrow.parquet as pq

    pieces, chars = [], 0
    with reading(file), pq.ParquetFile(file) as parquet:
        groups = parquet.num_row_groups
    for group in range(groups):
        pieces.append(engine.read(file, column, [group]))
        chars += _characters(pieces[-1])
        if chars >= nbytes:
            break
    if not chars:
        raise ValueError(f"nothing to measure: column {column!r} of {file} has no characters")
    return repeated(engine, engine.library.concat(pieces, ignore_index=True), nbytes)


def repeated(engine: Engine, series: Any, nbytes: int) -> Any:
    """`series`, which has characters, again and again, cut to about `nbytes` of them."""
    chars = _characters(series)
    while chars < nbytes:
        series = engine.library.concat([series, series], ignore_index=True)
        chars *= 2
    return series.iloc[: max(1, len(series) * nbytes // chars)]


def _characters(series: Any) -> int:
    return int(series.str.len().sum())


def candidates(direction: str, tile_size: int, shared_per_block: int) -> list[Choices]:
    """Choices to try besides the defaults."""
    if direction == "decompress":
        shares = (0.5, 0.625, 0.75, 0.875, 1.0, 1.0625, 1.25, 1.5)
        all_choices = [
            replace(DEFAULT, decode_warps=warps, decode_capacity=share)
            for warps in (None, *range(1, 9))
            for share in (*shares, DEFAULT.decode_capacity)
        ]
    else:
        from ..codecs.fsst.launch import encode_shape

        warps_at_most = encode_shape(tile_size, shared_per_block).threads // 32
        fewer = sorted({max(1, warps_at_most * eighths // 8) for eighths in (2, 3, 4, 6, 7)} - {warps_at_most})
        all_choices = [
            replace(DEFAULT, encode_warps=warps, encode_blocks=blocks)
            for warps in (None, *fewer)
            for blocks in (0.5, 0.75, 1.0, 2.0, 3.0, 4.0)
        ]
    return [choices for choices in all_choices if choices != DEFAULT]


def _candidates_here(direction: str, tile_size: int) -> list[Choices]:
    from ..device.memory import device_attributes

    return candidates(direction, tile_size, device_attributes()["shared_per_block"])


def count_candidates(tile_size: int) -> int:
    """How many candidates `tune` measures on the current device."""
    return sum(len(_candidates_here(direction, tile_size)) for direction in ("compress", "decompress"))


def tune(series: Any, tile_size: int, *, step: Callable[[], None] = lambda: None) -> Iterator[Tuned]:
    """Measure a cuDF Series for one tile size: compression first, then decompression.

    Parameters
    ----------
    series
        Some hundred MB of text.
    tile_size
        One of `cudf_fsst.codecs.text.layout.TILE_SIZES`.
    step
        Called when a candidate has been measured.

    Raises
    ------
    RuntimeError
        The choices found would store other bytes or give back other rows: a bug.
    """
    from ..compressing import train

    table = train(series)  # once: training is no launch choice

    def compress() -> Any:
        return series.fsst.compress(table=table, tile_size=tile_size)

    column = compress()
    chars = column.chars_nbytes
    chosen = DEFAULT
    for direction, call in (("compress", compress), ("decompress", column.decompress)):
        best, default_ms, best_ms = _search(direction, call, _candidates_here(direction, tile_size), step)
        if direction == "compress":
            chosen = replace(chosen, encode_warps=best.encode_warps, encode_blocks=best.encode_blocks)
        else:
            chosen = replace(chosen, decode_warps=best.decode_warps, decode_capacity=best.decode_capacity)
        yield Tuned(tile_size, direction, best, chars / 1e6 / default_ms, chars / 1e6 / best_ms)
    _check(series, column, compress, chosen)


def _search(
    direction: str, call: Callable[[], Any], candidate_choices: Sequence[Choices], step: Callable[[], None]
) -> tuple[Choices, float, float]:
    """The best choices, and milliseconds of the default and of them."""
    from ..codecs.fsst.cuda_kernels import trying
    from ..device.timing import median_span

    prefix = "fsst_decode" if direction == "decompress" else "fsst_"

    def measure(choices: Choices, repeat: int) -> float:
        with trying(choices):
            return median_span(call, prefix, repeat)

    times = []
    for choices in candidate_choices:
        times.append((measure(choices, _REPEAT), choices))
        step()
    times.sort(key=lambda timed: timed[0])
    final = [DEFAULT, *(choices for _, choices in times[:_FINALISTS])]
    rounds = [[measure(choices, 1) for choices in final] for _ in range(_ROUNDS)]
    medians = [median(column) for column in zip(*rounds, strict=True)]
    fastest = min(range(len(final)), key=medians.__getitem__)
    if medians[0] < _WORTH * medians[fastest]:
        fastest = 0
    return final[fastest], medians[0], medians[fastest]


def _check(series: Any, column: Any, compress: Callable[[], Any], chosen: Choices) -> None:
    from ..codecs.fsst.cuda_kernels import trying

    expected = column.to_host()
    with trying(chosen):
        again = compress()
        same = again.decompress().equals(series)
    for segment, expected_segment in zip(again.to_host().segments, expected.segments, strict=True):
        same = (
            same
            and np.array_equal(segment.codes, expected_segment.codes)
            and np.array_equal(segment.meta, expected_segment.meta)
        )
    if not same:
        raise RuntimeError(f"{chosen} changed what is stored or read")


def describe(tuned: Tuned) -> str:
    """What was found, in words."""
    chosen = tuned.choices
    if chosen == DEFAULT:
        return "the default"
    warps = chosen.encode_warps if tuned.direction == "compress" else chosen.decode_warps
    block = f"{warps or 'as many'} warps a block"
    if tuned.direction == "compress":
        return f"{block}, {chosen.encode_blocks:g} blocks a multiprocessor"
    return f"{block}, codes x {chosen.decode_capacity:.3g}"


def store(gpu: str, tuned: Sequence[Tuned]) -> Path:
    """Write the machine's entry for a GPU; what it has measured for other tile sizes stays."""
    choices = load(gpu)
    notes: dict[str, Any] = {"date": datetime.date.today().isoformat()}
    for tile_size in sorted({result.tile_size for result in tuned}):
        by_direction = {result.direction: result for result in tuned if result.tile_size == tile_size}
        encode, decode = by_direction["compress"].choices, by_direction["decompress"].choices
        choices[tile_size] = replace(encode, decode_warps=decode.decode_warps, decode_capacity=decode.decode_capacity)
        for direction, result in by_direction.items():
            rates = {"default": round(result.default_gbps, 1), "best": round(result.best_gbps, 1)}
            notes[f"{direction}, {tile_size}-byte tiles, GB/s"] = rates
    return save(gpu, choices, notes)
