"""A stored file as its streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from cudf_fsst.codecs.text.segment import Segment
from cudf_fsst.files import storage
from cudf_fsst.files.versions import FORMAT_VERSION


@dataclass(frozen=True)
class Stored:
    """What a file holds."""

    version: int
    streams: list[storage.Stream]
    schema: bytes
    index: bytes | None

    @property
    def segments(self) -> list[Segment]:
        """Segments of a column."""
        ((codec, segments),) = self.streams
        assert codec == storage.FIRST_TEXT
        return list(segments)


def load_stored(path: Any) -> Stored:
    """Read a column, or the streams of a frame, from a file and check all of it, as `cudf_fsst.load` does."""
    with storage.opened(path) as file:
        streams = file.read(range(len(file.codecs)))
        return Stored(file.version, list(streams.values()), file.schema, file.index)


def save_column(path: Any, segments: Sequence[Segment], schema: bytes, index: bytes | None = None) -> None:
    """Write a file of version 1."""
    storage.save(path, streams=[(storage.FIRST_TEXT, segments)], schema=schema, index=index, version=FORMAT_VERSION)
