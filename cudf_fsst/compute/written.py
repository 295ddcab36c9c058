"""What is said of a frame, and its rows as text: piece by piece."""

from __future__ import annotations

import codecs
import io
import os
import sys
from collections.abc import Sized
from itertools import pairwise
from typing import Any

import numpy as np
import pandas as pd

from ..files.disk import writing
from ..remote import located
from .source import FrameSource

#: Values of a chunk of rows that pandas writes at a time.
_CELLS = 100_000


class Written(FrameSource):
    """What a frame says of itself, and writes as text."""

    __slots__ = ()

    def describe(self, percentiles: Any = None, include: Any = None, exclude: Any = None) -> Any:
        """Statistics of columns, as the library's ``describe`` gives them.

        Parameters
        ----------
        percentiles, include, exclude
            As the library takes them. Columns that are not described are not decoded. The others are, together.

        Returns
        -------
        DataFrame
        """
        options = {"percentiles": percentiles, "include": include, "exclude": exclude}
        with self._backend.current():
            sample = self._range(0, 0)
            sample.columns = range(sample.shape[1])
            if self.device == "cpu":
                places = list(sample.describe(**options).columns)
            elif include == "all":
                places = list(sample.columns)
            else:  # cuDF does not describe what has no rows
                kinds = (
                    {"include": np.number} if include is exclude is None else {"include": include, "exclude": exclude}
                )
                places = list(sample.select_dtypes(**kinds).columns) or list(sample.columns)
            part = self._columns_at(places)
            return self._out(part._range(0, None).describe(**options))

    def info(self, buf: Any = None, *, show_counts: bool | None = None) -> None:
        """Print columns, their dtypes, codecs and sizes.

        Parameters
        ----------
        buf : text file, optional
            Where to; None: standard output.
        show_counts : bool, optional
            Count the values that are not missing, too. Floats are decoded for it, piece by piece. None: yes.
        """
        lines = pd.DataFrame(
            {
                "Column": [str(label) for label in self._labels],
                **({"Non-Null Count": self._counts()} if show_counts in (None, True) else {}),
                "Dtype": [str(dtype) for dtype in self.dtypes],
                "Codec": [content.node.codec for content in self._columns],
                "Bytes": [content.node.nbytes for content in self._columns],
            },
        )
        index = " ".join(str(name) for name in self._index.names if name is not None)
        text = [
            f"{type(self)}",
            f"Index: {len(self)} entries" + (f", {index}" if index else ""),
            f"Data columns (total {len(self._columns)} columns):",
            lines.to_string(index_names=False) if len(lines) else "",
            f"memory usage: {self.nbytes:,} bytes, {self.uncompressed_nbytes:,} uncompressed",
        ]
        print(*(line for line in text if line), sep="\n", file=buf or sys.stdout)

    def _counts(self) -> list[int]:
        """Values of each column that are not missing."""
        return [int(self.column_at(place).count()) for place in range(len(self._columns))]

    def to_csv(
        self, path_or_buf: Any = None, *, header: Any = True, chunk_bytes: int | None = None, **options: Any
    ) -> Any:
        """Write the rows as comma-separated values, piece by piece, with the bytes that the library writes.

        Parameters
        ----------
        path_or_buf : path, URL or file object, optional
            A file is complete or, if anything fails, as it was; a text file gets the rows one after another. None:
            give a str.
        header : bool or list of str
            Labels of the columns, in the first line.
        chunk_bytes : int, optional
            As `map_chunks` has it.
        **options
            Those of the library, but for ``compression``, ``mode`` and ``errors``: a path is written anew, as plain
            text. For a compressed file give one that is open: ``gzip.open(path, "wt")``.

        Returns
        -------
        str or None
        """
        for name in ("compression", "mode", "errors"):
            if name in options:
                raise TypeError(f"to_csv has no {name!r}; give it an open text file")
        encoding, storage_options = options.pop("encoding", None) or "utf-8", options.pop("storage_options", None)
        codecs.lookup(encoding)
        pieces = self._default_pieces() if chunk_bytes is None else self._pieces(chunk_bytes)
        if self.device == "cpu":
            chunk_rows, columns = options.get("chunksize"), options.get("columns")
            count = len(columns) if isinstance(columns, Sized) else len(self._labels)
            pieces = _of_chunks(pieces, max(_CELLS // max(count, 1), 1) if chunk_rows is None else chunk_rows)

        def write(file: Any) -> None:
            first = True
            for start, stop in pieces or [(0, 0)]:
                file.write(self._range(start, stop).to_csv(None, header=header if first else False, **options))
                first = False

        if path_or_buf is None or (hasattr(path_or_buf, "write") and not _takes_bytes(path_or_buf)):
            located(path_or_buf, storage_options)  # which it is, but for options
            text = io.StringIO(newline="")
            write(text if path_or_buf is None else path_or_buf)
            return text.getvalue() if path_or_buf is None else None
        if isinstance(path_or_buf, (str, bytes, os.PathLike)):
            path = os.fsdecode(path_or_buf)
            if path.endswith((".gz", ".bz2", ".zip", ".xz", ".zst", ".tar")):
                raise ValueError(f"to_csv writes plain text, not {path!r}; give it an open text file")
        with writing(path_or_buf, storage_options) as raw:
            file = io.TextIOWrapper(raw, encoding=encoding, newline="")
            write(file)
            file.detach()  # which flushes
        return None


def _of_chunks(pieces: Any, chunk_rows: Any) -> list[tuple[int, int]]:
    """Pieces that begin where pandas would begin a chunk: whether it writes the time of days depends on all of one."""
    if not (isinstance(chunk_rows, int) and chunk_rows > 0):
        return list(pieces)  # the library says what is wrong
    stops = [stop for _, stop in pieces]
    return list(pairwise(sorted({0, *(stop // chunk_rows * chunk_rows for stop in stops[:-1]), *stops[-1:]})))


def _takes_bytes(file: Any) -> bool:
    """Whether a file object is none of texts."""
    return isinstance(file, (io.RawIOBase, io.BufferedIOBase)) or "b" in str(getattr(file, "mode", ""))
