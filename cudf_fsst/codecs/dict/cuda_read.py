"""Strings with dictionaries in GPU memory: all rows, a range of them, rows by number, and what is asked of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import cupy
import numpy as np

from ...automata import RowAutomaton
from ...buffers import DeviceStrings, HostStrings
from ...device.memory import DeviceInts, Lane, device_attributes, pinned
from ...lazy import kept_with
from ..cuda_kernels import blocks
from ..cuda_tables import JobTables, RowNumbers
from ..node import Node
from ..scratch import scratch_limit
from ..text import cpu as fsst_cpu
from ..text import cuda_gather, cuda_take, search
from ..text import cuda_read as text_read
from ..text import launch as text_launch
from ..text.choose import codec_of
from ..text.segment import Segment, Segments
from ..values import cuda_read as fixed
from . import cuda_packed, cuda_text, few, launch
from .cuda import read_kernel
from .part import DictPart

_u32, _u64 = np.uint32, np.uint64
#: Bytes of values of dictionaries that are in memory at once.
_VALUES_NBYTES = 24 << 20
#: Scopes whose few values are decoded together.
_FEW_SCOPES = _VALUES_NBYTES // (few.MOST * few.SHORT)
#: Codes that are taken at a time are a multiple of this.
_TAKEN_ROWS = 1 << 16
#: Bytes of codes that are unpacked at once, at least.
_CODES_NBYTES = 24 << 20


# ---- the values of dictionaries


def know_longest(values: Node, nbytes: int) -> None:
    """Keep how long the longest of a dictionary's values is, so that nobody has to look."""
    _segments(values).original.longest = nbytes


def _segments(node: Node) -> Segments:
    assert isinstance(node.segments, Segments)
    return node.segments


def _longest(values: Sequence[Segments], found: Sequence[DeviceStrings], lane: Lane) -> list[int]:
    """Bytes of the longest of the values of each dictionary: found once, with a wait, and kept with them."""
    new = [i for i, segments in enumerate(values) if segments.original.longest is None]
    if new:
        there = lane.allocate(8 * len(new))
        lane.zero(there.ptr, there.size)
        tables, grids, fields = JobTables(), list[int](), list[int]()
        for k, i in enumerate(new):
            grid = min(blocks(found[i].rows, 8 * launch.READ_THREADS), device_attributes()["multiprocessors"])
            wide = found[i].offsets_itemsize == 8
            fields += launch.LongestJob(found[i].offsets, wide, found[i].rows, there.ptr + 8 * k, grid)
            grids.append(grid)
        tables.add_jobs(read_kernel("dict_longest"), launch.READ_THREADS, grids, fields)
        tables.launch(lane)
        for i, longest in zip(new, lane.read(there.ptr, len(new), np.int64).tolist(), strict=True):
            values[i].original.longest = longest
    return [segments.original.longest or 0 for segments in values]


def _decoded(parts: Sequence[DictPart], lane: Lane) -> list[tuple[cuda_text.Dictionary, Any]]:
    """The values of parts with a dictionary, and what keeps them; a few short ones are decoded once."""
    values = [_segments(part.values) for part in parts]
    new = [i for i, segments in enumerate(values) if segments.original.few is None]
    found = dict(zip(new, text_read.read([values[i] for i in new], lane=lane) if new else (), strict=True))
    some = [i for i, one in found.items() if one.rows]
    sizes = dict(zip(some, _longest([values[i] for i in some], [found[i] for i in some], lane), strict=True))
    _keep_few([(values[i], found[i], n) for i, n in sizes.items() if _is_packed(parts[i])], lane)
    made: list[tuple[cuda_text.Dictionary, Any]] = []
    for i, segments in enumerate(values):
        if (one := found.get(i)) is not None:
            there = cuda_text.Dictionary(one.chars, one.offsets, one.offsets_itemsize, one.rows, sizes.get(i, 0))
            made.append((there, one))
        else:
            count, known = parts[i].values.rows, segments.original
            made.append((cuda_text.Dictionary(0, 0, 4, count, known.longest or 0, known.few.image), None))
    return made


def _keep_few(found: Sequence[tuple[Segments, DeviceStrings, int]], lane: Lane) -> None:
    """Keep a few short values with them, in host memory: who wants them again need not decode them."""
    downloads = []
    for segments, one, longest in found:
        chars = one.owners[1].size
        if one.rows <= few.MOST and 0 < longest <= few.SHORT and one.offsets_itemsize == 4:
            places = pinned(one.rows + 1, np.int32), pinned(chars, np.uint8)
            lane.download(places[0], one.offsets)
            lane.download(places[1], one.chars)
            downloads.append((segments, *places))
    if downloads:
        lane.synchronize()
    for segments, offsets, data in downloads:
        segments.original.few = few.Few(HostStrings(offsets.size - 1, data, offsets))


# ---- rows in order


@dataclass(eq=False)
class _Share:
    """Rows of a run that are wanted.

    Attributes
    ----------
    run : DictPart or Node
        See `Node.runs`.
    start, stop : int
        Rows of the run.
    chars : int or None
        Characters of them, where they are known.
    null_count : int or None
        Likewise.
    mask : rmm.DeviceBuffer or None
        Their validity, from bit 0.
    strings : DeviceStrings or None
        Of a run without a dictionary of which some rows are wanted: these, read.
    spelling : cuda_packed.Spelling or None
        Of one with a dictionary of short values.
    writing : cuda_text.Writing or None
        Of one with another dictionary.
    values
        What keeps the dictionary's values.
    """

    run: Any
    start: int
    stop: int
    chars: int | None = None
    null_count: int | None = None
    mask: Any = None
    strings: DeviceStrings | None = None
    spelling: cuda_packed.Spelling | None = None
    writing: cuda_text.Writing | None = None
    values: Any = None

    @property
    def rows(self) -> int:
        return self.stop - self.start

    @property
    def whole(self) -> bool:
        return self.rows == self.run.rows

    @property
    def coded(self) -> bool:
        return isinstance(self.run, DictPart)

    def codes(self, address: int, first: int, rows: int) -> cuda_text.Codes:
        validity = 0 if self.mask is None else self.mask.ptr
        return cuda_text.Codes(address, self.run.itemsize, rows, validity, first if validity else 0)


def _shares(node: Node, start: int, stop: int) -> list[_Share]:
    shares, base = [], 0
    for run in node.runs:
        first, last = max(start - base, 0), min(stop - base, run.rows)
        if first < last:
            shares.append(_Share(run, first, last))
        base += run.rows
    return shares


def read(nodes: Sequence[Node], *, lane: Lane, start: int = 0, stop: int | None = None) -> list[DeviceStrings]:
    """Rows ``start:stop`` of strings that have dictionaries; of whole columns without a wait, but for the first time.

    Raises
    ------
    ValueError
        As `cudf_fsst.codecs.text.cuda_read.read`.
    """
    every = [_shares(node, start, node.rows if stop is None else stop) for node in nodes]
    made: list[DeviceStrings] = []
    together: list[list[_Share]] = []
    nbytes = 0
    for shares in every:
        own = sum(_values_nbytes(share.run) for share in shares if share.coded)
        if together and (not own or nbytes + own > _VALUES_NBYTES):
            made += _read(together, lane)
            together, nbytes = [], 0
        if own:
            together.append(shares)
            nbytes += own
        elif shares:
            (one,) = shares  # no two neighbours are without a dictionary
            made += text_read.read([one.run.segments], lane=lane, start=one.start, stop=one.stop)
        else:
            made += text_read.read([()], lane=lane)
    if together:
        made += _read(together, lane)
    return made


def _values_nbytes(part: DictPart) -> int:
    """Memory that the values take, or more."""
    values = part.values
    return values.chars_nbytes + cuda_packed.image_limit(values.rows) + 1


def _read(columns: Sequence[Sequence[_Share]], lane: Lane) -> list[DeviceStrings]:
    """Rows of columns, each of which has some with a dictionary."""
    every = [share for shares in columns for share in shares]
    coded = [share for share in every if share.coded]
    _masks(every, lane)
    spelled: list[tuple[_Share, cuda_packed.Spelling]] = []
    unpacked: list[tuple[_Share, cuda_text.Writing]] = []
    for share, (dictionary, owner) in zip(coded, _decoded([share.run for share in coded], lane), strict=True):
        share.values = owner
        if _is_packed(share.run) and cuda_packed.short(dictionary):
            mask = 0 if share.mask is None else share.mask.ptr
            share.spelling = cuda_packed.Spelling(dictionary, _layout(share, dictionary), validity=mask, lane=lane)
            spelled.append((share, share.spelling))
        else:
            share.writing = cuda_text.Writing(dictionary, share.rows, lane)
            unpacked.append((share, share.writing))
    tables = JobTables()
    cuda_packed.Spelling.measure(tables, (spelling for _, spelling in spelled))
    if any(share.chars is None for share in every):
        tables.launch(lane)
        tables = JobTables()
    windows = _Windows([share for share, _ in unpacked], lane)
    for pieces in windows:
        measured = JobTables()
        cuda_text.measure(measured, pieces)
        measured.launch(lane)
    if unpacked:
        placed = JobTables()
        first, *others = (writing for _, writing in unpacked)
        first.place(placed, *others)
        placed.launch(lane)
    _sizes(every, lane)
    made: list[DeviceStrings] = []
    targets: dict[_Share, cuda_text.Target] = {}
    for shares in columns:
        chars, rows = sum(share.chars or 0 for share in shares), sum(share.rows for share in shares)
        itemsize = 4 if chars < 2**31 else 8
        offsets, out = lane.allocate(itemsize * (rows + 1)), lane.allocate(chars)
        row = char = 0
        for share in shares:
            to = cuda_text.Target(offsets.ptr + row * itemsize, itemsize, char, out.ptr + char, share.chars or 0)
            if not share.coded:
                _place_plain(share, to, lane)
            targets[share] = to
            row, char = row + share.rows, char + (share.chars or 0)
        nulls = sum(share.null_count or 0 for share in shares)
        mask = _joined_mask(shares, rows, lane) if nulls else None
        address = 0 if mask is None else mask.ptr
        made.append(DeviceStrings(rows, out.ptr, offsets.ptr, itemsize, address, 0, nulls, owners=(offsets, out, mask)))
    cuda_packed.Spelling.write(tables, ((spelling, targets[share]) for share, spelling in spelled))
    tables.launch(lane)
    for pieces in windows:
        tables = JobTables()
        cuda_text.write(tables, [piece._replace(to=targets[windows.share(piece)]) for piece in pieces])
        tables.launch(lane)
    return made


def _layout(share: _Share, dictionary: cuda_text.Dictionary) -> cuda_packed.SpellLayout:
    if share.whole and dictionary.longest == _segments(share.run.values).original.longest:
        return _whole(share.run)
    return cuda_packed.SpellLayout.packed(
        dictionary.values, dictionary.longest, share.run.packed, share.start, share.stop
    )


@kept_with()
def _whole(part: DictPart) -> cuda_packed.SpellLayout:
    """The layout for all rows of a part whose values have been read."""
    longest = _segments(part.values).original.longest or 0
    return cuda_packed.SpellLayout.packed(part.values.rows, longest, part.packed, 0, part.rows)


class _Windows:
    """Codes of shares, unpacked so many at a time as there is room for: all of them, or some rows of one.

    Iterated twice: what is there already is not unpacked again.
    """

    def __init__(self, shares: Sequence[_Share], lane: Lane) -> None:
        self._lane = lane
        self._of = {share.writing: share for share in shares}
        plain_nbytes = sum(share.run.chars + 4 * share.rows for share in shares)
        most = max(scratch_limit(plain_nbytes) - (_CODES_NBYTES if plain_nbytes >= 2**29 else 0), _CODES_NBYTES)
        sizes = [share.rows * share.run.itemsize for share in shares]
        #: Shares with the rows that are unpacked together.
        self._turns: list[list[tuple[_Share, int, int]]] = [[]]
        used = 0
        for share, nbytes in zip(shares, sizes, strict=True):
            if used and used + nbytes > most:
                self._turns.append([])
                used = 0
            step = most // share.run.itemsize // launch.READ_TILE * launch.READ_TILE
            for first in range(0, share.rows, step):
                if first:
                    self._turns.append([])
                    used = 0
                count = min(step, share.rows - first)
                self._turns[-1].append((share, first, count))
                used += -(-count * share.run.itemsize // 256) * 256
        self._turns = [turn for turn in self._turns if turn]
        sizes = [sum(-(-count * share.run.itemsize // 256) * 256 for share, _, count in turn) for turn in self._turns]
        self._room = lane.allocate(max(sizes, default=0))
        self._there: int | None = None

    def share(self, piece: cuda_text.WritingPiece) -> _Share:
        return self._of[piece.writing]

    def __iter__(self) -> Any:
        for number, turn in enumerate(self._turns):
            at, jobs, pieces = int(self._room.ptr), [], []
            for share, first, count in turn:
                begin = share.start + first
                jobs.append(fixed.ReadRequest(share.run.indices.values, at, begin, begin + count))
                assert share.writing is not None
                pieces.append(cuda_text.WritingPiece(share.writing, share.codes(at, first, count), first))
                at += -(-count * share.run.itemsize // 256) * 256
            if self._there != number:
                fixed.decompress(jobs, lane=self._lane)
                self._there = number
            yield pieces


def _masks(shares: Sequence[_Share], lane: Lane) -> None:
    """Validity of all shares that may have nulls, and rows of runs without dictionaries of which some are wanted."""
    counted: list[tuple[_Share, Any]] = []
    for share in shares:
        run = share.run
        if not share.coded:
            if share.whole:
                share.mask, share.null_count = text_read.validity(run.segments, lane=lane), run.null_count
                share.chars = run.chars_nbytes
            else:
                (share.strings,) = text_read.read([run.segments], lane=lane, start=share.start, stop=share.stop)
                share.mask, share.null_count = share.strings.owners[2], share.strings.null_count
                share.chars = share.strings.owners[1].size
            continue
        if share.whole:
            share.chars = run.chars
        if not run.null_count:
            share.null_count = 0
            continue
        share.mask = lane.allocate(blocks(share.rows, 512) * 64)
        if share.whole:
            share.null_count = run.null_count
            lane.zero(share.mask.ptr + share.mask.size - 64, 64)
            fixed.decompress([fixed.ReadRequest((run.indices.validity,), share.mask.ptr)], lane=lane)
            continue
        counter = lane.allocate(8)
        lane.zero(counter.ptr, 8)
        job = fixed.ReadRequest((run.indices.validity,), share.mask.ptr, nulls=counter.ptr)
        fixed.take([job], RowNumbers(0, share.rows, share.start), lane=lane)
        counted.append((share, counter))
    if counted:
        found = [lane.fetch(counter.ptr, 1, np.int64) for _, counter in counted]
        lane.synchronize()
        for (share, _), number in zip(counted, found, strict=True):
            share.null_count = int(number[0])


def _sizes(shares: Sequence[_Share], lane: Lane) -> None:
    """Characters of the shares where they are not known: with a wait."""
    found = []
    for share in shares:
        if share.chars is not None:
            continue
        if share.spelling is not None:
            numbers = share.spelling.download()
        else:
            assert share.writing is not None
            numbers = lane.fetch(share.writing.total, 1, np.int64)
        found.append((share, numbers))
    if found:
        lane.synchronize()
    for share, numbers in found:
        share.chars = int(numbers.sum())


def _place_plain(share: _Share, to: cuda_text.Target, lane: Lane) -> None:
    """Rows without a dictionary."""
    if share.strings is None:
        text_read.read_into(_segments(share.run), to.offsets, to.itemsize, to.first_char, to.chars, lane=lane)
        return
    strings = share.strings
    lane.copy(to.chars, strings.chars, to.limit)
    kernel = read_kernel("dict_shift")
    sizes = _u64(strings.offsets), _u64(strings.offsets_itemsize), _u64(share.rows + 1), _u64(to.first_char)
    grid = blocks(share.rows + 1, launch.READ_THREADS)
    lane.launch(kernel, grid, launch.READ_THREADS, (*sizes, _u64(to.offsets), _u64(to.itemsize)))


def _joined_mask(shares: Sequence[_Share], rows: int, lane: Lane) -> Any:
    if len(shares) == 1:
        return shares[0].mask
    mask = lane.allocate(blocks(rows, 512) * 64)
    lane.zero(mask.ptr, mask.size)
    tables, grids, fields, bit = JobTables(), list[int](), list[int](), 0
    for share in shares:
        fields += launch.BitsJob(0 if share.mask is None else share.mask.ptr, share.rows, mask.ptr, bit)
        words = (bit + share.rows - 1) // 32 - bit // 32 + 1
        grids.append(blocks(words, launch.READ_THREADS))
        bit += share.rows
    tables.add_jobs(read_kernel("dict_bits"), launch.READ_THREADS, grids, fields)
    tables.launch(lane)
    return mask


def validity(node: Node, *, lane: Lane) -> Any:
    """The validity of all rows, a buffer as cuDF has it, or None without nulls; nothing is waited for."""
    if not node.null_count:
        return None
    shares = _shares(node, 0, node.rows)
    _masks(shares, lane)
    return _joined_mask(shares, node.rows, lane)


# ---- rows by number


class _Joined(NamedTuple):
    """A column that has the values of the dictionaries of another, and its rows without one.

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


@kept_with()
def _joined(node: Node) -> _Joined:
    own = [(run if isinstance(run, Node) else run.values).segments for run in node.runs]
    counts = [sum(segment.rows for segment in segments) for segments in own]
    *firsts, rows = accumulate(counts, initial=0)
    nulls = any(run.null_count for run in node.runs if isinstance(run, DictPart))
    return _Joined(Segments(segment for segments in own for segment in segments), firsts, rows, nulls)


def _null_segment(lane: Lane) -> Segment:
    """One row that is null. It is not kept: columns have no memory on the GPU but that of their parts."""
    (segment,) = fsst_cpu.compress(
        HostStrings(1, np.empty(0, np.uint8), np.zeros(2, np.int32), np.zeros(1, np.uint8), 0, 1), codec_of()
    )
    meta, codes = lane.allocate(segment.meta.size), lane.allocate(0)
    lane.upload(meta.ptr, segment.meta)
    return Segment(segment.layout, 1, segment.table, meta, codes, 0)


def take(nodes: Sequence[Node], rows: Any, *, lane: Lane, room: int = 0, order: int = 0) -> list[DeviceStrings]:
    """Rows of strings that have dictionaries by number, as `cudf_fsst.codecs.text.cuda_gather.take`."""
    if rows.size == 0:
        return cuda_take.take([()] * len(nodes), rows, lane=lane)
    count, there = int(rows.size), None
    if isinstance(rows, np.ndarray):
        there = lane.allocate(8 * count)
        lane.upload(there.ptr, np.ascontiguousarray(rows, np.int64))
        address = int(there.ptr)
    else:
        with lane.stream:
            rows = cupy.ascontiguousarray(cupy.asarray(rows, dtype=cupy.int64))
        address = int(rows.data.ptr)
    chosen = RowNumbers(address, count, 0, order)
    found: dict[int, DeviceStrings] = {}
    spelled: list[tuple[int, DictPart]] = []
    for place, node in enumerate(nodes):
        part, *others = node.runs
        if others or isinstance(part, Node) or not _reads_all(part, count, room):
            found[place] = _take(node, chosen, lane, room)
        elif _is_packed(part):
            spelled.append((place, part))
        else:
            found[place] = _gathered(part, chosen, lane, room)
    found.update(_spelled(spelled, chosen, lane, room))
    return [found[place] for place in range(len(nodes))]


def _reads_all(part: DictPart, count: int, room: int) -> bool:
    """Whether to decode all values, to take so many rows; a few short ones are decoded already, or will be once."""
    values = part.values.segments
    kept = count > text_launch.TAKE_ROWS and _may_be_few(part)
    return bool(values) and (kept or cuda_gather.reads_all(values, count, room))


def _spelled(some: Sequence[tuple[int, DictPart]], rows: RowNumbers, lane: Lane, room: int) -> dict[int, DeviceStrings]:
    """Rows of parts with a dictionary, all values of which are decoded, by their place."""
    limit = max(room // 2, _CODES_NBYTES)
    found: dict[int, DeviceStrings] = {}
    turn: list[_Taking] = []
    used = 0
    for place, part in some:
        nbytes = _values_nbytes(part)
        dictionary, owner = _decoded([part], lane)[0] if nbytes <= _VALUES_NBYTES else (None, None)
        if dictionary is None or not cuda_packed.short(dictionary):
            found[place] = _gathered(part, rows, lane, room)
            continue
        one = _Taking(place, part, dictionary, owner, rows, limit, lane)
        nbytes += one.codes_nbytes
        if turn and used + nbytes > limit:
            found.update(_spell(turn, lane))
            turn, used = [], 0
        turn.append(one)
        used += nbytes
    if turn:
        found.update(_spell(turn, lane))
    return found


class _Taking:
    """Rows of a part with a dictionary of short values that are taken: their codes, as many at a time as have room."""

    def __init__(
        self, place: int, part: DictPart, dictionary: Any, owner: Any, rows: RowNumbers, limit: int, lane: Lane
    ) -> None:
        self.place, self.part, self.dictionary, self.owner = place, part, dictionary, owner
        self.rows, self.lane, self.limit = rows, lane, limit
        self.itemsize = part.itemsize
        self.step = min(max(limit // self.itemsize // _TAKEN_ROWS, 1) * _TAKEN_ROWS, rows.count)
        self.firsts = range(0, rows.count, self.step)
        self.codes_nbytes = cuda_packed.plain_nbytes(self.step, self.itemsize)
        self.mask, self.counter = _taken_mask(part, rows, lane)
        self._room: Any = None
        self._there: int | None = None
        self.spellings: list[cuda_packed.Spelling] = []

    def request(self, first: int) -> fixed.ReadRequest:
        """What brings the codes of rows from `first` on."""
        if self._room is None:
            self._room = self.lane.allocate(self.codes_nbytes)
        self._there = first
        return fixed.ReadRequest(self.part.indices.values, int(self._room.ptr))

    def codes(self, first: int) -> cuda_packed.Spelling:
        """Take the codes of rows from `first` on, unless they are there."""
        count = min(self.step, self.rows.count - first)
        if self._there != first:
            some = RowNumbers(self.rows.address + 8 * first, count, self.rows.shift, self.rows.order)
            fixed.take([self.request(first)], some, lane=self.lane, room=self.limit)
        address = int(self._room.ptr)
        number = first // self.step
        if number == len(self.spellings):
            one = self.dictionary
            layout = cuda_packed.SpellLayout.plain(one.values, one.longest, self.itemsize, address, count, first)
            validity = 0 if self.mask is None else int(self.mask.ptr)
            self.spellings.append(cuda_packed.Spelling(one, layout, validity=validity, lane=self.lane))
        return self.spellings[number]


def _taken_mask(part: DictPart, rows: RowNumbers, lane: Lane) -> tuple[Any, Any]:
    """The validity of rows of a part that are taken, and what counts nulls; or None."""
    if not part.null_count:
        return None, None
    counter, mask = lane.allocate(8), lane.allocate(blocks(rows.count, 512) * 64)
    lane.zero(counter.ptr, 8)
    lane.zero(mask.ptr, mask.size)
    fixed.take([fixed.ReadRequest((part.indices.validity,), mask.ptr, nulls=counter.ptr)], rows, lane=lane)
    return mask, counter


def _spell(turn: Sequence[_Taking], lane: Lane) -> dict[int, DeviceStrings]:
    """Strings by their place. Codes of which there are several windows are taken twice."""
    several = any(len(one.firsts) > 1 for one in turn)

    def launched(add: Callable[[JobTables, Sequence[Any]], None], some: Sequence[Any]) -> None:
        tables = JobTables()
        add(tables, some)
        tables.launch(lane)

    every = []
    if not several:
        fixed.take([one.request(0) for one in turn], turn[0].rows, lane=lane, room=turn[0].limit)
    for one in turn:
        for first in one.firsts:
            every.append(one.codes(first))
            if several:
                launched(cuda_packed.Spelling.measure, every[-1:])
    if not several:
        launched(cuda_packed.Spelling.measure, every)
    sums = [[spelling.download() for spelling in one.spellings] for one in turn]
    nulls = [None if one.counter is None else lane.fetch(one.counter.ptr, 1, np.int64) for one in turn]
    lane.synchronize()
    found: dict[int, DeviceStrings] = {}
    targets = []
    for one, own, missing in zip(turn, sums, nulls, strict=True):
        chars = [int(some.sum()) for some in own]
        count, itemsize = one.rows.count, 4 if sum(chars) < 2**31 else 8
        offsets, out = lane.allocate(itemsize * (count + 1)), lane.allocate(sum(chars))
        before = 0
        for first, size in zip(one.firsts, chars, strict=True):
            to = cuda_text.Target(offsets.ptr + first * itemsize, itemsize, before, out.ptr + before, size)
            targets.append((one.codes(first), to))
            if several:
                launched(cuda_packed.Spelling.write, targets[-1:])
            before += size
        null_count = 0 if missing is None else int(missing[0])
        mask = one.mask if null_count else None
        address = 0 if mask is None else int(mask.ptr)
        found[one.place] = DeviceStrings(
            count, out.ptr, offsets.ptr, itemsize, address, 0, null_count, owners=(offsets, out, mask)
        )
    if not several:
        launched(cuda_packed.Spelling.write, targets)
    return found


def _gathered(part: DictPart, rows: RowNumbers, lane: Lane, room: int) -> DeviceStrings:
    """Rows of a part, whose codes are numbers of rows of the values."""
    keep: list[Any] = []
    codes, mask, counter = _codes_of(part, rows, keep, lane, room)
    numbers = cuda_gather.Numbers(codes, part.itemsize, rows.count, mask)
    made = cuda_gather.gather(part.values.segments, numbers, lane=lane, room=room)
    if mask:
        nulls = int(lane.read(counter, 1, np.int64)[0])
        if nulls:
            made.validity, made.null_count = mask, nulls
            made.owners = (*made.owners[:2], keep[-1])
    return made


def _take(node: Node, rows: RowNumbers, lane: Lane, room: int) -> DeviceStrings:
    keep: list[Any] = []
    address, count = rows.address, rows.count
    joined = _joined(node)
    words: list[int] = []
    base = 0
    for run, first in zip(node.runs, joined.firsts, strict=True):
        codes = itemsize = values = mask = 0
        if isinstance(run, DictPart):
            itemsize, values = run.itemsize, run.values.rows
            codes, mask, _ = _codes_of(run, RowNumbers(address, count, -base % 2**64, rows.order), keep, lane, room)
        words += launch.ScopeRows(base, run.rows, first, codes, itemsize, values, mask)
        base += run.rows
    table, out = lane.allocate(8 * len(words)), lane.allocate(8 * count)
    lane.upload(table.ptr, np.array(words, _u64))
    arguments = _u64(table.ptr), _u32(len(node.runs)), _u64(address), _u64(count), _u64(joined.rows)
    lane.launch(
        read_kernel("dict_rows"), blocks(count, launch.READ_THREADS), launch.READ_THREADS, (*arguments, _u64(out.ptr))
    )
    with lane.stream:
        numbers = cupy.asarray(DeviceInts(out, 0, 8 * count))
    del keep  # what has become of the codes is in `out`
    segments = Segments((*joined.segments, _null_segment(lane))) if joined.nulls else joined.segments
    (found,) = cuda_gather.take([segments], numbers, lane=lane, room=room)
    return found


def _codes_of(part: DictPart, rows: RowNumbers, keep: list[Any], lane: Lane, room: int) -> tuple[int, int, int]:
    """Addresses of the codes of rows of a part, of their validity or 0, and of how many are null.

    Rows that the part does not have have the code 0. `keep`: gets what keeps these.
    """
    count, itemsize = rows.count, part.itemsize
    keep.append(lane.allocate(count * itemsize))
    codes, mask, counter = int(keep[-1].ptr), 0, 0
    lane.zero(codes, count * itemsize)
    fixed.take([fixed.ReadRequest(part.indices.values, codes)], rows, lane=lane, room=room)
    if part.null_count:
        keep += reversed(_taken_mask(part, rows, lane))
        counter, mask = int(keep[-2].ptr), int(keep[-1].ptr)
    return codes, mask, counter


# ---- answers


def remap(
    part: DictPart, table: int, nbytes: int, out: int, *, lane: Lane, start: int = 0, stop: int | None = None
) -> None:
    """Write, for each row of a part with a dictionary, the entry of a table that its code has; of null rows any.

    Parameters
    ----------
    table, nbytes : int
        Address, and bytes of an entry: 1, 2, 4 or 8.
    out : int
        Address of the first row's.
    """
    stop = part.rows if stop is None else stop
    itemsize, values = part.itemsize, part.values.rows
    if values == 0:
        lane.zero(out, (stop - start) * nbytes)
        return
    if _is_packed(part):
        if start < stop:
            tables = JobTables()
            cuda_packed.answer(tables, [cuda_packed.LookUp(_codes(part, start, stop), table, nbytes, out)])
            tables.launch(lane)
        return
    step = max(_CODES_NBYTES, scratch_limit(part.chars + 4 * part.rows)) // itemsize
    room = lane.allocate(min(step, stop - start) * itemsize)
    for first in range(start, stop, step):
        rows = min(step, stop - first)
        fixed.decompress([fixed.ReadRequest(part.indices.values, room.ptr, first, first + rows)], lane=lane)
        grid = min(blocks(rows, 16 * launch.READ_THREADS), 8 * device_attributes()["multiprocessors"])
        to = out + (first - start) * nbytes
        tables = JobTables()
        job = launch.MapJob(room.ptr, itemsize, rows, table, values, to, nbytes, grid)
        tables.add_jobs(read_kernel("dict_map"), launch.READ_THREADS, [grid], job)
        tables.launch(lane)


def count(part: DictPart, *, lane: Lane) -> Any:
    """How many rows of a part with a dictionary have each value: a buffer of int64; None where codes are not packed.

    Damaged codes of no value are not counted. Nothing is waited for.
    """
    if not _is_packed(part):
        return None
    values = part.values.rows
    out = lane.allocate(8 * values)
    lane.zero(out.ptr, 8 * values)
    if values and part.rows:
        share = _Share(part, 0, part.rows)
        _masks([share], lane)
        tables = JobTables()
        cuda_packed.count(
            tables, part.packed, values, out.ptr, validity=0 if share.mask is None else int(share.mask.ptr)
        )
        tables.launch(lane)
    return out


def match(
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
    some = [run for run in node.runs if isinstance(run, DictPart) and _may_be_few(run)]
    unknown = [part for part in some if _segments(part.values).original.few is None]
    for first in range(0, len(unknown), _FEW_SCOPES):
        _decoded(unknown[first : first + _FEW_SCOPES], lane)
    packed: list[cuda_packed.LookUp] = []
    keep = []  # until everything that uses them is enqueued
    for run in node.runs:
        values = run if isinstance(run, Node) else run.values
        at, row = out.ptr + row * nbytes, row + run.rows
        table: Any
        if values is not run and (kept := _segments(values).original.few) is not None:
            table = kept.answers(question)
        else:
            found = ask(values.segments)
            if found is None:
                return None
            keep.append(found[0])
            table, exact = int(found[0].ptr), exact and found[1]
        if isinstance(run, Node):
            lane.copy(at, table, run.rows * nbytes)
        elif values.rows and _is_packed(run):
            packed.append(cuda_packed.LookUp(_whole_codes(run), table, nbytes, at))
        else:
            remap(run, table, nbytes, at, lane=lane)
    tables = JobTables()
    cuda_packed.answer(tables, packed)
    tables.launch(lane)
    return out, exact


def _codes(part: DictPart, start: int, stop: int) -> cuda_packed.SharedCodes:
    if (start, stop) == (0, part.rows):
        return _whole_codes(part)
    return cuda_packed.SharedCodes(part.packed, start, stop, part.values.rows)


@kept_with()
def _whole_codes(part: DictPart) -> cuda_packed.SharedCodes:
    return cuda_packed.SharedCodes(part.packed, 0, part.rows, part.values.rows)


def _may_be_few(part: DictPart) -> bool:
    """Whether the values may be kept, or are."""
    longest = _segments(part.values).original.longest
    return few.may_be(part.values) and (longest is None or 0 < longest <= few.SHORT) and _is_packed(part)


def _is_packed(part: DictPart) -> bool:
    return cuda_packed.packed(part.packed)
