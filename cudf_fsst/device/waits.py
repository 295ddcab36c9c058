"""One wait for the work of many: what needs sizes from the GPU is a generator, which yields where it has to wait."""

from __future__ import annotations

from collections.abc import Generator
from inspect import GEN_CLOSED, getgeneratorstate
from typing import Any

from .memory import Lane

#: Work that waits for a lane wherever it yields, and what it returns. It may yield a lane which that one follows, where
#: that is all that has to be waited for.
Steps = Generator[Any, None, Any]


def together(*generators: Steps) -> Steps:
    """Steps of generators side by side, as those of one; a list of what each returned.

    Raises
    ------
    BaseException
        What the first of them raised. The others are closed, after one more wait.
    """
    results: list[Any] = [None] * len(generators)
    waiting = dict(enumerate(generators))
    try:
        while waiting:
            for number, generator in list(waiting.items()):
                try:
                    next(generator)
                except StopIteration as end:
                    results[number] = end.value
                    del waiting[number]
            if waiting:
                yield
    except BaseException as error:
        try:
            if not isinstance(error, GeneratorExit):
                yield  # copies into what the others hold may be under way
        finally:
            for generator in waiting.values():
                generator.close()
        raise
    return results


def run(lane: Lane, *generators: Steps) -> list[Any]:
    """Run generators side by side, with one wait for each step of all of them.

    Parameters
    ----------
    lane
        What the generators wait for. Work that they do in other streams must be ordered before it when they yield, or
        they have to end it themselves when they are closed.
    *generators
        Each is brought to its next yield; then the host waits for the lane, and all go on.

    Returns
    -------
    list
        What each returned.

    Raises
    ------
    BaseException
        What the first of them raised. The others are closed, after what is under way in the lane has ended.
    """
    alone = len(generators) == 1
    steps = generators[0] if alone else together(*generators)
    try:
        while True:
            try:
                needed = next(steps)
            except StopIteration as end:
                return [end.value] if alone else end.value
            (needed or lane).synchronize()
    except BaseException:
        if alone or getgeneratorstate(steps) != GEN_CLOSED:  # `together` has waited for what it raises
            try:
                lane.stream.synchronize()  # copies into what they hold may be under way
            finally:
                steps.close()
        raise
