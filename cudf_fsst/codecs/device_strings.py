"""Columns of strings in GPU memory: rows go to the codec of their part, what comes of them is put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import cupy
import numpy as np

from ..automata import RowAutomaton
from ..buffers import DeviceStrings, HostStrings
from ..device.memory import DeviceInts, Lane
from ..lazy import WeakCache, weakly_cached
from .cuda_kernels import blocks
from .cuda_tables import JobTables, KeptTables, RowNumbers
from .dict import cuda_answer as answers_of
from .dict import cuda_packed, cuda_text, few
from .dict import cuda_read as dictionary
from .dict import cuda_take as taken
from .dict.cuda import read_kernel
from .dict.cuda_read import Share
from .dict.cuda_values import VALUES_NBYTES, decoded, is_packed, may_be_few, values_nbytes
from .dict.launch import READ_THREADS, BitsJob, ScopeRows
from .node import DictPart, Node
from .text import cpu, cuda_gather, cuda_match, cuda_take, search
from .text import cuda_read as text_read
from .text import launch as text_launch
from .text.choose import codec_of
from .text.segment import Segment, Segments

_u32, _u64 = np.uint32, np.uint64
#: Parts whose few values are decoded together.
_FEW_PARTS = VALUES_NBYTES // (few.MOST * few.SHORT)


# ---- rows in order


@dataclass(eq=False)
class _Plain:
    """Rows ``start:stop`` of a run without a dictionary, as `dict.cuda_read.Share` of one with a dictionary.

    `strings`: these rows, decoded, unless they are all rows of the run.
    """

    run: Node
    start: int
    stop: int
    chars: int | None = None
    null_count: int | None = None
    mask: Any = None
    strings: DeviceStrings | None = None

    @property
    def rows(self) -> int:
        return self.stop - self.start

    def prepare(self, lane: Lane) -> None:
        """Set `chars`, how many characters the rows have, `null_count` and `mask`."""
        run = self.run
        if self.rows == run.rows:
            self.mask, self.null_count = text_read.validity(run.segments, lane=lane), run.null_count
            self.chars = run.chars_nbytes
        else:
            (self.strings,) = text_read.read([run.segments], lane=lane, start=self.start, stop=self.stop)
            self.mask, self.null_count = self.strings.owners[2], self.strings.null_count
            self.chars = self.strings.owners[1].size

    def place(self, to: cuda_text.Target, lane: Lane) -> None:
        """Write offsets and characters of the rows where `to` says."""
        if self.strings is None:
            text_read.read_into(self.run.segments, to.offsets, to.itemsize, to.first_char, to.chars, lane=lane)
            return
        strings = self.strings
        lane.copy(to.chars, strings.chars, to.limit)
        kernel = read_kernel("dict_shift")
        sizes = _u64(strings.offsets), _u64(strings.offsets_itemsize), _u64(self.rows + 1), _u64(to.first_char)
        grid = blocks(self.rows + 1, READ_THREADS)
        lane.launch(kernel, grid, READ_THREADS, (*sizes, _u64(to.offsets), _u64(to.itemsize)))


def _shares(node: Node, start: int, stop: int) -> list[_Plain | Share]:
    shares: list[_Plain | Share] = []
    base = 0
    for run in node.runs:
        first, last = max(start - base, 0), min(stop - base, run.rows)
        if first < last:
            shares.append(Share(run, first, last) if isinstance(run, DictPart) else _Plain(run, first, last))
        base += run.rows
    return shares


def _prepare(shares: Sequence[_Plain | Share], lane: Lane) -> list[Share]:
    """Set which rows are null, and the characters of shares without a dictionary; returns those that have one."""
    coded = []
    for share in shares:
        if isinstance(share, Share):
            coded.append(share)
        else:
            share.prepare(lane)
    dictionary.mask(coded, lane)
    return coded


def read(nodes: Sequence[Node], *, lane: Lane, start: int = 0, stop: int | None = None) -> list[DeviceStrings]:
    """Rows ``start:stop`` of strings that have dictionaries; of whole columns without a wait, but for the first time.

    Raises
    ------
    ValueError
        As `cudf_fsst.codecs.text.cuda_read.read`.
    """
    if len(nodes) == 1 and start == 0 and stop in (None, nodes[0].rows) and (rows := _spelled_rows(nodes[0], lane)):
        return [rows.read(lane)]
    shares_of_nodes = [_shares(node, start, node.rows if stop is None else stop) for node in nodes]
    columns: list[DeviceStrings] = []
    batch: list[list[_Plain | Share]] = []
    nbytes = 0
    for shares in shares_of_nodes:
        values_size = sum(values_nbytes(share.part) for share in shares if isinstance(share, Share))
        if batch and (not values_size or nbytes + values_size > VALUES_NBYTES):
            columns += _read(batch, lane)
            batch, nbytes = [], 0
        if values_size:
            batch.append(shares)
            nbytes += values_size
        elif shares:
            (plain,) = shares  # no two neighbours are without a dictionary
            assert isinstance(plain, _Plain)
            columns += text_read.read([plain.run.segments], lane=lane, start=plain.start, stop=plain.stop)
        else:
            columns += text_read.read([()], lane=lane)
    if batch:
        columns += _read(batch, lane)
    return columns


class _SpelledRows(NamedTuple):
    """All rows of strings, which one launch writes that is kept."""

    rows: int
    chars: int
    itemsize: int
    tables: KeptTables

    def read(self, lane: Lane) -> DeviceStrings:
        offsets, out = lane.allocate(self.itemsize * (self.rows + 1)), lane.allocate(self.chars)
        self.tables.launch(lane, offsets.ptr, out.ptr)
        return DeviceStrings(self.rows, out.ptr, offsets.ptr, self.itemsize, owners=(offsets, out, None))


_spelled: WeakCache[Node, _SpelledRows] = WeakCache()


def _spelled_rows(node: Node, lane: Lane) -> _SpelledRows | None:
    """All rows of strings with a few short values, once it is known where these go; None for others, and for nulls."""
    if (rows := _spelled.get(node)) is not None or not node.all_coded or node.null_count:
        return rows
    parts: Sequence[DictPart] = node.segments
    layouts = [dictionary.whole_layout(part) for part in parts if part.known.few is not None and is_packed(part)]
    if len(layouts) < len(parts) or any(layout.begins is None for layout in layouts):
        return None
    itemsize, targets, row, char = 4 if node.chars_nbytes < 2**31 else 8, {}, 0, 0
    for part, layout, (values, _) in zip(parts, layouts, decoded(parts, lane), strict=True):
        to = cuda_text.Target(row * itemsize, itemsize, char, char, part.chars)
        targets[cuda_packed.Spelling(values, layout, begins=layout.begins, lane=lane)] = to
        row, char = row + part.rows, char + part.chars
    tables = cuda_packed.kept(targets)
    return None if tables is None else _spelled.put(node, _SpelledRows(row, char, itemsize, tables))


def _read(columns: Sequence[Sequence[_Plain | Share]], lane: Lane) -> list[DeviceStrings]:
    """Rows of columns, each of which has some with a dictionary."""
    coded = _prepare([share for shares in columns for share in shares], lane)
    return _written(columns, dictionary.Batch(coded, lane), lane)


def _written(columns: Sequence[Sequence[_Plain | Share]], batch: dictionary.Batch, lane: Lane) -> list[DeviceStrings]:
    results: list[DeviceStrings] = []
    targets: dict[Share, cuda_text.Target] = {}
    for shares in columns:
        chars, rows = sum(share.chars or 0 for share in shares), sum(share.rows for share in shares)
        itemsize = 4 if chars < 2**31 else 8
        offsets, out = lane.allocate(itemsize * (rows + 1)), lane.allocate(chars)
        row = char = 0
        for share in shares:
            to = cuda_text.Target(offsets.ptr + row * itemsize, itemsize, char, out.ptr + char, share.chars or 0)
            if isinstance(share, _Plain):
                share.place(to, lane)
            else:
                targets[share] = to
            row, char = row + share.rows, char + (share.chars or 0)
        nulls = sum(share.null_count or 0 for share in shares)
        mask = _joined_mask(shares, rows, lane) if nulls else None
        address = 0 if mask is None else mask.ptr
        results.append(
            DeviceStrings(rows, out.ptr, offsets.ptr, itemsize, address, 0, nulls, owners=(offsets, out, mask))
        )
    batch.write(targets)
    return results


def _joined_mask(shares: Sequence[_Plain | Share], rows: int, lane: Lane) -> Any:
    if len(shares) == 1:
        return shares[0].mask
    mask = lane.allocate(blocks(rows, 512) * 64)
    lane.zero(mask.ptr, mask.size)
    tables, grids, fields, bit = JobTables(), list[int](), list[int](), 0
    for share in shares:
        fields += BitsJob(0 if share.mask is None else share.mask.ptr, share.rows, mask.ptr, bit)
        words = (bit + share.rows - 1) // 32 - bit // 32 + 1
        grids.append(blocks(words, READ_THREADS))
        bit += share.rows
    tables.add_jobs(read_kernel("dict_bits"), READ_THREADS, grids, fields)
    tables.launch(lane)
    return mask


def validity(node: Node, *, lane: Lane) -> Any:
    """Which rows of strings are null, a buffer as cuDF has it, or None without nulls. Nothing is waited for."""
    if not node.null_count:
        return None
    if not node.coded:
        return text_read.validity(node.segments, lane=lane)
    shares = _shares(node, 0, node.rows)
    _prepare(shares, lane)
    return _joined_mask(shares, node.rows, lane)


# ---- other values for all rows


class NewValues(NamedTuple):
    """Other values for a part with a dictionary, and whether each is as long as the one that it stands for."""

    dictionary: cuda_text.Dictionary
    as_long: bool


def with_values(node: Node, values: Sequence[NewValues], lane: Lane) -> DeviceStrings:
    """All rows of strings that have dictionaries, with other values; waits where these have other lengths."""
    shares = _shares(node, 0, node.rows)
    coded = _prepare(shares, lane)
    for share, new in zip(coded, values, strict=True):
        if not new.as_long:
            share.chars = None
    (strings,) = _written([shares], dictionary.Batch(coded, lane, [(new.dictionary, None) for new in values]), lane)
    return strings


def keep_few(parts: Sequence[DictPart], lane: Lane) -> None:
    """Decode a few short values of dictionaries that may have them, unless that is done."""
    unknown = [part for part in parts if may_be_few(part) and part.known.few is None]
    for first in range(0, len(unknown), _FEW_PARTS):
        decoded(unknown[first : first + _FEW_PARTS], lane)


# ---- rows by number


class _Joined(NamedTuple):
    """A column without a dictionary: the values of another one's dictionaries, and its rows that have none.

    Attributes
    ----------
    segments : Segments
    firsts : list of int
        Of every run, where its values or its rows begin.
    rows : int
    nulls : bool
        Whether a row with a dictionary may be null: then there has to be one that is, behind all others.
    """

    segments: Segments
    firsts: list[int]
    rows: int
    nulls: bool


@weakly_cached()
def _joined(node: Node) -> _Joined:
    segments_of_runs = [(run if isinstance(run, Node) else run.values).segments for run in node.runs]
    counts = [sum(segment.rows for segment in segments) for segments in segments_of_runs]
    *firsts, rows = accumulate(counts, initial=0)
    nulls = any(run.null_count for run in node.runs if isinstance(run, DictPart))
    return _Joined(Segments(segment for segments in segments_of_runs for segment in segments), firsts, rows, nulls)


def _null_segment(lane: Lane) -> Segment:
    """One row that is null. It is not kept: columns have no memory on the GPU but that of their parts."""
    (segment,) = cpu.compress(
        HostStrings(1, np.empty(0, np.uint8), np.zeros(2, np.int32), np.zeros(1, np.uint8), 0, 1), codec_of()
    )
    meta, codes = lane.allocate(segment.meta.size), lane.allocate(0)
    lane.upload(meta.ptr, segment.meta)
    return Segment(segment.layout, 1, segment.table, meta, codes, 0)


def take(
    nodes: Sequence[Node], rows: Any, *, lane: Lane, scratch_nbytes: int = 0, order: int = 0
) -> list[DeviceStrings]:
    """Rows of strings that have dictionaries by number, as `cudf_fsst.codecs.text.cuda_gather.take`."""
    if rows.size == 0:
        return cuda_take.take([()] * len(nodes), rows, lane=lane)
    count = int(rows.size)
    address, _keep = cuda_gather.numbers_there(rows, lane)
    chosen = RowNumbers(address, count, 0, order)
    by_place: dict[int, DeviceStrings] = {}
    spelled: list[tuple[int, DictPart]] = []
    for place, node in enumerate(nodes):
        part, *others = node.runs
        if others or isinstance(part, Node) or not _reads_all(part, count, scratch_nbytes):
            by_place[place] = _take(node, chosen, lane, scratch_nbytes)
        elif is_packed(part):
            spelled.append((place, part))
        else:
            by_place[place] = taken.gathered(part, chosen, lane, scratch_nbytes)
    by_place.update(taken.spelled(spelled, chosen, lane, scratch_nbytes))
    return [by_place[place] for place in range(len(nodes))]


def _reads_all(part: DictPart, count: int, scratch_nbytes: int) -> bool:
    """Whether to decode all values, to take so many rows; a few short ones are decoded already, or will be once."""
    values = part.values.segments
    kept = count > text_launch.TAKE_ROWS and may_be_few(part)
    return bool(values) and (kept or cuda_gather.reads_all(values, count, scratch_nbytes))


def _take(node: Node, rows: RowNumbers, lane: Lane, scratch_nbytes: int) -> DeviceStrings:
    keep: list[Any] = []
    address, count = rows.address, rows.count
    joined = _joined(node)
    words: list[int] = []
    base = 0
    for run, first in zip(node.runs, joined.firsts, strict=True):
        codes = itemsize = values = mask = 0
        if isinstance(run, DictPart):
            itemsize, values = run.itemsize, run.values.rows
            codes, mask, _ = taken.codes_of(
                run, RowNumbers(address, count, -base % 2**64, rows.order), keep, lane, scratch_nbytes
            )
        words += ScopeRows(base, run.rows, first, codes, itemsize, values, mask)
        base += run.rows
    table, out = lane.allocate(8 * len(words)), lane.allocate(8 * count)
    lane.upload(table.ptr, np.array(words, _u64))
    arguments = _u64(table.ptr), _u32(len(node.runs)), _u64(address), _u64(count), _u64(joined.rows)
    lane.launch(read_kernel("dict_rows"), blocks(count, READ_THREADS), READ_THREADS, (*arguments, _u64(out.ptr)))
    with lane.stream:
        numbers = cupy.asarray(DeviceInts(out, 0, 8 * count))
    del keep  # what has become of the codes is in `out`
    segments = Segments((*joined.segments, _null_segment(lane))) if joined.nulls else joined.segments
    (strings,) = cuda_gather.take([segments], numbers, lane=lane, scratch_nbytes=scratch_nbytes)
    return strings


# ---- questions


def match(node: Node, plan: search.Plan, *, lane: Lane) -> tuple[Any, bool] | None:
    """Answers for all rows of strings, a buffer: those of null rows mean nothing. And whether they are the answer.

    See `cuda_match.match`. None: the rows have to be decoded.
    """
    if not node.coded:
        return cuda_match.match(node.segments, plan, lane=lane)
    nbytes = np.dtype(search.answer_dtype(plan.question)).itemsize

    def ask(segments: Sequence[Segment]) -> tuple[Any, bool] | None:
        return cuda_match.match(segments, plan, lane=lane)

    return _answered(node, plan.question, ask, nbytes, lane=lane)


def accept(node: Node, machine: RowAutomaton, *, lane: Lane) -> tuple[Any, bool] | None:
    """What an automaton says of all rows of strings, a buffer of a byte each; of null rows it means nothing.

    And whether any is undecided: the GPU is waited for. See `cuda_match.answer`. None: the rows have to be decoded.
    """

    def ask(segments: Sequence[Segment]) -> tuple[Any, bool] | None:
        return cuda_match.answer(segments, machine, lane=lane)

    answered = _answered(node, machine, ask, 1, lane=lane) if node.coded else ask(node.segments)
    if answered is None:
        return None
    answers, sure = answered
    sure = sure and not node.coded  # of values that were answered for in host memory nothing is known
    return answers, not sure and cuda_match.undecided(answers.ptr, node.rows, lane=lane)


def _answered(
    node: Node,
    question: search.Question | RowAutomaton,
    ask: Callable[[Sequence[Segment]], tuple[Any, bool] | None],
    nbytes: int,
    *,
    lane: Lane,
) -> tuple[Any, bool] | None:
    """Answers for all rows of strings that have dictionaries, and whether they are exact; None: the codec has none.

    A few short values are decoded by the first call, which waits, and answered for in host memory. Nothing else waits.

    Parameters
    ----------
    ask
        Gives a buffer of answers for segments and whether they are exact, or None.
    nbytes : int
        Of an answer.
    """
    out, row, exact = lane.allocate(node.rows * nbytes), 0, True
    keep_few([run for run in node.runs if isinstance(run, DictPart)], lane)
    packed: list[cuda_packed.LookUp] = []
    keep = []  # until everything that uses them is enqueued
    for run in node.runs:
        values = run if isinstance(run, Node) else run.values
        to, row = out.ptr + row * nbytes, row + run.rows
        table: Any
        if isinstance(run, DictPart) and (few_values := run.known.few) is not None:
            table = few_values.answers(question)
        else:
            answered = ask(values.segments)
            if answered is None:
                return None
            keep.append(answered[0])
            table, exact = int(answered[0].ptr), exact and answered[1]
        if isinstance(run, Node):
            lane.copy(to, table, run.rows * nbytes)
        elif values.rows and is_packed(run):
            packed.append(cuda_packed.LookUp(answers_of.whole_codes(run), table, nbytes, to))
        else:
            answers_of.remap(run, table, nbytes, to, lane=lane)
    tables = JobTables()
    cuda_packed.answer(tables, packed)
    tables.launch(lane)
    return out, exact
