"""Kernels that calls will need, compiled beside each other before they are asked for.

Compiling takes seconds on a machine that has none of them on disk, if it is done one after another, as calls ask.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial

from ..device import kernels
from ..device.memory import current_device, device_attributes
from .bitpack import cuda as bitpack
from .cuda_kernels import get_kernel as kernel_of_values
from .dict import launch as dictionaries
from .fsst import TILE_SIZE, launch
from .fsst.cuda_kernels import choices, get_kernel
from .gfc import cuda as gfc
from .values.launch import DEFINES

#: A device and what has been begun for it.
_started: set[tuple[int, str]] = set()


def start(need: str) -> None:
    """Have the kernels of the current device made in threads: first those of a call, then all others.

    Parameters
    ----------
    need
        What the call does, one of `_GROUPS`. Once a process for each; later ones find the others on their way.
    """
    device = current_device()
    if (device, need) in _started:
        return
    others = [] if any(one == device for one, _ in _started) else [group for group in _GROUPS if group != need]
    _started.add((device, need))
    kernels.ahead([*_GROUPS[need]()], [make for group in others for make in _GROUPS[group]()])


def _wanted() -> Iterator[Callable[[], object]]:
    """All kernels that calls of the usual kinds need."""
    for group in _GROUPS.values():
        yield from group()


def _strings() -> Iterator[Callable[[], object]]:
    """What strings are compressed with; the longest first."""
    warps = choices(TILE_SIZE).encode_warps
    in_clusters = launch.train_in_clusters(1, device_attributes()["shared_per_block"])
    train = "fsst_train_cluster" if in_clusters else "fsst_train"
    yield partial(get_kernel, train, train)
    yield partial(get_kernel, "fsst_encode", "fsst_encode", TILE_SIZE, warps)
    looks = ("row_lengths_look", "row_lengths_pack", "row_lengths_measure", "segment_begins", "row_lengths_scan")
    for name in looks if in_clusters else looks[1:]:
        yield partial(get_kernel, "row_lengths", name)
    yield partial(get_kernel, "fsst_encode", "fsst_compact", TILE_SIZE, warps)
    for name in ("sample", "begins"):
        yield partial(kernel_of_values, "dict_find", f"dict_{name}", dictionaries.FIND_DEFINES)


def _values() -> Iterator[Callable[[], object]]:
    """What other values are compressed with."""
    yield partial(kernel_of_values, "values", "gather_values", DEFINES)
    for itemsize in (8, 4, 1, 2):
        yield partial(bitpack.measure_kernel, itemsize, divide=True)
        yield partial(bitpack.measure_kernel, itemsize)
    for itemsize in (8, 4):
        yield partial(gfc.measure_kernel, itemsize)
    yield bitpack.sample_kernel
    yield partial(bitpack.scan_kernel, divide=True)
    yield bitpack.scan_kernel
    yield gfc.scan_kernel
    for itemsize in (8, 4, 1, 2):
        yield partial(bitpack.pack_kernel, itemsize, divide=True)
        yield partial(bitpack.pack_kernel, itemsize)
    for itemsize in (8, 4):
        yield partial(gfc.pack_kernel, itemsize)


def _dictionaries() -> Iterator[Callable[[], object]]:
    """What strings that repeat are compressed with, besides."""
    for name in ("find_few", "find_long", "rank_few", "renumber"):
        yield partial(kernel_of_values, "dict_find", f"dict_{name}", dictionaries.FIND_DEFINES)


def _row() -> Iterator[Callable[[], object]]:
    """What takes a few rows."""
    yield partial(get_kernel, "fsst_take", "take_few")


def _ask() -> Iterator[Callable[[], object]]:
    """What answers questions."""
    yield partial(get_kernel, "fsst_search", "fsst_search", TILE_SIZE)
    for name in ("match_contains", "fsst_match_automata"):
        yield partial(get_kernel, "fsst_match", name)
    yield partial(get_kernel, "row_lengths", "gather_validity")
    yield partial(get_kernel, "fsst_match", "match_edge")
    yield partial(get_kernel, "fsst_values", "match_values")
    for name in ("fsst_rows_lift", "fsst_rows_starts", "fsst_rows_undecided"):
        yield partial(get_kernel, "fsst_rows_lift", name)
    yield partial(get_kernel, "fsst_rows", "fsst_rows", TILE_SIZE)


def _read() -> Iterator[Callable[[], object]]:
    """What columns are decompressed with."""
    yield partial(get_kernel, "fsst_decode", "fsst_decode", TILE_SIZE)
    yield partial(get_kernel, "row_lengths", "row_lengths_unpack")
    for itemsize in (8, 4, 1, 2):
        yield partial(bitpack.unpack_kernel, itemsize)
    yield partial(kernel_of_values, "dict_read", "dict_gather", dictionaries.READ_DEFINES)
    yield partial(kernel_of_values, "values", "place_halves", DEFINES)
    for itemsize in (8, 4):
        yield partial(gfc.unpack_kernel, itemsize)


#: What calls do, in the order in which a first job does it.
_GROUPS: dict[str, Callable[[], Iterator[Callable[[], object]]]] = {
    "strings": _strings,
    "values": _values,
    "dictionaries": _dictionaries,
    "row": _row,
    "ask": _ask,
    "read": _read,
}
