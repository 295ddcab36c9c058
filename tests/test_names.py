"""One name, one meaning: in the CUDA sources as in the package."""

from __future__ import annotations

import ast
from collections import defaultdict
from pathlib import Path
from typing import Any, TypeGuard

import cudf_fsst
from cuda_sources import all_definitions

PACKAGE = Path(cudf_fsst.__file__).parent
#: Names that do not say what they are names of.
VAGUE = ("one", "some", "made", "got", "it")


def test_kernels_structs_and_functions() -> None:
    """A name is defined in one file; there it may have several forms, for several types."""
    files = defaultdict(set)
    made = all_definitions()
    for one in made:
        files[one.name].add(one.file)
    assert {name: where for name, where in files.items() if len(where) > 1} == {}
    for name in {one.name for one in made if one.is_type}:
        assert sum(one.name == name for one in made) == 1, name
    assert {"fsst_encode", "find_view", "SegmentView", "PackRoom"} <= set(files)  # the reader sees all kinds


def test_classes() -> None:
    """No two classes of the package have one name, private ones included."""
    places = defaultdict(list)
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            named = node.value.args[0] if _is_namedtuple(node) else None
            name = node.name if isinstance(node, ast.ClassDef) else named.value if named else None
            if name is not None:
                places[name].append(f"{path.relative_to(PACKAGE)}:{node.lineno}")
    assert {name: where for name, where in places.items() if len(where) > 1} == {}
    assert {"CompressedColumn", "UnpackJob"} <= set(places)


def test_kind_is_an_arrow_type() -> None:
    """Wherever an argument or a field is called so, but for sections of files, whose kinds docs/format.md has."""
    others = set()
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, (ast.arg, ast.AnnAssign)) and node.annotation is not None:
                name = node.arg if isinstance(node, ast.arg) else ast.unparse(node.target)
                if name == "kind" and ast.unparse(node.annotation) not in ("Any", "pa.DataType"):
                    others.add(path.relative_to(PACKAGE).as_posix())
    assert others == {"files/records.py"}


def test_arguments_say_what_they_are() -> None:
    """None is called found, own, wanted or look, which say how somebody came by it, nor any of `VAGUE`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            vague = isinstance(node, ast.arg) and node.arg in ("found", "own", "wanted", "look", *VAGUE)
            assert not vague, f"{path}:{node.lineno}"


def test_locals_say_what_they_hold() -> None:
    """None is called by one of `VAGUE`."""
    for path in sorted(PACKAGE.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            vague = isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id in VAGUE
            assert not vague, f"{path}:{node.lineno}"


def _is_namedtuple(node: ast.AST) -> TypeGuard[Any]:
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Call)
        and ast.unparse(node.value.func) == "namedtuple"
    )
