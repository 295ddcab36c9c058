"""Parquet files as cuDF's frames, some row groups at a time."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .cudf import cudf_module, with_dtype

#: Bytes of the tables that libcudf makes, at most about, and that it takes to read and decompress some of them. On an
#: H200 a pass over some 300 MB of TPC-H's lineitem took 80 ms, nearly whatever its size. Reading scale factor 10 took,
#: with the most memory beyond the result: 1.06 s and 1.75 GiB with (256 MiB, 1 GiB), 0.94 s and 1.91 GiB with these,
#: 0.79 s and 2.97 GiB with (512 MiB, 2 GiB), 0.23 s in one pass by cuDF. A reader for each piece: 2.2 s.
_CHUNK_NBYTES, _PASS_NBYTES = 512 << 20, 1 << 30


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
        reader = plc.io.parquet.ChunkedParquetReader(
            options, chunk_read_limit=_CHUNK_NBYTES, pass_read_limit=_PASS_NBYTES
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
                first, after = plc.copying.slice(last, [0, edge, edge, last.num_rows()])
                tables, rest = ([*tables, first] if edge else tables), [after]
                del last, first, after
            table = tables[0] if len(tables) == 1 else plc.concatenate.concatenate(tables)
            tables, there = rest, there - wanted
            del rest
            yield self._with_keys(self._frame(table, names), keys)
            del table

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
