"""The `Reading` of a column, made once and kept with its segments."""

from __future__ import annotations

from collections.abc import Sequence

from ..registry import of_text
from .cuda_reading import Reading
from .segment import Segment, Segments


def reading_of(segments: Sequence[Segment]) -> Reading:
    """What reading segments needs; it is kept with `Segments`, and made anew for others."""
    if not isinstance(segments, Segments):
        return _made(segments)
    if segments.reading is None:
        source = segments.source
        if source is None:
            segments.reading = _made(segments)
        elif source.copied is None:
            segments.reading = source.copied = _made(segments)
        else:
            segments.reading = source.copied.of_copy(segments)
    return segments.reading


def _made(segments: Sequence[Segment]) -> Reading:
    return Reading(segments, {name: of_text(name).device() for name in dict.fromkeys(part.codec for part in segments)})
