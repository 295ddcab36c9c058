"""The one checker that every way of compressing a column passes through, and the named edge cases it is fed with.

A *variant* is a codec side (host, GPU, emulated kernels) or a whole path (pandas, cuDF). Whatever it is, it must give
back every row, any selection of rows, and store the very bytes that the host codec stores.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pytest

from cudf_fsst.buffers import ColumnBuffers, HostStrings
from cudf_fsst.codecs import host, host_strings, registry
from cudf_fsst.codecs.dict import plan as dictionaries
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.node import Node
from cudf_fsst.codecs.part import Packed
from cudf_fsst.codecs.task import ColumnTask
from cudf_fsst.codecs.text import cpu, plan
from cudf_fsst.codecs.text.segment import Segment
from cudf_fsst.codecs.values import cpu as values

Rows = list[bytes | None]


def same_parts(found: Iterable[Segment | Packed], wanted: Iterable[Segment | Packed]) -> None:
    """The same parts, in host memory, with the same bytes."""
    for one, other in zip(found, wanted, strict=True):
        names = ("codec", "rows", "itemsize", "parameters")
        if isinstance(other, Segment):
            names = ("layout", "null_count", "table", "codes_nbytes")
        assert type(one) is type(other)
        assert [getattr(one, name) for name in names] == [getattr(other, name) for name in names]
        np.testing.assert_array_equal(one.meta, other.meta)
        np.testing.assert_array_equal(one.codes, other.codes)


class Variant(Protocol):
    """A way of compressing a column; ``compressed`` is whatever it likes."""

    #: Whether it takes bytes that are not UTF-8.
    any_bytes: bool
    #: What it is told to compress with; None: it chooses for itself.
    codec: str | None

    def compress(self, strings: HostStrings, table: SymbolTable | None, tile_size: int | str, level: str) -> Any: ...

    def segments(self, compressed: Any) -> Sequence[Segment | Packed]:
        """What is stored, in host memory: segments, and of dictionaries validity and codes too."""

    def decompress(self, compressed: Any) -> HostStrings: ...

    def take(self, compressed: Any, rows: np.ndarray) -> HostStrings: ...

    def take_range(self, compressed: Any, start: int, stop: int) -> HostStrings: ...


@dataclass(frozen=True)
class Case:
    """A column with a name.

    Attributes
    ----------
    build
        Makes it.
    utf8
        Whether its characters are UTF-8.
    segment_size, table_scope
        Characters of a segment, and characters that share a table, in place of the rule's; None: the rule's. The rule's
        smallest segment has 28 MiB.
    """

    name: str
    build: Callable[[], HostStrings]
    utf8: bool = True
    segment_size: int | None = None
    table_scope: int | None = None

    def patch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Make segments as small as the case wants them."""
        if self.segment_size is not None:
            size = self.segment_size
            monkeypatch.setattr(plan, "segment_size", lambda chars: size)
        if self.table_scope is not None:
            monkeypatch.setattr(plan, "TABLE_SCOPE", self.table_scope)


# Columns as buffers -------------------------------------------------------------------------------------------------


def strings_of(rows: Sequence[bytes | None], offset_dtype: Any = np.int32, under_null: bytes = b"") -> HostStrings:
    """A column as buffers; `under_null` are the characters of its null rows."""
    data = [under_null if row is None else row for row in rows]
    offsets = np.zeros(len(rows) + 1, offset_dtype)
    np.cumsum([len(row) for row in data], out=offsets[1:])
    nulls = sum(row is None for row in rows)
    valid = np.array([row is not None for row in rows], bool)
    return HostStrings(
        rows=len(rows),
        chars=np.frombuffer(b"".join(data), np.uint8),
        offsets=offsets,
        validity=np.packbits(valid, bitorder="little") if nulls else None,
        null_count=nulls,
    )


def sliced(strings: HostStrings, start: int, stop: int) -> HostStrings:
    """Rows of a column, as a slice of its buffers."""
    rows = rows_of(strings)[start:stop]
    return HostStrings(
        rows=stop - start,
        chars=strings.chars,
        offsets=strings.offsets[start : stop + 1],
        validity=strings.validity,
        validity_offset=strings.validity_offset + start,
        null_count=sum(row is None for row in rows),
    )


def rows_of(strings: HostStrings) -> Rows:
    """The rows of a column, one by one."""
    data = strings.chars.tobytes()
    rows: Rows = []
    for row in range(strings.rows):
        bit = strings.validity_offset + row
        if strings.validity is not None and not strings.validity[bit >> 3] >> (bit & 7) & 1:
            rows.append(None)
        else:
            rows.append(data[int(strings.offsets[row]) : int(strings.offsets[row + 1])])
    return rows


# Edge cases ---------------------------------------------------------------------------------------------------------

_WORDS = [b"fluffily", b"regular", b"deposits", b"about", b"the", b"slyly", b"even", b"packages", b"haggle"]


def _rng() -> np.random.Generator:
    return np.random.default_rng(20190218)


def _text(count: int, words: int = 6) -> list[bytes]:
    rng = _rng()
    return [b" ".join(_WORDS[i] for i in rng.integers(0, len(_WORDS), rng.integers(0, words))) for _ in range(count)]


def _with_nulls(rows: Sequence[bytes]) -> Rows:
    rng = _rng()
    return [None if hide else row for row, hide in zip(rows, rng.random(len(rows)) < 0.3, strict=True)]


def _random(count: int, longest: int) -> list[bytes]:
    rng = _rng()
    return [rng.bytes(int(length)) for length in rng.integers(0, longest, count)]


def _unicode() -> list[bytes]:
    words = ["Grüße", "日本語テキスト", "emoji 🎉🎊", "עברית", "a\u0301", "\u0000", "naïve café", "Ω" * 40]
    rng = _rng()
    return ["".join(words[i] for i in rng.integers(0, len(words), 3)).encode() for _ in range(400)]


CASES = [
    Case("non_null", lambda: strings_of(_text(1000))),
    Case("partial_nulls", lambda: strings_of(_with_nulls(_text(1000)))),
    Case("all_nulls", lambda: strings_of([None] * 700)),
    Case("empty_column", lambda: strings_of([])),
    Case("empty_strings", lambda: strings_of([b""] * 600)),
    Case("empty_strings_and_nulls", lambda: strings_of([b"", None] * 300)),
    Case("one_row", lambda: strings_of([b"one row"])),
    Case("one_null", lambda: strings_of([None])),
    Case("one_empty_string", lambda: strings_of([b""])),
    Case("one_byte", lambda: strings_of([b"x"])),
    Case("one_byte_rows", lambda: strings_of([b"abc"[i % 3 : i % 3 + 1] for i in range(3000)])),
    Case("every_byte_value", lambda: strings_of([bytes([i]) for i in range(256)] * 5), utf8=False),
    Case("invalid_utf8", lambda: strings_of([b"\xff\xfe", b"\x80text\xc3", b"\xed\xa0\x80"] * 200), utf8=False),
    Case("escape_bytes", lambda: strings_of([b"\xff" * 300, b"a\xff" * 200]), utf8=False),
    Case("random_bytes", lambda: strings_of(_random(200, 300)), utf8=False),
    Case("random_bytes_long", lambda: strings_of(_random(3, 60_000)), utf8=False),
    Case("long_row", lambda: strings_of([b"a", b" ".join(_text(8000)), b"", b"z"])),
    Case("one_byte_repeated", lambda: strings_of([b"a" * 5000, b"a" * 77])),
    Case("unicode", lambda: strings_of(_unicode())),
    Case("rows_of_tile_size", lambda: strings_of([bytes([97 + i % 26]) * 256 for i in range(300)])),
    Case("one_block_of_tiles", lambda: strings_of([b"0123456789abcdef" * 16] * 128)),
    Case("one_block_of_rows", lambda: strings_of(_text(256))),
    Case("block_of_rows_and_one", lambda: strings_of(_text(257))),
    Case("lengths_far_apart", lambda: strings_of([b"x" * (2**k) for k in range(15)] + [b""] * 300)),
    Case("int64_offsets", lambda: strings_of(_with_nulls(_text(500)), np.int64)),
    Case("characters_under_nulls", lambda: strings_of(_with_nulls(_text(500)), under_null=b"hidden")),
    Case("sliced", lambda: sliced(strings_of(_with_nulls(_text(900))), 13, 813)),
    Case("sliced_to_nothing", lambda: sliced(strings_of(_text(20)), 7, 7)),
    Case("sliced_under_nulls", lambda: sliced(strings_of(_with_nulls(_text(900)), under_null=b"hidden"), 3, 800)),
    Case("multi_segment", lambda: strings_of(_with_nulls(_text(3000))), segment_size=10_000),
    Case("multi_segment_random", lambda: strings_of(_random(300, 400)), utf8=False, segment_size=7_777),
    Case("multi_table", lambda: strings_of(_text(3000)), segment_size=9_000, table_scope=20_000),
    Case("segment_without_nulls", lambda: strings_of([None] * 300 + _text(1500)), segment_size=9_000),
    Case(
        "row_longer_than_segments", lambda: strings_of([*_text(40), b"long " * 9000, *_text(900)]), segment_size=5_000
    ),
]


def _repeated(values: Sequence[bytes | None], count: int) -> Rows:
    """Rows in which all the values are, first in this order."""
    return [*values, *(values[i] for i in _rng().integers(0, len(values), count - len(values)))]


_MODES = [b"AIR", b"RAIL", b"", b"SHIP", b"TRUCK", b"REG AIR", b"MAIL"]

#: Strings that repeat, where a dictionary pays (and some where it does not), and those that look otherwise.
REPEATED = [
    Case("modes", lambda: strings_of(_repeated(_MODES, 20_000))),
    Case("modes_and_nulls", lambda: strings_of(_with_nulls(_repeated(_MODES, 20_001)))),
    Case("nulls_first", lambda: strings_of([None] * 3000 + _repeated(_MODES, 3000) + [None] * 1500)),
    Case("modes_of_a_slice", lambda: sliced(strings_of(_with_nulls(_repeated(_MODES, 5000)), np.int64), 3, 4099)),
    Case("all_equal", lambda: strings_of([b"the same"] * 3000)),
    Case("all_equal_and_nulls", lambda: strings_of([b"the same", None] * 1500)),
    Case("256_values", lambda: strings_of(_repeated([b"value %d" % i for i in range(256)], 4000))),
    Case("257_values", lambda: strings_of(_repeated([b"value %d" % i for i in range(257)], 4000))),
    Case("65536_values", lambda: strings_of(_repeated([b"a value, %d" % i for i in range(2**16)], 150_000))),
    Case("65537_values", lambda: strings_of(_repeated([b"a value, %d" % i for i in range(2**16 + 1)], 150_000))),
    Case("long_values", lambda: strings_of(_repeated([b" ".join(_text(1 + i)) for i in range(40)], 2000))),
    Case("one_long_row", lambda: strings_of([b"x" * 2**20, *_repeated(_MODES, 2000), b"x" * 2**20])),
    Case(
        "bytes_that_are_not_utf8", lambda: strings_of(_repeated([b"\xff", b"\xff\x00", b"\x80" * 9], 2000)), utf8=False
    ),
    Case("equal_but_for_the_end", lambda: strings_of(_repeated([b"0" * 64 + b"%d" % i for i in range(50)], 2000))),
    Case("ends_with_nul", lambda: strings_of(_repeated([b"word", b"word\x00", b"word\x00\x00", b"\x00", b""], 4000))),
    Case("sizes_around_words", lambda: strings_of(_repeated([b"abcdefghijklmnopq"[:i] for i in range(18)], 3000))),
    Case("in_runs", lambda: strings_of([b"key %d" % (i // 30) for i in range(30_000)])),
    Case("all_different", lambda: strings_of([b"row %d" % i for i in range(20_000)])),
    # The sample says otherwise: what it repeats is all that repeats, and what it does not repeat is all that does not.
    Case("sample_repeats_too_much", lambda: strings_of(_sampled(True))),
    Case("sample_repeats_too_little", lambda: strings_of(_sampled(False))),
    Case(
        "scopes_of_both_kinds",
        lambda: strings_of(
            _with_nulls(_repeated(_MODES, 4000)) + _random(1100, 20) + _random(1100, 20) + [b"z"] * 9000
        ),
        utf8=False,
        segment_size=9_000,
        table_scope=9_000,
    ),
]


def _sampled(repeated: bool) -> Rows:
    """Rows of which those in the sample repeat each other, and no others do; or the other way round."""
    count = 120_000
    starts, run = dictionaries.sample_runs(count)
    inside = np.zeros(count, bool)
    inside[(starts[:, None] + np.arange(run)).ravel()] = True
    return [b"again and again" if one == repeated else b"%d" % (row * row) for row, one in enumerate(inside.tolist())]


def cases_for(any_bytes: bool) -> list[Any]:
    """Pytest parameters: the cases for a variant that takes any bytes, or only UTF-8."""
    return [pytest.param(case, id=case.name) for case in CASES if any_bytes or case.utf8]


# The check ----------------------------------------------------------------------------------------------------------


def check(
    variant: Variant,
    case: Case,
    *,
    table: SymbolTable | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
) -> None:
    """Compress a case and look at all of it."""
    strings = case.build()
    expected = rows_of(strings)
    compressed = variant.compress(strings, table, tile_size, level)
    codec = variant.codec if table is None else "fsst"
    options = {"table": table, "tile_size": tile_size, "level": level}
    reference = list(host_strings.compress(strings, pa.large_binary(), codec=codec, **options).parts)
    if registry.is_text(codec):
        assert all(isinstance(part, Segment) and part.codec == codec for part in reference)
    elif codec == "dict" and strings.rows:
        assert any(isinstance(part, Packed) for part in reference)
    check_same_bytes(variant.segments(compressed), reference)
    check_strings(variant.decompress(compressed), expected)
    rng = _rng()
    count = len(expected)
    for start, stop in _ranges(count):
        check_strings(variant.take_range(compressed, start, stop), expected[start:stop])
    if count:
        for rows in (
            rng.integers(0, count, 50),
            np.arange(count)[::-1],
            np.array([count - 1, 0, 0, count // 2]),
            np.empty(0, np.int64),
        ):
            check_strings(variant.take(compressed, rows.astype(np.int64)), [expected[row] for row in rows])


def check_same_bytes(segments: Sequence[Segment | Packed], reference: Sequence[Segment | Packed]) -> None:
    """Two lists of parts in host memory are the same, bit by bit, and consistent."""
    assert [type(part) for part in segments] == [type(part) for part in reference]
    for segment, other in zip(segments, reference, strict=True):
        if isinstance(segment, Packed):
            values.check([segment])
            assert (segment.codec, segment.rows, segment.itemsize) == (other.codec, other.rows, other.itemsize)
            assert segment.parameters == other.parameters
            assert np.array_equal(segment.meta, other.meta)
            assert np.array_equal(segment.codes, other.codes)
            continue
        cpu.check(segment)
        assert segment.layout == other.layout
        assert segment.null_count == other.null_count
        assert segment.table == other.table
        assert segment.codes_nbytes == other.codes_nbytes
        assert np.array_equal(segment.meta, other.meta)
        assert np.array_equal(segment.codes, other.codes)


def check_strings(strings: HostStrings, expected: Rows) -> None:
    """A result's buffers are what Arrow and cuDF want, and hold these rows."""
    assert strings.rows == len(expected)
    assert strings.offsets.size == strings.rows + 1
    assert strings.null_count == sum(row is None for row in expected)
    assert (strings.validity is None) == (strings.null_count == 0)
    assert rows_of(strings) == expected


def _ranges(count: int) -> list[tuple[int, int]]:
    wanted = [(0, count), (0, 1), (count - 1, count), (count // 3, count // 2), (5, 300), (256, 512), (count, count)]
    return [(start, stop) for start, stop in wanted if 0 <= start <= stop <= count]


# Variants -----------------------------------------------------------------------------------------------------------


class HostCodec:
    """`cudf_fsst.codecs.text.cpu` itself."""

    any_bytes = True
    codec = "fsst"

    def compress(self, strings: HostStrings, table: SymbolTable | None, tile_size: Any, level: str) -> list[Segment]:
        return cpu.compress(strings, table=table, tile_size=tile_size, level=level)

    def segments(self, compressed: list[Segment]) -> list[Segment]:
        return compressed

    def decompress(self, compressed: list[Segment]) -> HostStrings:
        return cpu.read(compressed)

    def take(self, compressed: list[Segment], rows: np.ndarray) -> HostStrings:
        return cpu.take(compressed, rows)

    def take_range(self, compressed: list[Segment], start: int, stop: int) -> HostStrings:
        return cpu.read(compressed, start, stop)


class HostNodes:
    """`cudf_fsst.codecs.host`, which chooses a codec, or is told one."""

    any_bytes = True

    def __init__(self, codec: str | None = None) -> None:
        self.codec = codec

    def compress(self, strings: HostStrings, table: SymbolTable | None, tile_size: Any, level: str) -> Node:
        column = ColumnBuffers(pa.large_binary(), strings.rows, strings.null_count, strings=strings)
        options = {"table": table, "tile_size": tile_size, "level": level}
        return host.compress([ColumnTask(column, self.codec, options)])[0]

    def segments(self, compressed: Node) -> list[Segment | Packed]:
        return list(compressed.parts)

    def decompress(self, compressed: Node) -> HostStrings:
        return host.read([compressed])[0].strings

    def take(self, compressed: Node, rows: np.ndarray) -> HostStrings:
        return host.take([compressed], rows)[0].strings

    def take_range(self, compressed: Node, start: int, stop: int) -> HostStrings:
        return host.read([compressed], start, stop)[0].strings


class _PublicColumn(ABC):
    """What is the same for `CompressedColumn` on every device."""

    codec: str | None = None

    @abstractmethod
    def _back(self, series: Any, labels: Any) -> HostStrings:
        """A Series that came back, after its name, labels and type were checked."""

    def segments(self, compressed: Any) -> Sequence[Segment | Packed]:
        return list(compressed.to_host()._content.node.parts)

    def decompress(self, compressed: Any) -> HostStrings:
        return self._back(compressed.decompress(), compressed.index)

    def take(self, compressed: Any, rows: np.ndarray) -> HostStrings:
        return self._back(compressed.take(rows), compressed.index.take(rows))

    def take_range(self, compressed: Any, start: int, stop: int) -> HostStrings:
        return self._back(compressed[start:stop], compressed.index[start:stop])


class PandasColumn(_PublicColumn):
    """``pandas.Series.fsst``, with one dtype."""

    def __init__(self, dtype: Any, codec: str | None = None) -> None:
        self.dtype, self.codec = dtype, codec
        # The others keep Python strings.
        self.any_bytes = getattr(dtype, "storage", "pyarrow") == "pyarrow" and dtype != np.dtype(object)

    def series(self, strings: HostStrings) -> Any:
        import pandas as pd

        from cudf_fsst.interop.pandas import to_series

        index = pd.Index(np.arange(strings.rows)[::-1] * 3, name="label")
        return to_series(strings, self.dtype, "words", index)

    def compress(self, strings: HostStrings, table: SymbolTable | None, tile_size: Any, level: str) -> Any:
        import cudf_fsst

        series = self.series(strings)
        codec = self.codec if table is None else None
        column = series.fsst.compress(table=table, tile_size=tile_size, level=level, codec=codec)
        assert isinstance(column, cudf_fsst.CompressedColumn)
        assert column.device == "cpu"
        return column

    def _back(self, series: Any, labels: Any) -> HostStrings:
        from cudf_fsst.interop import pandas

        assert series.dtype == self.dtype
        assert series.name == "words"
        assert series.index.equals(labels)
        assert series.index.name == "label"
        buffers, _, _ = pandas.describe(series, lenient=True)
        return buffers.strings


class CudfColumn(_PublicColumn):
    """``cudf.Series.fsst``."""

    any_bytes = True

    def __init__(self, codec: str | None = None) -> None:
        self.codec = codec

    def series(self, strings: HostStrings) -> Any:
        """The column on the GPU, as a slice of a longer one."""
        import cudf
        import pyarrow as pa

        from cudf_fsst.interop.arrow import to_arrow

        array = to_arrow(strings)
        longer = pa.concat_arrays([pa.array(["before", None], array.type), array, array])
        series = cudf.Series.from_arrow(longer)[2 : 2 + strings.rows]
        series.index = cudf.Index(np.arange(strings.rows)[::-1] * 3, name="label")
        return series.rename("words")

    def compress(self, strings: HostStrings, table: SymbolTable | None, tile_size: Any, level: str) -> Any:
        import cudf_fsst

        codec = self.codec if table is None else None
        column = self.series(strings).fsst.compress(table=table, tile_size=tile_size, level=level, codec=codec)
        assert isinstance(column, cudf_fsst.CompressedColumn)
        assert column.device.startswith("cuda:")
        return column

    def _back(self, series: Any, labels: Any) -> HostStrings:
        import cudf

        from cudf_fsst.interop.arrow import from_arrow

        assert isinstance(series, cudf.Series)
        assert series.name == "words"
        assert series.index.equals(labels)
        return from_arrow(series.to_arrow())
