"""Which codec and which layouts work on a column: NumPy and pandas on the host, RMM and cuDF on a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd
import pyarrow as pa

from .buffers import CharactersUnderNulls, HostStrings
from .codecs.fsst.layout import LEVELS, TILE_SIZES
from .codecs.fsst.segment import Segment
from .codecs.fsst.symbols import SymbolTable
from .interop.cudf import is_cudf


class HostBackend:
    """Segments in host memory."""

    device = "cpu"

    def __init__(self) -> None:
        from .codecs.fsst import cpu
        from .interop import pandas

        self.codec: Any = cpu
        self.interop: Any = pandas

    def check_stream(self, stream: Any) -> None:
        """Raise ValueError if there is one."""
        if stream is not None:
            raise ValueError(f"stream={stream!r} needs data in GPU memory; this is in host memory")

    def compress(self, data: Any, *, stream: Any, **options: Any) -> list[Segment]:
        """Segments of a Series or Index."""
        self.check_stream(stream)
        with self.interop.open_strings(data) as strings:
            segments: list[Segment] = self.codec.compress(strings, **options)
        return segments

    def train(self, data: Any, *, level: str, stream: Any) -> SymbolTable:
        """One symbol table for a Series or Index."""
        self.check_stream(stream)
        with self.interop.open_strings(data) as strings:
            table: SymbolTable = self.codec.train(strings, level=level)
        return table

    def decompress(self, segments: Sequence[Segment], *, stream: Any) -> Any:
        """All rows."""
        self.check_stream(stream)
        return self.codec.read(segments)

    def take(self, segments: Sequence[Segment], rows: Any, *, stream: Any) -> Any:
        """Rows by number."""
        self.check_stream(stream)
        return self.codec.take(segments, rows)

    def take_range(self, segments: Sequence[Segment], start: int, stop: int, *, stream: Any) -> Any:
        """Consecutive rows."""
        self.check_stream(stream)
        return self.codec.read(segments, start, stop)

    def to_host_strings(self, strings: Any) -> HostStrings:
        """A codec's result in host memory."""
        assert isinstance(strings, HostStrings)
        return strings

    def row_starts(self, segment: Segment) -> Any:
        """Character positions of a segment's row blocks."""
        return segment.section("row_starts")

    def current(self) -> AbstractContextManager[None]:
        """Make the column's device the current one."""
        return nullcontext()


class DeviceBackend:
    """Segments in the memory of a GPU."""

    def __init__(self, device: str | None = None) -> None:
        from .interop import cudf

        cudf.cudf_module()
        from .codecs.fsst import cuda

        self.codec: Any = cuda
        self.interop: Any = cudf
        self.device = cudf.current_device() if device is None else device

    def check_stream(self, stream: Any) -> None:
        """Take any; what works on it checks it."""

    def compress(self, data: Any, *, stream: Any, **options: Any) -> list[Segment]:
        """Segments of a Series or Index."""
        try:
            with self.interop.open_strings(data) as strings:
                return self.codec.compress(strings, stream=stream, **options)
        except CharactersUnderNulls:
            with self.interop.open_strings(data, drop_null_chars=True) as strings:
                return self.codec.compress(strings, stream=stream, **options)

    def compress_to_host(self, data: Any, *, stream: Any, **options: Any) -> list[Segment]:
        """Segments of a Series or Index, in pinned host memory."""
        from .device.transfer import Outbox

        with Outbox() as outbox:
            return self.compress(data, stream=stream, outbox=outbox, **options)

    def receive(self, segments: Sequence[Segment]) -> Any:
        """All rows of segments in host memory, on this device."""
        return self.codec.receive(segments)

    def train(self, data: Any, *, level: str, stream: Any) -> SymbolTable:
        """One symbol table for a Series or Index."""
        try:
            with self.interop.open_strings(data) as strings:
                return self.codec.train(strings, level=level, stream=stream)
        except CharactersUnderNulls:
            with self.interop.open_strings(data, drop_null_chars=True) as strings:
                return self.codec.train(strings, level=level, stream=stream)

    def decompress(self, segments: Sequence[Segment], *, stream: Any) -> Any:
        """All rows."""
        return self.codec.decompress(segments, stream=stream)

    def take(self, segments: Sequence[Segment], rows: Any, *, stream: Any) -> Any:
        """Rows by number."""
        return self.codec.take(segments, rows, stream=stream)

    def take_range(self, segments: Sequence[Segment], start: int, stop: int, *, stream: Any) -> Any:
        """Consecutive rows."""
        return self.codec.take_range(segments, start, stop, stream=stream)

    def to_host_strings(self, strings: Any) -> HostStrings:
        """A codec's result in host memory."""
        found: HostStrings = self.interop.to_host_strings(strings)
        return found

    def row_starts(self, segment: Segment) -> Any:
        """Character positions of a segment's row blocks."""
        place = segment.layout.sections["row_starts"]
        return self.interop.read_u64(segment.meta, place.offset, place.count)

    def current(self) -> AbstractContextManager[None]:
        """Make the column's device the current one."""
        context: AbstractContextManager[None] = self.interop.on_device(self.device)
        return context


Backend = HostBackend | DeviceBackend


def of_device(device: str) -> Backend:
    """Backend of a column on this device; ImportError names the extra to install where the GPU's parts are missing."""
    return HostBackend() if device == "cpu" else DeviceBackend(device)


def of_data(data: Any) -> tuple[Backend, Any]:
    """Backend for a Series or Index, and the data as that backend takes it (an Arrow array becomes a Series).

    Raises
    ------
    TypeError
        Neither pandas', nor cuDF's, nor Arrow's.
    """
    if isinstance(data, (pd.Series, pd.Index)):
        return HostBackend(), data
    if isinstance(data, (pa.Array, pa.ChunkedArray)):
        host = HostBackend()
        return host, host.interop.from_arrow_column(data)
    if is_cudf(data):
        return DeviceBackend(), data
    raise TypeError(f"expected a Series or an Index of pandas or cuDF, or an Arrow array, not {type(data).__name__}")


def check_options(table: Any, tile_size: Any, level: Any) -> None:
    """Check the arguments that every kind of compression takes."""
    if table is not None and not isinstance(table, SymbolTable):
        raise TypeError(f"table must be a SymbolTable or None, not {type(table).__name__}")
    if tile_size != "auto" and (isinstance(tile_size, bool) or tile_size not in TILE_SIZES):
        raise ValueError(f"tile_size must be 'auto' or one of {TILE_SIZES}, not {tile_size!r}")
    if level not in LEVELS:
        raise ValueError(f"level must be one of {LEVELS}, not {level!r}")
