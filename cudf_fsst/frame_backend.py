"""Which codecs and layouts work on a frame: NumPy and pandas on the host, RMM and cuDF on a GPU."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from types import MappingProxyType
from typing import Any

import pandas as pd

from .backend import DeviceBackend, HostBackend
from .buffers import CharactersUnderNulls, ColumnBuffers
from .codecs import host
from .codecs.node import Moved, Node
from .interop.cudf import is_cudf_frame

#: Node, Arrow type and dtype's description of a compressed column.
Written = tuple[Node, Any, Any]
#: Columns whose copies are under way while one is decompressed.
_AHEAD = 2
#: Options of strings in an index: the defaults wherever it lies, whatever the call names for columns of strings.
_INDEX_STRINGS: Mapping[str, Any] = MappingProxyType({})
#: Of a Series, a codec, and options of strings if they are not the frame's.
Write = Callable[..., Written]
Read = Callable[[Node], ColumnBuffers]


class HostFrames:
    """Frames in host memory."""

    device = "cpu"

    def __init__(self) -> None:
        from .interop import pandas_frame

        self.interop: Any = pandas_frame
        self.strings = HostBackend()

    @contextmanager
    def writing(self, strings: Mapping[str, Any], stream: Any, to_host: bool) -> Iterator[Write]:
        """What compresses a Series."""
        del to_host
        self.strings.check_stream(stream)

        def write(series: Any, codec: str | None, strings: Mapping[str, Any] = strings) -> Written:
            buffers, kind, stored = self.interop.describe(series)
            return host.Compressor(codec, strings).node(buffers), kind, stored

        yield write

    def index(self, index: Any, write: Write) -> tuple[dict[str, Any], list[Written]]:
        """What says an index' kind, names and dtypes, and its compressed levels."""
        del write
        notes, levels = self.interop.describe_index(index)
        compressor = host.Compressor(None, _INDEX_STRINGS)
        return notes, [(compressor.node(buffers), kind, stored) for buffers, kind, stored in levels]

    @contextmanager
    def reading(self, stream: Any) -> Iterator[Read]:
        """What decompresses a node."""
        self.strings.check_stream(stream)
        yield host.decompress


class DeviceFrames:
    """Frames in the memory of a GPU."""

    def __init__(self, device: str | None = None) -> None:
        self.strings = DeviceBackend(device)
        from .interop import cudf_frame

        self.interop: Any = cudf_frame
        self.device = self.strings.device

    @contextmanager
    def writing(self, strings: Mapping[str, Any], stream: Any, to_host: bool) -> Iterator[Write]:
        """What compresses a Series; with `to_host`, its parts are in host memory when the context ends."""
        from .codecs import device
        from .device.memory import Lane
        from .device.transfer import Outbox

        with Lane(stream) as lane, ExitStack() as stack:
            outbox = stack.enter_context(Outbox()) if to_host else None

            def write(series: Any, codec: str | None, strings: Mapping[str, Any] = strings) -> Written:
                try:
                    return write_as(series, codec, strings)
                except CharactersUnderNulls:
                    return write_as(series, codec, strings, drop_null_chars=True)

            def write_as(series: Any, codec: str | None, strings: Mapping[str, Any], **options: bool) -> Written:
                with self.interop.describe(series, **options) as (buffers, kind, stored):
                    try:
                        return device.DeviceCompressor(codec, strings, lane, outbox).node(buffers), kind, stored
                    finally:
                        lane.rejoin()  # cuDF may free or spill the buffers next

            yield write

    def index(self, index: Any, write: Write) -> tuple[dict[str, Any], list[Written]]:
        """What says an index' kind, names and dtypes, and its compressed levels."""
        notes, levels = self.interop.describe_index(index)
        made = [write(level, None, _INDEX_STRINGS) for level in levels]
        return notes, [(node, kind, None) for node, kind, _ in made]  # the notes have the dtypes

    @contextmanager
    def reading(self, stream: Any) -> Iterator[Read]:
        """What decompresses a node."""
        from .codecs import device
        from .device.memory import Lane

        with self.strings.current(), Lane(stream) as lane:

            def read(node: Node) -> ColumnBuffers:
                (made,) = device.read([node], lane=lane)
                lane.rejoin()  # cuDF works with them in the default stream next
                return made

            yield read

    @contextmanager
    def receiving(self, nodes: Sequence[Node]) -> Iterator[Read]:
        """What decompresses nodes that are in host memory, each once and in this order, while the next ones arrive."""
        from .codecs import device
        from .device.memory import Lane
        from .device.transfer import Inbox

        with self.strings.current(), Lane() as lane, Inbox(lane) as inbox:
            # Memory is taken before there is any work that the copies would have to wait for.
            targets = [node.with_parts(iter(inbox.receive_parts(list(node.parts)))) for node in nodes]
            coming = deque(zip(targets, nodes, strict=True))  # which lets go of them one by one
            arriving: deque[tuple[Node, Any]] = deque()
            del targets

            def bring_next() -> None:
                if coming:
                    target, node = coming[0]
                    arriving.append((target, inbox.fill(list(target.parts), list(node.parts))))
                    del coming[0]

            for _ in range(_AHEAD):
                bring_next()

            def read(_node: Node) -> ColumnBuffers:
                bring_next()
                target, event = arriving.popleft()
                lane.stream.wait_event(event)
                return device.read([target], lane=lane)[0]

            yield read

    def to_host(self, parts: Sequence[Moved], *, stream: Any) -> list[Moved]:
        """Copy parts to pinned host memory."""
        from .device import transfer

        with self.strings.current():
            return transfer.to_host(parts, stream=stream)

    def to_device(self, parts: Sequence[Moved], *, stream: Any) -> list[Moved]:
        """Copy parts to the GPU."""
        from .device import transfer

        with self.strings.current():
            return transfer.to_device(parts, stream=stream)


FrameBackend = HostFrames | DeviceFrames


def of_frame(data: Any) -> FrameBackend:
    """Backend for a DataFrame; TypeError for anything else."""
    if isinstance(data, pd.DataFrame):
        return HostFrames()
    if is_cudf_frame(data):
        return DeviceFrames()
    raise TypeError(f"expected a DataFrame of pandas or cuDF, not {type(data).__name__}")
