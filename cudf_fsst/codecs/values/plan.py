"""Which codec fixed-width values get, and how they are cut (docs/format.md, section 15): a function of them alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cache
from typing import NamedTuple

from ...naming import What
from .. import registry
from ..choose import smallest
from ..contract import Codec
from ..part import Packed
from .launch import FILL_BLOCK

#: Bytes of values in one `Packed`, at most.
PART_NBYTES = 128 << 20
#: The sample that decides: this many runs of consecutive values, evenly spread.
SAMPLE_RUNS = 16
RUN_ROWS = 8192


class Choice(NamedTuple):
    """A codec and its options."""

    codec: str
    options: tuple[tuple[str, int], ...] = ()

    def __str__(self) -> str:
        said = ", ".join(f"{name}={value}" for name, value in self.options)
        return f"{self.codec}({said})" if said else self.codec


def part_rows(rows: int, itemsize: int) -> list[tuple[int, int]]:
    """First and last row (exclusive) of every part that a stream of so many values is cut into."""
    most = PART_NBYTES // itemsize
    return [(start, min(start + most, rows)) for start in range(0, rows, most)]


def sample_runs(rows: int) -> list[tuple[int, int]]:
    """First and last row (exclusive) of every run of the sample, at equal distances; all rows where they are few."""
    if rows <= SAMPLE_RUNS * RUN_ROWS:
        return [(0, rows)]
    # Runs begin where blocks of filled nulls do.
    step = (rows - RUN_ROWS) // (SAMPLE_RUNS - 1) // FILL_BLOCK * FILL_BLOCK
    return [(i * step, i * step + RUN_ROWS) for i in range(SAMPLE_RUNS)]


def candidates(itemsize: int, *, floats: bool, codec: str | None = None) -> Sequence[Choice]:
    """Choices to measure on the sample, beside `registry.PLAIN`, in the order in which ties are decided.

    Parameters
    ----------
    itemsize
        Bytes of a value.
    floats
        Floating point numbers; else integers.
    codec
        What the user wants; None: the best.

    Returns
    -------
    sequence of Choice
        Without those of `with_nan`, which come behind.

    Raises
    ------
    ValueError
        The codec does not take such values.
    """
    if codec is not None and itemsize not in registry.of_values(codec).ITEMSIZES:
        sizes = " or ".join(map(str, registry.of_values(codec).ITEMSIZES))
        raise ValueError(f"codec {codec!r} takes values of {sizes} bytes, not {itemsize}")
    return _candidates(registry.values(), itemsize, floats, codec, nan=False)


def with_nan(itemsize: int, *, floats: bool, codec: str | None = None, nan: int) -> Sequence[Choice]:
    """Choices to measure besides where the sample has a NaN of these bits (`least_nan`); none of 0."""
    if not (floats and nan):
        return ()
    return tuple(
        Choice(name, tuple((option, nan if option == "nan" else value) for option, value in options))
        for name, options in _candidates(registry.values(), itemsize, floats, codec, nan=True)
    )


@cache
def _candidates(
    codecs: tuple[Codec, ...], itemsize: int, floats: bool, codec: str | None, *, nan: bool
) -> Sequence[Choice]:
    """The choices with an option ``nan``, or those without."""
    return tuple(
        Choice(side.NAME, tuple(options.items()))
        for side in codecs
        if codec in (None, side.NAME) and itemsize in side.ITEMSIZES
        for options in side.plan(itemsize, floats=floats, named=codec is not None)
        if ("nan" in options) == nan
    )


def choose(nbytes: int, measured: Mapping[Choice, int], *, named: bool, what: What = None) -> Choice:
    """The smallest of what was measured on a sample of `nbytes`.

    Parameters
    ----------
    nbytes
    measured
    named
        The user named the codec, so that it is what they get.
    what
        What the log calls the values.
    """
    alone = None if named and measured else Choice(registry.PLAIN.NAME)
    return smallest(tuple(measured), tuple(measured.values()), "sample", nbytes, plain=alone, what=what)


def stream_rows(stream: Sequence[Packed]) -> int:
    """Values of all parts of a stream."""
    return sum(part.rows for part in stream)
