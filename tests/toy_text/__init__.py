"""A toy codec of text, each byte plus one: what ``docs/architecture.md`` explains, and no part of the package.

A byte below 127 is a code, itself plus one. Two equal ones are one code, 128 more. Other bytes follow a code of 0.
"""

from __future__ import annotations

from dataclasses import dataclass

from cudf_fsst.codecs.contract import DeviceTextCodec, HostTextCodec

NAME = "toytext"
TILE_SIZE = 128


@dataclass(frozen=True)
class ToyTable:
    """What is added to a byte."""

    plus: int = 1
    codec = NAME
    nbytes = 1

    def to_bytes(self) -> bytes:
        """See `contract.Table`."""
        return bytes([self.plus])

    @classmethod
    def from_bytes(cls, data: bytes) -> ToyTable:
        """See `contract.Table`."""
        if data != b"\1":
            raise ValueError(f"a toy table is b'\\x01', not {data!r:.20}")
        return cls()

    def expand(self, codes: bytes) -> bytes:
        """See `contract.Table`."""
        made, following = bytearray(), iter(codes)
        for code in following:
            made += bytes([next(following)]) if code == 0 else bytes([code % 128 - self.plus]) * (1 + code // 128)
        return bytes(made)

    def __len__(self) -> int:
        return 1


TABLE = ToyTable


def since() -> int:
    """See `contract.TextCodec`."""
    return 4


def host() -> HostTextCodec:
    """The host side."""
    from . import cpu

    return cpu


def device() -> DeviceTextCodec:
    """The GPU side."""
    from . import cuda

    return cuda
