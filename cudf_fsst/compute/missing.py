"""Attributes and operators that a DataFrame or a Series has, and what is compressed has not."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from typing import Any, NoReturn

#: Operators by the names of their methods, without those that compare.
_BINARY = {
    "add": "+",
    "sub": "-",
    "mul": "*",
    "matmul": "@",
    "truediv": "/",
    "floordiv": "//",
    "mod": "%",
    "pow": "**",
    "and": "&",
    "or": "|",
    "xor": "^",
}
#: Attributes of the library's that have two names, by the one that is not here.
_OTHER_NAMES = {"isnull": "isna", "notnull": "notna"}
_UNARY = {"invert": "~", "neg": "-", "pos": "+"}


def no_attribute(data: Any, name: str, library: type, way: str) -> AttributeError:
    """The error for an attribute that is not there.

    Parameters
    ----------
    data
        What was asked.
    name : str
    library : type
        ``pandas.DataFrame`` or ``pandas.Series``.
    way : str
        What to call instead of a method that the library has.
    """
    kind = type(data).__name__
    said = f"{kind!r} object has no attribute {name!r}"
    if name in _OTHER_NAMES:
        said += f"; {_OTHER_NAMES[name]} is the same"
    elif not name.startswith("_") and hasattr(library, name):
        said += f"; a {library.__name__} has it: {way}"
    return AttributeError(said, name=name, obj=data)


class Refused:
    """What would compute with all values, or change some: a TypeError says what to do instead."""

    __slots__ = ()

    @abstractmethod
    def _instead_of(self, before: str, after: str) -> str:
        """What to write for an operator between `before` and `after`."""

    @abstractmethod
    def _instead_of_setting(self, key: Any) -> str:
        """What to write for a change of `key` in place."""

    def __setitem__(self, key: Any, value: Any) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} does not change; {self._instead_of_setting(key)}")


def _refused(sign: str, before: str, after: str) -> Callable[..., NoReturn]:
    def refuse(self: Refused, other: object = None) -> NoReturn:
        raise TypeError(f"a {type(self).__name__} has no operator {sign}; {self._instead_of(before, after)}")

    return refuse


for _name, _sign in _BINARY.items():
    setattr(Refused, f"__{_name}__", _refused(_sign, "", f" {_sign} ..."))
    setattr(Refused, f"__r{_name}__", _refused(_sign, f"... {_sign} ", ""))
for _name, _sign in _UNARY.items():
    setattr(Refused, f"__{_name}__", _refused(_sign, _sign, ""))
