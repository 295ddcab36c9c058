"""Parquet files as a compressed frame: what has been read is compressed while threads read what comes next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from ..backend import check_options
from ..codecs.node import Content
from ..frame import CompressedFrame
from ..index import CompressedIndex
from ..interop import cudf as interop_cudf
from ..interop.cudf_parquet import Begun
from ..joining import join_columns, join_indexes
from ..progress import Progress
from .device import DeviceReader
from .host import HostReader
from .reads import read_ahead
from .sources import ParquetSource, Path, bounds_of, find, locate


def read_parquet(
    path: Path | Sequence[Path],
    *,
    columns: Sequence[str] | None = None,
    filters: Any = None,
    codecs: Mapping[Any, str] | None = None,
    level: str = "default",
    device: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
) -> CompressedFrame:
    """Read Parquet files into a compressed frame, piece by piece.

    The table is read, and compressed, piece by piece: while pieces are compressed the next ones are read. So one of
    several pieces is never in memory uncompressed as a whole. The frame
    is `concat` of the pieces, each compressed by itself, whatever memory there is. A piece is a large row group, or
    consecutive small ones: at most 2^21 rows and 128 MiB in Parquet's encodings, or, in a file with more than 32 row
    groups, 2^24 rows and 640 MiB. On a terminal a bar shows how far it has come.

    Parameters
    ----------
    path : path, URL, file object or sequence of paths or URLs
        Of a file, a folder (its files in the order of their names, with columns of folders like ``year=2026``), several
        files, or a pattern as ``"part-*.parquet"``. URLs, as ``"s3://bucket/folder"``, are read through fsspec, in the
        ranges that the columns take. A file object is read from its beginning.
    columns : sequence of str, optional
        Names of the columns to read, in this order; those of the index are read besides. None: all.
    filters : pyarrow.compute.Expression, or list of tuples or of lists of tuples, optional
        Which rows to read, as `pandas.read_parquet` takes them. Row groups that cannot have such rows are not read.
        On a GPU a list.
    codecs, level
        As in ``df.fsst.compress()``; `codecs` takes the names in the files as well.
    device : str
        ``"cpu"``: read with pyarrow, into host memory; ``"gpu"``: with cuDF, into the memory of the current GPU;
        ``"auto"``: on the GPU where one is found.
    storage_options : dict, optional
        For URLs: what fsspec's file system takes, as in `pandas.read_parquet`.

    Returns
    -------
    CompressedFrame
        Labels, dtypes and index are those of `pandas.read_parquet`, on a GPU `cudf.read_parquet`.

    Raises
    ------
    FileNotFoundError
        There is no such file, or no Parquet file in the folder; it is named.
    OSError
        A file cannot be read; it is named.
    ValueError
        A file that is damaged or no Parquet, or has not the columns that are asked for; it is named. Or an unknown
        `level` or codec.
    TypeError
        A column that cannot be compressed; it is named.
    KeyError
        `codecs` names a column that there is not.
    ImportError, RuntimeError
        ``device="gpu"``, and there is no cuDF or no GPU.
    """
    check_options(None, "auto", level)
    on_gpu = interop_cudf.on_gpu(device)
    files = locate(path, storage_options)
    if not on_gpu:
        source = find(files, columns, filters)
        return _read(source, HostReader(source, codecs, level))
    begun = Begun(files.where if files.system is None else None, columns, filters)
    with begun, begun, begun:  # for an interrupt on the way out, see `workers`
        begun.begin()
        source = find(files, columns, filters)
        return _read(source, DeviceReader(source, codecs, level, begun))


def _read(source: ParquetSource, reader: HostReader | DeviceReader) -> CompressedFrame:
    contents_of: list[dict[int, Content]] = [{} for _ in reader.labels]
    labels: dict[int, CompressedIndex] = {}
    rows = 0
    with reader.backend.current():
        with (
            reader.working(),
            Progress("reading Parquet", len(reader.reads)) as progress,
            closing(read_ahead(reader.reads, reader.ahead, reader.backend.current)) as ended,
        ):
            for batch in ended:
                pieces = [read.piece for read, _ in batch]
                for piece, (columns_of, labels_of, count) in zip(pieces, reader.compress(batch), strict=True):
                    for place, content in columns_of.items():
                        contents_of[place][piece] = content
                    if labels_of is not None:
                        labels[piece] = labels_of
                    rows += count
                    progress.step()
                batch.clear()
        contents_in_order = [[by_piece[piece] for piece in sorted(by_piece)] for by_piece in contents_of]
        nodes = join_columns(
            [[content.node for content in contents] for contents in contents_in_order],
            reader.backend,
            [partial("column {!r}".format, label) for label in reader.labels],
        )
        columns = [reader.join(contents, node) for contents, node in zip(contents_in_order, nodes, strict=True)]
        if labels:
            index = join_indexes([labels[piece] for piece in sorted(labels)], reader.backend)
        else:
            index = reader.ranges(_ranges(source, rows))
    return CompressedFrame._make(reader.backend, columns, reader.labels, index)


def _ranges(source: ParquetSource, rows: int) -> list[tuple[range, Any]]:
    """The ranges that the notes tell of, with their names, if they have so many rows, else the plain one."""
    noted = [(bounds_of(level), level["name"]) for level in source.noted]
    return [(bounds, name) for bounds, name in noted if len(bounds) == rows] or [(range(rows), None)]
