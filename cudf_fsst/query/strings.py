"""``column.str``: the methods of strings that the library's Series has, and two that only cuDF's has."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import wraps
from typing import Any

import numpy as np
from pandas.api.extensions import no_default

from ..callers import at_caller
from ..interop import cudf as interop_cudf
from . import asked, by_content, by_rows, cases, codes, decoded, matching, patterns
from .source import ColumnSource

#: Methods whose result has a value for each row that depends on that row alone, where no argument is an array.
#: pandas', then cuDF's own.
_ROW_BY_ROW = frozenset(
    """
    capitalize casefold center contains count decode encode endswith find findall fullmatch get index isalnum isalpha
    isascii isdecimal isdigit islower isnumeric isspace istitle isupper join len ljust lower lstrip match normalize pad
    partition removeprefix removesuffix repeat replace rfind rindex rjust rpartition rsplit rstrip slice slice_replace
    split startswith strip swapcase title translate upper wrap zfill
    byte_count filter_alphanum filter_characters hex_to_int htoi insert ip2int ip_to_int is_ipv4 isempty isfloat ishex
    isinteger isipv4 istimestamp like normalize_characters normalize_spaces url_decode url_encode
    """.split()
)
#: Methods that make a table unless they are told not to; of the others those with ``expand`` do when they are told.
_TABLES = frozenset(["partition", "rpartition"])
#: Those that pandas lacks.
_OWN = ("byte_count", "like")
_SCALARS = (str, bytes, int, float, bool, np.generic, re.Pattern, dict, type(None))


#: The library's own, of Series of text without rows: to make one takes longer than some calls. There are some dtypes of
#: text, and of each at most the methods of `_ROW_BY_ROW`.
_methods: dict[Any, Any] = {}


class StringMethods:
    """``column.str``: methods of strings, for a compressed column.

    All methods of the library's ``Series.str`` are there, and give what those of ``column.decompress().str`` give.

    * Answered on the codes: `contains`, ``match`` and ``fullmatch`` of literals and of regular expressions that an
      automaton can say, also with ``case=False`` and ``flags``; `startswith`, `endswith`, `count` and `find` of
      literals, `like`, `len`, `byte_count`. Of `count` of a regular expression rows without a match are not decoded.
    * In host memory: of ``extract`` and ``findall``, and of ``replace`` in columns of Python's strings, only rows that
      may match a regular expression are looked at.
    * Decoded to where the answer is: ``upper``, ``lower`` and ``swapcase``, if all characters are ASCII. On a GPU a few
      short values of dictionaries are changed before rows are decoded.
    * Decoded piece by piece: other regular expressions, and all other methods where a row's result depends on that row
      alone. Where all rows have a dictionary, each of its values is decoded and asked once, unless an argument is a
      function. On a GPU methods that give strings as long as the rows get all rows at once: joining pieces
      would take as much memory.
    * Decoded whole: methods whose result is a table (``extract``, ``partition``, ``split(expand=True)``) or that join
      rows (``cat``).
    """

    __slots__ = ("_column",)

    def __init__(self, column: Any) -> None:
        self._column: ColumnSource = column
        if not self._column._is_text:
            # Whatever the library says of such a dtype.
            _ = column._out(column._unlabelled(0, min(len(column), 1))).str

    def __dir__(self) -> list[str]:
        return sorted({*object.__dir__(self), *dir(type(self._example().str)), *_OWN} - {"_column"})

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {name!r}")
        column, interop = self._column, self._column._backend.interop
        key = interop, interop.mode(), repr(column.dtype), column._proxied, name
        method = _methods.get(key)
        if method is None:
            method = getattr(self._example().str, name)  # AttributeError in the library's words
            if column._is_text and name in _ROW_BY_ROW and callable(method):  # others hold their categories
                _methods[key] = method
        if not callable(method):
            return decoded.as_a_whole(self._column, name, lambda series: getattr(series.str, name))

        @wraps(method)
        def call(*args: Any, **options: Any) -> Any:
            return self._call(name, *args, **options)

        return call

    @at_caller
    def __getitem__(self, key: Any) -> Any:
        if not self._column._is_text or not isinstance(key, (int, slice)):
            return decoded.as_a_whole(self._column, "[]", lambda series: series.str[key])
        return decoded.row_by_row(self._column, "[]", lambda piece: piece.str[key])

    def __iter__(self) -> Any:
        return iter(self._example().str)  # which refuses

    def _example(self) -> Any:
        """A Series of this dtype without rows."""
        column: Any = self._column
        return column._out(column._unlabelled(0, 0))

    @at_caller
    def _call(self, name: str, *args: Any, **options: Any) -> Any:
        column, of_library = self._column, name in _OWN
        call = self._method(name)
        answer = None if args or options else cases.answer(column, name, call)
        if answer is not None:
            return column._out(answer)
        searched = asked.of_method(name, call, args, options)
        if column._is_text and (searched is None or not searched.exact):
            answer = by_rows.answer(column, name, patterns.of_method(column, name, call, args, options))
        if answer is None:
            answer = codes.answer(column, name, searched)
        if answer is None and column._is_text and not of_library:
            answer = matching.answer(column, name, call, args, options)
        if answer is not None:
            return column._out(answer)

        def ask(series: Any) -> Any:
            return call(series, *args, **options)

        if column._is_text and (of_library or _is_row_by_row(name, args, options)):
            rows, of_values = by_content.witnesses(column, name, args, options)
            # A function may answer differently each time it is called, so it is called for every row.
            of_values = of_values and not any(map(callable, (*args, *options.values())))
            decode = decoded.row_by_row if of_values else decoded.in_pieces
            return decode(column, name, by_content.with_witnesses(column, ask, rows), raw=of_library)
        return decoded.as_a_whole(column, name, ask)

    def _method(self, name: str) -> Callable[..., Any]:
        """A method, as a function of a Series."""
        if name in _OWN and self._column._is_text:
            return getattr(self._column._backend.interop, name)
        return lambda series, *args, **options: getattr(series.str, name)(*args, **options)

    # Those with a way on the codes ---------------------------------------------------------------------------------

    def contains(self, pat: Any, case: Any = True, flags: Any = 0, na: Any = no_default, regex: Any = True) -> Any:
        """Whether strings have a pattern in them.

        Parameters
        ----------
        pat : str
            A literal, or a regular expression; one without special characters is a literal.
        case : bool
            Whether upper and lower case differ.
        flags : int
            Of `re`, for a regular expression.
        na : object, optional
            What stands for missing values.
        regex : bool
            False: a literal.

        Returns
        -------
        Series of bool
            As ``column.decompress().str.contains`` gives.
        """
        options = _given(case=(case, True), flags=(flags, 0), na=(na, no_default), regex=(regex, True))
        return self._call("contains", pat, **options)

    def startswith(self, pat: Any, na: Any = no_default) -> Any:
        """Whether strings begin with a text.

        Parameters
        ----------
        pat : str or tuple of str
            Of several texts, one is enough.
        na : object, optional
            What stands for missing values.

        Returns
        -------
        Series of bool
            As ``column.decompress().str.startswith`` gives.
        """
        return self._call("startswith", pat, **_given(na=(na, no_default)))

    def endswith(self, pat: Any, na: Any = no_default) -> Any:
        """Whether strings end with a text. Takes and gives what `startswith` does."""
        return self._call("endswith", pat, **_given(na=(na, no_default)))

    def like(self, pat: str, esc: str | None = None) -> Any:
        """Whether all of each string fits a pattern of SQL's ``LIKE``.

        cuDF has this method. pandas does not.

        Parameters
        ----------
        pat : str
            "%" stands for any characters, or none. "_" stands for one character.
        esc : str, optional
            A character. Behind it, "%", "_" and the character itself stand for themselves.

        Returns
        -------
        Series of bool
            Dtype and missing values are those of cuDF's ``str.like``, or of pandas' ``str.contains``.
        """
        return self._call("like", pat, **({} if esc is None else {"esc": esc}))

    def len(self) -> Any:
        """Characters of strings.

        Returns
        -------
        Series of int
            As ``column.decompress().str.len`` gives.
        """
        return self._call("len")

    def byte_count(self) -> Any:
        """Number of bytes of each string in UTF-8.

        pandas lacks it; cuDF's has this meaning.

        Returns
        -------
        Series of int
            Dtype and missing values are those of cuDF's ``str.byte_count``, in pandas those of ``str.len``.
        """
        return self._call("byte_count")

    def count(self, pat: Any, flags: Any = 0) -> Any:
        """How often a pattern matches, without overlaps, from the left.

        Parameters
        ----------
        pat : str
            A regular expression; one without special characters is a literal.
        flags : int
            Of `re`.

        Returns
        -------
        Series of int
            As ``column.decompress().str.count`` gives.
        """
        return self._call("count", pat, **_given(flags=(flags, 0)))

    def find(self, sub: Any, start: Any = 0, end: Any = None) -> Any:
        """At which character a text first begins, or -1.

        Parameters
        ----------
        sub : str
        start, end : int
            Characters between which it is looked for; an `end` of None is that of the string.

        Returns
        -------
        Series of int
            As ``column.decompress().str.find`` gives.
        """
        return self._call("find", sub, **_given(start=(start, 0), end=(end, None)))


def _given(**arguments: tuple[Any, Any]) -> dict[str, Any]:
    """The arguments whose values are not their defaults: cuDF lacks some of pandas' arguments."""
    return {name: value for name, (value, default) in arguments.items() if value is not default}


def _is_row_by_row(name: str, args: tuple[Any, ...], options: dict[str, Any]) -> bool:
    """Whether pieces of a column can be asked, one after another."""
    if name not in _ROW_BY_ROW:
        return False
    given = [*args, *options.values()]
    if not all(_is_scalar(value) for value in given):
        return False
    if name in _TABLES:
        return options.get("expand", True) is False
    return name not in ("split", "rsplit") or options.get("expand", False) is False


def _is_scalar(value: Any) -> bool:
    value, _ = interop_cudf.unwrap_proxy(value)
    if isinstance(value, tuple):
        return all(isinstance(member, _SCALARS) for member in value)
    return isinstance(value, _SCALARS) or callable(value) or _is_na(value)


def _is_na(value: Any) -> bool:
    return type(value).__name__ == "NAType" or type(value).__name__ in ("_NoDefault", "NoDefault")
