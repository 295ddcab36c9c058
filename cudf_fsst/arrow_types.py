"""How Arrow's types are laid out: what a column of one consists of."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pyarrow as pa

_types = pa.types

#: Values, or bytes of binary, that a row may have by its type alone.
MOST_VALUES = 1 << 20


def plain(kind: Any) -> Any:
    """The type whose layout a column is kept in: without views, runs and extensions, which are made again.

    That of its children may be another one still.
    """
    if isinstance(kind, pa.BaseExtensionType):
        return plain(kind.storage_type)
    if _types.is_run_end_encoded(kind):
        return plain(kind.value_type)
    if _types.is_string_view(kind):
        return pa.large_string()
    if _types.is_binary_view(kind):
        return pa.large_binary()
    if _types.is_list_view(kind):
        return pa.list_(kind.value_field)
    return pa.large_list(kind.value_field) if _types.is_large_list_view(kind) else kind


_TEXT_IDS = frozenset(kind.id for kind in (pa.string(), pa.large_string()))
_STRING_IDS = _TEXT_IDS | {pa.binary().id, pa.large_binary().id}


def is_strings(kind: Any) -> bool:
    """Whether a column's values are strings of bytes."""
    return kind.id in _STRING_IDS


def is_string_type(kind: Any) -> bool:
    """Whether a type is one of the two of text that a column can have (``string``, ``large_string``)."""
    return kind.id in _TEXT_IDS


def is_any_text(kind: Any) -> bool:
    """Whether a type is one of text, views included."""
    return is_string_type(kind) or bool(_types.is_string_view(kind))


def may_have_nan(kind: Any) -> bool:
    """Whether values may be missing that are no nulls of Arrow."""
    return bool(_types.is_floating(kind) or _types.is_nested(kind) or _types.is_dictionary(kind))


def has_offsets(kind: Any) -> bool:
    """Whether a column's values are offsets: one more than rows, and none of them null."""
    return bool(_types.is_list(kind) or _types.is_large_list(kind) or _types.is_map(kind))


def offset_width(kind: Any) -> int:
    """Bytes of an offset."""
    return 8 if _types.is_large_list(kind) else 4


def list_size(kind: Any) -> int | None:
    """How many rows of its child each row has; None of types whose rows need not have the same number."""
    if _types.is_fixed_size_list(kind):
        return int(kind.list_size)
    return int(kind.byte_width) if _types.is_fixed_size_binary(kind) else None


def child_types(kind: Any) -> list[Any]:
    """Types of a column's children."""
    if _types.is_map(kind):
        return [entries(kind)]
    if _types.is_fixed_size_binary(kind):
        return [pa.uint8()]
    if has_offsets(kind) or _types.is_fixed_size_list(kind) or _types.is_dictionary(kind):
        return [kind.value_type]
    return [kind.field(i).type for i in range(kind.num_fields)] if _types.is_struct(kind) else []


def entries(kind: Any) -> Any:
    """The type of a map's entries: a struct of a key and an item."""
    return pa.struct([kind.key_field, kind.item_field])


def within(kind: Any) -> Iterator[Any]:
    """A type and all types that it consists of."""
    yield kind
    if isinstance(kind, pa.BaseExtensionType):
        yield from within(kind.storage_type)
    elif _types.is_run_end_encoded(kind) or _types.is_list_view(kind) or _types.is_large_list_view(kind):
        yield from within(kind.value_type)
    else:
        for child in child_types(kind):
            yield from within(child)


def has_floats(kind: Any) -> bool:
    """Whether values are floating point numbers, or have some in them."""
    return any(map(_types.is_floating, within(kind)))


def is_view(kind: Any) -> bool:
    """Whether a type is one that `plain` replaces by another of the same values."""
    views = (_types.is_string_view, _types.is_binary_view, _types.is_list_view, _types.is_large_list_view)
    return any(view(kind) for view in views) or bool(_types.is_run_end_encoded(kind))


def needs_version_3(kind: Any) -> bool:
    """Whether versions 1 and 2 of the format have no columns of a type."""
    return any(
        list_size(inner) is not None or _types.is_map(inner) or _types.is_decimal256(inner) or is_view(inner)
        for inner in within(kind)
    )


def values_of_a_row(kind: Any) -> int:
    """Values, or bytes of binary, that a row has by its type alone; of a list those of one value of it."""
    kind = plain(kind)
    size = list_size(kind)
    inside = sum(map(values_of_a_row, child_types(kind)), start=0)
    return max(1, inside if size is None else size * inside)
