"""The contract of codecs: what one has to be, on the host and on a GPU.

A codec is a folder ``codecs/NAME`` and a line in ``registry.py``. In the folder are

* ``__init__.py``: a `Codec` (or `StringCodec`), which is what can be said without data, and the way to both sides;
* ``launch.py``: sizes, limits and what else both sides and ``kernels/NAME.cu`` must agree on;
* ``cpu.py``: the `Host` side;
* ``cuda.py``: the GPU side, which only ``device()`` imports, because machines without a GPU have no CuPy.

Both sides write the same bytes, and these depend on the values and options alone. A codec gets values of one width as
bits; what lies under nulls is filled in before, and columns are cut into pieces before (``values/plan.py``). Its steps:

plan
    Which options are worth trying for such values.
measure
    How many bytes each would take, on a sample. The smallest wins, across codecs.
encode
    A piece of values becomes a `Packed`: two buffers and a few numbers.
decode
    A range of the values, in whole units: rows that the codec can only decode together.
take
    Chosen values, from the units that they need, each decoded once.
check
    All that decoding relies on, before a file's bytes are trusted. Sizes that are impossible raise ValueError in every
    step; damage that only the codes show raises it in `decode` and `take` as well, or makes wrong values. Nothing
    makes a codec read or write outside its buffers, or hang.
match
    Answers questions about rows on the codes, without decoding them: a boolean or a number for each row. A codec may
    have this step. Of FSST ``search.py`` has the questions and how they are answered, ``cpu_match.py`` and
    ``cuda_match.py`` do it. What it does not answer, and columns of other codecs, `query` decodes and asks the library.
compare
    Says of each value whether it lies in a range of integers (``span.py``), or among others. On a GPU bitpack has this
    step; `query` makes ranges of values. The host decodes a few values at a time for it, of any codec.

On a GPU the steps are the same, for many pieces of many columns in few launches, and sizes are waited for once for all
of them (``device/waits.py``). So the GPU side makes jobs for launches that ``values/cuda_compress.py`` and
``values/cuda_read.py`` put together.

A codec of strings differs: it chooses its cuts, trains tables that pieces share, and its `Segment` has rows of any
length with nulls of their own. So it takes and gives whole columns, and its steps are those of a column. ``dict`` is
none of both: it makes nodes of strings that repeat, whose parts other codecs make.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import ModuleType
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ..buffers import HostStrings
from .part import Packed

#: What a codec can be told, by name. None of it is needed for decoding.
Options = Mapping[str, int]


class Codec(Protocol):
    """A codec of fixed-width values: its package."""

    @property
    def NAME(self) -> str:
        """What files and users call it: ASCII, up to 8 characters."""

    @property
    def ITEMSIZES(self) -> tuple[int, ...]:
        """Bytes of the values that it takes."""

    @property
    def PARAMETERS(self) -> int:
        """How many numbers of its own it stores with a piece (`Packed.parameters`)."""

    def since(self, parameters: Sequence[int] = ()) -> int:
        """The first version of the stored format that can hold a piece, by the numbers of its own.

        Without numbers: the first that has this codec. No file of a version before has a piece of it.
        """

    def plan(self, itemsize: int, *, floats: bool, named: bool) -> Sequence[Options]:
        """What is measured on a sample; nothing where it is not worth trying.

        Parameters
        ----------
        itemsize
            One of `ITEMSIZES`.
        floats
            Whether the values are floating point numbers, else integers.
        named
            Whether the user wants this codec, so that there has to be something.
        """

    def host(self) -> Host:
        """The host side."""

    def device(self) -> ModuleType:
        """The GPU side; ImportError where CuPy is missing.

        Every one has ``decompress``, which adds launches that write ranges of many pieces to a table. One whose pieces
        are measured and encoded together with those of others has a class ``Job`` with the kernels that its jobs are
        for (``bitpack/cuda.py`` is the example). A job's ``variant`` says which of them it needs; jobs whose
        ``sample_rows`` is not 0 look at a sample of their values before any are measured. gpulz has ``compress``, for
        one piece, and raw is a copy. One whose kernel takes rows has ``describe`` and ``take``; of
        others ``chunk_rows`` says which rows are decoded together, and the chunks in which there are wanted rows are
        decoded.
        """


class Host(Protocol):
    """The host side of a codec of fixed-width values. Each call works in its own thread."""

    def measure(self, values: npt.NDArray[Any], *args: Any, **options: Any) -> int:
        """`Packed.nbytes` that `encode` would make."""

    def encode(self, values: npt.NDArray[Any], *args: Any, **options: Any) -> Packed:
        """Compress values: contiguous, at least one, their bits as integers; `signed`: how they are ordered."""

    def unit(self, packed: Packed) -> int:
        """Rows that are decoded together."""

    def decode(self, packed: Packed, out: npt.NDArray[np.uint8], first: int = 0, last: int | None = None) -> None:
        """Write the bytes of values `first` to ``last - 1`` (default: all) to `out`, exactly as many as they are.

        `first` and `last` are multiples of `unit`, or `last` is the number of rows.
        """

    def take(self, packed: Packed, rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
        """Write values `rows`, at least one, in any order, repeated or not, to `out`, unsigned integers.

        The caller has checked that they are there, and keeps them close to each other: what is decoded for them may
        all be held at once.
        """

    def check(self, packed: Packed) -> None:
        """Raise ValueError unless the bytes are as `encode` writes them."""


class StringCodec(Protocol):
    """A codec of strings: its package."""

    @property
    def NAME(self) -> str:
        """What files and users call it: ASCII, up to 8 characters."""

    def since(self) -> int:
        """The first version of the stored format that has this codec."""

    def host(self) -> HostOfStrings:
        """The host side."""

    def device(self) -> ModuleType:
        """The GPU side; ImportError where CuPy is missing."""


class HostOfStrings(Protocol):
    """The host side of a codec of strings; `Segment` here is any part that has ``rows``."""

    def compress(self, strings: HostStrings, *args: Any, **options: Any) -> list[Any]:
        """Segments of a column; none for a column without rows."""

    def read(self, segments: Sequence[Any], start: int = 0, stop: int | None = None) -> HostStrings:
        """Rows `start` to ``stop - 1`` (default: all), from the tiles that they touch."""

    def take(self, segments: Sequence[Any], rows: npt.NDArray[np.int64]) -> HostStrings:
        """Rows in any order, repeated or not, from the tiles that they touch, each decoded once."""

    def check(self, segment: Any) -> None:
        """Raise ValueError unless the bytes are as `compress` writes them."""
