"""What is read of a file, on its way to a GPU."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from typing import Any

from ..codecs.node import DictPart
from ..codecs.part import Part
from ..codecs.registry import of_text
from .device import DeviceBackend


class Arrival:
    """Parts that are copied to a GPU while the host checks them, which the GPU does with the rest; use it as a context.

    At its end no copy is under way.

    Parameters
    ----------
    backend : DeviceBackend
    """

    def __init__(self, backend: DeviceBackend) -> None:
        self._backend = backend
        #: By the host's part's id, beside that part.
        self._moved: dict[int, tuple[Part, Any]] = {}
        self._copied: Any = None

    def __enter__(self) -> Arrival:
        from ..codecs import ahead
        from ..device.memory import Lane
        from ..device.transfer import Inbox

        with ExitStack() as stack:
            stack.enter_context(self._backend.current())
            ahead.start("ask")  # as `DeviceBackend.to_device`
            self._lane = stack.enter_context(Lane())
            self._inbox = stack.enter_context(Inbox(self._lane))
            self._stack = stack.pop_all()
        return self

    def __exit__(self, *error: Any) -> None:
        self._stack.__exit__(*error)

    def buffers(self, sizes: Sequence[int]) -> Sequence[Any]:
        """Arrays of bytes of these sizes, pinned up to the limit, which the GPU takes fast."""
        return self._backend.buffers(sizes)

    def checks_codes(self, codec: str) -> bool:
        """Whether `check` checks the codes of segments of a codec of text."""
        return hasattr(of_text(codec).device(), "check_kernel")

    def begin(self, parts: Sequence[Part]) -> None:
        """Begin to copy parts."""
        moved = self._inbox.receive_parts(parts)
        self._copied = self._inbox.fill(moved, parts)
        self._moved.update((id(part), (part, there)) for part, there in zip(parts, moved, strict=True))

    def moved(self, parts: Sequence[Part]) -> list[Any]:
        """Parts in GPU memory; what follows in the lane finds them complete."""
        missing = [part for part in parts if id(part) not in self._moved]
        if missing:  # made of what was read
            self.begin(missing)
        if self._copied is not None:
            self._lane.stream.wait_event(self._copied)
        return [self._moved[id(part)][1] for part in parts]

    def count_chars(self, part: DictPart) -> int:
        """Characters of all rows of a part with a dictionary, in host memory; ValueError where a code has no value."""
        from ..codecs.dict import cuda_check

        return cuda_check.count_chars(part, lambda: self.moved(list(part.indices.parts)), lane=self._lane)

    def check(self, unchecked: Sequence[tuple[str, Part]]) -> None:
        """Raise ValueError where codes of a part of text do not decode; what it is called is said."""
        from ..codecs.text import cuda_check

        there = self.moved([part for _, part in unchecked])
        names = (name for name, _ in unchecked)
        cuda_check.check_codes(list(zip(names, there, strict=True)), lane=self._lane)
