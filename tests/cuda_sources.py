"""What the CUDA sources define, read as text: kernels, device functions, structs and their fields."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from cudf_fsst.device import kernels

_TRANSPARENT = re.compile(r'(namespace\b.*|extern\s+"C")$', re.DOTALL)
_ATTRIBUTES = re.compile(r"__\w+__\s*\((?:[^()]|\([^()]*\))*\)")
_TYPE = re.compile(r"\b(?:struct|union|class|enum(?:\s+class)?)\s+(\w+)\s*(<[^{}]*>)?\s*(?::\s*([^{}]*))?$")


class Definition(NamedTuple):
    """A definition outside of all braces.

    Attributes
    ----------
    name : str
    file : str
        As ``values.cu``.
    is_type : bool
        A struct, union or enumeration; else a kernel or a function.
    head, body : str
        What stands before and between its outer braces, without comments.
    """

    name: str
    file: str
    is_type: bool
    head: str
    body: str


def bare(text: str) -> str:
    """The text without comments and lines of the preprocessor, of the same number of lines."""

    def blank(match: re.Match[str]) -> str:
        return re.sub(r"[^\n]", " ", match[0])

    text = re.sub(r"//[^\n]*|/\*.*?\*/", blank, text, flags=re.DOTALL)
    return re.sub(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", blank, text, flags=re.MULTILINE)


def definitions(path: Path) -> Iterator[Definition]:
    """All that a file defines, specializations of templates left out."""
    text, start, depth, transparent = bare(path.read_text()), 0, 0, list[bool]()
    head = ""
    for brace in re.finditer("[{};]", text):
        before = text[start : brace.start()].strip()
        if brace[0] == "{":
            transparent.append(not depth and _TRANSPARENT.match(before) is not None)
            if not transparent[-1]:
                if not depth:
                    head, begin = _ATTRIBUTES.sub(" ", before), brace.end()
                depth += 1
        elif brace[0] == "}" and not transparent.pop():
            depth -= 1
            if not depth:
                made = _TYPE.search(head)
                name = made or re.search(r"(\w+)\s*\(", head)
                assert name is not None, f"{path.name}: {head}"
                if not (made and made[2]):
                    yield Definition(name[1], path.name, made is not None, head, text[begin : brace.start()])
        start = brace.end()


def all_definitions() -> list[Definition]:
    """Those of every file of `kernels/`."""
    return [made for path in sorted(kernels.folder().glob("*.cu*")) for made in definitions(path)]
