"""A codec is a folder and a word in the registry: who else knows it, by reading the package.

`FOLDERS_LEFT` and `NAMES_LEFT` say who still does, and why. They may get shorter; what is new in them needs a reason.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import toy_text
import toy_values
from cudf_fsst.codecs import registry
from test_architecture import MODULES, every_import

NAMES = {codec.NAME for codec in (*registry.values(), *registry.texts(), registry.DICTIONARIES)}
_PUBLIC = "`SymbolTable` and `OnPairTable` are public names, which an argument has as its type"
_ROOMS = "columns of text share their samples, workspace and waits with those that may have dictionaries"
_PACKED = "kernels for dictionaries read codes as bitpack packs them, which no other codec does so fast"
_VALUES = "strings that repeat have columns as children: codes, and distinct values that are asked once"
_SCOPES = "each scope of strings may have a dictionary, else one codec of text has it"
_READ = "dictionaries that Parquet files have are taken over, not decoded"
#: Module -> the codecs in whose folders it looks, and why.
FOLDERS_LEFT = {
    "": ({"fsst", "onpair"}, _PUBLIC),
    "cli.autotune": ({"fsst"}, "launch choices are those of FSST's kernels"),
    "backend.host": ({"dict"}, _VALUES),
    "backend.arrival": ({"dict"}, "characters of rows with a dictionary are counted when a file is checked"),
    "files.trees": ({"dict"}, "what is stored of a dictionary is checked before it is read"),
    "parquet.coded": ({"dict"}, _READ),
    "parquet.host": ({"dict"}, _READ),
    "codecs.ahead": ({"dict"}, "its kernels are compiled ahead, as those of the registry are"),
    "codecs.node": ({"dict"}, _VALUES),
    "codecs.task": ({"dict"}, _SCOPES),
    "codecs.host_strings": ({"dict"}, _SCOPES),
    "codecs.device_strings": ({"dict"}, _SCOPES),
    "codecs.device_values": ({"dict"}, _VALUES),
    "codecs.device": ({"dict"}, _ROOMS),
    "codecs.dict.cuda_pack": ({"bitpack"}, _PACKED),
    "codecs.dict.cuda_packed": ({"bitpack"}, _PACKED),
    "codecs.dict.launch": ({"bitpack"}, _PACKED),
    "codecs.dict.plan": ({"bitpack"}, _PACKED),
}
#: Module -> the names of codecs that stand in it as texts of their own, and why.
NAMES_LEFT = {
    "accessor": ({"fsst"}, "the name of the accessor"),
    "exchange": ({"fsst"}, "the name of Arrow's extension type"),
    "spill.held": ({"fsst"}, "the name of the accessor"),
    "compressing": ({"fsst"}, "what `train` makes a table for unless another codec is named"),
}


def codec_of(module: str) -> str | None:
    """The codec whose folder a module is in."""
    parts = module.split(".")
    return parts[2] if parts[:2] == ["cudf_fsst", "codecs"] and len(parts) > 2 and parts[2] in NAMES else None


def short(module: str) -> str:
    return module.removeprefix("cudf_fsst").removeprefix(".")


def foreign_folders() -> dict[str, set[str]]:
    """Module -> codecs whose folders it imports from, though it is in none of them and is not the registry."""
    found = {}
    for name, imported in every_import().items():
        others = {codec for one in imported if (codec := codec_of(one)) not in (None, codec_of(name))}
        if others and name != registry.__name__:
            found[short(name)] = others
    return found


def texts_of(path: Path) -> Iterator[object]:
    """Texts in a module's code."""
    return (node.value for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Constant))


def test_folders() -> None:
    """Nothing outside a codec's folder and the registry imports from it; no codec from another one's."""
    assert foreign_folders() == {name: codecs for name, (codecs, _) in FOLDERS_LEFT.items()}


def test_names() -> None:
    """Nothing outside a codec's folder asks for its name."""
    found = {
        short(name): asked
        for name, path in MODULES.items()
        if codec_of(name) is None and (asked := NAMES.intersection(map(str, texts_of(path))))
    }
    assert found == {name: codecs for name, (codecs, _) in NAMES_LEFT.items()}


def test_nobody_knows_the_toys() -> None:
    """Which pass what real codecs pass: ``test_toy_codecs.py``, ``codecs/test_contract.py``."""
    toys = (toy_text, toy_values)
    wanted = {name for toy in toys for name in (toy.NAME, toy.__name__)}
    assert len(wanted) == 4
    for path in MODULES.values():
        text = path.read_text()
        assert not [name for name in wanted if name in text], path


def test_the_reader_sees() -> None:
    """That what these tests look for would be found."""
    assert foreign_folders()["codecs.node"] == {"dict"}
    assert "fsst" in texts_of(MODULES["cudf_fsst.accessor"])
    assert codec_of("cudf_fsst.codecs.fsst.cpu") == "fsst"
    assert codec_of("cudf_fsst.codecs.text.cpu") is None
