"""``df.fsst.compress()`` on a GPU: every dtype comes back, with the bytes that the CPU writes."""

from __future__ import annotations

import contextlib
import dataclasses
import decimal
import gc
import pickle
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cudf_fsst.codecs.text.layout import LEVELS, TILE_SIZES
from cudf_fsst.codecs.values import cpu as values_cpu
from cudf_fsst.codecs.values import plan
from frame_cases import (
    COLUMNS,
    INDEXES,
    ON_GPU,
    ROWS,
    saved_and_loaded,
    whole,
)
from nan_cases import KINDS, NANS, floats
from stored_file import load_stored


def same_on_gpu(found: Any, wanted: Any) -> None:
    """cuDF frames; its own comparison does not know decimals, lists and slices of structs."""
    assert list(map(str, found.dtypes)) == list(map(str, wanted.dtypes))
    pd.testing.assert_index_equal(found.index.to_pandas(), wanted.index.to_pandas())
    assert repr(found.to_arrow(preserve_index=False).to_pylist()) == repr(
        wanted.to_arrow(preserve_index=False).to_pylist()
    )


#: Indexes whose strings, categories and nulls are compressed.
LABELS: dict[str, Callable[[], Any]] = {
    **INDEXES,
    "strings with nulls": lambda: pd.Index([None if i % 11 == 0 else f"label {i}" for i in range(ROWS)]),
    "categories": lambda: pd.CategoricalIndex([f"kind {i % 40}" for i in range(ROWS)], name="k"),
}


def same_streams(paths: Sequence[Path]) -> None:
    """Two files of frames hold the same compressed bytes."""
    sections = [load_stored(path).streams for path in paths]
    assert len(sections[0]) == len(sections[1])
    for (codec, parts), (other, others) in zip(*sections, strict=True):
        assert codec == other
        # Codes of categories may have a sign in pandas and none in cuDF, which their parameters say.
        for part, same_part in zip(parts, others, strict=True):
            np.testing.assert_array_equal(part.meta, same_part.meta)
            np.testing.assert_array_equal(part.codes, same_part.codes)


@pytest.mark.gpu
class TestGpu:
    @pytest.mark.parametrize("name", ON_GPU)
    def test_dtype(self, name: str, tmp_path: Path) -> None:
        import cudf

        data = cudf.from_pandas(COLUMNS[name]().to_frame("the column"), nan_as_null=False)
        for part in (data, data.iloc[7:1999], data.iloc[:0], data.iloc[5:6], data.iloc[3:2500:2]):
            frame = part.fsst.compress()
            assert frame.device.startswith("cuda:")
            same_on_gpu(frame.decompress(), part)
            assert str(frame["the column"].dtype) == str(part["the column"].dtype)
            assert list(map(str, frame.dtypes)) == list(map(str, part.dtypes))
            for host in (frame.to_host(), part.fsst.to_host()):
                assert host.device == "cpu"
                same_on_gpu(host.to_cudf(), part)
                same_on_gpu(host.to_device().decompress(), part)
                pd.testing.assert_frame_equal(
                    host.to_pandas(), part.to_pandas(), check_dtype=False, check_column_type=False
                )
            same_on_gpu(saved_and_loaded(frame, tmp_path).to_cudf(), part)

    @pytest.mark.parametrize(
        "name",
        [
            "int8",
            "uint16",
            "int32 sorted",
            "int64 extremes",
            "float32",
            "bool",
            "datetime",
            "str",
            "timedelta",
            "float64 with nan and inf",
        ],
    )
    def test_same_bytes_as_on_the_host(self, name: str, tmp_path: Path) -> None:
        import cudf

        data = pd.DataFrame({"c": COLUMNS[name]()})
        made = [tmp_path / "host", tmp_path / "gpu"]
        data.fsst.compress().save(made[0])
        cudf.from_pandas(data, nan_as_null=False).fsst.compress().save(made[1])
        same_streams(made)

    @pytest.mark.parametrize("name", LABELS)
    def test_same_bytes_for_all_options(self, name: str, tmp_path: Path) -> None:
        """Of columns, which the options are for, and of the index, which has none."""
        import cudf

        data = whole()[["int8", "str", "category"]].set_axis(LABELS[name]())
        there = cudf.from_pandas(data)
        made = [tmp_path / "host", tmp_path / "gpu"]
        for tile_size in ("auto", *TILE_SIZES):
            for level in LEVELS:
                options = {"tile_size": tile_size, "level": level}
                data.fsst.compress(**options).save(made[0])
                for frame in (there.fsst.compress(**options), there.fsst.to_host(**options)):
                    frame.save(made[1])
                    same_streams(made)

    def test_halves_of_decimals_cut_at_different_rows(self) -> None:
        """A file may have them so, though none of ours has."""
        import cudf

        numbers = [decimal.Decimal(i**9) * (-1) ** i if i % 7 else None for i in range(2000)]
        table = pa.table({"a": pa.array(numbers, pa.decimal128(38, 0))})
        frame = cudf.DataFrame.from_arrow(table).fsst.to_host()
        (column,) = frame._columns
        for cuts in (([500], [1500]), ([1500], [500]), ([1, 1999], [])):
            streams = []
            for stream, rows in zip(column.node.values, cuts, strict=True):
                codec, values = stream[0].codec, values_cpu.read(stream, 8)
                pieces = [values_cpu.compress(piece, codec=codec) for piece in np.split(values, rows)]
                streams.append(tuple(part for piece in pieces for part in piece))
            node = dataclasses.replace(column.node, values=tuple(streams))
            frame._columns = (dataclasses.replace(column, node=node),)
            for found in (frame.to_cudf(), frame.to_device().decompress()):
                assert found["a"].to_arrow().to_pylist() == numbers

    def test_decimals_lists_and_structs(self) -> None:
        import cudf

        table = pa.table(
            {
                "decimal64": pa.array(
                    [decimal.Decimal(i) / 4 if i % 7 else None for i in range(ROWS)], pa.decimal64(12, 2)
                ),
                "list": pa.array([None if i % 5 == 0 else list(range(i % 4)) for i in range(ROWS)]),
                "struct": pa.array([{"a": i, "b": {"c": "x" * (i % 3)}} if i % 9 else None for i in range(ROWS)]),
                "lists of strings": pa.array([[[str(i)] * (i % 3)] for i in range(ROWS)]),
            }
        )
        data = cudf.DataFrame.from_arrow(table)
        for part in (data, data.iloc[100:2000], data.iloc[:10], data.iloc[:0]):
            frame = part.fsst.compress()
            same_on_gpu(frame.decompress(), part)
            same_on_gpu(frame.to_host().to_cudf(), part)
            assert [str(dtype) for dtype in frame.decompress().dtypes] == [str(dtype) for dtype in part.dtypes]

    @pytest.mark.parametrize("name", INDEXES)
    def test_index(self, name: str, tmp_path: Path) -> None:
        import cudf

        data = cudf.from_pandas(whole()[["int8", "str"]].set_axis(INDEXES[name]()))
        frame = data.fsst.compress()
        same_on_gpu(frame.decompress(), data)
        same_on_gpu(saved_and_loaded(frame, tmp_path).to_cudf(), data)
        same_on_gpu(pickle.loads(pickle.dumps(frame)).decompress(), data)

    @pytest.mark.parametrize("codec", ["bitpack", "gfc", "gpulz", "raw"])
    def test_named_codec(self, codec: str) -> None:
        import cudf

        data = cudf.from_pandas(whole()[["int64 extremes", "int32 sorted", "datetime"]])
        host = data.to_pandas().fsst.compress(codecs=dict.fromkeys(data, codec))
        frame = data.fsst.compress(codecs=dict.fromkeys(data, codec))
        assert frame.nbytes == host.nbytes
        same_on_gpu(frame.decompress(), data)
        same_on_gpu(host.to_cudf(), data)

    def test_big(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Several pieces and segments a column, with nulls and on a stream."""
        import cudf
        import cupy
        from cudf.testing import assert_frame_equal

        monkeypatch.setattr(plan, "PART_NBYTES", 1 << 20)
        data = cudf.from_pandas(pd.concat([whole()[["int32 sorted", "Int64", "datetime", "str", "float32"]]] * 200))
        stream = cupy.cuda.Stream(non_blocking=True)
        for frame in (data.fsst.compress(), data.fsst.compress(stream=stream), data.fsst.to_host().to_device()):
            assert_frame_equal(frame.decompress(), data)

    @pytest.mark.parametrize("itemsize", [4, 8])
    def test_nan(self, itemsize: int, tmp_path: Path) -> None:
        """The bytes of the host, and the bits of every NaN back, of rows by number too; with and without a sample."""
        import cudf

        rng = np.random.default_rng(itemsize)
        for rows in 5000, 300_000:
            plain = pd.DataFrame(
                {
                    f"{kind} {len(nans)}": floats(kind, rows, itemsize, nans, 0.03, rng)
                    for kind in KINDS
                    for nans in (NANS[itemsize][:1], NANS[itemsize])
                }
            )
            frame = cudf.from_pandas(plain, nan_as_null=False).fsst.compress()
            made = tmp_path / "host.fsst", tmp_path / "gpu.fsst"
            plain.fsst.compress().save(made[0])
            frame.save(made[1])
            same_streams(made)
            wanted = rng.integers(0, rows, 1000)
            for found, other in (
                (frame.decompress(), plain),
                (frame.iloc[1000:2500], plain.iloc[1000:2500]),
                (frame.take(wanted), plain.take(wanted)),
            ):
                for name in plain:
                    values = found[name].to_pandas().to_numpy().view(f"u{itemsize}")
                    np.testing.assert_array_equal(values, other[name].to_numpy().view(f"u{itemsize}"))

    def test_characters_under_nulls(self) -> None:
        """Of columns, categories' strings and strings in lists, whole and cut."""
        import cudf
        import cupy
        import pylibcudf as plc

        words = ["one", "two", "three", "four"] * 100
        full, _ = cudf.Series(words).to_pylibcudf()
        mask = plc.gpumemoryview(cupy.full(64, 0b01010101, dtype=cupy.uint8))
        column = plc.Column(full.type(), full.size(), full.data(), mask, 200, 0, [full.child(0)])
        offsets, _ = cudf.Series(np.arange(0, 401, 4, dtype="i4")).to_pylibcudf()
        lists = plc.Column(plc.DataType(plc.TypeId.LIST), 100, None, None, 0, 0, [offsets, column])
        wanted = [word if i % 2 == 0 else None for i, word in enumerate(words)]
        plain = cudf.DataFrame({"a": cudf.Series.from_pylibcudf(column)})
        nested = cudf.DataFrame({"a": cudf.Series.from_pylibcudf(lists)})
        for data, values in ((plain, wanted), (nested, [wanted[i : i + 4] for i in range(0, 400, 4)])):
            for cut in (slice(None), slice(3, 90)):
                for frame in (data.iloc[cut].fsst.compress(), data.iloc[cut].fsst.to_host()):
                    assert frame.to_cudf()["a"].to_arrow().to_pylist() == values[cut]

    def test_stream(self) -> None:
        """cuDF's own work on what a stream of the user's makes waits for it."""
        import cudf
        import cupy

        names = ["int32 sorted", "Int64", "datetime", "str", "category"]
        data = cudf.from_pandas(pd.concat([whole()[names]] * 200))
        data = data.set_index(["int32 sorted", "datetime"])
        stream = cupy.cuda.Stream(non_blocking=True)
        for part in (data, data.iloc[1000:-1000]):
            same_on_gpu(part.fsst.compress(stream=stream).decompress(stream=stream), part)

    @pytest.mark.slow
    def test_out_of_memory_at_every_allocation(self) -> None:
        """Of GPU memory: the error names the column, the data stays, nothing is kept, no pinned memory either."""
        import cudf
        import rmm

        from cudf_fsst.device.pinned import pinned_nbytes

        data = cudf.from_pandas(whole()[["int32 sorted", "Int64", "float32", "str", "category"]])
        data = cudf.concat([data] * 40, ignore_index=True)
        host = data.fsst.to_host()
        before, pinned = rmm.mr.get_current_device_resource(), pinned_nbytes()

        class Failing:
            """Fails the allocation of this number."""

            def __init__(self, number: int) -> None:
                self.left, self.held = number, 0
                self.resource = rmm.mr.CallbackMemoryResource(self.allocate, self.free)

            def allocate(self, nbytes: int, stream: Any) -> int:
                if self.left == 0:
                    raise MemoryError("this one fails")
                self.left -= 1
                self.held += nbytes
                return before.allocate(nbytes, stream)

            def free(self, address: int, nbytes: int, stream: Any) -> None:
                self.held -= nbytes
                before.deallocate(address, nbytes, stream)

        for call in (data.fsst.compress, data.fsst.to_host, host.to_cudf, host.to_device):
            for number in range(10_000):
                failing = Failing(number)
                rmm.mr.set_current_device_resource(failing.resource)
                result = None
                with contextlib.suppress(MemoryError):
                    result = call()
                failed, result = result is None, None
                gc.collect()
                rmm.mr.set_current_device_resource(before)
                assert failing.held == 0, (call, number)
                assert pinned_nbytes() == pinned
                if not failed:
                    break
            assert number > (1 if call == host.to_device else 5)
        same_on_gpu(host.to_cudf(), data)
