"""Structs that the host writes and kernels read have the same fields at the same places on both sides."""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest

import cudf_fsst.codecs
from cuda_sources import Definition, all_definitions
from cudf_fsst.device import kernels

_SIZES = {"u8": 1, "u16": 2, "u32": 4, "u64": 8}
STRUCTS = {one.name: one for one in all_definitions() if one.is_type}


@cache
def _texts() -> list[str]:
    return [re.sub(r"//[^\n]*", "", path.read_text()) for path in sorted(kernels.folder().glob("*.cu*"))]


def read_by_kernels() -> set[str]:
    """Structs that kernels find in memory: parameters, jobs, and what lies at addresses, unless they wrote it."""
    found, written = set[str](), set[str]()
    for text in _texts():
        for head in re.findall(r"__global__ void[^{;]*", text):
            found |= set(re.findall(r"const (\w+)\*", head))
        found |= set(re.findall(r"__shared__ (\w+) job;", text))
        found |= set(re.findall(r"reinterpret_cast<const (\w+)\*>\(", text))
        written |= set(re.findall(r"reinterpret_cast<(\w+)\*>\(", text))
    return (found - written) & set(STRUCTS)


def views() -> dict[str, Any]:
    """What the package has of each: a class of named fields, or a numpy dtype whose name is in capitals."""
    made, structs = dict[str, Any](), read_by_kernels()
    for module in pkgutil.walk_packages(cudf_fsst.codecs.__path__, "cudf_fsst.codecs."):
        try:
            content = vars(importlib.import_module(module.name))
        except ImportError:  # needs a GPU
            continue
        for name, value in content.items():
            struct = name.title().replace("_", "") if isinstance(value, np.dtype) else name
            if (struct in STRUCTS and isinstance(value, np.dtype)) or (struct in structs and hasattr(value, "_fields")):
                assert made.setdefault(struct, value) is value, f"{struct} is there twice"
    return made


def fields_of(struct: Definition, constants: dict[str, int]) -> list[tuple[str, str, int]]:
    """Name, type and number of each field, of base classes and structs within, too.

    A name that would be there twice begins with that of the struct that has it.
    """
    _, _, base = struct.head.partition(":")
    fields = fields_of(STRUCTS[base.strip()], constants) if base else []
    body = re.sub(r"__device__[^{;]*\{.*", "", struct.body, flags=re.DOTALL)  # functions come last
    for kind, names in re.findall(r"^\s*(?:const )?(\w+) ([^;{}()]+);", body, re.MULTILINE):
        for name in names.split(","):
            plain, _, size = name.strip().partition("[")
            count = eval(size.rstrip("]").replace("/", "//"), dict(constants)) if size else 1
            within = fields_of(STRUCTS[kind], constants) if kind in STRUCTS else [("", kind, count)]
            fields += [(f"{plain}.{part}" if part else plain, of, number) for part, of, number in within]
    times = Counter(name.rpartition(".")[2] for name, *_ in fields)
    return [
        (last if times[last] == 1 or last == name else name.replace(".", "_"), of, number)
        for name, of, number in fields
        for last in [name.rpartition(".")[2]]
    ]


def constants() -> dict[str, int]:
    """All constants that kernels are compiled with and structs may name."""
    from cudf_fsst.codecs.fsst import launch

    return {**launch.DEFINES, **launch.match_defines()}


@pytest.mark.parametrize("name", sorted(read_by_kernels() | set(views())))
def test_fields(name: str) -> None:
    wanted, view = fields_of(STRUCTS[name], constants()), views().get(name)
    assert wanted, name
    assert view is not None, f"{name} of kernels/{STRUCTS[name].file} has no view of that name in a launch module"
    if not isinstance(view, np.dtype):
        assert {kind for _, kind, _ in wanted} == {"u64"}, "fields of tuples are words"
        assert tuple(field for field, *_ in wanted) == view._fields
        return
    place = widest = 0
    for field, kind, count in wanted:
        size = _SIZES[kind]
        place, widest = -(-place // size) * size, max(widest, size)
        assert view.fields is not None
        there, offset = view.fields[field][:2]
        assert (there.base.itemsize, there.itemsize, offset) == (size, size * count, place), field
        place += size * count
    assert list(view.names or ()) == [field for field, *_ in wanted]
    assert view.itemsize == -(-place // widest) * widest


def test_all_views_are_of_structs() -> None:
    """The reader sees what is there: jobs, parameters, tables."""
    assert {"UnpackJob", "SegmentView", "EncodeTables", "TakenColumn", "Values"} <= read_by_kernels()
    for_the_host = {"OnpairLookup", "OnpairTrained", "TakeTotals", "TrainedTable"}  # written by kernels
    assert set(views()) - read_by_kernels() == for_the_host
