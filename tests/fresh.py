"""Files loaded in a process that has done nothing but import the package and decode some bytes.

What a process did before can hide what loading lacks: pandas registers some of its Arrow types when it first makes an
array of one. Starting Python takes a second, and loading what Numba compiled another, so one server does both, and
forks a child for each question.
"""

from __future__ import annotations

import atexit
import functools
import os
import pickle
import subprocess
import sys
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

_lock = threading.Lock()


def check(path: Any, function: Callable[..., None], *wanted: Any) -> None:
    """Call ``function(cudf_fsst.load(path), *wanted)`` in a fresh process, for which a module has to hold `function`.

    Raises
    ------
    AssertionError
        It failed; the message is its traceback.
    """
    with _lock:
        server = _server()
        assert server.stdin is not None
        assert server.stdout is not None
        pickle.dump((os.fspath(path), pickle.dumps((function, wanted))), server.stdin)
        server.stdin.flush()
        failure = pickle.load(server.stdout)
    if failure is not None:
        raise AssertionError(f"in a fresh process:\n{failure}")


def same_series(path: Any, wanted: Any) -> None:
    """Check that a stored column is this Series, in a fresh process."""
    check(path, _same_series, wanted)


def same_frame(path: Any, wanted: Any) -> None:
    """Check that a stored frame is this DataFrame, in a fresh process."""
    check(path, _same_frame, wanted)


def _same_series(found: Any, wanted: Any) -> None:
    import pandas as pd

    pd.testing.assert_series_equal(found.decompress(), wanted, check_freq=True)
    same_index(found.index, wanted.index)


def _same_frame(found: Any, wanted: Any) -> None:
    import pandas as pd

    made = found.decompress()
    pd.testing.assert_frame_equal(made, wanted, check_freq=True)
    assert list(map(str, made.dtypes)) == list(map(str, wanted.dtypes))
    same_index(made.index, wanted.index)
    same_index(made.columns, wanted.columns)


def same_index(found: Any, wanted: Any) -> None:
    """Check names, kind, dtypes (of levels too) and labels with their types."""
    import pandas as pd

    # As a level a range is its integers.
    pd.testing.assert_index_equal(found, wanted, exact="equiv" if isinstance(wanted, pd.MultiIndex) else True)
    assert type(found) is type(wanted)
    assert found.names == wanted.names
    kinds = [
        [str(level.dtype) for level in (index.levels if isinstance(index, pd.MultiIndex) else [index])]
        for index in (found, wanted)
    ]
    assert kinds[0] == kinds[1]
    assert [type(label) for label in found] == [type(label) for label in wanted]


@functools.cache
def _server() -> subprocess.Popen[bytes]:
    import cudf_fsst

    folders = [str(Path(cudf_fsst.__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    # A process with threads had better not be forked.
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(filter(None, folders)), "OPENBLAS_NUM_THREADS": "1"}
    command = [sys.executable, __file__]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, env=environment)
    atexit.register(_end, server)
    return server


def _end(server: subprocess.Popen[bytes]) -> None:
    assert server.stdin is not None
    assert server.stdout is not None
    server.stdin.close()
    server.wait()
    server.stdout.close()


def _load_compiled() -> None:
    """Load what Numba compiled, without making anything of pandas or Arrow."""
    from cudf_fsst.codecs.registry import is_text
    from cudf_fsst.codecs.text import cpu as text
    from cudf_fsst.codecs.values import cpu
    from stored_file import load_stored

    for path in sorted((Path(__file__).parent / "golden").rglob("*.fsst")):
        for codec, parts in load_stored(path).streams:
            if is_text(codec):
                text.read(parts)
            elif parts:
                cpu.read(parts, parts[0].itemsize)


def _serve() -> None:
    import cudf_fsst

    _load_compiled()
    assert threading.active_count() == 1  # which a fork would lose
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what is printed is no answer
        while True:
            try:
                path, question = pickle.load(sys.stdin.buffer)
            except EOFError:
                return
            child = os.fork()
            if child == 0:
                failure = None
                try:
                    warnings.simplefilter("error")
                    found = cudf_fsst.load(path)  # before what is unpickled imports anything
                    function, wanted = pickle.loads(question)
                    function(found, *wanted)
                except BaseException:
                    failure = traceback.format_exc()
                pickle.dump(failure, answers)
                answers.flush()
                os._exit(0)
            _, status = os.waitpid(child, 0)
            if status != 0:
                pickle.dump(f"the process ended with {os.waitstatus_to_exitcode(status)}", answers)
                answers.flush()


if __name__ == "__main__":
    _serve()
