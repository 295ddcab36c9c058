"""docs/architecture.md is true: its rooms are there, and imports go down its table."""

from __future__ import annotations

import ast
import functools
import inspect
import re
from collections.abc import Iterator
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

import cudf_fsst
from cudf_fsst.codecs.registry import names

PACKAGE = Path(cudf_fsst.__file__).parent
ROOT = PACKAGE.parent
PAGE = (ROOT / "docs" / "architecture.md").read_text()
LEAVES = "leaves"


@dataclass(frozen=True)
class Room:
    """A line of the table: files and folders of the package, and rooms that it may use."""

    name: str
    places: tuple[str, ...]
    uses: frozenset[str]


def rooms_of(page: str) -> list[Room]:
    """The table's lines, from the top."""
    lines = re.findall(r"^\| (\w+) \| (`.*?`) \| .* \| ([\w, ]+) \|$", page, re.MULTILINE)
    names = [name for name, _, _ in lines]
    rooms = []
    for number, (name, places, uses) in enumerate(lines):
        below = names[number + 1 :]
        wanted = {"all below": below, "nothing": []}.get(uses, uses.split(", "))
        assert set(wanted) <= set(below), f"{name} may use {uses}, which is not below it"
        rooms.append(Room(name, tuple(re.findall("`(.*?)`", places)), frozenset(wanted) | {name, LEAVES}))
    return rooms


ROOMS = rooms_of(PAGE)


def modules_of(package: Path) -> dict[str, Path]:
    """Dotted name -> file, of every module; a package is named as its folder."""
    found = {}
    for path in package.rglob("*.py"):
        parts = path.relative_to(package.parent).with_suffix("").parts
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = path
    return found


def imports_of(name: str, path: Path, modules: dict[str, Path]) -> Iterator[str]:
    """Modules of ours that one imports, anywhere in its text, and if only for types."""
    top = next(iter(name.split(".")))
    inside = name if path.name == "__init__.py" else name.rpartition(".")[0]
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Import):
            yield from (one.name for one in node.names if one.name.split(".")[0] == top)
        elif isinstance(node, ast.ImportFrom):
            base = inside.split(".")[: len(inside.split(".")) - node.level + 1] if node.level else []
            source = ".".join([*base, *([node.module] if node.module else [])])
            if source.split(".")[0] == top:
                for one in node.names:
                    full = f"{source}.{one.name}"
                    yield full if full in modules else source


def room_of(path: Path) -> Room:
    """The one room that a file is in."""
    place = path.relative_to(PACKAGE).as_posix()
    found = [
        room for room in ROOMS for one in room.places if place == one or (one.endswith("/") and place.startswith(one))
    ]
    assert len(found) == 1, f"{place} is in {[room.name for room in found]}"
    return found[0]


MODULES = modules_of(PACKAGE)


@functools.cache
def every_import() -> dict[str, set[str]]:
    """Name of a module -> what it imports of ours."""
    return {name: set(imports_of(name, path, MODULES)) - {name} for name, path in MODULES.items()}


def test_rooms_are_there() -> None:
    assert len(ROOMS) == PAGE.split("## Rooms")[1].split("```")[0].count("\n| ") - 1, "a line has another form"
    for room in ROOMS:
        for place in room.places:
            path = PACKAGE / place
            assert path.is_dir() if place.endswith("/") else path.is_file(), f"{room.name}: {place}"
    assert ROOMS[-1].name == LEAVES


@pytest.mark.parametrize("name", sorted(MODULES))
def test_imports_go_down(name: str) -> None:
    here = room_of(MODULES[name])
    above = {one for one in every_import()[name] if room_of(MODULES[one]).name not in here.uses}
    assert not above, f"{name}, of {here.name}, imports {sorted(above)}"


def test_no_circles() -> None:
    """Not even within a room, through imports inside functions, or for types."""
    try:
        TopologicalSorter(every_import()).prepare()
    except CycleError as error:
        raise AssertionError(" <- ".join(error.args[1])) from error


def test_files_that_the_page_names_are_there() -> None:
    named = set(re.findall(r"`([\w/]+(?:/|\.(?:py|md|cu)))`", PAGE)) - {"kernels/NAME.cu"}
    assert len(named) > 20
    assert {one for one in named if not ((PACKAGE / one).exists() or (ROOT / one).exists())} == set()
    for target in re.findall(r"\]\((?!http)(.*?)\)", PAGE):
        assert (ROOT / "docs" / target).exists(), target


def test_picture_is_that_of_the_table() -> None:
    picture = re.search(r"^```mermaid\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)[1]
    arrows = re.findall(r"^ +(\w+)(?:\[.*?\])? --> (\w+)", picture, re.MULTILINE)
    assert len(arrows) == picture.count("-->")
    uses = {room.name: room.uses for room in ROOMS}
    assert {one for arrow in arrows for one in arrow} == set(uses)
    for above, below in arrows:
        assert below in uses[above], f"{above} --> {below}"
    assert set(names()) == set(re.search(r"codecs\[codecs: (.*?)\]", picture)[1].split(", "))


def test_imports_are_found() -> None:
    """By every way in which Python may write them."""
    code = (
        "import p.a\nfrom p import b\nfrom . import c\nfrom .d import x\ndef f():\n    from ..e import y, z\nimport q"
    )
    modules = {f"p.{name}": Path() for name in ("a", "b", "s.c", "s.d", "e.z")}
    path = Path("m.py")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Path, "read_text", lambda self: code)
        wanted = {"p.a", "p.b", "p.s.c", "p.s.d", "p.e", "p.e.z"}
        assert set(imports_of("p.s.m", path, modules)) == wanted
        code += "\nif TYPE_CHECKING: import p.t"
        assert set(imports_of("p.s.m", path, modules)) == wanted | {"p.t"}


def test_wrong_tables_are_noticed() -> None:
    with pytest.raises(AssertionError, match="not below"):
        rooms_of("| a | `a/` | holds | nothing |\n| b | `b/` | holds | a |")


@pytest.mark.parametrize("kind", [cudf_fsst.CompressedColumn, cudf_fsst.CompressedFrame])
def test_nothing_is_left_abstract(kind: type) -> None:
    """What the rooms' bases only ask for, columns and frames say of themselves."""
    asked = {name for base in kind.__mro__ for name, one in vars(base).items() if _is_abstract(one)}
    assert asked
    assert not [name for name in asked if _is_abstract(inspect.getattr_static(kind, name))]


def _is_abstract(attribute: object) -> bool:
    return getattr(attribute, "__isabstractmethod__", False)
