"""Parquet files as cuDF's frames, some row groups at a time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from .cudf import cudf_module

#: Bytes that libcudf may take to decompress what it reads at once, about; it makes several tables of a larger group.
_PASS_NBYTES = 512 << 20


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
        self._footers: dict[str, Any] = {}
        found = cudf_module().read_parquet(paths[0], columns=columns, nrows=0, **_ONE_FILE)
        #: A frame without rows.
        self.empty = self._with_keys(found, dict.fromkeys(keys))
        #: Of its columns: a pandas.Index.
        self.labels = self.empty.columns if isinstance(self.empty.columns, pd.Index) else self.empty.columns.to_pandas()

    def read(self, path: str, groups: Sequence[int], keys: Mapping[str, Any]) -> Any:
        """A DataFrame of row groups of a file that lies in folders of these keys."""
        if self._filters is not None:
            cudf = cudf_module()
            found = cudf.read_parquet(path, columns=self._columns, row_groups=[list(groups)], filters=self._filters)
            found = found.drop(columns=[name for name in self._keys if name in found.columns])
        else:
            found = self._read(path, groups)
        return self._with_keys(found, keys)

    def _read(self, path: str, groups: Sequence[int]) -> Any:
        import pylibcudf as plc

        cudf = cudf_module()
        source = plc.io.SourceInfo([path])
        options = plc.io.parquet.ParquetReaderOptions.builder(source).use_pandas_metadata(True).build()
        options.set_row_groups([list(groups)])
        if self._columns is not None:
            options.set_column_names(list(self._columns))
        if path not in self._footers:
            self._footers = {path: plc.io.parquet_metadata.read_parquet_footers(source)}
        reader = plc.io.parquet.ChunkedParquetReader(
            options, pass_read_limit=_PASS_NBYTES, parquet_metadatas=self._footers[path]
        )
        first = reader.read_chunk()
        tables = [first.tbl]
        while reader.has_next():
            tables.append(reader.read_chunk().tbl)
        table = tables[0] if len(tables) == 1 else plc.concatenate.concatenate(tables)
        names = {"columns": first.column_names(include_children=False), "child_names": first.child_names}
        found = cudf.DataFrame.from_pylibcudf(table, metadata=names)
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
        from cudf.core.column import ColumnBase

        cudf = cudf_module()
        for label, dtype in self.empty.dtypes.items():
            if label not in self._keys and found[label].dtype != dtype:
                column = ColumnBase.create(found[label]._column.plc_column, dtype)
                found[label] = cudf.Series._from_column(column, index=found.index)
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
