"""The toy codec of values on a GPU: values are decoded there, and encoded on the host."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np

from cudf_fsst.codecs.cuda_kernels import blocks
from cudf_fsst.codecs.cuda_tables import JobTables, PartRange
from cudf_fsst.codecs.part import Packed
from cudf_fsst.device.kernels import Kernel
from cudf_fsst.device.memory import Lane

from . import cpu
from .launch import FILE

#: It declares nothing that it could do beyond decoding.
TAKES, TAKES_BITS, READS_WIDE, COMPARES, ALONE = 0, False, False, False, True
_THREADS = 256


def kernels(step: str) -> tuple[Callable[[], Kernel], ...]:
    """None is compiled before a call asks for it."""
    del step
    return ()


def chunk_rows(packed: Packed) -> int:
    """Rows that are decoded together, when some are taken."""
    del packed
    return 1024


def row_costs(packed: Packed) -> tuple[float, float]:
    """A row alone costs much."""
    del packed
    return 1e-9, 1e-9


def decompress(parts: Sequence[PartRange], tables: JobTables, lane: Lane, touched: int = 0) -> None:
    """See `contract.DeviceCodec`; all chunks are decoded, touched or not."""
    del lane, touched
    grids, fields = [], []
    for part in parts:
        cpu.check(part.packed)
        grids.append(blocks(part.end - part.begin, _THREADS))
        fields += [int(part.packed.codes.ptr), part.packed.itemsize, *part.output]
    tables.add_jobs(Kernel(FILE, "toy_values", {}), _THREADS, grids, fields)


def compress(address: int, rows: int, itemsize: int, *, lane: Lane) -> Generator[None, None, Packed]:
    """Encode one part on the host."""
    values = lane.read(address, rows, f"<u{itemsize}")
    yield
    made = cpu.encode(np.asarray(values))
    meta, codes = lane.allocate(0), lane.allocate(made.codes.size)
    lane.upload(codes.ptr, made.codes)
    made_there: Any = Packed(made.codec, rows, itemsize, (), meta, codes, 0, made.codes_nbytes)
    yield
    return made_there
