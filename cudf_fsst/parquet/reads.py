"""What is read at once: some columns of a piece; and how much of it at the same time, in threads."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, NamedTuple

from ..codecs.node import Content
from ..index import CompressedIndex
from .sources import Piece

#: Bytes of a value in memory, at least; of strings an offset and some characters, which Parquet does not tell.
_WIDTHS = {
    "BOOLEAN": 1,
    "INT32": 4,
    "FLOAT": 4,
    "INT64": 8,
    "DOUBLE": 8,
    "INT96": 8,
    "FIXED_LEN_BYTE_ARRAY": 16,
    "BYTE_ARRAY": 20,
}
#: Bytes of a table of some columns, about; a column that has more is read by itself.
_SHARE_NBYTES = 512 << 20


@dataclass(frozen=True)
class Read:
    """Columns of a piece that are read together.

    Attributes
    ----------
    piece : int
        Number of the piece.
    share : int
        Which of its columns, see `shares`.
    nbytes : int
        Memory that reading and the table take, about.
    call : callable
        Reads, in any thread.
    """

    piece: int
    share: int
    nbytes: int
    call: Callable[[], Any]


class Compressed(NamedTuple):
    """What has become of a read.

    Attributes
    ----------
    columns : dict
        By their places in the frame.
    labels : CompressedIndex or None
        None where it is a range, or of another read.
    rows : int
        0 where another read of the piece has them.
    """

    columns: dict[int, Content]
    labels: CompressedIndex | None
    rows: int


@dataclass(frozen=True)
class Sizes:
    """Bytes of a column for each row, by its file's first row group.

    Attributes
    ----------
    table : float
        In memory; of strings that repeat an estimate.
    encoded : float
        In Parquet's encodings, compressed and decompressed.
    """

    table: float
    encoded: float


def sizes(piece: Piece, names: Sequence[str]) -> dict[str, Sizes] | None:
    """Sizes of all columns of the file that a piece is of; None where these do not have such `names`."""
    group = piece.fragment.metadata.row_group(piece.groups[0])
    rows, left = max(group.num_rows, 1), deque(names)
    found: dict[str, Sizes] = {}
    for number in range(group.num_columns):
        chunk = group.column(number)
        path = chunk.path_in_schema
        name = next(reversed(found), None)
        if name is None or not path.startswith(f"{name}."):  # else it is another leaf of a nested column
            if not left or not (path == left[0] or path.startswith(f"{left[0]}.")):
                return None
            name = left.popleft()
            found[name] = Sizes(0, 0)
        plain = chunk.total_uncompressed_size / rows
        table = max(plain, _WIDTHS.get(chunk.physical_type, 0))
        encoded = plain + chunk.total_compressed_size / rows
        found[name] = Sizes(found[name].table + table, found[name].encoded + encoded)
    return None if left else found


def shares(names: Sequence[str], found: dict[str, Sizes] | None, rows: int) -> list[list[str]]:
    """Consecutive columns that are read together; so many `rows` at most."""
    if found is None:
        return [list(names)]
    made: list[list[str]] = [[]]
    nbytes = 0.0
    for name in names:
        own = found[name].table * rows
        if made[-1] and nbytes + own > _SHARE_NBYTES:
            made.append([])
            nbytes = 0.0
        made[-1].append(name)
        nbytes += own
    return made


class Ahead(NamedTuple):
    """How much is read at the same time.

    Attributes
    ----------
    threads : int
    nbytes : int
        Of reads that have begun and of what is being used, at most. One of more bytes is read alone.
    at_once : int
        Reads that are given together when they have ended, at most.
    """

    threads: int
    nbytes: int
    at_once: int


def read_ahead(
    reads: Sequence[Read], ahead: Ahead, context: Callable[[], Any]
) -> Generator[list[tuple[Read, Any]], None, None]:
    """Reads that have ended, with what they gave; while these are used, threads read what comes next.

    Parameters
    ----------
    reads
        They begin in this order.
    ahead
    context : callable
        Makes what a thread reads in.
    """

    def result(read: Read) -> Any:
        with context():
            return read.call()

    waiting, running, nbytes = deque(reads), dict[Future[Any], Read](), 0
    with ThreadPoolExecutor(ahead.threads, "cudf-fsst-parquet") as pool:
        while waiting or running:
            while waiting and (not nbytes or nbytes + waiting[0].nbytes <= ahead.nbytes):
                read = waiting.popleft()
                running[pool.submit(result, read)] = read
                nbytes += read.nbytes
            wait(running, return_when=FIRST_COMPLETED)
            ended = [future for future in running if future.done()][: ahead.at_once]
            found = [(running.pop(future), future.result()) for future in ended]
            ended.clear()
            used = sum(read.nbytes for read, _ in found)
            yield found
            found.clear()
            nbytes -= used
