"""What the toy's kernel is compiled with."""

from __future__ import annotations

from pathlib import Path

from cudf_fsst.codecs.text.launch import defines
from cudf_fsst.codecs.text.layout import TILE_SIZES

#: Of a codec in the package it is a file's name in ``kernels/``.
FILE = str(Path(__file__).with_name("toy_text"))


def variants(shared_per_block: int) -> dict[str, list[dict[str, int]]]:
    """File -> all sets of constants that it may be compiled with for a GPU."""
    del shared_per_block
    return {FILE: [defines(tile_size) for tile_size in TILE_SIZES]}
