"""``series.fsst``: the accessor, and its registration with pandas and cuDF."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .codecs.fsst.symbols import SymbolTable
from .column import CompressedColumn, checked, compress_checked
from .frame import CompressedFrame, compress_frame


class FsstAccessor:
    """Compression of a Series or Index: FSST and dictionaries for strings, other codecs for other values.

    Accepted are all dtypes that frames take: strings, numbers, booleans, dates, categories, decimals, lists, structs,
    and ``object`` where Arrow holds the values exactly. Anything else raises AttributeError, so
    ``hasattr(series, "fsst")`` tells.
    """

    def __init__(self, data: Any) -> None:
        # A new accessor is made on every access, so this only looks at the dtype (of object, at the values).
        self._checked = checked(data)

    def compress(
        self,
        table: SymbolTable | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
        codec: str | None = None,
    ) -> CompressedColumn:
        """Compress.

        Parameters
        ----------
        table : SymbolTable, optional
            Use this table, as `cudf_fsst.train` makes it, and no dictionary. None trains one on the data, and one more
            for every further 512 MiB.
        tile_size : int or "auto"
            Characters that are decoded together: 128, 256, 512 or 1024 bytes. Smaller tiles make reading single rows
            cheaper, larger ones compress a little better.
        level : str
            ``"default"``, or ``"max"``: denser, read by the same decoder, and slower to compress; training a table then
            takes a fraction of a second.
        stream : rmm or CuPy stream, optional
            What to work on instead of cuDF's default stream; only for data on a GPU.
        codec : str, optional
            Codec of the values, as in ``df.fsst.compress(codecs=...)``; None: what is expected to be smallest. `table`,
            `tile_size` and `level` are for strings and bytes alone, those of lists, structs and categories too, and
            the distinct values of dictionaries.

        Returns
        -------
        CompressedColumn
            Where the data is: in host memory for pandas, in GPU memory for cuDF. Values, nulls, name, index and dtype
            survive exactly, but for missing values of an object column, which all become None. An Index counts as a
            Series with a RangeIndex.

        Raises
        ------
        TypeError
            `table` is no SymbolTable.
        ValueError
            Unknown `tile_size`, `level` or `codec`, a codec that does not take such values, a `table` for ``"dict"``, a
            `stream` for data in host memory, or (UnicodeEncodeError) a Python string with a lone surrogate, which has
            no UTF-8 form.
        MemoryError
            RMM's own; the data is untouched and nothing is kept.
        """
        options = {"table": table, "tile_size": tile_size, "level": level, "stream": stream, "codec": codec}
        return compress_checked(*self._checked, **options)

    def to_host(
        self,
        table: SymbolTable | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
        codec: str | None = None,
    ) -> CompressedColumn:
        """Compress into pinned host memory: ``compress().to_host()``, with the copy beside the compression.

        Parameters and errors are those of `compress`. Data in host memory is compressed where it is.
        """
        options = {"table": table, "tile_size": tile_size, "level": level, "stream": stream, "codec": codec}
        return compress_checked(*self._checked, **options, to_host=True)


class FsstFrameAccessor:
    """Compression of a DataFrame, a codec for every column."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def compress(
        self,
        codecs: Mapping[Any, str] | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
    ) -> CompressedFrame:
        """Compress.

        Parameters
        ----------
        codecs : mapping of column label to str, optional
            Codecs of columns: ``"dict"`` (strings that repeat: codes of distinct values, which are compressed by FSST)
            or ``"fsst"`` for strings; ``"bitpack"`` (integers, dates, decimals, booleans, codes of
            categories), ``"gfc"`` (values of 4 or 8 bytes), ``"gpulz"`` or ``"raw"`` for others. Of lists and structs
            it is the codec of their leaves, of categoricals that of the codes. Columns that are not named get what is
            smallest on a sample, ``"raw"`` where nothing saves a twentieth; never ``"gpulz"``, which is slower than the
            link to the host. Strings without a name get ``"dict"`` where it is expected to be smaller, every
            512 MiB anew. Where these have more than a million distinct values, and more than one for every 256 bytes,
            or distinct values of more than 24 MiB, they get ``"fsst"`` even if ``"dict"`` is named.
        tile_size, level, stream
            As in ``series.fsst.compress()``; the first two for strings and bytes alone, those of lists, structs and
            categories too. An index always has the defaults.

        Returns
        -------
        CompressedFrame
            Where the data is: in host memory for pandas, in GPU memory for cuDF. Values, nulls, labels, index and
            dtypes survive exactly, but for missing values of object columns, which all become None. ``attrs`` and
            flags are not kept.

        Raises
        ------
        TypeError
            A pandas column that Arrow cannot hold exactly (objects of mixed types, decimals of several exponents,
            complex numbers, ...); it is named. Or `codecs` that is no mapping.
        KeyError
            `codecs` names a column that there is not.
        ValueError
            An unknown codec, or one that does not take the column's values; unknown `tile_size` or `level`.
        MemoryError
            RMM's own; the data is untouched and nothing is kept.
        """
        return compress_frame(self._data, codecs=codecs, tile_size=tile_size, level=level, stream=stream)

    def to_host(
        self,
        codecs: Mapping[Any, str] | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
    ) -> CompressedFrame:
        """Compress into pinned host memory: ``compress().to_host()``, with the copies beside the compression.

        Parameters and errors are those of `compress`. Data in host memory is compressed where it is.
        """
        options = {"codecs": codecs, "tile_size": tile_size, "level": level, "stream": stream}
        return compress_frame(self._data, **options, to_host=True)


def register() -> None:
    """Make ``.fsst`` an attribute of pandas' and, where it can be imported, cuDF's Series, Index and DataFrame.

    Under cudf.pandas, pandas' functions register with its proxies. A cuDF that is installed and cannot be imported is
    warned of (RuntimeWarning): everything is on the CPU then. Without a driver or a GPU it can.
    """
    pd.api.extensions.register_series_accessor("fsst")(FsstAccessor)
    pd.api.extensions.register_index_accessor("fsst")(FsstAccessor)
    pd.api.extensions.register_dataframe_accessor("fsst")(FsstFrameAccessor)
    try:
        from cudf.api import extensions
    except Exception as error:  # each of its libraries has exceptions of its own
        missing = isinstance(error, ModuleNotFoundError) and (error.name or "").partition(".")[0] == "cudf"
        if not missing:
            why = f"{type(error).__name__}: {error}"
            warnings.warn(
                f"cuDF is installed and cannot be imported, so cudf_fsst does without a GPU: {why}",
                RuntimeWarning,
                stacklevel=2,
            )
        return
    extensions.register_series_accessor("fsst")(FsstAccessor)
    extensions.register_index_accessor("fsst")(FsstAccessor)
    extensions.register_dataframe_accessor("fsst")(FsstFrameAccessor)
