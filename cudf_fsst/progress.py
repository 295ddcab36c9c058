"""A progress bar, where standard error is a terminal."""

from __future__ import annotations

import os
import sys
from types import TracebackType
from typing import Any


def console() -> Any:
    """Rich's console on standard error; None where that is no terminal, so that Rich need not be imported."""
    forced = os.environ.get("FORCE_COLOR") or os.environ.get("TTY_COMPATIBLE") == "1"
    if not forced and not (hasattr(sys.stderr, "isatty") and sys.stderr.isatty()):
        return None
    from rich.console import Console

    console = Console(stderr=True, markup=False, emoji=False)
    return console if console.is_terminal else None


class Progress:
    """A context with a bar for steps; of one step nothing is known until it is done, so its bar just moves.

    Parameters
    ----------
    what : str
        What is being done.
    steps : int
        How many there are.
    """

    def __init__(self, what: str, steps: int) -> None:
        self._bar: Any = None
        if (terminal := console()) is None:
            return
        from rich import progress as rich

        columns: list[Any] = [rich.TextColumn("{task.description}", markup=False), rich.BarColumn()]
        if steps > 1:
            columns.append(rich.MofNCompleteColumn())
        self._bar = rich.Progress(*columns, rich.TimeElapsedColumn(), console=terminal, transient=True)
        self._task = self._bar.add_task(what, total=steps if steps > 1 else None)

    def __enter__(self) -> Progress:
        if self._bar is not None:
            self._bar.start()
        return self

    def __exit__(
        self, error_type: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def step(self) -> None:
        """One more is done."""
        if self._bar is not None:
            self._bar.advance(self._task)
