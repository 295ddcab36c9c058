"""Launches that serve many parts of many columns: their tables of jobs (kernels/jobs.cuh), uploaded together."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from ..device.memory import Lane
from .cuda_kernels import blocks
from .part import Packed, align
from .values.launch import OutputRows, TakenColumn

_u32, _u64 = np.uint32, np.uint64
#: Thread blocks of a launch, at most.
_GRID_LIMIT = 2**31 - 1


class PartRange(NamedTuple):
    """Rows ``begin:end`` of a part, and where their values go: to `address`, `stride` bytes from one to the next.

    The stride is the itemsize, or 16 where the values are halves of numbers of 16 bytes.
    """

    packed: Packed
    begin: int
    end: int
    address: int
    stride: int

    @property
    def output(self) -> OutputRows:
        """For kernels: rows, and where their values go."""
        return OutputRows(self.begin, self.end, self.address, self.stride)


@dataclass(frozen=True)
class RowNumbers:
    """Rows by number.

    Attributes
    ----------
    address : int
        Of int64 numbers in GPU memory, which were checked; 0: 0, 1, 2 and so on.
    count : int
    shift : int
        What is added to each.
    order : int
        As `chosen.Ordered` has it.
    """

    address: int
    count: int
    shift: int = 0
    order: int = 0

    @property
    def arguments(self) -> tuple[Any, ...]:
        return _u64(self.address), _u64(self.shift), _u64(self.count)


class Taking(NamedTuple):
    """A column whose rows are taken, by what its parts are to the kernel.

    Attributes
    ----------
    parts : list of tuple of int
        Fields of each.
    address, stride : int
        Where the values go.
    itemsize : int
    highs : list of tuple of int
        The high halves of numbers of 16 bytes, where `parts` are the low ones and the kernel takes both.
    nulls : int
        Of a bitmap: address of a counter.
    nan : list of tuple of int
        Where some parts have stand-ins for a NaN: of each what the codec's ``nan_part`` says.
    """

    parts: Sequence[tuple[int, ...]]
    address: int
    stride: int
    itemsize: int
    highs: Sequence[tuple[int, ...]] = ()
    nulls: int = 0
    nan: Sequence[tuple[int, ...]] = ()


class JobTables:
    """The arguments of several launches, in one array that is uploaded before the first of them."""

    def __init__(self) -> None:
        self._words: list[int] = []
        self._addresses: list[tuple[int, npt.NDArray[Any]]] = []
        self._launches: list[tuple[Any, int, int, int, tuple[Any, ...], int]] = []

    def _add(
        self, kernel: Any, grid: int, threads: int, words: Sequence[int], *arguments: Any, shared: int = 0
    ) -> None:
        self._launches.append((kernel, grid, threads, 8 * len(self._words), arguments, shared))
        self._words += words

    def add_jobs(
        self,
        kernel: Any,
        threads: int,
        grids: Sequence[int],
        fields: Sequence[int],
        *more: Any,
        shared: int = 0,
        data: Iterable[tuple[int, npt.NDArray[Any]]] = (),
    ) -> None:
        """A launch of jobs.

        Parameters
        ----------
        grids
            Thread blocks of each.
        fields
            What the kernel knows of each, one after another.
        *more
            Further arguments of the kernel.
        shared
            Bytes of dynamic shared memory.
        data
            Numbers of fields that are addresses of arrays, which are uploaded with the tables.
        """
        *first, grid = accumulate(grids, initial=0)
        self._addresses += ((len(self._words) + len(first) + number, array) for number, array in data)
        self._add(kernel, grid, threads, [*first, *fields], _u32(len(grids)), *more, shared=shared)

    def add_taken(
        self,
        kernel: Any,
        threads: int,
        columns: Sequence[Taking],
        rows: RowNumbers,
        *,
        per_block: int = 0,
        bits: bool = False,
    ) -> None:
        """Launches that take rows of columns.

        Parameters
        ----------
        per_block
            Rows of a thread block; 0: as many as threads.
        bits
            Of bitmaps, whose rows are filled up to whole 64 bytes.
        """
        per_column = blocks(align(rows.count, 512) if bits else rows.count, per_block or threads)
        most = max(_GRID_LIMIT // per_column, 1)
        for start in range(0, len(columns), most):
            batch = columns[start : start + most]
            fields: list[int] = []
            parts: list[int] = []
            count = 0
            for column in batch:
                high = count + len(column.parts)
                numbers = count, len(column.parts), high, len(column.highs)
                fields += TakenColumn(*numbers, column.address, column.stride, column.itemsize, column.nulls)
                for part in (*column.parts, *column.highs):
                    parts += part
                count = high + len(column.highs)
            grid = len(batch) * per_column
            self._add(kernel, grid, threads, fields + parts, _u32(len(batch)), _u32(per_column), *rows.arguments)

    def _image(self) -> tuple[array[int], list[int]]:
        """What is uploaded, and which numbers of it are addresses, counted from the first byte."""
        words = array("Q", self._words)
        places, nbytes = {}, 8 * len(words)
        for _, array_of in self._addresses:
            if id(array_of) not in places:
                places[id(array_of)] = nbytes, array_of
                nbytes += align(array_of.nbytes, 8)
        if places:
            for number, array_of in self._addresses:
                words[number] = places[id(array_of)][0]
            words.frombytes(
                b"".join(array_of.tobytes().ljust(align(array_of.nbytes, 8), b"\0") for _, array_of in places.values())
            )
        return words, [number for number, _ in self._addresses]

    def launch(self, lane: Lane, address: int = 0) -> None:
        """Upload and launch; `address`: where the uploaded bytes go, 0: they are allocated."""
        if not self._launches:
            return
        words, own = self._image()
        buffer = None if address else lane.allocate(8 * len(words))
        begin = address if buffer is None else int(buffer.ptr)
        for number in own:
            words[number] += begin
        lane.send(begin, words)
        for kernel, grid, threads, at, arguments, shared in self._launches:
            lane.launch(kernel, grid, threads, (_u64(begin + at), *arguments), shared)

    def kept(self, *places: npt.NDArray[np.intp]) -> KeptTables:
        """The same for many calls, which each have other memory; `places`: as of `KeptTables`."""
        words, own = self._image()
        steps = [
            KeptLaunch(kernel, grid, threads, (at, *arguments), shared)
            for kernel, grid, threads, at, arguments, shared in self._launches
        ]
        return KeptTables(np.array(words, _u64), [np.array(own), *places], steps)


class KeptLaunch(NamedTuple):
    """A launch of many calls. Of its arguments those of Python's integers are places in a call's workspace."""

    kernel: Any
    grid: int | tuple[int, ...]
    block: int
    arguments: tuple[Any, ...]
    shared: int = 0

    def launch(self, lane: Lane, address: int, *more: Any) -> None:
        """Launch it for a workspace at an address, with more arguments behind its own."""
        own = [address + argument if type(argument) is int else argument for argument in self.arguments]
        lane.launch(self.kernel, self.grid, self.block, (*own, *more), self.shared)


class KeptTables(NamedTuple):
    """`JobTables` of many calls: an image to upload; `places` in it are addresses of itself, then of other memory."""

    image: npt.NDArray[np.uint64]
    places: Sequence[npt.NDArray[np.intp]]
    steps: Sequence[KeptLaunch]

    def launch(self, lane: Lane, *addresses: int) -> None:
        """Upload and launch, for other memory at these addresses."""
        buffer, words = lane.allocate(self.image.nbytes), self.image.copy()
        begin = int(buffer.ptr)
        for place, address in zip(self.places, (begin, *addresses), strict=True):
            words[place] += _u64(address)
        lane.upload(begin, words)
        for step in self.steps:
            step.launch(lane, begin)
