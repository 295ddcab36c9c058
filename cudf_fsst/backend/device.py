"""Columns in the memory of a GPU."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from functools import cache, partial
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ..arrow_types import is_strings
from ..automata import RowAutomaton
from ..buffers import CharactersUnderNulls, ColumnBuffers, DeviceStrings, HostStrings
from ..codecs.chosen import Chosen, Ordered
from ..codecs.node import Content, DictPart, Node, check_codec
from ..codecs.part import Leaf, Part
from ..codecs.span import Span
from ..codecs.table import Table
from ..codecs.task import ColumnTask
from ..codecs.text import search
from ..codecs.text.segment import Segment
from ..interop import cudf
from ..interop.adapter import Adapter
from ..naming import naming
from ..profiling import DECODE, DESCRIBE, MATCH
from .content import Described, SeriesTask, log_compressed

#: Row numbers that are made in host memory.
_FEW_ROWS = 4096


class _Gpu(NamedTuple):
    """What works on a GPU: modules and classes."""

    ahead: Any
    codecs: Any
    Lane: Any
    Outbox: Any


@cache
def _gpu() -> _Gpu:
    """Import it when a GPU is asked for; once, for an import in every call costs microseconds."""
    from ..codecs import ahead, device
    from ..device.memory import Lane
    from ..device.transfer import Outbox

    return _Gpu(ahead, device, Lane, Outbox)


class DeviceBackend:
    """CuPy, RMM and cuDF, which are imported where they are needed."""

    interop: Adapter = cudf

    def __init__(self) -> None:
        cudf.cudf_module()
        self.device = cudf.current_device()

    def check_stream(self, stream: Any) -> None:
        """Take any; what works on it checks it."""

    def current(self) -> AbstractContextManager[None]:
        """Make the columns' device the current one."""
        return cudf.on_device(self.device)

    def compress(
        self, tasks: Sequence[SeriesTask], index: Any = None, *, stream: Any = None, to_host: bool = False
    ) -> tuple[list[Content], Described | None]:
        """Compress Series and, if it is given, an index; with `to_host` into pinned host memory."""
        try:
            return self._compress(tasks, index, stream, to_host)
        except CharactersUnderNulls:
            return self._compress(tasks, index, stream, to_host, drop_null_chars=True)

    def _compress(
        self, tasks: Sequence[SeriesTask], index: Any, stream: Any, to_host: bool, **options: bool
    ) -> tuple[list[Content], Described | None]:
        gpu = _gpu()
        notes: dict[str, Any] = {}
        levels: list[Any] = []
        if index is not None:
            notes, levels = cudf.describe_index(index)
        column_tasks, types, need = [], [], "values"
        with cudf.Access() as access:
            all_tasks = [*tasks, *[SeriesTask(level, what="the index") for level in levels]]
            with DESCRIBE:
                for task in all_tasks:
                    try:
                        buffers, kind, stored = cudf.describe(task.data, access, **options)
                        check_codec(task.codec, kind)
                    except Exception:
                        with naming(task.what):
                            raise
                    column_tasks.append(ColumnTask(buffers, task.codec, task.strings, task.what))
                    types.append((kind, stored))
                    need = need if buffers.strings is None else "strings"
            gpu.ahead.start(need)
            # At its end cuDF may free or spill the buffers, in the default stream, which waits for the lane then.
            try:
                with gpu.Lane(stream) as lane:
                    if to_host:
                        with gpu.Outbox() as outbox:
                            nodes = gpu.codecs.compress(column_tasks, lane=lane, outbox=outbox)
                    else:
                        nodes = gpu.codecs.compress(column_tasks, lane=lane)
            except ValueError as error:
                number = getattr(error, "column", None)
                with naming(None if number is None else all_tasks[number].what):
                    raise
        contents = [Content(node, kind, stored) for node, (kind, stored) in zip(nodes, types, strict=True)]
        log_compressed(all_tasks, contents)
        if index is None:
            return contents, None
        index_contents = contents[len(tasks) :]
        return contents[: len(tasks)], (notes, [Content(level.node, level.type, None) for level in index_contents])

    def apart(self) -> Any:
        """A stream of its own to compress in; see `device.memory.Apart`."""
        from ..device.memory import Apart

        return Apart()

    def adopt(self, contents: Sequence[Content], apart: Any) -> list[Content]:
        """Columns that were compressed in the stream `apart`, for use in cuDF's default stream."""
        from ..device.transfer import with_buffers

        def parts(node: Node) -> Iterator[Leaf]:
            return (with_buffers(part, apart.keep(part.meta), apart.keep(part.codes)) for part in node.parts)

        return [replace(content, node=content.node.with_parts(parts(content.node))) for content in contents]

    def train(self, data: Any, codec: str | None, *, level: str, stream: Any) -> Table:
        """One table of a codec of text for a Series or Index of strings."""
        from ..codecs.text import cuda

        def trained(**options: bool) -> Table:
            with cudf.Access() as access:
                buffers, _, _ = cudf.describe(data, access, **options)
                assert isinstance(buffers.strings, DeviceStrings)
                return cuda.train(buffers.strings, codec, level=level, stream=stream)

        try:
            return trained()
        except CharactersUnderNulls:
            return trained(drop_null_chars=True)

    def read(
        self, nodes: Sequence[Node], start: int = 0, stop: int | None = None, *, stream: Any = None
    ) -> list[ColumnBuffers]:
        """Rows ``start:stop`` of columns that have the same number of rows; all without a `stop`."""
        with self.current(), DECODE, _gpu().Lane(stream) as lane:
            _gpu().ahead.start("read")
            return _gpu().codecs.read(nodes, lane=lane, start=start, stop=stop)

    def take(
        self, nodes: Sequence[Node], rows: Any, *, stream: Any = None, meanwhile: Callable[[], None] | None = None
    ) -> list[ColumnBuffers]:
        """Rows by number; see `HostBackend.take`."""
        order = 0
        if isinstance(rows, (Chosen, Ordered)):
            rows, order = rows.rows, rows.order
        with self.current(), DECODE, _gpu().Lane(stream) as lane:
            _gpu().ahead.start("row")
            lane.meanwhile = meanwhile
            found: list[ColumnBuffers] = _gpu().codecs.take(nodes, rows, lane=lane, order=order)
            lane.do_meanwhile()
            return found

    def in_other_case(self, node: Node, *, small: bool, large: bool) -> tuple[ColumnBuffers, Callable[[], bool]]:
        """All rows of strings, with ASCII letters in the other case; see `HostBackend.in_other_case`."""
        from ..codecs.text import cuda_case

        with self.current(), DECODE, _gpu().Lane() as lane:
            _gpu().ahead.start("read")
            other = _gpu().codecs.in_other_case(node, small=small, large=large, lane=lane)
            if other is not None:
                return ColumnBuffers(node.type, node.rows, other.null_count, strings=other), lambda: True
            [changed] = _gpu().codecs.read([node], lane=lane)
            return changed, cuda_case.change(changed.strings, small=small, large=large, lane=lane)

    def values_of(self, parts: Sequence[DictPart]) -> list[ColumnBuffers]:
        """The values of parts with a dictionary."""
        with self.current(), DECODE, _gpu().Lane() as lane:
            _gpu().ahead.start("read")
            found = _gpu().codecs.values_of(parts, lane=lane)
        return [
            ColumnBuffers(part.values.type, strings.rows, strings=strings)
            for part, strings in zip(parts, found, strict=True)
        ]

    def spread(self, node: Node, answers: Any) -> Any:
        """A column of cuDF's: for each row of strings that all have dictionaries the answer for its value.

        Parameters
        ----------
        answers : Series
            For the values of all parts, and then for a missing one, where the column has some.

        Returns
        -------
        None where `codecs.device_values.spread` gives None.
        """
        with self.current(), cudf.Access() as access:
            try:
                buffers, kind, stored = cudf.describe(answers, access)
            except (TypeError, NotImplementedError):  # of a dtype that no column has: the library gathers them
                return None
            with DECODE, _gpu().Lane() as lane:
                found = _gpu().codecs.spread(node, buffers, lane=lane)
        return None if found is None else self.interop.build(found, kind, stored)

    def match(self, node: Node, plan: search.Plan) -> tuple[ColumnBuffers, bool] | None:
        """Answer a question about strings on their codes; see `HostBackend.match`."""
        with self.current(), MATCH, _gpu().Lane() as lane:
            _gpu().ahead.start("ask")
            found = _gpu().codecs.match(node, plan, lane=lane)
            if found is None:
                return None
            values, exact = found
            validity = _gpu().codecs.validity(node, lane=lane)
        dtype = np.dtype(search.answer_dtype(plan.question))
        answers = ColumnBuffers(
            pa.from_numpy_dtype(dtype),
            node.rows,
            node.null_count,
            None if validity is None else validity.ptr,
            values=values.ptr,
            itemsize=dtype.itemsize,
            owners=(validity, values),
        )
        return answers, exact

    def accept(self, node: Node, machine: RowAutomaton) -> tuple[ColumnBuffers, bool] | None:
        """What an automaton says of every row of strings; see `HostBackend.accept`."""
        with self.current(), MATCH, _gpu().Lane() as lane:
            _gpu().ahead.start("ask more")
            found = _gpu().codecs.accept(node, machine, lane=lane)
        if found is None:
            return None
        values, undecided = found
        answers = self._answered(node, values)
        assert answers is not None
        return answers, undecided

    def compare(self, node: Node, span: Span) -> ColumnBuffers | None:
        """Whether numbers lie in a range; see `HostBackend.compare`."""
        with self.current(), MATCH, _gpu().Lane() as lane:
            return self._answered(node, _gpu().codecs.compare(node, span, lane=lane))

    def is_in(self, node: Node, values: Any) -> ColumnBuffers | None:
        """Whether numbers are among the values of an array of the same type; see `HostBackend.compare`."""
        with self.current(), MATCH, _gpu().Lane() as lane:
            values = self.arrays.ascontiguousarray(values)
            return self._answered(node, _gpu().codecs.is_in(node, int(values.data.ptr), values.size, lane=lane))

    def _answered(self, node: Node, values: Any) -> ColumnBuffers | None:
        if values is None:
            return None
        answers = self.validity(node) if node.null_count else ColumnBuffers(node.type, node.rows, owners=(None, None))
        answers.type, answers.values, answers.itemsize = pa.bool_(), values.ptr, 1
        answers.owners = answers.owners[0], values
        return answers

    def validity(self, node: Node) -> ColumnBuffers:
        """Which rows are null, without their values."""
        with self.current(), _gpu().Lane() as lane:
            if not is_strings(node.type):
                return _gpu().codecs.read([replace(node, values=(), children=())], lane=lane)[0]
            found = _gpu().codecs.validity(node, lane=lane)
        address = None if found is None else found.ptr
        return ColumnBuffers(node.type, node.rows, node.null_count, address, owners=(found, None))

    def receive(self, nodes: Sequence[Node]) -> list[ColumnBuffers]:
        """All rows of columns in host memory, on this device; some are decompressed while the next ones arrive."""
        with self.current(), DECODE, _gpu().Lane() as lane:
            _gpu().ahead.start("read")
            return _gpu().codecs.receive(nodes, lane=lane)

    def host_strings(self, node: Node, start: int, stop: int | None) -> HostStrings:
        """Rows of a column of strings, in host memory: one without a launch, few of them by one launch and one copy."""
        with self.current(), _gpu().Lane() as lane:
            wanted = range(start, node.rows if stop is None else stop)
            if not node.coded and len(wanted) == 1:
                row: HostStrings | None = _gpu().codecs.read_row(node.segments, start, lane)
                if row is not None:
                    return row
            from ..codecs.text import cuda_take

            few = None if node.coded else cuda_take.fetch([node.segments], wanted, lane=lane)
            if few is not None:
                return few[0]
        (values,) = self.read([node], start, stop)
        assert isinstance(values.strings, DeviceStrings)
        return cudf.to_host_strings(values.strings)

    @property
    def arrays(self) -> Any:
        """What computes with arrays here, in the default stream."""
        import cupy

        return cupy

    def row_range(self, start: int, stop: int, step: int) -> Any:
        """Numbers of rows, as `take` takes them: few go to the GPU with other things."""
        array = np if len(range(start, stop, step)) <= _FEW_ROWS else self.arrays
        return Ordered(array.arange(start, stop, step, dtype=np.int64), 1 if step > 0 else -1)

    def as_array(self, column: ColumnBuffers) -> Any:
        """The values that were read, as bytes."""
        return self.arrays.asarray(column.owners[1])

    def with_values(self, column: ColumnBuffers, values: Any) -> ColumnBuffers:
        """A column of integers, an array, with the nulls of `column`, which it changes."""
        from ..device.memory import Slice

        column.type, column.values, column.itemsize = (
            pa.from_numpy_dtype(values.dtype),
            values.data.ptr,
            values.itemsize,
        )
        column.owners = column.owners[0], Slice(values.data, 0, values.nbytes)
        return column

    def remap(self, part: DictPart, table: Any) -> Any:
        """For each row of a part with a dictionary the entry of `table` for its value; any for null rows."""
        array = self.arrays
        table = array.ascontiguousarray(table)
        with _gpu().Lane() as lane:
            found = _gpu().codecs.remap(part, int(table.data.ptr), table.itemsize, lane=lane)
        return array.asarray(found).view(table.dtype)

    def count(self, part: DictPart) -> Any:
        """How many rows of a part with a dictionary have each value, or None where their codes have to be read."""
        array = self.arrays
        with _gpu().Lane() as lane:
            found = _gpu().codecs.count(part, lane=lane)
        return None if found is None else array.asarray(found).view(np.int64)[: part.values.rows]

    @property
    def most_groups(self) -> int:
        """Groups that `group_sums` takes."""
        from ..codecs.group_sums import launch

        return launch.MOST_GROUPS

    def group_sums(
        self, nodes: Sequence[Node], pieces: Sequence[tuple[int, int]], numbers: Any, groups: int, asked: Any
    ) -> Any:
        """Sums and extremes of groups of rows, of each piece by itself.

        Parameters
        ----------
        nodes
            Columns of numbers.
        pieces
            Rows that are decoded at a time; the first ones that are asked about on.
        numbers : cupy.ndarray of int8
            The group of each row, below 0 of rows in none.
        groups : int
            Above all numbers.
        asked : sequence of (int, str)
            The place of a column and what is asked: "integers", "floats", "least" or "greatest" (see
            `group_sums.cuda.GroupJob`), or "squares" of distances from the means, behind "floats" of the same column.
            Place -1: of all rows.

        Returns
        -------
        ndarray of uint64, shape (pieces, asked, 2, groups)
            Values, or their bits, and how many rows they are of.
        """
        from ..codecs.group_sums import cuda, launch

        size = cuda.NBYTES * groups
        numbers = self.arrays.ascontiguousarray(numbers)
        with self.current(), MATCH, _gpu().Lane() as lane:
            room = lane.allocate(size * len(asked) * len(pieces))
            lane.zero(room.ptr, room.size)
            at = room.ptr
            for start, stop in pieces:
                first = int(numbers.data.ptr) + start
                read = _gpu().codecs.read(nodes, lane=lane, start=start, stop=stop) if nodes else []
                values = [cuda.values_of(buffers) for buffers in read] + [cuda.GroupValues(first, 0, launch.SIGNED, 1)]
                jobs, floats = [], dict[int, int]()
                for place, how in asked:
                    if how == "floats":
                        floats[place] = at
                    around = floats[place] if how == "squares" else 0
                    jobs.append(cuda.GroupJob("floats" if how == "squares" else how, values[place], at, around))
                    at += size
                cuda.run(first, stop - start, groups, jobs, lane=lane)
                del read, values  # before the next ones are read
            found = lane.read(room.ptr, room.size // 8, np.uint64)
        return found.reshape(len(pieces), len(asked), 2, groups)

    def as_bits(self, column: ColumnBuffers) -> Any:
        """A byte for every row of a column that has nulls, 0 where it is null."""
        array = self.arrays
        return array.unpackbits(array.asarray(column.owners[0]), bitorder="little")[: column.rows]

    def merged(self, columns: Sequence[Sequence[Part]]) -> list[list[Part]]:
        """Parts of columns of strings; of neighbours with dictionaries those are one that are smaller so."""
        with self.current(), _gpu().Lane() as lane:
            return _gpu().codecs.merge(columns, lane=lane)

    def encode(self, values: Any, kind: Any) -> Node:
        """Compress an array of unsigned integers."""
        column = ColumnBuffers(kind, values.size, values=values.data.ptr, itemsize=values.itemsize, owners=(values,))
        with _gpu().Lane() as lane:
            return _gpu().codecs.compress([ColumnTask(column)], lane=lane)[0]

    def row_starts(self, segments: Sequence[Segment]) -> list[Any]:
        """Character positions of each segment's row blocks; the GPU is waited for once."""
        from ..device.memory import pinned

        if not segments:
            return []
        places = [segment.layout.sections["row_starts"] for segment in segments]
        with self.current(), _gpu().Lane() as lane:
            found = [pinned(place.count, np.uint64) for place in places]
            for segment, place, starts in zip(segments, places, found, strict=True):
                lane.download(starts, segment.meta.ptr + place.offset)
            lane.synchronize()
        return found

    def same_bytes(self, pairs: Sequence[tuple[Leaf, Leaf]]) -> list[bool]:
        """Whether the parts of each pair, whose buffers have the same sizes, have the same bytes."""
        from ..device.compare_buffers import different

        buffers = [pair for mine, other in pairs for pair in ((mine.meta, other.meta), (mine.codes, other.codes))]
        with self.current(), _gpu().Lane() as lane:
            found = different(buffers, lane=lane)
        return [not any(found[2 * i : 2 * i + 2]) for i in range(len(pairs))]

    def to_host(self, parts: Sequence[Leaf], *, stream: Any = None) -> list[Leaf]:
        """Copy parts to pinned host memory."""
        from ..device import transfer

        with self.current():
            return transfer.to_host(parts, stream=stream)

    @contextmanager
    def leaving(self) -> Iterator[tuple[Callable[[Sequence[Leaf]], Sequence[Leaf]], Callable[[Any], None]]]:
        """What starts to copy parts to pinned host memory, and what waits for an array there; at the end all are."""
        with self.current(), _gpu().Lane() as lane, _gpu().Outbox() as outbox:
            yield partial(outbox.send_in_order, after=lane), outbox.wait

    def buffers(self, sizes: Sequence[int]) -> Sequence[Any]:
        """Arrays of bytes of these sizes in host memory; pinned up to the limit, which the GPU takes fast."""
        from ..device.pinned import host_buffers

        return host_buffers(sizes)

    def to_device(self, parts: Sequence[Leaf], *, stream: Any = None) -> list[Leaf]:
        """Copy parts to the GPU."""
        from ..device import transfer

        with self.current():
            _gpu().ahead.start("ask")  # the next call may, and any other one waits less as the compiler is loaded
            return transfer.to_device(parts, stream=stream)
