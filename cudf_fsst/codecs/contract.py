"""The contract of codecs: what one has to be, on the host and on a GPU.

A codec of values is a folder ``codecs/NAME`` and a word in ``registry.py``. In the folder are

* ``__init__.py``: a `Codec`, which is what can be said without data, and the way to both sides;
* ``launch.py``: sizes, limits and what else both sides and ``kernels/NAME.cu`` must agree on, and ``variants``: which
  constants each of the files is compiled with, so that tests compile them all;
* ``cpu.py``: the `Host` side;
* ``cuda.py``: the GPU side, which only ``device()`` imports, because machines without a GPU have no CuPy.

Both sides write the same bytes, and these depend on the values and options alone. A codec gets values of one width as
bits; what lies under nulls is filled in before, and columns are cut before (``values/plan.py``). Its steps:

plan
    Which options are worth trying for such values.
measure
    How many bytes each would take, on a sample. The smallest wins, across codecs.
encode
    A part of a column's values becomes a `Packed`: two buffers and a few numbers.
decode
    A range of the values, in whole units: rows that the codec can only decode together.
take
    Chosen values, from the units that they need, each decoded once.
check
    All that decoding relies on, before a file's bytes are trusted. Sizes that are impossible raise ValueError in every
    step; damage that only the codes show raises it in `decode` and `take` as well, or makes wrong values. Nothing
    makes a codec read or write outside its buffers, or hang.
match
    Answers questions about rows on the codes, without decoding them: a boolean or a number for each row. Codecs of text
    may have this step: ``text/search.py`` has the questions, ``text/cpu_match.py`` and ``text/cuda_match.py`` ask them.
    What a codec does not answer `query` decodes, and asks the library.
compare
    Says of each value whether it lies in a range of integers (``span.py``), or among others. On a GPU bitpack has this
    step; `query` makes ranges of values. The host decodes a few values at a time for it, of any codec.

On a GPU the steps are the same, for many parts of many columns in few launches, and sizes are waited for once for all
of them (``device/waits.py``). So the GPU side makes jobs for launches that ``values/cuda_compress.py`` and
``values/cuda_read.py`` put together.

A codec of text is a folder, too, and a word in ``registry.py``. Its ``__init__.py`` is a `TextCodec`, ``cpu.py`` a
`HostTextCodec`. Characters are cut into scopes that share a table, segments and tiles in ``text/``, where row lengths,
nulls, ranges, chosen rows and questions are, for all codecs of text. The codec trains a table, encodes tiles, decodes a
tile, and may say how automata run over its codes.

``dict`` is none of both: a part of strings that repeat has two columns as children, codes and distinct values, whose
parts other codecs make (``node.py``).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from .part import Packed
from .table import Table

if TYPE_CHECKING:
    from ..device.kernels import Kernel
    from .text.cpu_decode import Decoder
    from .text.cpu_match_kernels import Search
    from .text.cuda_task import TileEncoder
    from .text.segment import Segment

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
        """How many numbers of its own it stores with a part (`Packed.parameters`)."""

    def since(self, parameters: Sequence[int] = ()) -> int:
        """The first version of the stored format that can hold a part, by the numbers of its own.

        Without numbers: the first that has this codec. No file of a version before has a part of it.
        """

    def of_floats(self, parameters: Sequence[int]) -> bool:
        """Whether a part can only be of floating point numbers, by the numbers of its own.

        They have a NaN that others stand in for, and on a GPU ``nan_part`` tells of it (`DeviceCodec`).
        """

    def plan(self, itemsize: int, *, floats: bool, named: bool) -> Sequence[Options]:
        """Choices of options to measure on a sample; none where it is not worth trying.

        An option ``nan`` is tried where the sample has a NaN, whose bits take the option's place.

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

    def device(self) -> DeviceCodec:
        """The GPU side; ImportError where CuPy is missing."""


#: `DeviceCodec.TAKES` of kernels that take any number of rows.
ANY_ROWS = 2**63


class DeviceCodec(Protocol):
    """The GPU side of a codec of fixed-width values.

    One whose parts are measured and encoded together with those of others has a class ``Job`` with the kernels that
    its jobs are for (``bitpack/cuda.py`` is the example). A job's ``variant`` says which of them it needs; jobs whose
    ``sample_rows`` is not 0 look at a sample of their values before any are measured. Others are `ALONE`, and have
    ``compress(address, rows, itemsize, lane=lane, **options)``, a generator that returns a `Packed`. raw is a copy.

    One with an option ``nan`` has ``find_nan`` and ``stand_in``, which make jobs, ``find_nan_kernel`` and
    ``stand_in_kernel`` for them, ``nan_nbytes``, ``nan_at`` of its ``Job``, which says where so many bytes belong in
    ``meta``, and ``nan_part`` for `Taking.nan`.
    """

    @property
    def TAKES(self) -> int:
        """Rows up to which kernels take rows by number; then there are ``describe``, ``Part`` and ``take``.

        Of more, ``chunk_rows`` says which rows are decoded together, and the chunks that are touched are decoded.
        """

    @property
    def TAKES_BITS(self) -> bool:
        """Whether ``take`` also gives bits of bitmaps."""

    @property
    def READS_WIDE(self) -> bool:
        """Whether ``decompress_wide`` and ``take`` put both halves of numbers of 16 bytes together."""

    @property
    def COMPARES(self) -> bool:
        """Whether there are ``compare``, ``bounds`` and ``set_members``, which compare values as they are packed."""

    @property
    def ALONE(self) -> bool:
        """Whether one part is compressed at a time."""

    def kernels(self, step: str) -> Iterable[Callable[[], Kernel]]:
        """Functions that make the kernels of usual calls in a step of `ahead.NEEDS`; the longest to compile first."""

    @property
    def decompress(self) -> Callable[..., None]:
        """``decompress(parts, tables, lane, touched=())``: add launches that write ranges of many parts to tables.

        `touched` has, of each part, the address of a byte for each chunk; chunks of 0 need not be decoded.
        """

    def row_costs(self, packed: Packed) -> tuple[float, float]:
        """Seconds to look a row up on an H200, of rows in no order and in order."""


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

        `first` and `last` are multiples of `unit`, or `last` is the number of rows. ValueError: the codes are damaged,
        or `out` has another size.
        """

    def take(self, packed: Packed, rows: npt.NDArray[np.int64], out: npt.NDArray[Any]) -> None:
        """Write values `rows`, at least one, in any order, repeated or not, to `out`, unsigned integers.

        The caller has checked that they are there, and keeps them close to each other: what is decoded for them may
        all be held at once.
        """

    def check(self, packed: Packed) -> None:
        """Raise ValueError unless the bytes are as `encode` writes them."""


class TextCodec(Protocol):
    """A codec of text: its package."""

    @property
    def NAME(self) -> str:
        """What files and users call it: ASCII, up to 8 characters."""

    @property
    def TILE_SIZE(self) -> int:
        """Bytes of a tile unless the user says how many: one of `text.layout.TILE_SIZES`."""

    @property
    def TABLE(self) -> type[Table]:
        """The class of its tables."""

    def since(self) -> int:
        """The first version of the stored format that has this codec."""

    def host(self) -> HostTextCodec:
        """The host side."""

    def device(self) -> DeviceTextCodec:
        """The GPU side; ImportError where CuPy is missing."""


class HostTextCodec(Protocol):
    """The host side of a codec of text: what ``text/cpu.py`` does not do for all. Each call works in its thread.

    Sizes and places are bytes. `table` is one of the codec's own.
    """

    def train(self, chars: npt.NDArray[np.uint8], start: int, nbytes: int, level: str) -> Any:
        """Make the table of a scope, those `nbytes` of a call's characters that begin at `start`.

        It depends on these and on `level`, one of `text.layout.LEVELS`, alone. Samples lie where
        `text.plan.sample_positions` says, or where the codec says.
        """

    def encoder(self, table: Any, level: str, tile_size: int) -> Callable[..., int]:
        """Make ``encode(chars, first, last, codes, tile_lengths, block_ends) -> int``.

        It encodes tiles `first` to ``last - 1`` of the characters of a segment; `first` begins a block of tiles. It
        writes the codes of each, or its bytes where these are not more (such a tile is raw), to `codes`, which has room
        for all bytes; their number less one to ``tile_lengths[tile]``; for every block where its codes end in `codes`
        to ``block_ends[block]``; and returns how many bytes it wrote.
        """

    @property
    def DECODER(self) -> Decoder:
        """What decodes, made by `text.cpu_decode.decoder` of what decodes a tile."""

    @property
    def SEARCH(self) -> Search | None:
        """How automata search codes. None: tiles are decoded, and their bytes searched."""

    @property
    def REASONS(self) -> dict[int, str]:
        """Mistakes in a tile's codes, by number: texts with a place for the number of the tile."""

    def check_codes(self, segment: Segment) -> None:
        """Raise ValueError where a tile's codes do not decode to its bytes; all else in the segment was checked."""


class DeviceTextCodec(Protocol):
    """The GPU side of a codec of text: what the readers of text on a GPU do not do for all.

    Kernels read segments as `SegmentView` of kernels/text.cuh describes them.
    """

    def encoders(self, level: str) -> Sequence[TileEncoder]:
        """Encoders of a level, which train tables and encode tiles for ``text/cuda_compress.py``.

        Of several, each scope gets the one that makes it smallest. Any of them encodes with any of the codec's tables.
        None: the host encodes (``text/cuda_on_host.py``).
        """

    def kernels(self, step: str) -> Iterable[Callable[[], Kernel]]:
        """Functions that make the kernels of usual calls in a step of `ahead.NEEDS`; the longest to compile first."""

    def decode_table(self, table: Any) -> npt.NDArray[np.uint8]:
        """A table as kernels read it, a multiple of 16 bytes; its address is in the view of every segment."""

    def choices(self, tile_size: int) -> Any:
        """A hashable key of the choices by which kernels are launched, besides the device."""

    def decode_shape(self, tile_size: int, codes_nbytes: int, tiles: int, table_nbytes: int) -> Any:
        """``threads`` of a block, ``shared`` bytes, ``codes_capacity``, and how many warps are ``resident``.

        `codes_nbytes` and `tiles` are those of all segments of a launch, `table_nbytes` what `decode_table` gives for
        the largest table of the call.
        """

    def decode_kernel(self, tile_size: int) -> Any:
        """``decode(views, first_units, count, codes_capacity, bundles)``.

        It writes the characters that are wanted of `count` segments. A thread block decodes `bundles` times as many
        tiles as it has threads, of the segment whose ``first_units`` is the last one not above the block's number.
        """

    def check_kernel(self) -> Kernel:
        """``check(table, jobs)``: the host's `check_codes`, of jobs as kernels/text_check.cuh has them.

        A codec may have none. Then the host checks what goes to a GPU. A tile's damage has the number of the host's
        ``REASONS``.
        """

    def check_table(self, table: Any) -> npt.NDArray[np.uint8]:
        """A table as ``check_kernel`` reads it."""

    @property
    def MATCHES(self) -> bool:
        """Whether it answers questions on the codes. Else columns are decoded for them.

        Then there are ``match(reading, plan, kept=kept, lane=lane)`` and ``answer(reading, machine, lane=lane)``, which
        do for a column of this codec alone what `text.cuda_match` says; `kept`: later calls have the same reading.
        """

    @property
    def TAKES(self) -> bool:
        """Whether its kernels take rows by number, decoding the tiles that they touch.

        Then there is ``take_kernel(name)`` for ``take_few``, ``take_measure`` and ``take_many``, which are launched as
        ``text/cuda_take.py`` says. Else rows are taken of what is decoded.
        """
