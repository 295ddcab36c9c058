"""The columns that benchmarks measure: TPC-H, the FSST paper's text files, and two that are generated here."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import numpy as np

TPCH = {
    "l_comment": "lineitem",
    "l_shipinstruct": "lineitem",
    "o_comment": "orders",
    "c_address": "customer",
    "p_name": "part",
}
DBTEXT = ("c_name", "chinese", "city", "faust", "genome", "hex", "l_comment", "movies", "urls2", "uuid")
SEED = 20261121

#: Names and providers of addresses.
SYLLABLES = tuple("ma ri an na jo el ka ti lu is pe er so fi to bi ha le mo ra vi ne da ga ol sy wen ta chi ro".split())
PROVIDERS = tuple(
    f"{name}.example"
    for name in "gmail yahoo outlook hotmail icloud proton web mail gmx live aol zoho uni-a uni-b corp shop".split()
)

#: Messages of a log, frequent ones first: level, component, text.
MESSAGES = (
    ("INFO ", "http.server", "GET /api/v2/users/{id}/orders?page={small} 200 {bytes}B {ms}ms"),
    ("DEBUG", "db.pool", "query took {ms} ms, {small} rows: SELECT * FROM orders WHERE customer_id = {id}"),
    ("INFO ", "http.server", "GET /static/js/main.{hex}.js 304 0B {ms}ms"),
    ("INFO ", "auth.session", "session {hex} of user {id} refreshed, expires in {small} minutes"),
    ("DEBUG", "cache.lru", "evicted {small} entries ({bytes} bytes), hit rate 0.{id}"),
    ("INFO ", "http.server", "POST /api/v2/checkout 201 {bytes}B {ms}ms user={id}"),
    ("DEBUG", "k8s.probe", "GET /healthz 200 2B 0.1ms"),
    ("INFO ", "storage.s3", "PUT s3://prod-events/year=2026/part-{id}.parquet {bytes} bytes in {ms} ms"),
    ("DEBUG", "db.pool", "connection {octet} released, {small} in use"),
    ("INFO ", "scheduler", "job {hex} finished with status SUCCEEDED after {ms} ms"),
    ("WARN ", "auth.session", "login failed for user {id} from 10.{octet}.{octet}.{octet}: attempt {small}"),
    (
        "WARN ",
        "billing.worker",
        "retrying {hex} at http://10.{octet}.{octet}.{octet}:8080/charge, attempt {small}",
    ),
    ("ERROR", "storage.s3", "TimeoutError: no answer from node-{octet} within {bytes} ms while reading shard {small}"),
)


def log_lines(count: int, seed: int = SEED) -> list[str]:
    """Lines of a web service's log: time, level, component, trace id and a message with parameters.

    Only ``random()`` is asked of the generator, which Python promises to keep, and no function of the C library is
    asked of its numbers: the same lines everywhere.
    """
    rand = Random(seed).random

    def spread(digits: int) -> float:
        """A positive number of up to so many digits, small ones as likely as large ones."""
        return 10 ** (1 + int(digits * rand())) * rand()

    lines = []
    milliseconds = 0
    for _ in range(count):
        milliseconds += int(25 * rand())
        second, ms = divmod(milliseconds, 1000)
        minute, second = divmod(second, 60)
        hour, minute = divmod(minute, 60)
        day, hour = divmod(hour, 24)
        level, component, text = MESSAGES[int(len(MESSAGES) * rand() * rand())]
        message = text.format(
            id=int(spread(7)),
            small=1 + int(60 * rand() * rand() * rand()),
            bytes=int(spread(6)),
            ms=f"{spread(4):.1f}",
            hex=f"{int(2**48 * rand()):012x}",
            octet=int(255 * rand()),
        )
        lines.append(
            f"2026-11-{1 + day % 30:02d}T{hour:02d}:{minute:02d}:{second:02d}.{ms:03d}Z "
            f"{level} [{component}] trace={int(2**32 * rand()):08x}{int(2**32 * rand()):08x} {message}"
        )
    return lines


def email_addresses(count: int, seed: int = SEED) -> list[str]:
    """Addresses of people at some twenty providers, frequent ones first; the same lines everywhere."""
    rand = Random(seed).random

    def some(words: tuple[str, ...]) -> str:
        return words[int(len(words) * rand())]

    lines = []
    for _ in range(count):
        name = f"{some(SYLLABLES)}{some(SYLLABLES)}{some(('.', '_', ''))}{some(SYLLABLES)}{some(SYLLABLES)}"
        number = str(int(10_000 * rand())) if rand() < 0.4 else ""
        lines.append(f"{name}{number}@{PROVIDERS[int(len(PROVIDERS) * rand() * rand())]}")
    return lines


def random_rows(nbytes: int, seed: int = SEED) -> tuple[np.ndarray, np.ndarray]:
    """Bytes that no compressor makes smaller, in rows of 16 to 112 bytes: characters and offsets."""
    generator = np.random.Generator(np.random.PCG64(seed))
    lengths = generator.integers(16, 113, nbytes // 64, dtype=np.int32)
    offsets = np.zeros(lengths.size + 1, np.int64)
    np.cumsum(lengths, out=offsets[1:])
    offsets = offsets[: np.searchsorted(offsets, nbytes, "right")]
    return np.frombuffer(generator.bytes(int(offsets[-1])), np.uint8), offsets.astype(np.int32)


def repeated(series: Any, min_chars: int) -> Any:
    """The series as often as it takes to have so many characters."""
    import cudf

    chars = characters(series).size
    return cudf.concat([series] * -(-min_chars // max(chars, 1)), ignore_index=True) if chars < min_chars else series


def characters(series: Any) -> Any:
    """The characters of a whole (unsliced) series, as a CuPy array."""
    column, _ = series.to_pylibcudf()
    return _as_array(column.data(), "uint8", column)


def offsets(series: Any) -> Any:
    """The offsets of a whole (unsliced) series, as a CuPy array."""
    import pylibcudf as plc

    column, _ = series.to_pylibcudf()
    child = column.child(0)
    dtype = "int64" if child.type().id() == plc.TypeId.INT64 else "int32"
    return _as_array(child.data(), dtype, column)[: len(series) + 1]


def _as_array(data: Any, dtype: str, owner: Any) -> Any:
    import cupy

    memory = cupy.cuda.UnownedMemory(data.ptr, data.size, owner)
    return cupy.ndarray((data.size // np.dtype(dtype).itemsize,), dtype, cupy.cuda.MemoryPointer(memory, 0))


def _read_tpch(folder: str, column: str, min_chars: int) -> Any:
    import cudf

    series = cudf.read_parquet(Path(folder) / f"{TPCH[column]}.parquet", columns=[column])[column]
    return repeated(series, min_chars)


def _read_dbtext(folder: str, name: str, min_chars: int) -> Any:
    import cudf

    lines = (Path(folder) / name).read_bytes().decode("utf-8", "replace").split("\n")
    return repeated(cudf.Series(lines[:-1] if lines[-1] == "" else lines), min_chars)


def _make_log_lines(min_chars: int) -> Any:
    import cudf

    # 110 MB that do not repeat: no codec here looks back so far but dictionary encoding.
    return repeated(cudf.Series(log_lines(min(1_000_000, max(min_chars // 100, 1)))), min_chars)


def _make_random(min_chars: int) -> Any:
    import cudf
    import pyarrow as pa

    chars, ends = random_rows(min_chars)
    return cudf.Series(pa.StringArray.from_buffers(ends.size - 1, pa.py_buffer(ends), pa.py_buffer(chars)))


def wanted(options: argparse.Namespace) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name of every dataset that the options ask for, and what makes the cudf.Series.

    Options: the folders ``tpch`` and ``dbtext``, ``scale``, ``min_chars``, and ``only``, beginnings of names.
    """
    found: dict[str, Callable[[], Any]] = {}
    if options.tpch:
        for column in TPCH:
            name = f"tpch.{column}.sf{options.scale}"
            found[name] = partial(_read_tpch, options.tpch, column, options.min_chars)
    if options.dbtext:
        for name in DBTEXT:
            found[f"dbtext.{name}"] = partial(_read_dbtext, options.dbtext, name, options.min_chars)
    if options.generated:
        found["generated.log_lines"] = partial(_make_log_lines, options.min_chars)
        found["generated.random"] = partial(_make_random, options.min_chars)
    yield from (
        (name, make) for name, make in found.items() if not options.only or name.startswith(tuple(options.only))
    )


def add_options(parser: argparse.ArgumentParser) -> None:
    """The options that `wanted` reads."""
    parser.add_argument("--tpch", help="folder with TPC-H Parquet files")
    parser.add_argument("--scale", type=int, default=10, help="their scale factor, for the names")
    parser.add_argument("--dbtext", help="folder with the DBText files")
    parser.add_argument("--generated", action="store_true", help="also the generated columns")
    parser.add_argument("--min-chars", type=lambda text: int(float(text)), default=10**9, help="repeat to this size")
    parser.add_argument("--only", nargs="*", help="these datasets only, by the beginning of their names")
