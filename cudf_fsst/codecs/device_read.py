"""Columns of any type in GPU memory: all rows, a range of them, or rows by number, of many columns at a time."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import cupy
import numpy as np
import pyarrow as pa

from ..arrow_types import has_offsets, is_strings, list_size
from ..buffers import ColumnBuffers, DeviceStrings
from ..device.memory import DeviceInts, Lane, pinned
from ..device.transfer import Inbox
from ..lazy import weakly_cached
from . import device_strings
from .cuda_kernels import blocks, get_kernel
from .cuda_tables import RowNumbers
from .node import Node
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
    if len(nodes) == 1 and (segments := nodes[0].segments):  # strings, without what a reader looks after
        found = device_strings.read(nodes, lane=lane, start=start, stop=stop) if nodes[0].coded else None
        [strings] = found or text_read.read([segments], lane=lane, start=start, stop=stop)
        return [ColumnBuffers(nodes[0].type, strings.rows, strings.null_count, strings=strings)]
    reader = _ColumnsReader(lane)
    columns = [reader.ask(node, _Range(start, node.rows if stop is None else stop)) for node in nodes]
    reader.run()
    return columns


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
    columns: list[ColumnBuffers] = []
    with Inbox(lane) as inbox:
        # Memory is taken before there is any work that the copies would have to wait for.
        parts = iter(inbox.receive_parts(_parts(nodes)))
        coming = deque((_copied(node, parts), node) for node in nodes)  # which lets go of them one by one
        arriving: deque[tuple[list[Node], Any]] = deque()
        while coming or arriving:
            while coming and len(arriving) <= _AHEAD:
                targets, sources, nbytes = [], [], 0
                while coming and nbytes < _BATCH_NBYTES:
                    target, node = coming.popleft()
                    targets.append(target)
                    sources.append(node)
                    nbytes += sum(part.nbytes for part in node.parts)
                arriving.append((targets, inbox.fill(_parts(targets), _parts(sources))))
                del targets, target
            targets, event = arriving.popleft()
            lane.stream.wait_event(event)
            columns += read(targets, lane=lane)
            del targets
    return columns


def _copied(node: Node, parts: Iterator[Any]) -> Node:
    """A copy of a node in host memory, of parts that are being copied to the GPU; both share what is cached of it."""
    copied = node.with_parts(parts)
    pairs: list[tuple[Any, Any]] = [(copied, node)]
    while pairs:
        copy, source = pairs.pop()
        if isinstance(source, Node):
            _shape.put(copy, _shape(source))
            copy.segments.source = source.segments
            if source.coded:
                pairs += zip(copy.runs, source.runs, strict=True)
        pairs += zip(copy.children, source.children, strict=True)
    return copied


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
    columns = [reader.ask(node, chosen) for node in nodes]
    reader.run()
    return columns


@dataclass(frozen=True)
class _Range:
    start: int
    stop: int

    @property
    def rows(self) -> int:
        return self.stop - self.start


@dataclass(frozen=True, eq=False)
class _Chosen:
    """Row numbers in GPU memory: their owner, address, count, and order (`chosen.Ordered`)."""

    owner: Any = field(repr=False)
    address: int
    rows: int
    order: int = 0


@dataclass(frozen=True, eq=False)
class _List:
    """A list column whose offsets are being read: of a range the first and the last, of chosen rows two of each."""

    column: ColumnBuffers
    node: Node
    rows_read: _Range | _Chosen
    begins: int
    ends: int
    owner: Any


@dataclass(frozen=True)
class _Shape:
    """Which buffers a node has, and bytes of a value."""

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

    `scratch_nbytes`: memory that taking rows may need beside the result, 0: nobody has found out.
    """

    def __init__(self, lane: Lane, scratch_nbytes: int = 0) -> None:
        self._lane, self._scratch_nbytes = lane, scratch_nbytes
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
        uploaded = self._lane.allocate(contiguous.nbytes)
        self._lane.upload(uploaded.ptr, contiguous)
        self._keep.append(uploaded)
        return int(uploaded.ptr)

    def ask(self, node: Node, rows_read: _Range | _Chosen) -> ColumnBuffers:
        """Buffers of rows of a column, and of its children: allocated, and filled in by `run`."""
        lane, rows, shape = self._lane, rows_read.rows, _shape(node)
        column = ColumnBuffers(node.type, rows, rows if shape.nulls else 0)
        whole = isinstance(rows_read, _Range) and rows == node.rows
        if shape.strings:
            self._strings.append((column, node, rows_read))
        validity = self._validity(column, node, rows_read, whole) if node.validity and rows else None
        values = None
        if node.values and (rows or shape.offsets):
            column.itemsize = shape.itemsize
            values = lane.allocate((rows + shape.offsets) * shape.itemsize)
            column.values = values.ptr
            if shape.offsets:
                self._offsets(column, node, rows_read, whole)
            elif isinstance(rows_read, _Range):
                self._jobs.append(fixed.ReadRequest(node.values, values.ptr, rows_read.start, rows_read.stop))
            else:
                self._take(
                    RowNumbers(rows_read.address, rows, 0, rows_read.order), fixed.ReadRequest(node.values, values.ptr)
                )
        column.owners = validity, values
        if not node.children or shape.strings:
            pass
        elif shape.dictionary:
            column.children = tuple(self.ask(child, _Range(0, child.rows)) for child in node.children)
        elif not shape.offsets:
            column.children = tuple(self.ask(child, rows_read) for child in node.children)
        elif not node.values:  # without rows
            column.children = tuple(self.ask(child, _Range(0, 0)) for child in node.children)
        return column

    def _take(self, rows: RowNumbers, job: fixed.ReadRequest) -> None:
        self._taken.setdefault(rows, []).append(job)

    def _validity(self, column: ColumnBuffers, node: Node, rows_read: _Range | _Chosen, whole: bool) -> Any:
        # cuDF's masks are padded to 64 bytes.
        validity = self._lane.allocate(-(-rows_read.rows // 512) * 64)
        column.validity = validity.ptr
        if whole:
            column.null_count = node.null_count
            self._lane.zero(validity.ptr + validity.size - 64, 64)
            self._jobs.append(fixed.ReadRequest((node.validity,), validity.ptr))
            return validity
        place = len(self._counted) % _COUNTERS
        if place == 0:
            self._counters.append(self._lane.allocate(8 * _COUNTERS))
            self._lane.zero(self._counters[-1].ptr, 8 * _COUNTERS)
        self._counted.append(column)
        if isinstance(rows_read, _Range):
            rows = RowNumbers(0, rows_read.rows, rows_read.start, 1)
        else:
            rows = RowNumbers(rows_read.address, rows_read.rows, 0, rows_read.order)
        self._take(rows, fixed.ReadRequest((node.validity,), validity.ptr, nulls=self._counters[-1].ptr + 8 * place))
        return validity

    def _offsets(self, column: ColumnBuffers, node: Node, rows_read: _Range | _Chosen, whole: bool) -> None:
        itemsize = column.itemsize
        if isinstance(rows_read, _Range):
            self._jobs.append(fixed.ReadRequest(node.values, column.values, rows_read.start, rows_read.stop + 1))
            if whole:
                column.children = tuple(self.ask(child, _Range(0, child.rows)) for child in node.children)
            else:
                end = column.values + rows_read.rows * itemsize
                self._lists.append(_List(column, node, rows_read, column.values, end, None))
            return
        bounds = self._lane.allocate(2 * max(rows_read.rows, 1) * itemsize)
        ends = bounds.ptr + rows_read.rows * itemsize
        for shift, address in enumerate((bounds.ptr, ends)):
            rows = RowNumbers(rows_read.address, rows_read.rows, shift, rows_read.order)
            self._take(rows, fixed.ReadRequest(node.values, address))
        self._lists.append(_List(column, node, rows_read, bounds.ptr, ends, bounds))

    def run(self) -> None:
        """Start to fill in everything that was asked for."""
        lane = self._lane
        while self._jobs or self._taken or self._strings or self._lists:
            jobs, taken, strings, lists = self._jobs, self._taken, self._strings, self._lists
            self._jobs, self._taken, self._strings, self._lists = [], {}, [], []
            fixed.decompress(jobs, lane=lane)
            # Rows of strings first: they are waited for, and values that are taken are not.
            self._read_strings(strings)
            for rows, requests in taken.items():
                fixed.take(requests, rows, lane=lane, scratch_nbytes=self._scratch_nbytes)
            self._descend(lists)
        if not self._counted:
            return
        counts = pinned(_COUNTERS * len(self._counters), np.uint64)
        for i, counters in enumerate(self._counters):
            lane.download(counts[i * _COUNTERS : (i + 1) * _COUNTERS], counters.ptr)
        lane.synchronize()
        for column, count in zip(self._counted, counts.tolist(), strict=False):
            column.null_count = count
            if count == 0:
                column.validity, column.owners = None, (None, column.owners[1])

    def _read_strings(self, requests: Sequence[tuple[ColumnBuffers, Node, _Range | _Chosen]]) -> None:
        """Fill in columns of strings: one call for all columns with the same rows."""
        alike: dict[_Range | _Chosen, list[tuple[ColumnBuffers, Node]]] = {}
        for column, node, rows_read in requests:
            # Whole columns are read without a wait, and columns of no rows have no segments.
            key = _Range(0, -1) if isinstance(rows_read, _Range) and rows_read.rows == node.rows else rows_read
            alike.setdefault(key, []).append((column, node))
        for rows_read, same_rows in alike.items():
            for coded in (True, False):  # the GPU has less to do for codes before it can be waited for
                group = [(column, node) for column, node in same_rows if node.coded == coded]
                read = self._read_alike([node for _, node in group], rows_read, coded)
                for (column, _), strings in zip(group, read, strict=True):
                    column.strings, column.null_count = strings, strings.null_count

    def _read_alike(self, nodes: Sequence[Node], rows_read: _Range | _Chosen, coded: bool) -> list[DeviceStrings]:
        """Some rows of columns of strings, the same of each; `coded`: all columns have dictionaries, or none has."""
        lane = self._lane
        if not nodes:
            return []
        segments = [node.segments for node in nodes]
        if isinstance(rows_read, _Chosen):
            if coded:
                return device_strings.take(
                    nodes, rows_read.owner, lane=lane, scratch_nbytes=self._scratch_nbytes, order=rows_read.order
                )
            return cuda_gather.take(
                segments, rows_read.owner, lane=lane, scratch_nbytes=self._scratch_nbytes, order=rows_read.order
            )
        start, stop = (0, None) if rows_read.stop < 0 else (rows_read.start, rows_read.stop)
        if coded:
            return device_strings.read(nodes, lane=lane, start=start, stop=stop)
        return text_read.read(segments, lane=lane, start=start, stop=stop)

    def _descend(self, lists: Sequence[_List]) -> None:
        """Ask for the values of lists, once their offsets say which."""
        lane = self._lane
        if not lists:
            return
        ranges = [pending for pending in lists if isinstance(pending.rows_read, _Range)]
        edges = [pinned(2, f"<u{pending.column.itemsize}") for pending in ranges]
        for pending, edge in zip(ranges, edges, strict=True):
            lane.download(edge[:1], pending.begins)
            lane.download(edge[1:], pending.ends)
        chosen = [pending for pending in lists if isinstance(pending.rows_read, _Chosen)]
        summed = [self._sum_up(pending) for pending in chosen]
        lane.synchronize()
        for pending, edge in zip(ranges, edges, strict=True):
            (child,) = pending.node.children
            first, last = edge.tolist()
            if not first <= last <= child.rows:
                raise ValueError(f"damaged offsets: a list of values {first} to {last} of {child.rows}")
            if first:
                kernel = get_kernel("values", "rebase_offsets", DEFINES)
                count = pending.rows_read.rows + 1
                arguments = _u64(pending.column.values), _u32(pending.column.itemsize), _u64(count), _u64(first)
                lane.launch(kernel, blocks(count, _THREADS), _THREADS, arguments)
            pending.column.children = (self.ask(child, _Range(first, last)),)
        for pending, (first, ends, total) in zip(chosen, summed, strict=True):
            (child,) = pending.node.children
            order = pending.rows_read.order if isinstance(pending.rows_read, _Chosen) else 1
            count, [values] = pending.rows_read.rows, total.tolist()
            if values > _OFFSETS_LIMIT and pending.column.itemsize == 4:
                raise ValueError(f"these lists have {values} values, more than the {_OFFSETS_LIMIT} of one column")
            kernel = get_kernel("values", "list_offsets", DEFINES)
            arguments = _u64(ends.data.ptr), _u32(pending.column.itemsize), _u64(count), _u64(pending.column.values)
            lane.launch(kernel, blocks(count + 1, _THREADS), _THREADS, arguments)
            rows = lane.allocate(8 * values)
            sources = _u64(first.ptr), _u64(ends.data.ptr), _u64(count), _u64(values), _u64(rows.ptr)
            lane.launch(get_kernel("values", "list_rows", DEFINES), blocks(values, _THREADS), _THREADS, sources)
            with lane.stream:
                value_rows = _Chosen(cupy.asarray(DeviceInts(rows, 0, 8 * values)), rows.ptr, values, max(order, 0))
            self._keep.append(rows)
            pending.column.children = (self.ask(child, value_rows),)

    def _sum_up(self, pending: _List) -> tuple[Any, Any, Any]:
        """Where each of some chosen lists begins, where it ends in the result, and all their values, after a wait."""
        lane, count = self._lane, pending.rows_read.rows
        total = pinned(1, np.uint64)
        total[0] = 0
        first, lengths = lane.allocate(8 * count), lane.allocate(8 * count)
        (child,) = pending.node.children
        arguments = (
            *(_u64(pending.begins), _u64(pending.ends), _u32(pending.column.itemsize), _u64(count), _u64(child.rows)),
            *(_u64(first.ptr), _u64(lengths.ptr)),
        )
        lane.launch(get_kernel("values", "list_lengths", DEFINES), blocks(count, _THREADS), _THREADS, arguments)
        with lane.stream:
            ends = cupy.cumsum(cupy.asarray(DeviceInts(lengths, 0, 8 * count)))
        if count:
            lane.download(total, ends.data.ptr + 8 * (count - 1))
        return first, ends, total
