"""Columns of any type in GPU memory: all rows, a range of them, or rows by number, of many columns at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cupy
import numpy as np
import pyarrow as pa

from ..arrow_types import has_offsets, list_size
from ..buffers import ColumnBuffers, DeviceStrings
from ..device.memory import DeviceInts, Lane, pinned
from ..device.transfer import Inbox
from ..lazy import weakly_cached
from . import device_strings
from .cuda_kernels import blocks, get_kernel
from .cuda_tables import RowNumbers
from .node import Node, is_strings
from .scratch import scratch_limit
from .text import cuda_gather
from .text import cuda_read as text_read
from .values import cuda_read as fixed
from .values.launch import DEFINES

_u32, _u64 = np.uint32, np.uint64
_THREADS = 256
_OFFSETS_LIMIT = 2**31 - 1
_COUNTERS = 64
#: Rows from which on it is found out how much memory a call that takes them may need beside its result.
_MANY_ROWS = 1 << 16
#: Columns that arrive are decompressed together, so many of them that they have this many compressed bytes.
_BATCH_NBYTES = 16 << 20
#: Batches whose copies are under way while one is decompressed.
_AHEAD = 2


def read(nodes: Sequence[Node], *, lane: Lane, start: int = 0, stop: int | None = None) -> list[ColumnBuffers]:
    """Rows ``start:stop`` of columns; `stop` None: up to the last.

    Waits only where a part of the rows is wanted: once for lists at each depth, once for numbers of nulls.

    Returns
    -------
    list of ColumnBuffers
        ``owners`` are validity and values, `rmm.DeviceBuffer` each or None.

    Raises
    ------
    ValueError
        Sizes do not fit together, or the offsets of lists that a range begins or ends with.
    """
    reader = _ColumnsReader(lane)
    made = [reader.ask(node, _Range(start, node.rows if stop is None else stop)) for node in nodes]
    reader.run()
    return made


def receive(nodes: Sequence[Node], *, lane: Lane) -> list[ColumnBuffers]:
    """All rows of columns in host memory; some are decompressed while the next ones arrive. Waits for the copies.

    Raises
    ------
    ValueError
        As `read`.
    """
    if len(nodes) == 1 and nodes[0].segments and not nodes[0].coded:  # decompressed segment by segment
        strings = text_read.receive(nodes[0].segments, stream=lane.given)
        return [ColumnBuffers(nodes[0].type, strings.rows, strings.null_count, strings=strings)]
    made: list[ColumnBuffers] = []
    with Inbox(lane) as inbox:
        # Memory is taken before there is any work that the copies would have to wait for.
        parts = iter(inbox.receive_parts(_parts(nodes)))
        coming = deque((_copied(node, parts), node) for node in nodes)  # which lets go of them one by one
        arriving: deque[tuple[list[Node], Any]] = deque()
        while coming or arriving:
            while coming and len(arriving) <= _AHEAD:
                targets, some, nbytes = [], [], 0
                while coming and nbytes < _BATCH_NBYTES:
                    target, node = coming.popleft()
                    targets.append(target)
                    some.append(node)
                    nbytes += sum(part.nbytes for part in node.parts)
                arriving.append((targets, inbox.fill(_parts(targets), _parts(some))))
                del targets, target
            targets, event = arriving.popleft()
            lane.stream.wait_event(event)
            made += read(targets, lane=lane)
            del targets
    return made


def _copied(node: Node, parts: Iterator[Any]) -> Node:
    """A node of parts that are on their way to the GPU; what is found out about reading it, the node keeps."""
    made = node.with_parts(parts)
    pairs: list[tuple[Any, Any]] = [(made, node)]
    while pairs:
        copy, source = pairs.pop()
        if isinstance(source, Node):
            _shape.put(copy, _shape(source))
            copy.segments.source = source.segments
            if source.coded:
                pairs += zip(copy.runs, source.runs, strict=True)
        pairs += zip(copy.children, source.children, strict=True)
    return made


def _parts(nodes: Sequence[Node]) -> list[Any]:
    return [part for node in nodes for part in node.parts]


def take(nodes: Sequence[Node], rows: Any, *, lane: Lane, order: int = 0) -> list[ColumnBuffers]:
    """Rows of columns by number.

    Parameters
    ----------
    rows : cupy.ndarray or numpy.ndarray of int64
        Below the number of rows and not negative, in any order, repeated or not.
    order : int
        As `chosen.Ordered` has it.

    Raises
    ------
    ValueError
        Sizes do not fit together, or lists have 2^31 values or more.
    """
    many = rows.size >= _MANY_ROWS
    reader = _ColumnsReader(lane, scratch_limit(sum(node.uncompressed_nbytes for node in nodes)) if many else 0)
    chosen = _Chosen(rows, reader.address(rows, nodes), int(rows.size), order)
    made = [reader.ask(node, chosen) for node in nodes]
    reader.run()
    return made


@dataclass(frozen=True)
class _Range:
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Row numbers: what keeps them alive, their address, how many there are, and their order (`chosen.Ordered`)."""

    owner: Any = field(repr=False)
    address: int
    rows: int
    order: int = 0


@dataclass(frozen=True, eq=False)
class _List:
    """A list column whose offsets are on their way: of a range two of them, of rows all."""

    made: ColumnBuffers
    node: Node
    wanted: _Range | _Chosen
    begins: int
    ends: int
    owner: Any


@dataclass(frozen=True)
class _Shape:
    """What `_ColumnsReader` asks of a node: which buffers it has."""

    nulls: bool
    strings: bool
    offsets: bool
    dictionary: bool
    itemsize: int


@weakly_cached()
def _shape(node: Node) -> _Shape:
    if list_size(node.type) is not None or pa.types.is_map(node.type) or len(node.values) > 2:
        raise TypeError(f"cuDF has no columns of Arrow type {node.type}; to_host() keeps them")
    return _Shape(
        pa.types.is_null(node.type),
        is_strings(node.type),
        has_offsets(node.type),
        pa.types.is_dictionary(node.type),
        node.values[0][0].itemsize * len(node.values) if node.values else 0,
    )


class _ColumnsReader:
    """Columns that are read together, with their children: level by level, as the offsets of lists allow.

    `room`: bytes that taking rows may need beside the result, if that is known.
    """

    def __init__(self, lane: Lane, room: int = 0) -> None:
        self._lane, self._room = lane, room
        self._jobs: list[fixed.ReadRequest] = []
        self._taken: dict[RowNumbers, list[fixed.ReadRequest]] = {}
        self._strings: list[tuple[ColumnBuffers, Node, _Range | _Chosen]] = []
        self._lists: list[_List] = []
        self._keep: list[Any] = []  # until everything that uses them is enqueued
        self._counted: list[ColumnBuffers] = []  # whose nulls are counted, `_COUNTERS` together in a buffer
        self._counters: list[Any] = []

    def address(self, rows: Any, nodes: Sequence[Node]) -> int:
        """Address of row numbers in GPU memory; 0 where the host has them, and only strings are read."""
        if not isinstance(rows, np.ndarray):
            return int(rows.data.ptr)
        if all(is_strings(node.type) for node in nodes):
            return 0
        contiguous = np.ascontiguousarray(rows)
        there = self._lane.allocate(contiguous.nbytes)
        self._lane.upload(there.ptr, contiguous)
        self._keep.append(there)
        return int(there.ptr)

    def ask(self, node: Node, wanted: _Range | _Chosen) -> ColumnBuffers:
        """Buffers that `run` fills in."""
        lane, rows, shape = self._lane, wanted.rows, _shape(node)
        made = ColumnBuffers(node.type, rows, rows if shape.nulls else 0)
        whole = isinstance(wanted, _Range) and rows == node.rows
        if shape.strings:
            self._strings.append((made, node, wanted))
        validity = self._validity(made, node, wanted, whole) if node.validity and rows else None
        values = None
        if node.values and (rows or shape.offsets):
            made.itemsize = shape.itemsize
            values = lane.allocate((rows + shape.offsets) * shape.itemsize)
            made.values = values.ptr
            if shape.offsets:
                self._offsets(made, node, wanted, whole)
            elif isinstance(wanted, _Range):
                self._jobs.append(fixed.ReadRequest(node.values, values.ptr, wanted.start, wanted.stop))
            else:
                self._take(
                    RowNumbers(wanted.address, rows, 0, wanted.order), fixed.ReadRequest(node.values, values.ptr)
                )
        made.owners = validity, values
        if not node.children or shape.strings:
            pass
        elif shape.dictionary:
            made.children = tuple(self.ask(child, _Range(0, child.rows)) for child in node.children)
        elif not shape.offsets:
            made.children = tuple(self.ask(child, wanted) for child in node.children)
        elif not node.values:  # without rows
            made.children = tuple(self.ask(child, _Range(0, 0)) for child in node.children)
        return made

    def _take(self, rows: RowNumbers, job: fixed.ReadRequest) -> None:
        self._taken.setdefault(rows, []).append(job)

    def _validity(self, made: ColumnBuffers, node: Node, wanted: _Range | _Chosen, whole: bool) -> Any:
        # cuDF's masks are padded to 64 bytes.
        validity = self._lane.allocate(-(-wanted.rows // 512) * 64)
        made.validity = validity.ptr
        if whole:
            made.null_count = node.null_count
            self._lane.zero(validity.ptr + validity.size - 64, 64)
            self._jobs.append(fixed.ReadRequest((node.validity,), validity.ptr))
            return validity
        place = len(self._counted) % _COUNTERS
        if place == 0:
            self._counters.append(self._lane.allocate(8 * _COUNTERS))
            self._lane.zero(self._counters[-1].ptr, 8 * _COUNTERS)
        self._counted.append(made)
        if isinstance(wanted, _Range):
            rows = RowNumbers(0, wanted.rows, wanted.start, 1)
        else:
            rows = RowNumbers(wanted.address, wanted.rows, 0, wanted.order)
        self._take(rows, fixed.ReadRequest((node.validity,), validity.ptr, nulls=self._counters[-1].ptr + 8 * place))
        return validity

    def _offsets(self, made: ColumnBuffers, node: Node, wanted: _Range | _Chosen, whole: bool) -> None:
        itemsize = made.itemsize
        if isinstance(wanted, _Range):
            self._jobs.append(fixed.ReadRequest(node.values, made.values, wanted.start, wanted.stop + 1))
            if whole:
                made.children = tuple(self.ask(child, _Range(0, child.rows)) for child in node.children)
            else:
                end = made.values + wanted.rows * itemsize
                self._lists.append(_List(made, node, wanted, made.values, end, None))
            return
        room = self._lane.allocate(2 * max(wanted.rows, 1) * itemsize)
        ends = room.ptr + wanted.rows * itemsize
        for shift, address in enumerate((room.ptr, ends)):
            rows = RowNumbers(wanted.address, wanted.rows, shift, wanted.order)
            self._take(rows, fixed.ReadRequest(node.values, address))
        self._lists.append(_List(made, node, wanted, room.ptr, ends, room))

    def run(self) -> None:
        """Start to fill in everything that was asked for."""
        lane = self._lane
        while self._jobs or self._taken or self._strings or self._lists:
            jobs, taken, strings, lists = self._jobs, self._taken, self._strings, self._lists
            self._jobs, self._taken, self._strings, self._lists = [], {}, [], []
            fixed.decompress(jobs, lane=lane)
            # Rows of strings first: they are waited for, and values that are taken are not.
            self._read_strings(strings)
            for rows, some in taken.items():
                fixed.take(some, rows, lane=lane, room=self._room)
            self._descend(lists)
        if not self._counted:
            return
        counts = pinned(_COUNTERS * len(self._counters), np.uint64)
        for i, counters in enumerate(self._counters):
            lane.download(counts[i * _COUNTERS : (i + 1) * _COUNTERS], counters.ptr)
        lane.synchronize()
        for made, count in zip(self._counted, counts.tolist(), strict=False):
            made.null_count = count
            if count == 0:
                made.validity, made.owners = None, (None, made.owners[1])

    def _read_strings(self, asked: Sequence[tuple[ColumnBuffers, Node, _Range | _Chosen]]) -> None:
        """Fill in strings; columns of which the same rows are asked for are read in one call."""
        alike: dict[_Range | _Chosen, list[tuple[ColumnBuffers, Node]]] = {}
        for made, node, wanted in asked:
            # Whole columns are read without a wait, and columns of no rows have no segments.
            key = _Range(0, -1) if isinstance(wanted, _Range) and wanted.rows == node.rows else wanted
            alike.setdefault(key, []).append((made, node))
        for wanted, some in alike.items():
            for coded in (True, False):  # the GPU has less to do for codes before it can be waited for
                own = [(made, node) for made, node in some if node.coded == coded]
                found = self._read_alike([node for _, node in own], wanted, coded)
                for (made, _), strings in zip(own, found, strict=True):
                    made.strings, made.null_count = strings, strings.null_count

    def _read_alike(self, nodes: Sequence[Node], wanted: _Range | _Chosen, coded: bool) -> list[DeviceStrings]:
        """Columns of strings of which the same rows are wanted; `coded`: all have dictionaries, or none has."""
        lane = self._lane
        if not nodes:
            return []
        segments = [node.segments for node in nodes]
        if isinstance(wanted, _Chosen):
            if coded:
                return device_strings.take(nodes, wanted.owner, lane=lane, room=self._room, order=wanted.order)
            return cuda_gather.take(segments, wanted.owner, lane=lane, room=self._room, order=wanted.order)
        start, stop = (0, None) if wanted.stop < 0 else (wanted.start, wanted.stop)
        if coded:
            return device_strings.read(nodes, lane=lane, start=start, stop=stop)
        return text_read.read(segments, lane=lane, start=start, stop=stop)

    def _descend(self, lists: Sequence[_List]) -> None:
        """Ask for the values of lists, once their offsets say which."""
        lane = self._lane
        if not lists:
            return
        ranges = [one for one in lists if isinstance(one.wanted, _Range)]
        edges = [pinned(2, f"<u{one.made.itemsize}") for one in ranges]
        for one, edge in zip(ranges, edges, strict=True):
            lane.download(edge[:1], one.begins)
            lane.download(edge[1:], one.ends)
        chosen = [one for one in lists if isinstance(one.wanted, _Chosen)]
        summed = [self._sum_up(one) for one in chosen]
        lane.synchronize()
        for one, edge in zip(ranges, edges, strict=True):
            (child,) = one.node.children
            first, last = edge.tolist()
            if not first <= last <= child.rows:
                raise ValueError(f"damaged offsets: a list of values {first} to {last} of {child.rows}")
            if first:
                kernel = get_kernel("values", "rebase_offsets", DEFINES)
                count = one.wanted.rows + 1
                arguments = _u64(one.made.values), _u32(one.made.itemsize), _u64(count), _u64(first)
                lane.launch(kernel, blocks(count, _THREADS), _THREADS, arguments)
            one.made.children = (self.ask(child, _Range(first, last)),)
        for one, (first, ends, total) in zip(chosen, summed, strict=True):
            (child,) = one.node.children
            order = one.wanted.order if isinstance(one.wanted, _Chosen) else 1
            count, [values] = one.wanted.rows, total.tolist()
            if values > _OFFSETS_LIMIT and one.made.itemsize == 4:
                raise ValueError(f"these lists have {values} values, more than the {_OFFSETS_LIMIT} of one column")
            kernel = get_kernel("values", "list_offsets", DEFINES)
            arguments = _u64(ends.data.ptr), _u32(one.made.itemsize), _u64(count), _u64(one.made.values)
            lane.launch(kernel, blocks(count + 1, _THREADS), _THREADS, arguments)
            rows = lane.allocate(8 * values)
            sources = _u64(first.ptr), _u64(ends.data.ptr), _u64(count), _u64(values), _u64(rows.ptr)
            lane.launch(get_kernel("values", "list_rows", DEFINES), blocks(values, _THREADS), _THREADS, sources)
            with lane.stream:
                wanted = _Chosen(cupy.asarray(DeviceInts(rows, 0, 8 * values)), rows.ptr, values, max(order, 0))
            self._keep.append(rows)
            one.made.children = (self.ask(child, wanted),)

    def _sum_up(self, one: _List) -> tuple[Any, Any, Any]:
        """Where chosen lists begin, where they will end, and the number of their values, which arrives with a wait."""
        lane, count = self._lane, one.wanted.rows
        total = pinned(1, np.uint64)
        total[0] = 0
        first, lengths = lane.allocate(8 * count), lane.allocate(8 * count)
        (child,) = one.node.children
        arguments = (
            *(_u64(one.begins), _u64(one.ends), _u32(one.made.itemsize), _u64(count), _u64(child.rows)),
            *(_u64(first.ptr), _u64(lengths.ptr)),
        )
        lane.launch(get_kernel("values", "list_lengths", DEFINES), blocks(count, _THREADS), _THREADS, arguments)
        with lane.stream:
            ends = cupy.cumsum(cupy.asarray(DeviceInts(lengths, 0, 8 * count)))
        if count:
            lane.download(total, ends.data.ptr + 8 * (count - 1))
        return first, ends, total
