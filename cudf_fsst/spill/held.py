"""What a pool may hold, and what it asks of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd

from .. import loading
from ..column import CompressedColumn
from ..interop import cudf as interop_cudf
from ..interop import faithful
from ..interop import pandas as interop_pandas

#: The preamble of a file: its sizes, a checksum of what says where its parts are and what theirs are, and its own.
_HEAD_NBYTES = 64
#: What a compressed value has; first what no Series has, of whose `nbytes` pandas may warn.
_PROTOCOL = ("decompress", "to_host", "to_device", "device", "nbytes", "save")


def is_compressed(value: Any) -> bool:
    """Whether this is a CompressedColumn, a CompressedFrame or something that does as they do."""
    return all(hasattr(value, name) for name in _PROTOCOL)


def check(name: Any, value: Any) -> None:
    """Raise TypeError, naming the entry, for anything that the pool cannot hold."""
    expected = "a Series or DataFrame that can be compressed, or a compressed one"
    # An Index has all a Series has but an index.
    if not (hasattr(value, "memory_usage") and hasattr(value, "index")):
        raise TypeError(f"{name!r}: a pool holds {expected}, not {type(value).__name__}")
    if hasattr(value, "columns") and not hasattr(value, "fsst"):
        raise TypeError(f"{name!r}: a pool holds {expected}; nothing has registered DataFrame.fsst")


def _is_cudf(cls: type) -> bool:
    return cls.__module__.partition(".")[0] == "cudf"


def device_of(value: Any) -> str:
    """``"cpu"``, or ``"cuda:0"`` and so on; a Series or DataFrame of cuDF is taken to be on the current GPU."""
    if is_compressed(value):
        return str(value.device)
    return interop_cudf.current_device() if any(map(_is_cudf, type(value).__mro__)) else "cpu"


def on_device(device: str) -> AbstractContextManager[None]:
    """Make a GPU the current one."""
    return nullcontext() if device == "cpu" else interop_cudf.on_device(device)


def hand_over(device: str) -> None:
    """Let other threads go on with what this one has made on a GPU; an entry is moved by any thread."""
    if device != "cpu":
        with on_device(device):
            interop_cudf.hand_over()


def nbytes_of(value: Any) -> int:
    """Bytes that a value takes, its index included."""
    if not is_compressed(value):
        return _memory_usage(value)
    if isinstance(value, CompressedColumn):  # counts everything but its index
        return value.memory_usage()
    return int(value.nbytes)


def _memory_usage(data: Any) -> int:
    if isinstance(data, pd.DataFrame):  # whose own sum has its labels as index, which not all can be
        return interop_pandas.nbytes(data.index) + sum(
            interop_pandas.nbytes(column, index=False) for _, column in data.items()
        )
    if isinstance(data, (pd.Series, pd.Index)):
        return interop_pandas.nbytes(data)
    used = data.memory_usage()  # of cuDF, which warns of `deep`
    return int(used.sum() if hasattr(used, "sum") else used)


def snapshot(value: Any) -> Any:
    """A value that later changes to the other do not reach: it shares the values by copy-on-write."""
    return value if is_compressed(value) else value.copy(deep=False)


def extras(value: Any) -> Any:
    """Notes on a value that compressing drops, and that `decompress` needs."""
    return faithful.extras(value) if faithful.is_pandas(value) else None


def compress(data: Any) -> Any:
    """A CompressedColumn of a Series, a CompressedFrame of a DataFrame.

    Raises
    ------
    TypeError
        It cannot be compressed, or what `decompress` gave would not be the same: such a value stays as it is.
    """
    if faithful.is_pandas(data):
        faithful.check(data)
    elif not _is_cudf(type(data)):
        raise TypeError(f"a {type(data).__name__} would come back as one of cuDF's own")
    if not hasattr(data, "fsst"):
        raise TypeError(f"a {type(data).__name__} of dtype {data.dtype} cannot be compressed")
    return data.fsst.compress()


def decompress(packed: Any, notes: Any) -> Any:
    """The value that was compressed; `notes`: its `extras`."""
    value = packed.decompress()
    return faithful.restore(value, notes) if faithful.is_pandas(value) else value


def check_file(packed: Any) -> None:
    """Raise TypeError where a compressed value is not the same when it comes from a file."""
    if isinstance(packed, CompressedColumn) and isinstance(packed.index, pd.Index):
        faithful.check_index(packed.index)


def proxied(packed: Any, gives_proxies: bool) -> Any:
    """A compressed value that came back from the host; `gives_proxies`: it gives proxies of cudf.pandas, as before."""
    if gives_proxies:
        packed._proxied = True
    return packed


def load(path: str) -> Any:
    """Read what ``save`` wrote."""
    return loading.load(path)


def head(path: str) -> bytes:
    """The first bytes of what ``save`` wrote, up to the checksum of them: two files that begin so are equal."""
    with open(path, "rb") as file:
        return file.read(_HEAD_NBYTES)


#: Errors that can be made again with another message.
NAMED = (MemoryError, ValueError, TypeError, OSError)


def named(error: Exception, what: str) -> Exception:
    """A built-in error like one of `NAMED` whose message begins with the name of what it happened to."""
    if isinstance(error, OSError) and error.errno is not None:
        return OSError(error.errno, f"{what}: {error.strerror}", error.filename)
    # RMM's own MemoryError and NumPy's become the built-in one, a UnicodeEncodeError a ValueError.
    error_type = next(error_type for error_type in NAMED if isinstance(error, error_type))
    return error_type(f"{what}: {error}")
