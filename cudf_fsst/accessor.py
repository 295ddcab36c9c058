"""``series.fsst``: the accessor, and its registration with pandas and cuDF."""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import pandas as pd

from .codecs.table import Table
from .column import CompressedColumn
from .compressing import checked, compress_checked, compress_frame
from .frame import CompressedFrame


def _no_attribute(accessor: Any, name: str, compressed: type) -> AttributeError:
    """The error for an attribute that is not there, which what `compress` gives may have."""
    said = f"{type(accessor).__name__!r} object has no attribute {name!r}"
    if not name.startswith("_"):
        has_it = hasattr(compressed, name)
        said += f"; compress() gives a {compressed.__name__}, which has it" if has_it else "; see compress and to_host"
    return AttributeError(said, name=name, obj=accessor)


class FsstAccessor:
    """``series.fsst``: compression of a Series or Index, of pandas or cuDF.

    All dtypes are accepted that Arrow holds exactly: strings, numbers, booleans, dates, times, categories, decimals,
    lists, structs, and ``object``. Anything else raises AttributeError. So ``hasattr(series, "fsst")`` tells whether
    a Series of this dtype can be compressed. Of dtype ``object`` it is `compress` that looks at the values.
    """

    def __init__(self, data: Any) -> None:
        # A new accessor is made on every access, so this only looks at the dtype.
        self._checked = checked(data)

    def __getattr__(self, name: str) -> Any:
        raise _no_attribute(self, name, CompressedColumn)

    def compress(
        self,
        table: Table | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
        codec: str | None = None,
    ) -> CompressedColumn:
        """Compress the Series or Index.

        Parameters
        ----------
        table : SymbolTable or OnPairTable, optional
            The symbol table to use for strings, as `cudf_fsst.train` makes it, and with it its codec. They get no
            dictionary then. None trains one on the data, and a further one for every further 512 MiB.
        tile_size : int or "auto"
            Bytes of characters that are decoded together: 128, 256, 512 or 1024. Smaller tiles make single rows faster
            to read. Larger ones compress a little better.
        level : {"default", "max"}
            ``"max"`` makes strings smaller and takes longer to compress: tables of codecs ``"fsst"`` and ``"onpair"``
            are trained, which takes up to some seconds on the CPU, and the smaller one is taken.
        stream : rmm or CuPy stream, optional
            The stream to work on. None takes cuDF's default stream. Only for data on a GPU.
        codec : str, optional
            The codec for the values, one of those that ``df.fsst.compress(codecs=...)`` takes. None takes ``"dict"``
            for strings that repeat, in columns of 4,096 rows and more, where that is expected to be smaller. Other
            strings get ``"fsst"``, or what `level` says. Other values get the codec that is smallest on a sample.

        Returns
        -------
        CompressedColumn
            In host memory for pandas, in GPU memory for cuDF. Values, nulls, name, index and dtype come back exactly,
            except that missing values of an ``object`` column all become None. An Index counts as a Series with a
            RangeIndex.

        Raises
        ------
        TypeError
            `table` is no symbol table. Or values of dtype ``object`` are not all of one kind that Arrow has.
        ValueError
            `tile_size`, `level` or `codec` does not exist. The codec does not take such values. A `table` was given for
            ``"dict"``, or a `stream` for data in host memory.
        UnicodeEncodeError
            A Python string has a lone surrogate, and so no UTF-8 form.
        MemoryError
            RMM's own. The data is untouched and nothing is kept.

        Notes
        -----
        `table`, `tile_size` and `level` are for strings and bytes, those inside lists, structs and categories too, and
        for the distinct values of dictionaries.
        """
        options = {"table": table, "tile_size": tile_size, "level": level, "stream": stream, "codec": codec}
        return compress_checked(*self._checked, **options)

    def to_host(
        self,
        table: Table | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
        codec: str | None = None,
    ) -> CompressedColumn:
        """Compress a Series on a GPU into pinned host memory.

        The result is that of ``compress().to_host()``. Each segment is copied while the next one is compressed.
        Parameters and errors are those of `compress`. Data in host memory is compressed where it is.
        """
        options = {"table": table, "tile_size": tile_size, "level": level, "stream": stream, "codec": codec}
        return compress_checked(*self._checked, **options, to_host=True)


class FsstFrameAccessor:
    """``df.fsst``: compression of a DataFrame, of pandas or cuDF, with a codec for every column."""

    def __init__(self, data: Any) -> None:
        self._data = data

    def __getattr__(self, name: str) -> Any:
        raise _no_attribute(self, name, CompressedFrame)

    def compress(
        self,
        codecs: Mapping[Any, str] | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
    ) -> CompressedFrame:
        """Compress the DataFrame.

        Parameters
        ----------
        codecs : mapping of column label to str, optional
            Codecs of columns. ``"fsst"`` and ``"dict"`` take strings. ``"dict"`` is for strings that repeat: it keeps
            each distinct value once, and a code for each row. ``"bitpack"`` takes integers, dates, decimals, booleans
            and codes of categories. ``"gfc"`` takes values of 4 or 8 bytes. ``"gpulz"`` and ``"raw"`` take all values
            of fixed width. For lists and structs the name counts for their leaves, for categories for their codes.
            Strings that are not named get ``"fsst"``, or ``"dict"`` where they repeat in 4,096 rows and more and that
            is expected to be smaller. Other columns that are not named get what is smallest on a sample,
            ``"raw"`` where nothing saves a twentieth, and never ``"gpulz"``.
        tile_size, level, stream
            As in ``series.fsst.compress()``. `tile_size` and `level` are for strings and bytes, those inside lists,
            structs and categories too. An index always has the defaults.

        Returns
        -------
        CompressedFrame
            In host memory for pandas, in GPU memory for cuDF. Values, nulls, labels, index and dtypes come back
            exactly, except that missing values of ``object`` columns all become None. ``attrs`` and flags are not kept.

        Raises
        ------
        TypeError
            Arrow cannot hold a pandas column exactly: objects of mixed types, decimals of several exponents, complex
            numbers and so on. The message names the column. Or `codecs` is no mapping.
        KeyError
            `codecs` names a column that the frame does not have.
        ValueError
            A codec does not exist, or does not take the column's values. `tile_size` or `level` does not exist.
        MemoryError
            RMM's own. The data is untouched and nothing is kept.
        """
        return compress_frame(self._data, codecs=codecs, tile_size=tile_size, level=level, stream=stream)

    def to_host(
        self,
        codecs: Mapping[Any, str] | None = None,
        tile_size: int | str = "auto",
        level: str = "default",
        stream: Any = None,
    ) -> CompressedFrame:
        """Compress a DataFrame on a GPU into pinned host memory.

        The result is that of ``compress().to_host()``. Each part is copied while the next one is compressed.
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
