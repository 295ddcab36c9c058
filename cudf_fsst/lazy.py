"""What is made when it is asked for, and kept with the object that it follows from.

In one of two ways: `lazy`, an attribute that the class declares, and `Kept`, what a room above knows of objects of one
below, `kept_with` where a function makes it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

_T = TypeVar("_T")
_K = TypeVar("_K")


class lazy(Generic[_T]):
    """A `functools.cached_property` without the lock that Python 3.11 has in it.

    That is one lock for all objects of a class: threads would wait for each other, and a process that is forked while
    one of them holds it would wait for ever. Two threads may both make the same value; both get the one that is kept,
    so what takes the address of an array need not hold the array besides its object.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> _T:
        if instance is None:
            return self  # type: ignore[return-value]  # what documentation tools ask for
        value: _T = instance.__dict__.setdefault(self._name, self._make(instance))
        return value


class Kept(Generic[_K, _T]):
    """What is known of objects, as long as they live; it must not refer to them. Of `most` objects, the last ones."""

    def __init__(self, most: int | None = None) -> None:
        self._most = most
        self._made: WeakKeyDictionary[_K, _T] = WeakKeyDictionary()

    def get(self, of: _K) -> _T | None:
        """What is known of an object, or None."""
        return self._made.get(of)

    def keep(self, of: _K, value: _T) -> _T:
        """Keep what is known of an object; it is returned."""
        if self._most is not None:
            references = self._made.keyrefs()  # in one step: threads may add others meanwhile
            for reference in references[: max(0, len(references) - self._most + 1)]:
                if (oldest := reference()) is not None:
                    self._made.pop(oldest, None)
        self._made[of] = value
        return value


class _KeptWith(Kept[_K, _T]):
    """What a function makes of objects."""

    def __init__(self, make: Callable[[_K], _T], most: int | None) -> None:
        super().__init__(most)
        self._make = make
        update_wrapper(self, make)

    def __call__(self, of: _K) -> _T:
        found = self.get(of)
        return self.keep(of, self._make(of)) if found is None else found


def kept_with(most: int | None = None) -> Callable[[Callable[[_K], _T]], _KeptWith[_K, _T]]:
    """Keep what a function makes of an object, which must not refer to it, as long as that lives.

    Of more than `most` objects only the last are kept. None is not kept.
    """
    return lambda make: _KeptWith(make, most)
