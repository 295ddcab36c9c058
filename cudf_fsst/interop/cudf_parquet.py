"""Parquet files as cuDF's frames, some row groups at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
import pandas as pd

from .cudf import cudf_module, current_device, with_dtype

#: Bytes of the tables that libcudf makes, at most about, and that it takes to read and decompress some of them.
_CHUNK_NBYTES, _PASS_NBYTES = 256 << 20, 1 << 30


@cache
def _stream_of(device: str) -> Any:
    """What is read on a GPU, and freed: another stream than the default one, so that it is compressed meanwhile."""
    import cupy

    del device
    return cupy.cuda.Stream(non_blocking=True)


class ParquetFiles:
    """Files of one schema.

    Frames have the labels, dtypes and index that ``cudf.read_parquet`` gives the first file, with an index that is a
    range left as it comes.

    Parameters
    ----------
    paths : sequence of str
    columns : sequence of str or None
        To read, besides those of the index; None: all.
    levels : sequence of str
        Columns of the index; none of a range.
    keys : mapping of str to list
        Of folders like ``year=2026`` the names that are wanted, and all their values.
    filters : list or None
        As ``cudf.read_parquet`` takes them.
    """

    def __init__(
        self,
        paths: Sequence[str],
        columns: Sequence[str] | None,
        levels: Sequence[str],
        keys: Mapping[str, Sequence[Any]],
        filters: Any,
    ) -> None:
        self._stream = _stream_of(current_device())
        self._columns, self._levels, self._filters = columns, list(levels), filters
        self._keys = {name: pd.Index(values) for name, values in keys.items()}
        found = cudf_module().read_parquet(paths[0], columns=columns, nrows=0, **_ONE_FILE)
        #: A frame without rows.
        self.empty = self._with_keys(found, dict.fromkeys(keys))
        #: Of its columns: a pandas.Index.
        self.labels = self.empty.columns if isinstance(self.empty.columns, pd.Index) else self.empty.columns.to_pandas()

    def read(self, path: str, groups: Sequence[int], keys: Mapping[str, Any]) -> Any:
        """A DataFrame of row groups of a file that lies in folders of these keys, filtered."""
        found = cudf_module().read_parquet(
            path, columns=self._columns, row_groups=[list(groups)], filters=self._filters
        )
        found = found.drop(columns=[name for name in self._keys if name in found.columns])
        return self._with_keys(found, keys)

    def cut(self, path: str, groups: Sequence[int], rows: Iterable[int], keys: Mapping[str, Any]) -> Iterator[Any]:
        """DataFrames of so many rows each, of row groups of a file that together have as many; read as they are taken.

        libcudf looks at all that a file says of its row groups whenever it begins to read, so it begins once. Its
        tables end anywhere: they are cut, and put together, to have the rows that are wanted.
        """
        import pylibcudf as plc

        if self._columns == [] and not self._levels:  # tables without columns do not know their rows
            cudf = cudf_module()
            yield from (self._with_keys(cudf.DataFrame(index=cudf.RangeIndex(count)), keys) for count in rows)
            return
        options = plc.io.parquet.ParquetReaderOptions.builder(plc.io.SourceInfo([path])).use_pandas_metadata(True)
        options = options.build()
        options.set_row_groups([list(groups)])
        if self._columns is not None:
            options.set_column_names(list(self._columns))
        stream = self._stream
        reader = plc.io.parquet.ChunkedParquetReader(
            options, stream, chunk_read_limit=_CHUNK_NBYTES, pass_read_limit=_PASS_NBYTES
        )
        tables: list[Any] = []
        names: dict[str, Any] = {}
        there = 0
        for wanted in rows:
            while there < wanted or not names:
                if names and not reader.has_next():
                    raise ValueError("its row groups have fewer rows than it says")
                chunk = reader.read_chunk()
                names = {"columns": chunk.column_names(include_children=False), "child_names": chunk.child_names}
                tables.append(chunk.tbl)
                there += chunk.tbl.num_rows()
                del chunk
            rest: list[Any] = []
            if there > wanted:
                last = tables.pop()
                edge = last.num_rows() - (there - wanted)
                first, after = plc.copying.slice(last, [0, edge, edge, last.num_rows()], stream)
                tables, rest = ([*tables, first] if edge else tables), [after]
                del last, first, after
            table = tables[0] if len(tables) == 1 else plc.concatenate.concatenate(tables, stream)
            stream.synchronize()  # the default stream goes on with it
            tables, there = rest, there - wanted
            del rest
            yield self._with_keys(self._frame(table, names), keys)
            del table

    def done(self) -> None:
        """Memory that is given back from here on is used again after what the default stream was asked to do."""
        from ..device.memory import Lane

        self._stream.wait_event(Lane().event())

    def _frame(self, table: Any, names: dict[str, Any]) -> Any:
        found = cudf_module().DataFrame.from_pylibcudf(table, metadata=names)
        if self._levels:
            found = self._with_index(found)
        return self._with_dtypes(found)

    def _with_index(self, found: Any) -> Any:
        cudf = cudf_module()
        labels, names = found[self._levels], list(self.empty.index.names)
        if len(self._levels) == 1:
            index = cudf.Index(labels[self._levels[0]], name=names[0])
        else:
            index = cudf.MultiIndex.from_frame(labels)
            index.names = names
        found = found.drop(columns=self._levels)
        found.index = index
        return found

    def _with_dtypes(self, found: Any) -> Any:
        """The same values with the dtypes that pandas' notes name: of decimals another precision, of nulls object."""
        for label, dtype in self.empty.dtypes.items():
            if label not in self._keys and found[label].dtype != dtype:
                found[label] = with_dtype(found[label], dtype)
        return found

    def _with_keys(self, found: Any, keys: Mapping[str, Any]) -> Any:
        """The frame with columns of categories for the folders that its file lies in."""
        cudf = cudf_module()
        for name, values in self._keys.items():
            code = -1 if keys[name] is None else values.get_loc(keys[name])
            codes = pd.Categorical.from_codes(np.full(len(found), code), values)
            found[name] = cudf.Series(codes, index=found.index)
        return found


#: For one file: no look at the folders it lies in.
_ONE_FILE: dict[str, Any] = {"dataset_kwargs": {"partitioning": None}}
