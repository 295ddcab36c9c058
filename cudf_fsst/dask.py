"""Dask: compressed spilling, compressed transfers between workers, and collections that stay compressed.

``enable(client)`` makes ``distributed`` write DataFrames and Series of cuDF and pandas compressed, wherever it
serializes them: when dask-cuda's workers spill from the GPU to the host, when any worker spills to disk, and between
workers, over TCP and UCX. Code that uses Dask stays as it is. Without a client, give workers a plugin or a preload::

    client.register_plugin(cudf_fsst.dask.Plugin())
    dask worker --preload cudf_fsst.dask ...        # the same for `dask cuda worker`

Data that leaves a GPU over TCP or by spilling is compressed on the way into pinned host memory, as
``df.fsst.to_host()`` does, and decompressed on arrival. Over UCX it is compressed in GPU memory and stays there. All
processes that take part need this package. A process that has imported this module can read what others send.

The p2p shuffle sends Arrow tables through host memory, and compresses nothing. Dask prefers it for merges, shuffles and
sorts. With ``dask.config.set({"dataframe.shuffle.method": "tasks"})`` shuffles move DataFrames.

`compress` makes a collection whose partitions are kept compressed. It needs none of the above.
"""

from __future__ import annotations

import logging
import pickle
import sys
import threading
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd

try:
    from dask import config
    from dask.sizeof import sizeof
    from dask.utils import Dispatch, parse_bytes
    from distributed import WorkerPlugin
    from distributed.protocol import dask_deserialize, dask_serialize
    from distributed.protocol.cuda import cuda_deserialize, cuda_serialize
except ModuleNotFoundError as error:
    raise ImportError(f"{__name__} needs Dask ({error}); in a clone of cudf-fsst: pip install '.[dask]'") from error

from .backend import DeviceBackend, HostBackend
from .column import CompressedColumn
from .dask_frames import CompressedDataFrame, compress
from .frame import CompressedFrame
from .interop import faithful

__all__ = ["CompressedDataFrame", "Plugin", "compress", "disable", "enable", "stats"]

logger = logging.getLogger(__name__)

# What a header that `_write` made says, and the version of what it says.
_MARK = "cudf-fsst"
_VERSION = 4
# Host buffers below this go into the header: a frame of a message costs more than copying them.
_INLINE_NBYTES = 4096
_PLUGIN = "cudf-fsst"
_DEFAULTS = {"threshold": "1 MiB", "min-ratio": 1.1}


@dataclass(frozen=True)
class _Options:
    """What is compressed: objects of `threshold` bytes a column, which `min_ratio` pays for."""

    threshold: int
    min_ratio: float


_options: _Options | None = None
_clients: weakref.WeakSet[Any] = weakref.WeakSet()
_lock = threading.Lock()
_counts = dict.fromkeys(("written", "uncompressed_nbytes", "nbytes", "passed", "failed", "read"), 0)


def _count(**more: int) -> None:
    with _lock:
        for name, number in more.items():
            _counts[name] += number


def stats() -> dict[str, int]:
    """Counts of what this process has serialized since it was started.

    ``client.run(cudf_fsst.dask.stats)`` gives those of all workers.

    Returns
    -------
    dict of str to int
        ``written`` counts objects that were written compressed: ``uncompressed_nbytes`` before, ``nbytes`` after.
        ``read`` counts objects that were decompressed. ``passed`` counts objects that were too small or did not become
        smaller. ``failed`` counts objects that could not be compressed. The last two were serialized as without this
        package.
    """
    with _lock:
        return dict(_counts)


# On and off ---------------------------------------------------------------------------------------------------------


def enable(client: Any = None, *, threshold: int | str | None = None, min_ratio: float | None = None) -> None:
    """Compress what is serialized, in this process and on the workers of a client.

    Parameters
    ----------
    client : distributed.Client, optional
        Its workers get a `Plugin`, those that are started later too.
    threshold : int or str, optional
        Objects with fewer bytes a column, on average, are serialized as before. Bytes, or a text such as ``"1 MiB"``.
        The default is ``cudf-fsst.threshold`` of Dask's configuration, else 1 MiB.
    min_ratio : float, optional
        Objects that do not become smaller by this factor are serialized as before. The default is
        ``cudf-fsst.min-ratio`` of Dask's configuration, else 1.1. It does not hold from a GPU to the host, where the
        copy into pinned memory saves time in any case.

    Raises
    ------
    ValueError
        `threshold` or `min_ratio` is negative, or a text is no size.

    Notes
    -----
    Without a client, the process that gets objects of this one must have imported this module.

    An object that cannot be compressed, or would come back changed, is serialized as before and logged. Such are pandas
    columns of mixed objects, or of objects with missing values other than None.
    """
    global _options
    options = _checked(threshold, min_ratio)
    with _lock:
        _options = options
        for dispatch, cls in _registry():
            registered = dispatch._lookup.get(cls)
            if not isinstance(registered, _Writer):
                dispatch.register(cls, _Writer(cls, dispatch is cuda_serialize, registered))
    if client is not None:
        client.register_plugin(Plugin(threshold=options.threshold, min_ratio=options.min_ratio))
        _clients.add(client)


def disable(client: Any = None) -> None:
    """Serialize as before `enable`. Data that is compressed already can still be read.

    Parameters
    ----------
    client : distributed.Client, optional
        Its workers lose the plugin that `enable` gave them.
    """
    global _options
    with _lock:
        _options = None
        for dispatch in (dask_serialize, cuda_serialize):
            # Subclasses have entries of their own, with which Dask remembers what it looked up.
            for cls, registered in [*dispatch._lookup.items()]:
                if isinstance(registered, _Writer):
                    del dispatch._lookup[cls]
                    if registered.before is not None and registered.cls is cls:
                        dispatch._lookup[cls] = registered.before
    if client in _clients:
        _clients.remove(client)
        client.unregister_worker_plugin(_PLUGIN)


def _checked(threshold: int | str | None, min_ratio: float | None) -> _Options:
    if threshold is None:
        threshold = config.get("cudf-fsst.threshold", _DEFAULTS["threshold"])
    if min_ratio is None:
        min_ratio = float(config.get("cudf-fsst.min-ratio", _DEFAULTS["min-ratio"]))
    nbytes = parse_bytes(threshold)
    if nbytes < 0:
        raise ValueError(f"threshold must be at least 0, not {threshold!r}")
    if not min_ratio >= 0:
        raise ValueError(f"min_ratio must be at least 0, not {min_ratio!r}")
    return _Options(nbytes, min_ratio)


class Plugin(WorkerPlugin):
    """A worker plugin that enables compressed spilling and transfers on every worker.

    Parameters
    ----------
    threshold, min_ratio
        As in `enable`.
    """

    name = _PLUGIN

    def __init__(self, *, threshold: int | str | None = None, min_ratio: float | None = None) -> None:
        checked = _checked(threshold, min_ratio)
        self.threshold, self.min_ratio = checked.threshold, checked.min_ratio

    def setup(self, worker: Any) -> None:
        """Enable on a worker."""
        _limit_pinned(worker)
        enable(threshold=self.threshold, min_ratio=self.min_ratio)

    def teardown(self, worker: Any) -> None:
        """Disable on a worker."""
        disable()


def dask_setup(worker: Any) -> None:
    """What ``--preload cudf_fsst.dask`` calls."""
    _limit_pinned(worker)
    enable()


def dask_teardown(worker: Any) -> None:
    """What a preload calls when the worker ends."""
    disable()


def _limit_pinned(worker: Any) -> None:
    """Let each of several workers of a host pin half of the memory that is its own."""
    limit = getattr(getattr(worker, "memory_manager", None), "memory_limit", None)
    if limit and _cudf() is not None:
        from .device.pinned import set_pinned_limit

        set_pinned_limit(int(limit) // 2)


# Serializers --------------------------------------------------------------------------------------------------------


def _cudf() -> Any:
    """The cuDF module, if this package could import it."""
    return sys.modules.get("cudf")


def _classes() -> list[type]:
    classes = [pd.DataFrame, pd.Series]
    cudf = _cudf()
    return classes if cudf is None else [*classes, cudf.DataFrame, cudf.Series]


def _registry() -> Iterator[tuple[Dispatch, type]]:
    """Where `_Writer` objects go."""
    for cls in _classes():
        yield dask_serialize, cls
        if cls not in (pd.DataFrame, pd.Series):
            yield cuda_serialize, cls


def _before(dispatch: Dispatch, cls: type) -> Callable[..., Any] | None:
    """What `dispatch` has for the bases of a class.

    Looked up when it is needed: dask-cuda decides late whether cuDF's serializers are there at all.
    """
    try:
        return cast(Callable[..., Any], dispatch.dispatch(cls.__mro__[1]))
    except TypeError:
        return None


@dataclass(frozen=True)
class _Writer:
    """Serialize objects of a class compressed, or as before."""

    cls: type
    on_device: bool
    before: Callable[..., Any] | None = None

    def __call__(self, data: Any) -> tuple[dict[str, Any], list[Any]]:
        exactly = type(data) is self.cls  # of subclasses nothing is known
        options = _options
        if exactly and options is not None:
            try:
                serialized = _write(data, self.on_device, options)
            except Exception as error:  # whatever it is, the object is handed on as before, and the log says why
                _count(failed=1)
                expected = isinstance(error, TypeError)
                logger.log(
                    logging.INFO if expected else logging.WARNING,
                    "a %s of %d rows is serialized without compression: %s",
                    self.cls.__name__,
                    len(data),
                    error,
                    exc_info=not expected,
                )
            else:
                if serialized is not None:
                    return serialized
        before = self.before or _before(cuda_serialize if self.on_device else dask_serialize, self.cls)
        if before is None:
            raise NotImplementedError(self.cls.__name__)  # the next family of serializers takes it
        return cast(tuple[dict[str, Any], list[Any]], before(data))


@dataclass(frozen=True)
class _PartReader:
    """Deserialize what a `_Writer` made, compressed or not."""

    cls: type
    on_device: bool
    before: Callable[..., Any] | None = None

    def __call__(self, header: dict[str, Any], frames: list[Any]) -> Any:
        if _MARK in header:
            return _read(header, frames)
        before = self.before or _before(cuda_deserialize if self.on_device else dask_deserialize, self.cls)
        if before is None:
            raise TypeError(f"No dispatch for {self.cls}")
        return before(header, frames)


def _write(data: Any, on_device: bool, options: _Options) -> tuple[dict[str, Any], list[Any]] | None:
    """Header and frames of a DataFrame or Series; None if it is to pass as before."""
    host = isinstance(data, (pd.DataFrame, pd.Series))
    notes: dict[str, Any] = {"cudf": not host, "series": not hasattr(data, "columns")}
    if host:
        notes["extras"] = faithful.extras(data)
    elif notes["series"]:
        notes["name"] = data.name
    table = data.to_frame(name=0) if notes["series"] else data
    if _nbytes(table) < options.threshold * max(1, table.shape[1]):
        _count(passed=1)
        return None
    if host:
        faithful.check(data)
    frame = table.fsst.compress() if on_device or host else table.fsst.to_host()
    if (on_device or host) and frame.nbytes * options.min_ratio > frame.uncompressed_nbytes:
        _count(passed=1)
        return None
    packed = _take_apart(frame, notes)
    _count(written=1, uncompressed_nbytes=frame.uncompressed_nbytes, nbytes=frame.nbytes)
    return packed


def _nbytes(table: Any) -> int:
    """Bytes of a DataFrame (of Python objects only the references)."""
    if isinstance(table, pd.DataFrame):
        return int(table.memory_usage().sum())
    from .interop import cudf

    return cudf.nbytes(table)


def _read(header: dict[str, Any], frames: list[Any]) -> Any:
    frame, notes = _put_together(header, frames)
    if notes["cudf"]:
        data = frame.to_cudf()
    else:
        data = frame.decompress()
    _count(read=1)
    if notes["series"]:
        data = data[0]
    if "extras" in notes:
        return faithful.restore(data, notes["extras"])
    if notes["series"]:
        data.name = notes["name"]
    return data


def _take_apart(frame: CompressedFrame, notes: Any) -> tuple[dict[str, Any], list[Any]]:
    """Header and frames of a compressed frame: its buffers, uncopied, and all the rest, pickled."""
    on_device = frame.device != "cpu"
    frames: list[Any] = []

    def without(part: Any) -> Any:
        attributes = {}
        for name in ("meta", "codes"):
            buffer = getattr(part, name)
            if on_device:
                frames.append(buffer)
            elif buffer.nbytes >= _INLINE_NBYTES:
                frames.append(memoryview(np.ascontiguousarray(buffer)))
            else:
                attributes[name] = np.array(buffer)  # not the larger array that it may be a part of
        return replace(part, **{"meta": None, "codes": None, **attributes})

    columns, levels = (
        [replace(column, node=column.node.with_parts(map(without, column.node.parts))) for column in contents]
        for contents in (frame._columns, frame._index.levels)
    )
    state = (columns, frame._labels, frame._index.with_levels(levels), frame._proxied)
    header: dict[str, Any] = {_MARK: _VERSION, "state": pickle.dumps((state, notes), protocol=5)}
    if on_device:  # as cuDF's own serializers say it
        header |= {"is-cuda": [True] * len(frames), "lengths": [buffer.size for buffer in frames]}
    return header, frames


def _put_together(header: Mapping[str, Any], frames: Sequence[Any]) -> tuple[CompressedFrame, Any]:
    """A compressed frame of what `_take_apart` gave, where its buffers are, and the notes."""
    if header[_MARK] != _VERSION:
        raise ValueError(f"serialized by another version of cudf_fsst: version {header[_MARK]}, not {_VERSION}")
    on_device = "is-cuda" in header
    (columns, labels, index, proxied), notes = pickle.loads(header["state"])
    buffers = map(_device_buffer if on_device else _host_buffer, frames)

    def filled(part: Any) -> Any:
        missing = [name for name in ("meta", "codes") if getattr(part, name) is None]
        return replace(part, **{name: next(buffers) for name in missing})

    columns, levels = (
        [replace(column, node=column.node.with_parts(map(filled, column.node.parts))) for column in contents]
        for contents in (columns, index.levels)
    )
    backend = DeviceBackend() if on_device else HostBackend()
    return CompressedFrame._make(backend, columns, labels, index.with_levels(levels), proxied), notes


def _host_buffer(frame: Any) -> Any:
    array = np.frombuffer(frame, np.uint8)
    # Of arrays that cannot be written to, Numba would compile everything once more.
    return array if array.flags.writeable else array.copy()


def _device_buffer(frame: Any) -> Any:
    import rmm

    if isinstance(frame, rmm.DeviceBuffer):
        return frame
    if hasattr(frame, "__cuda_array_interface__"):
        return rmm.DeviceBuffer(ptr=frame.__cuda_array_interface__["data"][0], size=frame.nbytes)
    return rmm.DeviceBuffer.to_device(memoryview(frame))


def _write_frame(frame: CompressedFrame) -> tuple[dict[str, Any], list[Any]]:
    return _take_apart(frame.to_host(), frame.device != "cpu")


def _write_frame_on_device(frame: CompressedFrame) -> tuple[dict[str, Any], list[Any]]:
    if frame.device == "cpu":
        raise NotImplementedError("a CompressedFrame in host memory")  # the family "dask" takes it
    return _take_apart(frame, True)


def _read_frame(header: dict[str, Any], frames: list[Any]) -> CompressedFrame:
    frame, on_device = _put_together(header, frames)
    return frame.to_device() if on_device else frame


def _register() -> None:
    """Everything that changes nothing for objects of other packages."""
    for cls in _classes():
        dask_deserialize.register(cls, _PartReader(cls, False, dask_deserialize._lookup.get(cls)))
        if cls not in (pd.DataFrame, pd.Series):
            cuda_deserialize.register(cls, _PartReader(cls, True, cuda_deserialize._lookup.get(cls)))
    dask_serialize.register(CompressedFrame, _write_frame)
    cuda_serialize.register(CompressedFrame, _write_frame_on_device)
    for dispatch in (dask_deserialize, cuda_deserialize):
        dispatch.register(CompressedFrame, _read_frame)
    sizeof.register((CompressedFrame, CompressedColumn), sys.getsizeof)
    try:
        from dask_cuda.is_device_object import is_device_object
    except ImportError:
        return
    is_device_object.register((CompressedFrame, CompressedColumn), lambda data: data.device != "cpu")


_register()
