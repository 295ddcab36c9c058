"""Dask collections whose partitions stay compressed; `cudf_fsst.dask` has them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, cast

import pandas as pd
from dask import config, delayed
from dask import persist as dask_persist
from dask.base import DaskMethodsMixin, replace_name_in_key
from dask.delayed import Delayed, optimize
from dask.highlevelgraph import HighLevelGraph

from .backend import check_options
from .compressing import check_codecs
from .frame import CompressedFrame


def compress(
    ddf: Any,
    *,
    codecs: Mapping[Any, str] | None = None,
    tile_size: int | str = "auto",
    level: str = "default",
) -> CompressedDataFrame:
    """Compress the partitions of a Dask DataFrame, lazily.

    Parameters
    ----------
    ddf : dask.dataframe.DataFrame
        With partitions of pandas or cuDF.
    codecs, tile_size, level
        As in ``df.fsst.compress()``.

    Returns
    -------
    CompressedDataFrame
        ``persist()`` keeps its partitions compressed in the memory of the workers, or of their GPUs for cuDF.
        ``decompress()`` makes it a Dask DataFrame again.

    Raises
    ------
    TypeError
        `ddf` is no Dask DataFrame.
    KeyError
        `codecs` names a column that `ddf` does not have.
    ValueError
        A codec, `tile_size` or `level` does not exist. A codec that does not take a column's values is found when the
        partitions are computed.
    """
    import dask.dataframe as dd

    if not isinstance(ddf, dd.DataFrame):
        raise TypeError(f"expected a Dask DataFrame, not {type(ddf).__name__}")
    check_codecs(codecs, ddf.columns)  # here, not on a worker in the end
    check_options(None, tile_size, level)
    ddf = ddf.optimize()
    options = {"codecs": codecs, "tile_size": tile_size, "level": level}
    make = delayed(_compress_partition, pure=True)
    parts = [make(part, options) for part in ddf.to_delayed(optimize_graph=False)]
    divisions = ddf.divisions if ddf.known_divisions else None
    return CompressedDataFrame(parts, ddf._meta, divisions)


def _compress_partition(data: Any, options: dict[str, Any]) -> CompressedFrame:
    return cast(CompressedFrame, data.fsst.compress(**options))


def _decompress_partition(frame: CompressedFrame) -> Any:
    return frame.decompress()


def _select(frame: CompressedFrame, labels: list[Any]) -> CompressedFrame:
    return cast(CompressedFrame, frame[labels])


def _sizes(frame: CompressedFrame) -> tuple[int, int, int, str]:
    return len(frame), frame.uncompressed_nbytes, frame.nbytes, frame.device


class CompressedDataFrame(DaskMethodsMixin):
    """A Dask collection whose partitions are `cudf_fsst.CompressedFrame` objects. `compress` makes it.

    ``compute()`` gives a list of them. ``persist()`` gives the same collection with its partitions in the workers'
    memory.

    Attributes
    ----------
    divisions : tuple
        As a Dask DataFrame has them. All are None where they are not known.
    """

    def __init__(self, partitions: Sequence[Delayed], meta: Any, divisions: tuple[Any, ...] | None) -> None:
        self._partitions, self._meta = tuple(partitions), meta
        self.divisions = divisions or (None,) * (len(self._partitions) + 1)

    @property
    def npartitions(self) -> int:
        """How many partitions there are."""
        return len(self._partitions)

    @property
    def columns(self) -> Any:
        """Labels of the columns."""
        return self._meta.columns

    @property
    def dtypes(self) -> Any:
        """Dtypes of the columns, decompressed."""
        return self._meta.dtypes

    def __repr__(self) -> str:
        return f"CompressedDataFrame of {self.npartitions} partitions and {len(self.columns)} columns"

    def to_delayed(self) -> list[Delayed]:
        """The partitions: a list of ``dask.delayed`` objects, each of which gives a CompressedFrame."""
        return list(self._partitions)

    def decompress(self) -> Any:
        """A Dask DataFrame of the same meta and divisions. Each partition is decompressed when it is needed."""
        import dask.dataframe as dd

        make = delayed(_decompress_partition, pure=True)
        parts = [make(part) for part in self._partitions]
        divisions = self.divisions if self.divisions[0] is not None else None
        with config.set({"dataframe.convert-string": False}):  # dtypes are as they were
            return dd.from_delayed(parts, meta=self._meta, divisions=divisions, verify_meta=False)

    def __getitem__(self, key: Any) -> Any:
        """Select columns: a list gives a CompressedDataFrame that shares them, a label a Dask Series."""
        if not isinstance(key, list):
            return self[[key]].decompress()[key]
        make = delayed(_select, pure=True)
        return CompressedDataFrame([make(part, key) for part in self._partitions], self._meta[key], self.divisions)

    def sizes(self) -> pd.DataFrame:
        """Compute rows, sizes in bytes and devices of the partitions. Without `persist` that compresses all of them."""
        make = delayed(_sizes, pure=True)
        rows = delayed(list)([make(part) for part in self._partitions]).compute()
        return pd.DataFrame(rows, columns=["rows", "uncompressed_nbytes", "nbytes", "device"])

    def persist(self, **options: Any) -> CompressedDataFrame:
        """Compute the partitions and keep them in the workers' memory, compressed.

        Parameters
        ----------
        **options
            As in ``dask.persist``.
        """
        return cast(CompressedDataFrame, dask_persist(self, **options)[0])

    def __dask_graph__(self) -> HighLevelGraph:
        return HighLevelGraph.merge(*(part.__dask_graph__() for part in self._partitions))

    def __dask_keys__(self) -> list[Any]:
        return [part.key for part in self._partitions]

    def __dask_layers__(self) -> tuple[str, ...]:
        return tuple(name for part in self._partitions for name in part.__dask_layers__())

    def __dask_tokenize__(self) -> Any:
        return type(self).__name__, [part.key for part in self._partitions]

    __dask_scheduler__ = staticmethod(Delayed.__dask_scheduler__)
    __dask_optimize__ = staticmethod(optimize)

    def __dask_postcompute__(self) -> tuple[Callable[..., list[Any]], tuple[()]]:
        return list, ()

    def __dask_postpersist__(self) -> tuple[Callable[..., CompressedDataFrame], tuple[()]]:
        return self._persisted, ()

    def _persisted(self, graph: Any, *, rename: Any = None) -> CompressedDataFrame:
        keys = [replace_name_in_key(key, rename) if rename else key for key in self.__dask_keys__()]
        parts = [Delayed(key, {key: graph[key]}) for key in keys]
        return CompressedDataFrame(parts, self._meta, self.divisions)


# A worker that gets a task imports this module for it. It is to know the serializers, too, which are there.
import_module(".dask", __package__)
