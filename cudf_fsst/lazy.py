"""What is derived from an object when it is first asked for, and cached as long as the object lives.

In one of two ways: `lazy`, an attribute that the class declares, and `WeakCache`, what a room above knows of objects of
one below; `weakly_cached` is the decorator of a function that derives it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import update_wrapper
from typing import Any, Generic, TypeVar
from weakref import ref

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
        return instance.__dict__.setdefault(self._name, self._make(instance))


class WeakCache(Generic[_K, _T]):
    """A value for each of some objects, equal ones or not, as long as these live; it must not refer to them.

    Of more than `limit` objects, only those of the last ones are kept.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._values: dict[int, tuple[ref[_K], _T]] = {}  # by the identity of what is alive

    def get(self, key: _K) -> _T | None:
        """The value of an object, or None."""
        found = self._values.get(id(key))
        return None if found is None else found[1]

    def put(self, key: _K, value: _T) -> _T:
        """Set the value of an object, and return it."""
        values, number = self._values, id(key)
        if self._limit is not None:
            for oldest in list(values)[: max(0, len(values) - self._limit + 1)]:  # threads may add others meanwhile
                values.pop(oldest, None)
        values[number] = ref(key, lambda _: values.pop(number, None)), value
        return value


class _WeaklyCached(WeakCache[_K, _T]):
    """A function of one object that calls another one only where it has no value of the object."""

    def __init__(self, make: Callable[[_K], _T], limit: int | None) -> None:
        super().__init__(limit)
        self._make = make
        update_wrapper(self, make)

    def __call__(self, key: _K) -> _T:
        found = self._values.get(id(key))
        return self.put(key, self._make(key)) if found is None or found[1] is None else found[1]


def weakly_cached(limit: int | None = None) -> Callable[[Callable[[_K], _T]], _WeaklyCached[_K, _T]]:
    """Decorate a function of one object: its value, which must not refer to the object, is kept as long as that lives.

    Of more than `limit` objects only the last ones' values are kept. None is not kept.
    """
    return lambda make: _WeaklyCached(make, limit)
