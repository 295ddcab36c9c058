"""FSST on a GPU: what differs from other codecs of text (`contract.DeviceTextCodec`)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from ...device.kernels import Kernel
from ...device.memory import device_attributes
from ..text.launch import Shape, decode_codes_capacity
from . import launch
from .cuda_encode import encoders as encoders
from .cuda_kernels import choices as choices
from .cuda_kernels import get_kernel
from .cuda_match import answer as answer
from .cuda_match import match as match
from .kernel_tables import decode_table as decode_table
from .symbols import TILE_SIZE

#: fsst_take.cu decodes the tiles of single rows.
TAKES = True
#: fsst_search.cu, fsst_edges.cu and fsst_rows.cu.
MATCHES = True


def decode_shape(tile_size: int, codes_nbytes: int, tiles: int, table_nbytes: int) -> Shape:
    attributes, how = device_attributes(), choices(tile_size)
    return launch.decode_shape(
        tile_size,
        decode_codes_capacity(tile_size, codes_nbytes, tiles, how.decode_capacity),
        attributes["shared_per_block"],
        attributes["shared_per_multiprocessor"],
        how.decode_warps,
    )


def decode_kernel(tile_size: int) -> Any:
    return get_kernel("fsst_decode", "fsst_decode", tile_size)


def take_kernel(name: str) -> Any:
    return get_kernel("fsst_take", name if name == "take_measure" else f"fsst_{name}")


def check_kernel() -> Kernel:
    return get_kernel("fsst_check", "fsst_check")


def check_table(table: Any) -> npt.NDArray[np.uint8]:
    return table.decode_lengths


def kernels(step: str) -> Iterator[Callable[[], Kernel]]:
    in_clusters = launch.train_in_clusters(1, device_attributes()["shared_per_block"])
    train = "fsst_train_cluster" if in_clusters else "fsst_train"
    steps: dict[str, tuple[tuple[Any, ...], ...]] = {
        "compress": (
            (train, train),
            ("fsst_encode", "fsst_encode", TILE_SIZE, choices(TILE_SIZE).encode_warps),
        ),
        "take": (("fsst_take", "fsst_take_few"),),
        "match": (
            ("fsst_search", "fsst_search", TILE_SIZE),
            ("fsst_automata", "fsst_automata"),
        ),
        "match more": (
            ("fsst_values", "match_values"),
            ("fsst_rows_lift", "fsst_rows_lift"),
            ("fsst_rows", "fsst_rows", TILE_SIZE),
        ),
        "read": (("fsst_decode", "fsst_decode", TILE_SIZE),),
    }
    yield from (partial(get_kernel, *named) for named in steps.get(step, ()))
