"""What a pool may hold, and what it asks of it."""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from typing import Any

import pandas as pd

from ..column import CompressedColumn
from ..interop import cudf as interop_cudf
from ..interop import faithful

#: Label of the column that such a Series becomes.
_ONLY = "values"
#: The preamble of a file: its sizes, a checksum of what says where its parts are and what theirs are, and its own.
_HEAD_NBYTES = 64
#: What a compressed value has; first what no Series has, of whose `nbytes` pandas may warn.
_PROTOCOL = ("decompress", "to_host", "to_device", "device", "nbytes", "save")


def is_compressed(value: Any) -> bool:
    """Whether this is a CompressedColumn, a CompressedFrame or something that does as they do."""
    return all(hasattr(value, name) for name in _PROTOCOL)


def check(name: Any, value: Any) -> None:
    """Raise TypeError, naming the entry, for anything that the pool cannot hold."""
    wanted = "a Series or DataFrame that can be compressed, or a compressed one"
    # An Index has all a Series has but an index.
    if not (hasattr(value, "memory_usage") and hasattr(value, "index")):
        raise TypeError(f"{name!r}: a pool holds {wanted}, not {type(value).__name__}")
    if hasattr(value, "columns") and not hasattr(value, "fsst"):
        raise TypeError(f"{name!r}: a pool holds {wanted}; nothing has registered DataFrame.fsst")


def is_framed(value: Any) -> bool:
    """Whether a frame has to compress this Series: one of anything but strings, or of cuDF with an index of its own.

    A frame compresses its index. A column in GPU memory keeps its index as it is.
    """
    if is_compressed(value) or hasattr(value, "columns"):
        return False
    if not hasattr(value, "fsst"):
        return True
    return _is_cudf(type(value)) and "range" not in type(value.index).__name__.lower()


def _is_cudf(kind: type) -> bool:
    return kind.__module__.partition(".")[0] == "cudf"


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
    nbytes = int(value.nbytes)
    if isinstance(value, CompressedColumn):  # counts everything but its index
        nbytes += _memory_usage(value.index)
    return nbytes


def _memory_usage(data: Any) -> int:
    if isinstance(data, pd.DataFrame):  # whose own sum has its labels as index, which not all can be
        return _of_pandas(data.index) + sum(_of_pandas(column, index=False) for _, column in data.items())
    if isinstance(data, (pd.Series, pd.Index)):
        return _of_pandas(data)
    used = data.memory_usage()  # of cuDF, which warns of `deep`
    return int(used.sum() if hasattr(used, "sum") else used)


def _of_pandas(data: Any, **options: bool) -> int:
    try:
        return int(data.memory_usage(deep=True, **options))
    except NotImplementedError:  # pandas cannot count string views deeply
        return int(data.nbytes)


def snapshot(value: Any) -> Any:
    """The same values, which later changes to the other do not reach: shared by copy-on-write."""
    return value if is_compressed(value) else value.copy(deep=False)


def extras(value: Any, framed: bool) -> Any:
    """What compressing does not keep of a value, and `decompress` gives back: of such a Series of cuDF its name."""
    if faithful.is_pandas(value):
        return faithful.extras(value)
    return value.name if framed else None


def compress(data: Any) -> Any:
    """A CompressedColumn of a Series of strings, a CompressedFrame of a DataFrame or any other Series.

    Raises
    ------
    TypeError
        It cannot be compressed, or what `decompress` gave would not be the same: such a value stays as it is.
    """
    if faithful.is_pandas(data):
        faithful.check(data)
    elif not _is_cudf(type(data)):
        raise TypeError(f"a {type(data).__name__} would come back as one of cuDF's own")
    return (data.to_frame(name=_ONLY) if is_framed(data) else data).fsst.compress()


def decompress(packed: Any, framed: bool, found: Any) -> Any:
    """What `compress` was given; `framed`: it was such a Series; `found`: its `extras`."""
    value = packed[_ONLY] if framed else packed.decompress()
    if faithful.is_pandas(value):
        return faithful.restore(value, found)
    if framed:
        value.name = found
    return value


def check_file(packed: Any) -> None:
    """Raise TypeError where a compressed value is not the same when it comes from a file."""
    if isinstance(packed, CompressedColumn) and isinstance(packed.index, pd.Index):
        faithful.check_index(packed.index)


def proxied(packed: Any, wanted: bool) -> Any:
    """A compressed value that came back from the host; `wanted`: it gives cudf.pandas proxies, as it did before."""
    if wanted:
        packed._proxied = True
    return packed


def load(path: str) -> Any:
    """Read what ``save`` wrote."""
    import cudf_fsst  # this package, when all of it is there

    return cudf_fsst.load(path)


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
    kind = next(kind for kind in NAMED if isinstance(error, kind))
    return kind(f"{what}: {error}")
