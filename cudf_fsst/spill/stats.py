"""What a pool did, counted; and its table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ..sizes import format_bytes

#: Moves, in the order a value goes through them; each in a few words, for the errors.
MOVES = {
    "compress": "while it was compressed",
    "to_host": "while it moved to host memory",
    "save": "while it was written to disk",
    "load": "while it was read from disk",
    "to_device": "while it moved to the GPU",
    "decompress": "while it was decompressed",
}


@dataclass
class Moves:
    """Moves from one form to another.

    Attributes
    ----------
    count : int
        How many moves were completed.
    nbytes : int
        For ``compress`` and ``decompress``, the uncompressed bytes. For the others, the bytes that were moved.
    seconds : float
        The time they took, summed over threads.
    """

    count: int = 0
    nbytes: int = 0
    seconds: float = 0.0


@dataclass
class SpillStats:
    """What a pool did since it was made; `cudf_fsst.SpillPool.stats` gives a copy.

    Attributes
    ----------
    hits : int
        Times that a value was asked for and was at hand.
    misses : int
        Times that it had to be brought back, by a prefetch too.
    failed : int
        Moves that failed. The logger ``cudf_fsst.spill.tiers`` warns of them, once for each value and kind of move.
    dropped : int
        Times that room was made without a move, because the value lay elsewhere as well.
    moves : dict of str to Moves
        By kind: ``compress``, ``to_host``, ``save``, ``load``, ``to_device``, ``decompress``.
    """

    hits: int = 0
    misses: int = 0
    failed: int = 0
    dropped: int = 0
    moves: dict[str, Moves] = field(default_factory=lambda: {move: Moves() for move in MOVES})


Rows = Sequence[Sequence[str]]


def moves_table(stats: SpillStats) -> list[list[str]]:
    """Lines of a table of moves, its head first; only the head where nothing moved."""
    lines = [["move", "times", "size", "seconds", "GB/s"]]
    for move, moves in stats.moves.items():
        if moves.count:
            speed = f"{moves.nbytes / moves.seconds / 1e9:.2f}" if moves.seconds else ""
            lines.append([move, f"{moves.count:,}", format_bytes(moves.nbytes), f"{moves.seconds:.3f}", speed])
    return lines


def as_text(lines: Rows) -> list[str]:
    """Columns aligned: words to the left, numbers to the right."""
    widths = [max(len(cell) for cell in column) for column in zip(*lines, strict=True)]
    numeric = [cell[:1].isdigit() for cell in lines[-1]]
    return [
        "  ".join(
            cell.rjust(width) if right else cell.ljust(width)
            for cell, width, right in zip(line, widths, numeric, strict=True)
        ).rstrip()
        for line in lines
    ]
