"""A stored file as its streams."""

from __future__ import annotations

from typing import Any

from cudf_fsst.files.storage import Stored, opened


def load_stored(path: Any) -> Stored:
    """Read a column, or the streams of a frame, from a file and check all of it, as `cudf_fsst.load` does."""
    with opened(path) as file:
        streams = file.read(range(len(file.codecs)))
        return Stored(file.version, list(streams.values()), file.schema, file.index)
