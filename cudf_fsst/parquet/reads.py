"""What is read at once: some columns of a piece; and how much of it at the same time, in threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from functools import partial
from operator import itemgetter
from queue import SimpleQueue
from typing import Any, NamedTuple

from ..codecs.node import Content
from ..index import CompressedIndex
from ..workers import TaskGroup
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
_SHARE_NBYTES = 384 << 20


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
    table_nbytes : int or None
        What of it the table takes, which is left when it has been read. None: all.
    """

    piece: int
    share: int
    nbytes: int
    call: Callable[[], Any]
    table_nbytes: int | None = None

    @property
    def left_nbytes(self) -> int:
        """Memory that is left when it has been read."""
        return self.nbytes if self.table_nbytes is None else self.table_nbytes


class Compressed(NamedTuple):
    """The compressed columns of a read.

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
    rows, unmatched = max(group.num_rows, 1), deque(names)
    size_of: dict[str, Sizes] = {}
    for number in range(group.num_columns):
        chunk = group.column(number)
        path = chunk.path_in_schema
        name = next(reversed(size_of), None)
        if name is None or not path.startswith(f"{name}."):  # else it is another leaf of a nested column
            if not unmatched or not (path == unmatched[0] or path.startswith(f"{unmatched[0]}.")):
                return None
            name = unmatched.popleft()
            size_of[name] = Sizes(0, 0)
        plain = chunk.total_uncompressed_size / rows
        table = max(plain, _WIDTHS.get(chunk.physical_type, 0))
        encoded = plain + chunk.total_compressed_size / rows
        size_of[name] = Sizes(size_of[name].table + table, size_of[name].encoded + encoded)
    return None if unmatched else size_of


def shares(names: Sequence[str], size_of: dict[str, Sizes] | None, rows: int) -> list[list[str]]:
    """`names`, cut into lists of consecutive columns that are read together; a read has at most so many `rows`."""
    if size_of is None:
        return [list(names)]
    groups: list[list[str]] = [[]]
    nbytes = 0.0
    for name in names:
        nbytes_of_column = size_of[name].table * rows
        if groups[-1] and nbytes + nbytes_of_column > _SHARE_NBYTES:
            groups.append([])
            nbytes = 0.0
        groups[-1].append(name)
        nbytes += nbytes_of_column
    return groups


class Ahead(NamedTuple):
    """How much is read at the same time.

    Attributes
    ----------
    threads : int
    nbytes : int
        Of reads that have begun and of what is being used, at most. One of more bytes is read alone.
    at_once : int
        Reads that are given together when they have ended, at most.
    at_least : int
        So many are waited for, as long as others are under way.
    early_nbytes : int
        Besides `nbytes` while nothing has been used, and less the more has: what is made of it takes memory then.
    """

    threads: int
    nbytes: int
    at_once: int
    at_least: int = 1
    early_nbytes: int = 0


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
    waiting = deque(enumerate(reads))
    ended: SimpleQueue[tuple[int, Read, Any, BaseException | None]] = SimpleQueue()
    #: Bytes and reads that are done with, until `begin` takes them off `nbytes_in_use` and `running`.
    freed: deque[tuple[int, int]] = deque()
    beginning, nbytes_in_use, running, begun = threading.Lock(), 0, 0, 0

    def work(number: int, read: Read) -> None:
        result, error_raised = None, None
        try:
            with context():
                result = read.call()
        except BaseException as error:  # raised by who waits
            error_raised = error
        freed.append((read.nbytes - read.left_nbytes, 1))
        ended.put((number, read, result, error_raised))
        del result, error_raised
        begin()  # whatever what has ended is used for meanwhile

    def begin() -> None:
        nonlocal nbytes_in_use, running, begun
        # Nobody waits for this lock, which an interrupt may leave as it is. Who has it looks again after that.
        while beginning.acquire(blocking=False):
            try:
                while freed:
                    nbytes, count = freed.popleft()
                    nbytes_in_use -= nbytes
                    running -= count
                limit = ahead.nbytes + ahead.early_nbytes * remaining // max(len(reads), 1)
                while (
                    waiting
                    and running < ahead.threads
                    and (not nbytes_in_use or nbytes_in_use + waiting[0][1].nbytes <= limit)
                ):
                    number, read = waiting.popleft()
                    nbytes_in_use += read.nbytes
                    running += 1
                    begun += 1
                    try:
                        group.begin(partial(work, number, read))
                    except BaseException as error:  # no thread, say; who waits is told, whichever thread this is
                        waiting.clear()
                        ended.put((number, read, None, error))
            finally:
                beginning.release()
            if not freed:
                return

    remaining, received = len(reads), 0
    completed: list[tuple[int, Read, Any, BaseException | None]] = []
    group = TaskGroup(ahead.threads)
    with group, group, group:
        begin()
        while remaining:
            while not completed or not ended.empty() or (len(completed) < ahead.at_least and received < begun):
                completed.append(ended.get())
                received += 1
            completed.sort(key=itemgetter(0))
            batch, completed = completed[: ahead.at_once], completed[ahead.at_once :]
            failure = next((error for _, _, _, error in batch if error is not None), None)
            if failure is not None:
                try:
                    raise failure
                finally:  # its traceback has this frame
                    del failure
                    batch.clear()
                    completed.clear()
            results = [(read, data) for _, read, data, _ in batch]
            batch.clear()
            remaining -= len(results)
            used = sum(read.left_nbytes for read, _ in results)
            yield results
            results.clear()
            freed.append((used, 0))
            begin()
