"""What segments of text share: the table of a codec of text."""

from __future__ import annotations

from typing import Protocol


class Table(Protocol):
    """A table that segments of text share: with it and their own bytes they are decoded.

    Immutable; tables with equal bytes are equal and have equal hashes.
    """

    @property
    def codec(self) -> str:
        """The name of the codec whose table it is."""

    @property
    def nbytes(self) -> int:
        """Bytes that `to_bytes` gives."""

    def to_bytes(self) -> bytes:
        """The table as files have it."""

    @classmethod
    def from_bytes(cls, data: bytes) -> Table:
        """Read what `to_bytes` gave; ValueError for anything else."""

    def expand(self, codes: bytes) -> bytes:
        """The bytes that the codes of a tile stand for; IndexError or ValueError for bytes that are no codes."""

    def __hash__(self) -> int: ...

    def __len__(self) -> int:
        """How many symbols it has."""
