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

#: Devices for which this has been done.
_started: set[int] = set()


def start() -> None:
    """Have the kernels of the current device made in threads; once a process."""
    device = current_device()
    if device not in _started:
        _started.add(device)
        kernels.ahead(_wanted())


def _wanted() -> Iterator[Callable[[], object]]:
    """Kernels in the order in which a first job needs them: compress, read, ask; of each the longest first."""
    tile_size = TILE_SIZE
    warps = choices(tile_size).encode_warps
    in_clusters = launch.train_in_clusters(1, device_attributes()["shared_per_block"])
    train = "fsst_train_cluster" if in_clusters else "fsst_train"
    yield partial(get_kernel, train, train)
    yield partial(get_kernel, "fsst_encode", "fsst_encode", tile_size, warps)
    looks = ("row_lengths_look", "row_lengths_pack", "row_lengths_measure", "segment_begins", "row_lengths_scan")
    for name in looks if in_clusters else looks[1:]:
        yield partial(get_kernel, "row_lengths", name)
    yield partial(get_kernel, "fsst_encode", "fsst_compact", tile_size, warps)
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
    for name in ("sample", "begins", "find_few", "find_long", "rank_few", "renumber"):
        yield partial(kernel_of_values, "dict_find", f"dict_{name}", dictionaries.FIND_DEFINES)
    yield partial(kernel_of_values, "dict_read", "dict_gather", dictionaries.READ_DEFINES)
    yield partial(get_kernel, "fsst_decode", "fsst_decode", tile_size)
    for name in ("row_lengths_unpack", "gather_validity"):
        yield partial(get_kernel, "row_lengths", name)
    for itemsize in (8, 4, 1, 2):
        yield partial(bitpack.unpack_kernel, itemsize)
    yield partial(kernel_of_values, "values", "place_halves", DEFINES)
    for itemsize in (8, 4):
        yield partial(gfc.pack_kernel, itemsize)
        yield partial(gfc.unpack_kernel, itemsize)
    yield partial(get_kernel, "fsst_search", "fsst_search", tile_size)
    yield partial(get_kernel, "fsst_values", "match_values")
    for name in ("match_contains", "fsst_match_automata", "match_edge"):
        yield partial(get_kernel, "fsst_match", name)
    yield partial(get_kernel, "fsst_take", "take_few")
