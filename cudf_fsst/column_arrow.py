"""A compressed column as others read it: arrays and streams of Arrow, arrays of NumPy."""

from __future__ import annotations

import io
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from . import batches
from .codecs.node import Content
from .content_dtype import dtype_of, holds_text
from .interop import arrow_extension
from .interop import pandas as interop_pandas
from .interop.arrow import decoding, to_arrow
from .rows import Rows


class ArrowColumn(Rows):
    """What type a column has, and its values as arrays: a base of `CompressedColumn`."""

    __slots__ = ()

    _content: Content
    _dtype: Any

    @property
    def dtype(self) -> Any:
        """Dtype of the Series."""
        if self._dtype is None:
            with self._backend.current():
                self._dtype = dtype_of(self._content, self._backend)
        return self._dtype

    @property
    def _is_text(self) -> bool:
        return holds_text(self._content)

    def to_arrow(self, *, compressed: bool = False) -> Any:
        """The column as an Arrow array.

        Parameters
        ----------
        compressed : bool
            True: an array of one value, the column as it is, with its name, dtype and index. Its type is the extension
            type ``cudf_fsst.column``, which IPC, Flight and Parquet files of other programs carry;
            `cudf_fsst.from_arrow` makes the column of it.

        Returns
        -------
        pyarrow.Array
            It has the Arrow type of the values. Strings have the type that their dtype names. Else they are string,
            or large_string from 2^31 characters on. The result is a `pyarrow.ChunkedArray` where the dtype names
            string and one array cannot hold the characters.
        """
        if compressed:
            file = io.BytesIO()
            self.save(file)
            return arrow_extension.array_of([file.getvalue()])
        if not self._is_text:
            host = self.to_host()
            (values,) = host._backend.read([host._content.node])
            array = interop_pandas.to_chunked(values, self._content.type)
            return array.combine_chunks() if array.num_chunks != 1 else array.chunk(0)
        return to_arrow(self._host_strings(0, None), interop_pandas.arrow_type(self.dtype))

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> npt.NDArray[Any]:
        """What ``numpy.asarray`` makes of the column: the array that it makes of the pandas.Series.

        Parameters
        ----------
        dtype : numpy dtype, optional
            The dtype of the array. None takes that of the pandas.Series as an array. Strings become ``object``, with
            the missing values of the column's dtype.
        copy : bool, optional
            False is refused, because the values must be decoded.

        Returns
        -------
        numpy.ndarray
            One dimension, a value for each row.

        Raises
        ------
        UnicodeDecodeError
            Some bytes are not UTF-8, so that no Python string can be made of them.
        """
        if copy is False:
            raise ValueError("a compressed column has no array to share; np.asarray(column) decodes it")
        series = self.to_pandas()
        try:
            return np.asarray(series, dtype=dtype)
        except pa.ArrowException:
            with decoding(self.to_arrow()):
                raise

    def __arrow_array__(self, type: Any = None) -> Any:
        """What ``pyarrow.array`` makes of the column: `to_arrow`, cast to the type that is asked for."""
        array = self.to_arrow()
        return array if type is None else array.cast(type)

    def __arrow_c_schema__(self) -> Any:
        """The type, for libraries that speak Arrow; without a name, as arrays and streams of arrays have none."""
        return pa.field("", self._arrow_type()).__arrow_c_schema__()

    def __arrow_c_array__(self, requested_schema: Any = None) -> tuple[Any, Any]:
        """The whole column, for libraries that speak Arrow and want one array; see `__arrow_c_stream__`."""
        array = self.to_arrow()
        if isinstance(array, pa.ChunkedArray):  # more characters than the type can count
            array = array.cast(pa.large_string()).combine_chunks()
        else:
            array = _of_type(array, self._arrow_type())
        return array.__arrow_c_array__(requested_schema)

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        """The column, for libraries that speak Arrow: ``pyarrow.chunked_array(c)``, ``polars.Series(c)``.

        It is decoded into arrays of some 64 MiB, all of them before the first is handed over; they are not copied. The
        stream of a frame, of one column say, is decoded as it is read. A column on a GPU moves to host memory,
        compressed, first.

        Parameters
        ----------
        requested_schema : PyCapsule, optional
            Of the type that the reader would like; arrays are cast where Arrow can.
        """
        there, kind = self.to_host()._content, self._arrow_type()
        chunks = [
            chunk
            for piece in batches.pieces([there], len(self))
            for chunk in _of_type(batches.arrays([there], *piece)[0], kind).chunks
        ]
        return pa.chunked_array(chunks, kind).__arrow_c_stream__(requested_schema)

    def _arrow_type(self) -> Any:
        """The type that arrays of an Arrow stream have."""
        return (interop_pandas.arrow_type(self.dtype) if self._is_text else None) or self._content.type

    def _host_strings(self, start: int, stop: int | None) -> Any:
        backend = self._backend
        with backend.current():
            return backend.host_strings(self._content.node, start, stop)


def _of_type(array: Any, kind: Any) -> Any:
    """An array cast to a type; one of it stays: pyarrow's cast of lists of runs makes one that is not valid."""
    return array if array.type == kind else array.cast(kind)
