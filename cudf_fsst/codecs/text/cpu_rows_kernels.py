"""Numba kernels that run an automaton of rows over the codes of a segment, of several rows in turns.

A state depends on the one before, so rows that are run one after another wait for their look-ups, and where a row ends
is not foreseen. So where rows end in the codes is found first, for a window of some tiles at a time. Then codes are run
in six lanes, which begin behind the ends of rows, without a branch: a code in which a row ends is taken for another
one, which leads to the state in which the next row is behind it. At last every row looks at the state before its last
code. Entries lie by code, then by state, so that all of a step but one look-up is known before.

Where a row's first code decides of most rows, as for ``^car`` and ``<``, rows are looked at where they begin.

Kernels take addresses, as those of ``cpu_kernels.py`` do, release the GIL, and trust nothing that is stored.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ...automata import NO, RowAutomaton
from ..jit import njit
from ..unaligned import (
    address,
    load8,
    load16,
    load32,
    prefetch,
    scale64,
    store8,
    store16,
    store32,
    store64,
    trailing_zeros,
)
from .cpu_places_kernels import AHEAD, NO_CODES, CodeComparer, code_at, tile_length
from .cpu_search_kernels import first_position
from .layout import ROW_BLOCK, TILE_BLOCK
from .row_lengths import number_at, row_ends

#: What may be found wrong.
FINE, BAD_TILE, BAD_ROWS = range(3)

#: Rows, a multiple of `ROW_BLOCK`, of which it is known at once where they end.
_GROUP_ROWS = 16 * ROW_BLOCK
# A tile has a slot, or one for each 256 of its bytes. So many are open at a time.
_SLOT, _SLOTS = 256, 32
# Parts of a window's codes that are run in turns: 0.6 ns a code in four, 0.45 in six, and no less in eight.
_LANES = 6
# A text is looked for in tiles while less than one in so many may have it.
_RARE = 4
# Rows that end in a window, and more, from which on there are lanes.
_MANY = 8
# A row's first code decides of most rows if it does for all codes but one in so many.
_MOST = 4
# Or if no row is undecided behind so many bytes.
_FIRST_BYTES = 12
# Codes of a row, and one, that are looked at of all rows before the next one is.
_TURNS = 4
# What is known of a row that its first code does not decide.
_UNSURE = 3
# What stands for the last byte of a row that needs no state.
_ANSWERED = 255
# Where an entry has the bits of rows that are left undecided.
_UNDECIDED_SHIFT = 16


class RowSymbols(NamedTuple):
    """What the codes of a table stand for, as `row_answerer` takes them.

    Attributes
    ----------
    words : ndarray of uint64, (codes, 1 or 2)
        Symbols.
    lengths : ndarray of uint8, (codes,)
        Bytes of each.
    literals : int
        The code of byte 0, as a byte that stands for itself; those of the others are behind it.
    """

    words: npt.NDArray[np.uint64]
    lengths: npt.NDArray[np.uint8]
    literals: int = 0


#: Of codecs whose tiles are decoded.
BYTES = RowSymbols(np.arange(256, dtype=np.uint64)[:, None], np.ones(256, np.uint8))


class LiftedRows(NamedTuple):
    """An automaton of rows that reads codes.

    Attributes
    ----------
    following : ndarray of uint16, (codes + states, states)
        Code, state -> the next state. The codes behind those of the table lead to a state each.
    verdicts : ndarray of uint32, (codes, states)
        Bit i: whether a row counts that ends `i` bytes before the symbol does; 16 bits above, whether it is undecided.
    restarts : ndarray of uint16, (codes, bytes of a symbol)
        Code, its last bytes that begin a row, less 1 -> the state behind them.
    steps : ndarray of uint32, (codes, bytes of a symbol)
        Code, its last bytes that begin a row -> where the entries of the code are in `following` that leads to the
        state behind them, in bytes.
    known : ndarray of uint8, (states,)
        The verdict in a state that nothing leads out of, or `_UNSURE`.
    early : bool
        Whether most rows are decided by their first code.
    """

    following: npt.NDArray[np.uint16]
    verdicts: npt.NDArray[np.uint32]
    restarts: npt.NDArray[np.uint16]
    steps: npt.NDArray[np.uint32]
    known: npt.NDArray[np.uint8]
    early: bool


def lift(machine: RowAutomaton, symbols: RowSymbols) -> LiftedRows:
    """The automaton that reads codes. Those without a symbol leave the state, and stand for no bytes."""
    states, lengths = machine.states, symbols.lengths
    shape = lengths.size, 8 * symbols.words.shape[1]
    following = np.empty((lengths.size + states, states), np.uint16)
    following[lengths.size :] = np.arange(states)[:, None]
    verdicts = np.empty((lengths.size, states), np.uint32)
    restarts = np.zeros(shape, np.uint16)
    settled = (machine.following == np.arange(states)[:, None]).all(axis=1)
    known = np.where(settled, machine.verdicts, np.uint8(_UNSURE))
    _lift(*_addresses(machine), address(symbols.words), lengths, following, verdicts, restarts)
    some = np.flatnonzero(lengths)
    decided = np.count_nonzero(known[restarts[some, lengths[some] - 1]] != _UNSURE)
    early = _MOST * decided >= (_MOST - 1) * some.size or _settles(machine, settled)
    steps = np.full(shape, lengths.size, np.uint32)
    steps[:, 1:] += restarts[:, :-1]
    steps *= np.uint32(2 * states)
    return LiftedRows(following, verdicts, restarts, steps, known, bool(early))


def _settles(machine: RowAutomaton, settled: npt.NDArray[np.bool_]) -> bool:
    """Whether the first `_FIRST_BYTES` of every row decide of it."""
    reached = np.zeros(1, np.int64)
    for _ in range(_FIRST_BYTES):
        reached = np.unique(machine.following[reached])
        reached = reached[~settled[reached]]
    return reached.size == 0


def _addresses(machine: RowAutomaton) -> tuple[int, int]:
    return address(machine.following), address(machine.verdicts)


@njit()
def _lift(
    of_bytes: int,
    verdicts_of_bytes: int,
    symbols: int,
    lengths: Any,
    following: Any,
    verdicts: Any,
    restarts: Any,
) -> None:
    """Fill the tables of `LiftedRows`."""
    symbol, most = np.empty(16, np.int64), restarts.shape[1]
    for code in range(lengths.size):
        length = np.int64(lengths[code])
        for place in range(length):
            byte = np.int64(load8(symbols + most * code + place))
            symbol[place] = byte
            for have in range(length - 1 - place, length):
                restarts[code, have] = load16(of_bytes + 2 * (np.int64(restarts[code, have]) << 8 | byte))
        for state in range(following.shape[1]):
            at, bits = np.int64(state), np.int64(0)
            for place in range(length):
                at = np.int64(load16(of_bytes + 2 * (at << 8 | symbol[place])))
                says = np.int64(load8(verdicts_of_bytes + at))
                bits |= (says & 1 | says >> 1 << _UNDECIDED_SHIFT) << (length - 1 - place)
            following[code, state], verdicts[code, state] = at, bits


def answer(
    answer_rows: Any,
    lifted: LiftedRows,
    machine: RowAutomaton,
    symbols: RowSymbols,
    finding: tuple[int, int, int],
    tiles: Any,
    rows: Any,
    table: Any,
    first: int,
    last: int,
    out: int,
) -> tuple[int, int]:
    """Answer for the rows of row blocks `first` to ``last - 1``.

    Parameters
    ----------
    answer_rows
        What `row_answerer` makes.
    lifted
        What `lift` makes of `machine` and `symbols`.
    finding
        Addresses of what `CodeComparer.plan` made of `RowAutomaton.text`, and of that, and its bytes. The first of them
        is 0: all tiles are looked at.
    tiles, rows, table : tuple of int
        What `cpu_read.SegmentReader` says of a segment.
    out
        Address of the answers, a byte each.

    Returns
    -------
    tuple of int
        What was found wrong, and the number of the tile or row block.
    """
    codes = symbols.lengths.size
    automaton = (
        address(lifted.following),
        address(lifted.verdicts),
        address(lifted.steps),
        address(lifted.restarts),
        address(lifted.known),
        *_addresses(machine),
        machine.states,
    )
    of_codes = codes, address(symbols.words), 8 * symbols.words.shape[1], address(symbols.lengths)
    arrays = (
        np.empty(_SLOT * _SLOTS + 128, np.uint16),
        np.empty(_SLOT * _SLOTS + 64, np.uint8),
        np.empty(_SLOTS + 1, np.int64),
        np.empty(max(_SLOT * _SLOTS + 128, 6 * _GROUP_ROWS), np.uint32),
        np.empty(_GROUP_ROWS + 1, np.uint32),
        np.empty(2 * _LANES + 1, np.int64),
        np.empty(_GROUP_ROWS + 1, np.int64),
        np.empty(tiles[5] + 64, np.uint8),
    )
    how = automaton, of_codes, symbols.literals, lifted.early
    return answer_rows(tiles, rows, table, first, last, how, finding, tuple(address(array) for array in arrays), out)


@njit()
def _run(at: int, end: int, state: Any, following: int) -> Any:
    """Run over codes; `at`, `end`: addresses of what `_run_in_turns` takes."""
    while at < end:
        entry = following + np.int64(load32(at)) + 2 * state
        store16(at, np.uint16(state))
        state = np.int64(load16(entry))
        at += 4
    return state


@njit()
def _run_in_turns(lanes: int, following: int) -> None:
    """Run over the codes of all lanes.

    Parameters
    ----------
    lanes
        Address of where lanes begin, and the last one ends, and of the states in which they begin, int64 each. They
        begin at the address of a uint32 for each code: where its entries begin. The state before the code is written
        there. The last of the states becomes the one behind all codes.
    following
        Address of entries.
    """
    at_a, at_b, at_c = number_at(lanes), number_at(lanes + 8), number_at(lanes + 16)
    at_d, at_e, at_f = number_at(lanes + 24), number_at(lanes + 32), number_at(lanes + 40)
    states, end = lanes + 56, number_at(lanes + 48)
    a, b, c = number_at(states), number_at(states + 8), number_at(states + 16)
    d, e, f = number_at(states + 24), number_at(states + 32), number_at(states + 40)
    nbytes = min(min(min(at_b - at_a, at_c - at_b), min(at_d - at_c, at_e - at_d)), min(at_f - at_e, end - at_f))
    for i in range(0, nbytes, 4):
        entry = following + np.int64(load32(at_a + i)) + 2 * a
        store16(at_a + i, np.uint16(a))
        a = np.int64(load16(entry))
        entry = following + np.int64(load32(at_b + i)) + 2 * b
        store16(at_b + i, np.uint16(b))
        b = np.int64(load16(entry))
        entry = following + np.int64(load32(at_c + i)) + 2 * c
        store16(at_c + i, np.uint16(c))
        c = np.int64(load16(entry))
        entry = following + np.int64(load32(at_d + i)) + 2 * d
        store16(at_d + i, np.uint16(d))
        d = np.int64(load16(entry))
        entry = following + np.int64(load32(at_e + i)) + 2 * e
        store16(at_e + i, np.uint16(e))
        e = np.int64(load16(entry))
        entry = following + np.int64(load32(at_f + i)) + 2 * f
        store16(at_f + i, np.uint16(f))
        f = np.int64(load16(entry))
    _run(at_a + nbytes, at_b, a, following)
    _run(at_b + nbytes, at_c, b, following)
    _run(at_c + nbytes, at_d, c, following)
    _run(at_d + nbytes, at_e, d, following)
    _run(at_e + nbytes, at_f, e, following)
    store64(states + 40, np.uint64(_run(at_f + nbytes, end, f, following)))


@njit()
def _run_bytes(state: Any, at: int, nbytes: Any, of_bytes: int) -> Any:
    """Run over bytes."""
    for i in range(nbytes):
        state = np.int64(load16(of_bytes + 2 * (state << 8 | np.int64(load8(at + i)))))
    return state


# Windows. `base`, `end`: where the open tiles begin and end; `shift`: of bytes of a slot; `wide`: how many places of
# one count; `ends`: address of where the rows begin and end; `row`: the first that is not answered; `state`: of the row
# that goes on from the window before. Functions return these two for the next window; less than -1: a tile is damaged.


@njit()
def _answer_in_turns(
    base: int,
    end: int,
    shift: int,
    wide: int,
    ends: int,
    row: Any,
    number: int,
    automaton: Any,
    of_codes: Any,
    room: Any,
    state: Any,
    out: int,
) -> tuple[Any, Any]:
    """Answer for rows that end in a window; row -1 is the one before, whose answer goes nowhere."""
    following, entry_verdicts, restarts, _, _, of_bytes, verdicts, states = automaton
    codes, symbols, symbol_nbytes, lengths = of_codes
    numbers, places, slots, steps, found, lanes = room[0], room[1], room[2], room[3], room[4], room[5]
    inside, count = (1 << shift) - 1, number_at(slots + 8 * ((end - base + (1 << shift) - 1) >> shift))
    step, none = 2 * states, load8(verdicts)
    for i in range(0, count, 64):
        scale64(numbers + 2 * i, step, steps + 4 * i)
    # Of each row: where its last code is, 16 bits, and how many bytes of that are behind the row.
    first_row, to, before = row, found, np.int64(-1)
    start: Any = number_at(ends + 8 * row) if row >= 0 else np.int64(-1)
    while row < number:
        stop: Any = number_at(ends + 8 * row + 8)
        place = stop - 1 - base
        if place >= end - base:
            break
        if stop == start:  # an empty row
            store32(to, np.uint32(before & 0xFFFF | _ANSWERED << 16))
            store8(out + row, none)
            row += 1
            to += 4
            continue
        slot, place = place >> shift, place & inside
        index = code_at(places + _SLOT * slot, place, wide)
        # Bytes of the symbol behind the row; too many in damaged tiles alone.
        left = (np.int64(load8(places + _SLOT * slot + index)) - place) & (symbol_nbytes - 1)
        index += number_at(slots + 8 * slot)
        code = symbol_nbytes * np.int64(load16(numbers + 2 * index))
        store32(steps + 4 * index, load32(restarts + 4 * (code + left)))
        store32(to, np.uint32(index | left << 16))
        if index == before:  # the row begins in this symbol
            nbytes = stop - start
            size = np.int64(load8(lengths + code // symbol_nbytes)) - left
            if size < nbytes:
                return -2, 0
            inner = _run_bytes(0, symbols + code + size - nbytes, nbytes, of_bytes)
            store8(out + row, load8(verdicts + inner))
            store32(to, np.uint32(index | _ANSWERED << 16))
        before, start = index, stop
        row += 1
        to += 4
    begin: Any = np.int64(0)
    if first_row < 0:
        begin = np.int64(load16(found)) + 1
        state = np.int64(load32(steps + 4 * begin - 4)) // step - codes
    store64(lanes, np.uint64(steps + 4 * begin))
    store64(lanes + 8 * _LANES, np.uint64(steps + 4 * count))
    store64(lanes + 8 * _LANES + 8, np.uint64(state))
    usable: Any = row - first_row >= _MANY
    lane_begin = begin
    for lane in range(1, _LANES):
        # Behind the last row that ends before the lane's part of the codes.
        target, low, high = begin + lane * (count - begin) // _LANES, 0, row - first_row
        while high - low > 1:
            middle = (low + high) // 2
            if np.int64(np.int16(load16(found + 4 * middle))) < target:
                low = middle
            else:
                high = middle
        index = np.int64(np.int16(load16(found + 4 * low)))
        usable = usable and index >= lane_begin
        if usable:
            lane_begin = index + 1
            store64(lanes + 8 * lane, np.uint64(steps + 4 * lane_begin))
            after = np.int64(load32(steps + 4 * index)) // step - codes
            store64(lanes + 8 * _LANES + 8 + 8 * lane, np.uint64(after))
    if usable:
        _run_in_turns(lanes, following)
        state = number_at(lanes + 16 * _LANES)
    else:
        state = _run(steps + 4 * begin, steps + 4 * count, state, following)
    for one in range(max(first_row, 0), row):
        place = np.int64(load32(found + 4 * (one - first_row)))
        left, index = place >> 16, place & 0xFFFF
        if left != _ANSWERED:
            entry = states * np.int64(load16(numbers + 2 * index)) + np.int64(load16(steps + 4 * index))
            says = np.int64(load32(entry_verdicts + 4 * entry)) >> left
            store8(out + one, np.uint8((says & 1) | (says >> (_UNDECIDED_SHIFT - 1) & 2)))
    return row, state


@njit()
def _answer_early(
    base: int,
    end: int,
    shift: int,
    wide: int,
    ends: int,
    row: Any,
    number: int,
    automaton: Any,
    of_codes: Any,
    room: Any,
    state: Any,
    out: int,
) -> tuple[Any, Any]:
    """Answer for rows that begin in a window, where a row's first codes decide of most rows.

    Each of the first codes is looked at of all rows before the next one is, and rows that it leaves unsure are noted,
    without a branch.
    """
    following, _, _, restarts, known, of_bytes, verdicts, states = automaton
    _, symbols, symbol_nbytes, lengths = of_codes
    numbers, places, slots, notes = room[0], room[1], room[2], room[3]
    inside, count = (1 << shift) - 1, number_at(slots + 8 * ((end - base + (1 << shift) - 1) >> shift))
    # Of a row that is noted: its number, the next code, the state before it, and the bytes that are left.
    unsure = np.int64(0)
    if row < number and number_at(ends + 8 * row) < base:  # it goes on
        store32(notes, np.uint32(row))
        store64(notes + 8, np.uint64(state))
        store32(notes + 4, np.uint32(0))
        store64(notes + 16, np.uint64(number_at(ends + 8 * row + 8) - base))
        unsure += 1
        row += 1
    while row < number:
        start = number_at(ends + 8 * row)
        if start >= end:
            break
        size, place, slot = number_at(ends + 8 * row + 8) - start, (start - base) & inside, (start - base) >> shift
        index = code_at(places + _SLOT * slot, place, wide)
        # Bytes of the symbol in the row; too many in damaged tiles alone.
        have = ((np.int64(load8(places + _SLOT * slot + index)) - place) & (symbol_nbytes - 1)) + 1
        index += number_at(slots + 8 * slot)
        code = np.int64(load16(numbers + 2 * index))
        if size < have:  # the row ends in this symbol
            before = max(np.int64(load8(lengths + code)) - have, 0)
            store8(out + row, load8(verdicts + _run_bytes(0, symbols + symbol_nbytes * code + before, size, of_bytes)))
            row += 1
            continue
        state = np.int64(load16(restarts + 2 * (symbol_nbytes * code + have - 1)))
        says = load8(known + state) if size > have else load8(verdicts + state)
        store8(out + row, says)
        note = notes + 24 * unsure
        store32(note, np.uint32(row))
        store32(note + 4, np.uint32(index + 1))
        store64(note + 8, np.uint64(state))
        store64(note + 16, np.uint64(size - have))
        unsure += np.int64(says == _UNSURE)
        row += 1
    at_once = np.int64(1)
    for turn in range(_TURNS):
        if turn == _TURNS - 1:
            at_once = count
        kept = np.int64(0)
        for one in range(unsure):
            note = notes + 24 * one
            where, index = np.int64(load32(note)), np.int64(load32(note + 4))
            state, left = number_at(note + 8), number_at(note + 16)
            says = np.uint8(_UNSURE)
            for _ in range(min(at_once, count - index)):
                code = np.int64(load16(numbers + 2 * index))
                nbytes = np.int64(load8(lengths + code))
                if nbytes < left:
                    state = np.int64(load16(following + 2 * (states * code + state)))
                    says = load8(known + state)
                else:
                    state = _run_bytes(state, symbols + symbol_nbytes * code, left, of_bytes)
                    says = load8(verdicts + state)
                left -= nbytes
                index += 1
                if at_once > 1 and says != _UNSURE:
                    break
            store8(out + where, says)
            note = notes + 24 * kept
            store32(note, np.uint32(where))
            store32(note + 4, np.uint32(index))
            store64(note + 8, np.uint64(state))
            store64(note + 16, np.uint64(left))
            kept += np.int64(says == _UNSURE)
        unsure = kept
    if unsure > 0:  # the last row goes on
        return np.int64(load32(notes)), number_at(notes + 8)
    return row, np.int64(0)


def row_answerer(unpack: Any, decode_tile: Any, codes_of: CodeComparer = NO_CODES) -> Any:
    """A function that answers for rows of segments of a codec; `answer` calls it.

    Parameters
    ----------
    unpack
        ``unpack(at, end, limit, nbytes, numbers, places, table) -> int``: the codes at addresses `at` to `end`, of a
        tile of at most 256 bytes that is not raw, as numbers below 2^16 of `RowSymbols`, and `places`, as
        `cpu_places_kernels.CodeComparer.place` has them. 256 numbers may be written. Returns how many there
        are; 0: the tile is to be decoded; -1: it is damaged.
    decode_tile, codes_of
        As `cpu_decode.decoder` takes them.
    """
    same, may_have, may_end = codes_of.same, codes_of.may_have, codes_of.may_end

    @njit()
    def open_tiles(
        tiles: Any, table: Any, literals: int, first: int, last: int, position: int, room: Any
    ) -> tuple[int, int]:
        """Unpack tiles, whose codes begin at `position`: how many places of one count, and where the codes end.

        -1 and a tile: it is damaged.
        """
        codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
        numbers, places, slots, spare = room[0], room[1], room[2], room[7]
        slot: Any = 0
        count: Any = np.int64(0)
        wide: Any = np.int64(0)
        for tile in range(first, last):
            if tile % TILE_BLOCK == 0 and position != number_at(block_starts + 8 * (tile // TILE_BLOCK)):
                return -1, tile
            nbytes, length = min(tile_size, chars - tile * tile_size), tile_length(lengths, tile_size, tile)
            if length > nbytes or length > codes_nbytes - position:
                return -1, tile
            at = codes + position
            for line in range(0, length, 64):
                prefetch(at + AHEAD + line)
            position += length
            some: Any = np.int64(0)
            if length < nbytes and tile_size <= _SLOT:
                limit = codes + codes_nbytes
                some = unpack(at, at + length, limit, nbytes, numbers + 2 * count, places + _SLOT * slot, table)
                if some < 0:
                    return -1, tile
            if some > 0:
                store64(slots + 8 * slot, np.uint64(count))
                count += some
                wide = max(wide, some)
                slot += 1
                continue
            if length < nbytes:
                if not decode_tile(at, at + length, spare, nbytes, spare + tile_size + 64, table):
                    return -1, tile
                at = spare
            for begin in range(0, nbytes, _SLOT):
                store64(slots + 8 * slot, np.uint64(count))
                some = min(nbytes - begin, _SLOT)
                for i in range(_SLOT):
                    store8(places + _SLOT * slot + i, np.uint8(i))
                for i in range(some):
                    store16(numbers + 2 * (count + i), np.uint16(literals + np.int64(load8(at + begin + i))))
                count += some
                slot += 1
            wide = np.int64(_SLOT)
        store64(slots + 8 * slot, np.uint64(count))
        return wide, position

    @njit()
    def answer_some(
        tiles: Any, table: Any, how: Any, room: Any, ends: int, number: int, position: int, out: int
    ) -> int:
        """Answer for rows, in whose first tile codes begin at `position` (-1: it is not known); -1, or a bad tile."""
        automaton, of_codes, literals, early = how
        chars, tile_size = tiles[4], tiles[5]
        shift, slot_shift = trailing_zeros(np.uint64(tile_size)), trailing_zeros(np.uint64(min(tile_size, _SLOT)))
        begin, stop = number_at(ends), number_at(ends + 8 * number)
        tile, behind = begin >> shift, ((stop + tile_size - 1) >> shift) if begin < stop else begin >> shift
        row, state = np.int64(0), np.int64(0)
        if not early and begin & (tile_size - 1) and begin < stop:
            row = np.int64(-1)
        if position < 0 and begin < stop:
            position = first_position(tiles, tile)
            if position < 0:
                return -1 - position
        while tile < behind:
            after = min(tile + (_SLOTS << slot_shift >> shift), behind)
            wide, position = open_tiles(tiles, table, literals, tile, after, position, room)
            if wide < 0:
                return position
            window = tile << shift, min(after << shift, chars), slot_shift, wide
            if early:
                row, state = _answer_early(*window, ends, row, number, automaton, of_codes, room, state, out)
            else:
                row, state = _answer_in_turns(*window, ends, row, number, automaton, of_codes, room, state, out)
            if row < -1:
                return tile
            tile = after
        for empty in range(row, number):
            store8(out + empty, load8(automaton[6]))
        return -1

    @njit()
    def next_rows(
        tiles: Any, table: Any, finding: Any, ends: int, number: int, row: Any, before: Any
    ) -> tuple[Any, Any, Any, Any]:
        """The next rows that may have a text, none before `row`: the first one, and one more than the last.

        `finding`: addresses of what `may_have` looks for, and of the text, and its bytes; `before`: the tile that is
        looked at next, where its codes begin, and those of the tile before it, or -1. Then follow where the codes of
        the first row's tile begin, or -1, and `before` for the next call. The first row is -1: a tile is damaged.
        """
        codes, codes_nbytes, block_starts, lengths, chars, tile_size = tiles
        plan, value, nbytes = finding
        shift = trailing_zeros(np.uint64(tile_size))
        tile, position, earlier = before
        stop = number_at(ends + 8 * number)
        while tile << shift < stop:
            start, length = tile << shift, tile_length(lengths, tile_size, tile)
            end, at = min(start + tile_size, chars), codes + position
            if length > end - start or length > codes_nbytes - position:
                return np.int64(-1), tile, position, before
            if tile % TILE_BLOCK == 0 and position != number_at(block_starts + 8 * (tile // TILE_BLOCK)):
                return np.int64(-1), tile, position, before
            for line in range(0, length, 64):
                prefetch(at + AHEAD + line)
            has = length == end - start or may_have(at, at + length, codes + codes_nbytes, plan, value, nbytes, table)
            crosses = False
            if not has and end < stop:
                following = min(at + length + tile_length(lengths, tile_size, tile + 1), codes + codes_nbytes)
                raw = following - at - length >= min(tile_size, chars - end)
                for some in range(1, nbytes):
                    if not crosses and may_end(at, at + length, value, some, table):
                        rest = nbytes - some
                        crosses = raw or same(at + length, following, 0, value + some, rest, table) >= 0
            if has or crosses:
                first = start if has else end - 1  # the text is in a row that ends behind this
                while row + 8 <= number and number_at(ends + 8 * row + 64) <= first:
                    row += 8
                while row < number and number_at(ends + 8 * row + 8) <= first:
                    row += 1
                last = row
                while last < number and number_at(ends + 8 * last) < end:
                    last += 1
                if last > row:
                    first = number_at(ends + 8 * row) >> shift
                    where = position if first == tile else earlier if first == tile - 1 else np.int64(-1)
                    return row, last, where, (tile + 1, position + length, position)
            earlier, position, tile = position, position + length, tile + 1
        return np.int64(number), np.int64(number), position, before

    @njit()
    def answer_rows(
        tiles: Any, rows: Any, table: Any, first: int, last: int, how: Any, finding: Any, room: Any, out: int
    ) -> tuple[int, int]:
        """See `answer`, which makes the other arguments."""
        ends, shift = room[6], trailing_zeros(np.uint64(tiles[5]))
        rare: Any = finding[0] != 0
        block = first
        while block < last:
            number: Any = np.int64(0)
            while block < last and number + ROW_BLOCK <= _GROUP_ROWS:
                some: Any = min(rows[5] - block * ROW_BLOCK, ROW_BLOCK)
                if not row_ends(rows, block, some, ends + 8 * number):
                    return BAD_ROWS, block
                number += some
                block += 1
            tile = number_at(ends) >> shift
            row: Any = np.int64(0)
            having: Any = np.int64(0)
            before = tile, np.int64(-1), np.int64(-1)
            if rare:
                for one in range(number):
                    store8(out + one, np.uint8(NO))
                position = first_position(tiles, tile) if number_at(ends) < number_at(ends + 8 * number) else 0
                if position < 0:
                    return BAD_TILE, -1 - position
                before = tile, np.int64(position), np.int64(-1)
            while row < number:
                stop, where = number, np.int64(-1)
                if rare:
                    row, stop, where, before = next_rows(tiles, table, finding, ends, number, row, before)
                    if row < 0:
                        return BAD_TILE, stop
                    having += 1
                bad = answer_some(tiles, table, how, room, ends + 8 * row, stop - row, where, out + row)
                if bad >= 0:
                    return BAD_TILE, bad
                row = stop
            rare = rare and _RARE * having <= (number_at(ends + 8 * number) >> shift) - tile
            out += number
        return FINE, 0

    return answer_rows


@njit()
def _unpack_none(at: int, end: int, limit: int, nbytes: int, numbers: int, places: int, table: Any) -> int:
    return 0


@njit()
def _decode_none(at: int, end: int, out: int, nbytes: int, limit: int, table: Any) -> bool:
    return False


#: Of segments all of whose tiles are raw.
answer_bytes = row_answerer(_unpack_none, _decode_none)
