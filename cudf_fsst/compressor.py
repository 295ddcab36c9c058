"""Compression of a column that arrives in pieces."""

from __future__ import annotations

from typing import Any

from .backend import check_options
from .codecs.fsst.symbols import SymbolTable
from .column import CompressedColumn, compress, concat


class Compressor:
    """Compress pieces of a column as they arrive, so that the whole of it need never be in memory.

    The result is what `concat` makes of the pieces, each compressed by itself: every piece has segments of its own and,
    unless `table` is given, trains symbol tables of its own. Small pieces therefore compress less well; pieces of 30 MB
    and more, such as Parquet row groups often are, lose next to nothing.

    Parameters
    ----------
    table : SymbolTable, optional
        Used for all pieces, as `cudf_fsst.train` makes it.
    tile_size, level, stream
        As in ``series.fsst.compress()``.

    Examples
    --------
    >>> compressor = cudf_fsst.Compressor()
    >>> for group in range(parquet.num_row_groups):
    ...     compressor.append(parquet.read_row_group(group, columns=["comment"]).to_pandas()["comment"])
    >>> column = compressor.finish()
    """

    def __init__(
        self,
        *,
        table: SymbolTable | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
    ) -> None:
        check_options(table, tile_size, level)
        self._options: dict[str, Any] = {"table": table, "tile_size": tile_size, "level": level, "stream": stream}
        self._columns: list[CompressedColumn] | None = []

    def append(self, data: Any) -> None:
        """Compress the next piece.

        Parameters
        ----------
        data : Series or Index of pandas or cuDF, or pyarrow.Array
            Strings, of the dtype and on the device of the first piece. Nothing of it is kept but its index.

        Raises
        ------
        AttributeError
            It does not hold strings.
        TypeError, ValueError
            It has another dtype, or is on another device, than the first piece; or `finish` was called before.

        After any of them, and after MemoryError, the pieces are what they were before.
        """
        columns = self._open()
        column = compress(data, **self._options)
        if columns and column.device != columns[0].device:
            raise ValueError(f"the pieces so far are on {columns[0].device}, this one is on {column.device}")
        if columns and column.dtype != columns[0].dtype:
            raise TypeError(f"the pieces so far are of dtype {columns[0].dtype}, this one is {column.dtype}")
        columns.append(column)

    def finish(self) -> CompressedColumn:
        """The column made of all pieces.

        Returns
        -------
        CompressedColumn
            Name and index are what ``pandas.concat`` (``cudf.concat``) gives for the pieces.

        Raises
        ------
        ValueError
            Nothing was appended (so there is no dtype), or `finish` was called before.
        MemoryError
            There is none for the index. The pieces are kept, and `finish` may be called again.
        """
        columns = self._open()
        if not columns:
            raise ValueError("nothing was appended, so the column has no dtype; append an empty Series if need be")
        column = concat(columns)
        self._columns = None
        return column

    def _open(self) -> list[CompressedColumn]:
        if self._columns is None:
            raise ValueError("this Compressor is finished; make a new one")
        return self._columns
