"""What ``cudf-fsst inspect`` says of a file, as a dict that JSON can hold."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..files.columns import outline
from ..files.storage import version_of
from ..frame import CompressedFrame, of_column
from ..loading import load, of_loaded


def facts_of(path: Path, symbols: bool = False, check: bool = False) -> dict[str, Any]:
    """Sizes in bytes, ratios, codecs; of a column of strings its segments, of all else a frame's columns.

    Parameters
    ----------
    path : Path
        Of a file that ``save`` wrote. Nothing is decoded.
    symbols : bool
        Also all symbols of the tables of each column, in hexadecimal digits, and the code of each table's first one.
    check : bool
        Read all of it and check it, as `load` does; otherwise what says sizes, see `cudf_fsst.files.columns.outline`.
    """
    data = load(path) if check else of_loaded(outline(path))
    facts = {"file": str(path), "file_nbytes": path.stat().st_size, "format_version": version_of(path)}
    if not isinstance(data, CompressedFrame) and not data._is_text:
        data = of_column(data)
    return facts | (_of_frame(data, symbols) if isinstance(data, CompressedFrame) else _of_text(data, symbols))


def _of_frame(frame: Any, symbols: bool) -> dict[str, Any]:
    columns = [
        {
            "name": name,
            "dtype": dtype,
            "codec": node.codec,
            "nulls": node.null_count,
            "uncompressed_nbytes": node.uncompressed_nbytes,
            "nbytes": node.nbytes,
            "ratio": _ratio(node.uncompressed_nbytes, node.nbytes),
            **(_symbols(segment.table for segment in node.texts) if symbols else {}),
        }
        for name, dtype, node in frame._described()
    ]
    return {
        "kind": "frame",
        "rows": len(frame),
        "uncompressed_nbytes": frame.uncompressed_nbytes,
        "nbytes": frame.nbytes,
        "ratio": frame.ratio,
        "columns": columns[: frame.shape[1]],
        "index": columns[frame.shape[1] :],
    }


def _of_text(column: Any, symbols: bool) -> dict[str, Any]:
    tables, name = column.tables, column.name
    facts = {
        "kind": "column",
        "name": name if name is None or isinstance(name, (str, int)) else str(name),
        "dtype": str(column.dtype),
        "index": _index_kind(column._index.without_rows()),
        "rows": len(column),
        "nulls": column.null_count,
        "uncompressed_nbytes": column.uncompressed_nbytes,
        "nbytes": column.nbytes,
        "ratio": column.ratio,
        "chars_nbytes": column.chars_nbytes,
        "codes_nbytes": column.codes_nbytes,
        "chars_ratio": _ratio(column.chars_nbytes, column.codes_nbytes),
        "codec": column.codec,
        "segments": [
            {
                "rows": segment.rows,
                "chars_nbytes": segment.chars,
                "codes_nbytes": segment.codes_nbytes,
                "ratio": _ratio(segment.chars, segment.codes_nbytes),
                "tile_size": segment.layout.tile_size,
                "nulls": segment.null_count,
                "table": tables.index(segment.table),
                "symbols": len(segment.table),
            }
            for segment in column.segments
        ],
        "tables": len(tables),
    }
    return facts | (_symbols(tables) if symbols else {})


def _symbols(tables: Iterable[Any]) -> dict[str, Any]:
    each = [table for table in dict.fromkeys(tables) if hasattr(table, "symbols")]
    return {
        "symbols": [[symbol.hex() for symbol in table.symbols] for table in each],
        "first_codes": [getattr(table, "first_code", 0) for table in each],
    }


def _index_kind(index: Any) -> str:
    names = list(index.names)
    named = "" if names == [None] else f" named {', '.join(map(repr, names))}"
    return f"{type(index).__name__} of {index.dtype if len(names) == 1 else f'{len(names)} levels'}{named}"


def _ratio(nbytes: int, compressed_nbytes: int) -> float:
    """1 where there is nothing to compress."""
    return nbytes / compressed_nbytes if compressed_nbytes else 1.0
