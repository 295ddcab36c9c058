"""What is made of an object that does not change when it is first asked for, and kept with it."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Generic, TypeVar

_T = TypeVar("_T")


class lazy(Generic[_T]):
    """A `functools.cached_property` without the lock that Python 3.11 has in it.

    That is one lock for all objects of a class: threads would wait for each other, and a process that is forked while
    one of them holds it would wait for ever. Two threads may both make the same value.
    """

    def __init__(self, make: Callable[[Any], _T]) -> None:
        self._make = make
        self.__doc__ = make.__doc__

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def __get__(self, instance: Any, owner: type | None = None) -> _T:
        if instance is None:
            return self  # type: ignore[return-value]  # what documentation tools ask for
        value = instance.__dict__[self._name] = self._make(instance)
        return value


def kept(make: Callable[[Any], _T]) -> Callable[[Any], _T]:
    """A function of one object, whose result is kept with the object: a `lazy` that another room has."""
    name = f"{make.__module__}.{make.__qualname__}"

    @wraps(make)
    def call(of: Any) -> _T:
        found: _T | None = of.__dict__.get(name)
        if found is None:
            found = of.__dict__[name] = make(of)
        return found

    return call
