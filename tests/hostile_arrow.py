"""Puts damaged Arrow streams and Parquet files through what takes them: ``hostile_arrow.py KIND FIRST COUNT``.

KIND is ``columns`` (arrays with damaged buffers, for `compress`), ``streams`` (IPC streams, for `compress`),
``carried`` (streams that carry compressed columns, for `from_arrow`) or ``parquet`` (files, for `read_parquet`). What
comes of it is an error of a built-in kind, or a right result. It prints a JSON object for each case that went wrong,
and at the end what all did. A crash or a hang ends the process; the file that ``CUDF_FSST_HOSTILE_CASE`` names holds
the number of the case that did it.
"""

from __future__ import annotations

import contextlib
import io
import json
import os
import resource
import signal
import sys
import tempfile
import warnings
from collections import Counter
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa

import cudf_fsst

SECONDS = 60
#: Bytes that the process may take.
NBYTES = 6 << 30
#: Kinds of errors that say what is wrong.
ALLOWED = (ValueError, TypeError, OSError, OverflowError, MemoryError, NotImplementedError)


@cache
def arrays() -> dict[str, Any]:
    """Arrays of many types, with nulls and slices."""
    texts = [None if i % 7 == 3 else f"text {i} " * (i % 5) for i in range(300)]
    numbers = [None if i % 11 == 5 else i * i for i in range(300)]
    lists = [None if i % 9 == 4 else list(range(i % 4)) for i in range(300)]
    made = {
        "string": pa.array(texts),
        "large_string": pa.array(texts, pa.large_string()),
        "binary": pa.array([None if t is None else t.encode() for t in texts]),
        "string_view": pa.array(texts, pa.string_view()),
        "binary_view": pa.array([None if t is None else t.encode() for t in texts], pa.binary_view()),
        "int64": pa.array(numbers),
        "bool": pa.array([None if n is None else n % 3 == 0 for n in numbers]),
        "decimal": pa.array(numbers, pa.decimal128(20, 0)),
        "fixed": pa.array([None if n is None else b"%06d" % n for n in numbers], pa.binary(6)),
        "dictionary": pa.array(texts).dictionary_encode(),
        "list": pa.array(lists),
        "large_list": pa.array(lists, pa.large_list(pa.int64())),
        "list_view": pa.array(lists, pa.list_view(pa.int64())),
        "large_list_view": pa.array(lists, pa.large_list_view(pa.int32())),
        "list_of_views": pa.array([[t, "x"] for t in texts], pa.list_(pa.string_view())),
        "fixed_list": pa.array([[1, i] for i in range(300)], pa.list_(pa.int32(), 2)),
        "struct": pa.array([{"a": t, "b": n} for t, n in zip(texts, numbers, strict=True)]),
        "map": pa.array([[("k", i)] for i in range(300)], pa.map_(pa.string(), pa.int64())),
        "runs": pa.RunEndEncodedArray.from_arrays(pa.array([100, 200, 300], pa.int32()), pa.array(["a", None, "c"])),
    }
    return made | {f"{name} slice": array.slice(13, 200) for name, array in made.items() if name != "runs"}


def damaged_bytes(data: bytes, random: np.random.Generator, first: int = 0) -> bytes:
    """The same with a few bytes changed, from `first` on, or cut off."""
    values = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(min(first, len(values) - 1), len(values)))
        way = random.integers(0, 5)
        if way == 0:
            values[at] ^= 1 << int(random.integers(0, 8))
        elif way == 1:
            values[at] = int(random.choice([0, 1, 0x7F, 0x80, 0xFF]))
        elif way == 2:
            values[at : at + 4] = int(random.choice([0, 2**31 - 1, 2**31, 2**32 - 1, 1000])).to_bytes(4, "little")
        elif way == 3:
            values[at : at + 8] = (2**63 - 1, 2**63, 2**64 - 1, 2**40)[random.integers(4)].to_bytes(8, "little")
        else:
            values[at] = (values[at] + int(random.integers(1, 256))) % 256
    return bytes(values[: len(data)] if random.random() < 0.95 else values[: int(random.integers(0, len(data)))])


def damaged_array(array: Any, random: np.random.Generator) -> Any:
    """The same with a few bytes of one of its buffers changed."""
    sink = io.BytesIO()
    batch = pa.record_batch([array], ["a"])
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue()
    first = batch.schema.serialize().size
    if random.random() < 0.9:  # values alone, not what says where they are
        *_, last = pa.ipc.MessageReader.open_stream(data)
        first = len(data) - 8 - last.body.size
    with pa.ipc.open_stream(damaged_bytes(data, random, first)) as reader:
        return reader.read_all()["a"]


def columns_case(random: np.random.Generator) -> Callable[[], Any]:
    name = list(arrays())[int(random.integers(0, len(arrays())))]
    try:
        array = damaged_array(arrays()[name], random)
    except Exception:
        return lambda: None  # pyarrow does not read it
    return lambda: compress(array)


def compress(array: Any) -> Any:
    """A column of a pandas Series of an array, and rows of it."""
    series = pd.Series(pd.arrays.ArrowExtensionArray(array))
    column = series.fsst.compress()
    found = column.to_arrow()
    found.validate(full=not has_text(found.type))
    assert len(found) == len(array)
    if len(column):
        column.take([0, len(column) - 1])
    assert column.to_arrow().equals(found)
    return column


def has_text(kind: Any) -> bool:
    """Whether pyarrow would look whether it is UTF-8."""
    return "str" in str(kind) or "text" in str(kind)


def streams_case(random: np.random.Generator) -> Callable[[], Any]:
    names = random.choice([name for name in arrays() if "slice" not in name], 3, replace=False)
    sink = io.BytesIO()
    table = pa.table({str(name): arrays()[str(name)] for name in names})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data = damaged_bytes(sink.getvalue(), random)

    def call() -> Any:
        try:
            with pa.ipc.open_stream(data) as reader:
                found = reader.read_all()
        except Exception:
            return None  # pyarrow does not read it
        return [compress(column) for column in found.columns]

    return call


@cache
def carried() -> list[bytes]:
    frame = pd.DataFrame({"t": [f"text {i % 90}" for i in range(400)], "n": range(400), "f": np.arange(400) / 7})
    made = []
    for kind in (pa.large_binary(), pa.binary(), pa.binary_view()):
        table = frame.fsst.compress().to_arrow(compressed=True)
        if kind != pa.large_binary():
            table = pa.table({name: pa.array(table[name].to_pylist(), kind) for name in table.column_names})
        sink = io.BytesIO()
        with pa.ipc.new_stream(sink, table.schema) as writer:
            writer.write_table(table)
        made.append(sink.getvalue())
    return made


def carried_case(random: np.random.Generator) -> Callable[[], Any]:
    data = carried()[int(random.integers(0, len(carried())))]
    # Offsets and views are few bytes among many: half of the cases are theirs.
    if random.random() < 0.5:
        data = bytearray(data)
        with pa.ipc.open_stream(bytes(data)) as reader:
            batch = reader.read_next_batch()
        column = batch.column(int(random.integers(0, batch.num_columns)))
        storage = column.storage if isinstance(column.type, pa.BaseExtensionType) else column
        buffer = storage.buffers()[1].to_pybytes()
        at = bytes(data).find(buffer)
        if at >= 0 and buffer:
            data[at : at + len(buffer)] = damaged_bytes(buffer, random).ljust(len(buffer), b"\1")[: len(buffer)]
        data = bytes(data)
    else:
        data = damaged_bytes(data, random)

    def call() -> Any:
        try:
            with pa.ipc.open_stream(data) as reader:
                found = reader.read_all()
        except Exception:
            return None
        frame = cudf_fsst.from_arrow(found)
        return frame.to_arrow().validate()

    return call


@cache
def files() -> list[bytes]:
    """Parquet files of several writers, types and codecs."""
    count = 900
    frame = pd.DataFrame(
        {
            "t": [None if i % 13 == 2 else f"text {i % 40}" for i in range(count)],
            "n": pd.array([None if i % 17 == 1 else i for i in range(count)], "Int64"),
            "f": np.arange(count) / 3,
            "d": pd.date_range("2020-01-01", periods=count, freq="h"),
            "l": [[i, i + 1] if i % 5 else None for i in range(count)],
            "c": pd.Categorical([f"c{i % 3}" for i in range(count)]),
        }
    )
    made = []
    for options in (
        {"row_group_size": 200},
        {"row_group_size": 1000, "compression": "zstd", "data_page_version": "2.0"},
        {"row_group_size": 7, "compression": "none", "use_dictionary": False, "write_page_index": True},
    ):
        sink = io.BytesIO()
        frame.to_parquet(sink, **options)
        made.append(sink.getvalue())
    return made


def parquet_case(random: np.random.Generator) -> Callable[[], Any]:
    data = files()[int(random.integers(0, len(files())))]
    footer = len(data) - 8 - int.from_bytes(data[-8:-4], "little")
    damaged = damaged_bytes(data, random, footer if random.random() < 0.8 else 0)
    filters = [("n", ">", 30)] if random.random() < 0.3 else None

    def call() -> Any:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "a.parquet")
            path.write_bytes(damaged)
            try:
                frame = cudf_fsst.read_parquet(path, device="cpu", filters=filters)
            except MemoryError:
                raise
            except Exception as error:
                if not isinstance(error, (OSError, ValueError)) or str(path) not in str(error):
                    raise AssertionError(f"no OSError or ValueError that names the file: {error!r}") from error
                raise
            table = frame.to_arrow()
            table.validate()
            return table

    return call


CASES = {"columns": columns_case, "streams": streams_case, "carried": carried_case, "parquet": parquet_case}


def main(kind: str, first: int, count: int) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (NBYTES + (20 << 30), NBYTES + (20 << 30)))
    warnings.simplefilter("ignore")
    note, counts, wrong = os.environ.get("CUDF_FSST_HOSTILE_CASE"), Counter[str](), 0
    for number in range(first, first + count):
        if note:
            Path(note).write_text(str(number))
        signal.alarm(SECONDS)
        call = CASES[kind](np.random.default_rng([number, sorted(CASES).index(kind)]))
        try:
            with contextlib.redirect_stdout(io.StringIO()):
                found = call()
            counts["not read by pyarrow" if found is None else "read"] += 1
        except ALLOWED as error:
            counts["refused"] += 1
            counts[type(error).__name__] += 1
        except Exception as error:
            wrong += 1
            print(json.dumps({"case": number, "of": kind, "error": f"{type(error).__name__}: {error}"}), flush=True)
    print(json.dumps({"counts": counts}))
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
