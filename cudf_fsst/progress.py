"""A progress bar, where standard error is a terminal."""

from __future__ import annotations

from types import TracebackType

from rich import progress as rich
from rich.console import Console


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
        columns = [rich.TextColumn("{task.description}", markup=False), rich.BarColumn()]
        if steps > 1:
            columns.append(rich.MofNCompleteColumn())
        console = Console(stderr=True, markup=False, emoji=False)
        self._bar = rich.Progress(
            *columns, rich.TimeElapsedColumn(), console=console, transient=True, disable=not console.is_terminal
        )
        self._task = self._bar.add_task(what, total=steps if steps > 1 else None)

    def __enter__(self) -> Progress:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._bar.stop()

    def step(self) -> None:
        """One more is done."""
        self._bar.advance(self._task)
