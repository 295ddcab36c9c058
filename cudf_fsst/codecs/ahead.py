"""Kernels that calls will need, compiled beside each other before they are asked for.

Compiling takes seconds on a machine that has none of them on disk, if it is done one after another, as calls ask. But
NVRTC does half of its work for one kernel at a time, whatever the threads. So what a call needs comes before the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from ..device import kernels
from ..device.memory import current_device
from . import registry
from .dict import cuda as dictionaries
from .text import cuda as text
from .values import cuda as values

#: What calls do, in the order in which a first job does it: steps, and who is asked what kernels it needs for them.
NEEDS = {
    "strings": (("compress", "text"), ("sample", "dictionaries")),
    "values": (("measure", "values"), ("encode", "values")),
    "dictionaries": (("find", "dictionaries"),),
    "row": (("take", "text"),),
    "short": (("compress short", "text"), ("sample short", "dictionaries")),
    "ask": (("match", "text"),),
    "ask more": (("match more", "text"),),
    "read": (("read", "text"), ("read", "dictionaries"), ("read", "values")),
}
#: A device and what has been begun for it.
_started: set[tuple[int, str]] = set()


def start(need: str) -> None:
    """Have the kernels of the current device made in threads: first those of a call, then all others.

    Parameters
    ----------
    need
        What the call does, one of `NEEDS`. Once a process for each; later ones find the others on their way.
    """
    device = current_device()
    if (device, need) in _started:
        return
    others = [] if any(begun == device for begun, _ in _started) else [name for name in NEEDS if name != need]
    _started.add((device, need))
    kernels.ahead(makers(need), (make for name in others for make in makers(name)))


def makers(need: str) -> Iterator[Callable[[], kernels.Kernel]]:
    """Functions that make the kernels of usual calls, by what the codecs declare."""
    for step, who in NEEDS[need]:
        for side in _sides(who):
            yield from side.kernels(step)


def _sides(who: str) -> Iterator[Any]:
    """GPU sides, imported one after another; of codecs of text, that which is taken where none is named."""
    if who == "text":
        yield registry.texts()[0].device()
        yield text
    elif who == "values":
        yield values
        yield from (codec.device() for codec in registry.values())
    else:
        yield dictionaries
