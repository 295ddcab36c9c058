"""Kernels that calls will need, compiled beside each other before they are asked for.

Compiling takes seconds on a machine that has none of them on disk, if it is done one after another, as calls ask.
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

#: What calls do, in the order in which a first job does it, and the steps of which codecs say what kernels they need.
NEEDS = {
    "strings": ("compress", "sample"),
    "values": ("measure", "encode"),
    "dictionaries": ("find",),
    "row": ("take",),
    "ask": ("match",),
    "read": ("read",),
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
    kernels.ahead([*makers(need)], [make for name in others for make in makers(name)])


def makers(need: str) -> Iterator[Callable[[], object]]:
    """What makes each kernel that calls of the usual kind need, by what the codecs declare."""
    codecs: Any = *registry.texts(), *registry.values()
    sides: Any = *(codec.device() for codec in codecs), text, dictionaries, values
    for step in NEEDS[need]:
        for side in sides:
            yield from side.kernels(step)
