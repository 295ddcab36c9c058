"""Columns in host memory."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import numpy as np
import pyarrow as pa

from ..automata import UNDECIDED, RowAutomaton
from ..buffers import ColumnBuffers, HostStrings
from ..codecs import host, host_strings
from ..codecs.dict import cpu as dictionary
from ..codecs.dict import cpu_merge
from ..codecs.node import Content, DictPart, Node, check_codec
from ..codecs.part import Leaf, Part
from ..codecs.span import Span
from ..codecs.table import Table
from ..codecs.task import ColumnTask
from ..codecs.text import cpu as text
from ..codecs.text import cpu_case, search
from ..codecs.text.choose import codec_of
from ..codecs.text.segment import Segment
from ..interop import pandas
from ..interop.adapter import Adapter
from ..naming import naming
from ..profiling import DECODE, DESCRIBE, ENCODE, MATCH
from .content import Described, SeriesTask, log_compressed


class HostBackend:
    """NumPy and Numba, pandas and Arrow."""

    device = "cpu"
    interop: Adapter = pandas

    def check_stream(self, stream: Any) -> None:
        """Raise ValueError if there is one."""
        if stream is not None:
            raise ValueError(f"stream={stream!r} needs data in GPU memory; this is in host memory")

    def current(self) -> AbstractContextManager[None]:
        """Make the columns' device the current one."""
        return nullcontext()

    def compress(
        self, tasks: Sequence[SeriesTask], index: Any = None, *, stream: Any = None, to_host: bool = False
    ) -> tuple[list[Content], Described | None]:
        """Compress Series and, if it is given, an index."""
        del to_host
        self.check_stream(stream)
        contents = []
        for task in tasks:
            with naming(task.what):
                with DESCRIBE:
                    buffers, kind, stored = pandas.describe(task.data, lenient=task.lenient)
                check_codec(task.codec, kind)
                with ENCODE:
                    [node] = host.compress([ColumnTask(buffers, task.codec, task.strings, task.what)])
                contents.append(Content(node, kind, stored))
        log_compressed(tasks, contents)
        if index is None:
            return contents, None
        with naming("the index"):
            notes, levels = pandas.describe_index(index)
            nodes = host.compress([ColumnTask(buffers, what="the index") for buffers, _ in levels])
        return contents, (notes, [Content(node, kind, None) for node, (_, kind) in zip(nodes, levels, strict=True)])

    def train(self, data: Any, codec: str | None, *, level: str, stream: Any) -> Table:
        """One table of a codec of text for a Series or Index of strings."""
        self.check_stream(stream)
        buffers, _, _ = pandas.describe(data, lenient=True)
        assert isinstance(buffers.strings, HostStrings)
        return text.train(buffers.strings, codec_of(codec), level=level)

    def read(
        self, nodes: Sequence[Node], start: int = 0, stop: int | None = None, *, stream: Any = None
    ) -> list[ColumnBuffers]:
        """Rows ``start:stop`` of columns that have the same number of rows; all without a `stop`."""
        self.check_stream(stream)
        with DECODE:
            return host.read(nodes, start, stop)

    def take(
        self, nodes: Sequence[Node], rows: Any, *, stream: Any = None, meanwhile: Callable[[], None] | None = None
    ) -> list[ColumnBuffers]:
        """Rows by number. `meanwhile` is called once, where there is a GPU while that is at work."""
        self.check_stream(stream)
        if meanwhile is not None:
            meanwhile()
        with DECODE:
            return host.take(nodes, rows)

    def in_other_case(self, node: Node, *, small: bool, large: bool) -> tuple[ColumnBuffers, Callable[[], bool]]:
        """All rows of strings, with small letters of ASCII as large ones, and large ones as small, or both.

        And what says, when it is known, whether all bytes are ASCII: others are as they were.
        """
        with DECODE:
            [changed] = host.read([node])
            assert isinstance(changed.strings, HostStrings)
            all_ascii = cpu_case.change(changed.strings.chars, small=small, large=large)
            return changed, lambda: all_ascii

    def values_of(self, parts: Sequence[DictPart]) -> list[ColumnBuffers]:
        """The values of parts with a dictionary."""
        return self.read([part.values for part in parts])

    @MATCH
    def match(self, node: Node, plan: search.Plan) -> tuple[ColumnBuffers, bool] | None:
        """Answer a question about strings on their codes.

        Returns
        -------
        (ColumnBuffers, bool) or None
            Booleans or int32, in an array that is the caller's own, which mean nothing where the validity says null;
            and whether that is the answer: else the rows found are candidates. None: the rows have to be decoded.
        """
        try:
            values, exact = host_strings.match(node, plan)
        except OverflowError:  # a number that 32 bits do not hold
            return None
        found = host.validity(node)
        found.type = pa.bool_() if search.answer_dtype(plan.question) is np.bool_ else pa.int32()
        found.values, found.itemsize = values, values.itemsize
        return found, exact

    @MATCH
    def accept(self, node: Node, machine: RowAutomaton) -> tuple[ColumnBuffers, bool] | None:
        """What an automaton says of every row of strings, by their codes.

        Returns
        -------
        (ColumnBuffers, bool) or None
            A byte each, `automata.NO`, `YES` or `UNDECIDED`, in an array that is the caller's own, which mean nothing
            where the validity says null; and whether any is undecided. None: the rows have to be decoded.
        """
        found = host.validity(node)
        found.type, found.values, found.itemsize = pa.bool_(), host_strings.accept(node, machine), 1
        return found, not machine.decides and bool((found.values == UNDECIDED).any())

    @MATCH
    def compare(self, node: Node, span: Span) -> ColumnBuffers | None:
        """Which rows of a column of numbers lie in a range.

        Returns
        -------
        ColumnBuffers or None
            Booleans, which mean nothing where the validity says null. None: the rows have to be decoded.
        """
        found = host.validity(node)
        found.type, found.values, found.itemsize = pa.bool_(), host.compare(node, span), 1
        return found

    def is_in(self, node: Node, values: Any) -> ColumnBuffers | None:
        """Nothing: NumPy looks for values as fast in what is decoded."""
        del node, values
        return None

    def validity(self, node: Node) -> ColumnBuffers:
        """Which rows are null, without their values."""
        return host.validity(node)

    def host_strings(self, node: Node, start: int, stop: int | None) -> HostStrings:
        """Rows of a column of strings, in host memory."""
        (values,) = self.read([node], start, stop)
        assert isinstance(values.strings, HostStrings)
        return values.strings

    @property
    def arrays(self) -> Any:
        """What computes with arrays here."""
        return np

    def row_range(self, start: int, stop: int, step: int) -> Any:
        """Numbers of rows, as `take` takes them."""
        return range(start, stop, step)

    def as_array(self, column: ColumnBuffers) -> Any:
        """The values that were read."""
        return column.values

    def with_values(self, column: ColumnBuffers, values: Any) -> ColumnBuffers:
        """A column of integers, an array, with the nulls of `column`, which it changes."""
        column.type, column.values, column.itemsize = pa.from_numpy_dtype(values.dtype), values, values.itemsize
        return column

    def remap(self, part: DictPart, table: Any) -> Any:
        """For each row of a part with a dictionary the entry of `table` for its value; any for null rows."""
        found = np.empty(part.rows, table.dtype)
        dictionary.look_up(part, table, found)
        return found

    def count(self, part: DictPart) -> None:
        """None: the host counts codes as it reads them, some at a time. A GPU counts them here."""

    def as_bits(self, column: ColumnBuffers) -> Any:
        """A byte for every row of a column that has nulls, 0 where it is null."""
        return np.unpackbits(column.validity, count=column.rows, bitorder="little")

    def merged(self, columns: Sequence[Sequence[Part]]) -> list[list[Part]]:
        """Parts of columns of strings, of which neighbours with dictionaries become one where that is smaller."""
        return [cpu_merge.merge(parts) for parts in columns]

    def encode(self, values: Any, kind: Any) -> Node:
        """Compress an array of unsigned integers."""
        column = ColumnBuffers(kind, values.size, values=values, itemsize=values.itemsize)
        return host.compress([ColumnTask(column)])[0]

    def same_bytes(self, pairs: Sequence[tuple[Leaf, Leaf]]) -> list[bool]:
        """Whether the parts of each pair, whose buffers have the same sizes, have the same bytes."""
        return [np.array_equal(a.meta, b.meta) and np.array_equal(a.codes, b.codes) for a, b in pairs]

    def row_starts(self, segments: Sequence[Segment]) -> list[Any]:
        """Character positions of each segment's row blocks."""
        return [segment.section("row_starts") for segment in segments]
