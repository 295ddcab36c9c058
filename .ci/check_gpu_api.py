#!/usr/bin/env python3
"""Check that cuDF, pylibcudf, RMM, CuPy and cudf-polars have all that the package uses of them, without a GPU.

    python3 -m venv .api && .api/bin/pip install . cudf-cu13 cudf-polars-cu13 && .api/bin/python .ci/check_gpu_api.py

What is used is found in the sources, as far as reading them can tell:

* names that begin at a library, as ``cudf.Series.from_pylibcudf`` or ``plc.Column``: each has to be there, and where it
  is called, to take as many arguments and keywords of these names;
* attributes of other objects, as ``column.plc_column``: a class that the sources name, or one of `ALSO`, has to have
  it, and where it is called, to take the arguments. What the package itself, Python, NumPy, pandas or Arrow have by
  that name is taken to be theirs. Modules that need what is not installed, as Dask, are left out of this;
* `MEMBERS`, each of which its class has to have.

The end is a line for each thing that is missing, and exit status 1 if there are any.
"""

from __future__ import annotations

import ast
import dis
import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import packages_distributions, version
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1] / "cudf_fsst"
LIBRARIES = ("cudf", "pylibcudf", "rmm", "cudf_polars", "cupy", "cupyx")
#: Functions of the package that return a library.
RETURNS = {"cudf_module": "cudf"}
#: Classes of objects that the package gets from these libraries without naming their class.
ALSO = (
    "cudf.core.buffer.Buffer",
    "cudf.core.accessors.StringMethods",
    "cudf.core.column.categorical.CategoricalColumn",
    "cudf.core.dtypes.ListDtype",
    "cupy.cuda.Event",
    "cupy.cuda.MemoryPointer",
    "cupy.cuda.PinnedMemoryPointer",
    "cupy.cuda.function.Function",
    "pylibcudf.io.parquet.ChunkedParquetWriterOptionsBuilder",
    "pylibcudf.io.types.ColumnInMetadata",
    "pylibcudf.io.types.TableWithMetadata",
    "rmm.pylibrmm.stream.Stream",
)

#: What the sources use of such objects by names that others have, too: `Lane.launch` gives kernels by address.
MEMBERS = (
    "cupy.cuda.function.Function.ptr",
    "cupy.RawKernel.kernel",
    "cupy.RawKernel.max_dynamic_shared_size_bytes",
    "cupy.RawKernel.shared_size_bytes",
    "cupy.RawModule.get_function",
)

#: Attributes that a module gives to classes which it makes.
INSIDE = {"as_cpu_object": "cudf.pandas.fast_slow_proxy", "as_gpu_object": "cudf.pandas.fast_slow_proxy"}


@dataclass(frozen=True)
class Use:
    """A name in the sources.

    Attributes
    ----------
    where : str
        File and line.
    library : str
        The module that it begins at; "" of an attribute of something else.
    names : tuple of str
        What follows, down to the name that is used.
    call : tuple or None
        Positional arguments and names of keywords, if it is called; None, too, where they are in a list or a dict.
    """

    where: str
    library: str
    names: tuple[str, ...]
    call: tuple[int, tuple[str, ...]] | None = None

    def __str__(self) -> str:
        return ".".join([self.library, *self.names]) if self.library else f"an attribute .{self.names[-1]}"


@dataclass
class Found:
    """What is missing, and how much was looked at."""

    missing: list[str] = field(default_factory=list)
    names: int = 0
    calls: int = 0
    unknown: int = 0  # calls of what does not say its parameters


def _chain(node: ast.AST) -> tuple[ast.AST, tuple[str, ...]]:
    """What an expression begins with, and the attributes that follow."""
    names: list[str] = []
    while isinstance(node, ast.Attribute):
        names.append(node.attr)
        node = node.value
    return node, tuple(reversed(names))


def _call_of(node: ast.Call) -> tuple[int, tuple[str, ...]] | None:
    if any(isinstance(one, ast.Starred) for one in node.args) or any(one.arg is None for one in node.keywords):
        return None
    return len(node.args), tuple(str(one.arg) for one in node.keywords)


class _Module:
    """The uses in a module."""

    def __init__(self, path: Path, name: str) -> None:
        self.tree, self.name = ast.parse(path.read_text()), name
        self._others = set(self._imported())
        self._bound = {bound: (library, names) for library, names, bound, _ in self._imports()}
        for name, value in self._assigned():
            if library := self._returned(value):
                self._bound[name] = library, ()
            start, names = _chain(value)
            if names and isinstance(start, ast.Name) and start.id in {bound for _, bound in self._others}:
                self._others.add(("", name))

    @property
    def on_gpu(self) -> bool:
        """Whether it has to do with the libraries at all."""
        return bool(self._bound) or any(isinstance(one, ast.Name) and one.id in RETURNS for one in ast.walk(self.tree))

    def _imports(self) -> Iterator[tuple[str, tuple[str, ...], str, int]]:
        """Library, name in it, what it is bound to, and line."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    if one.name.split(".")[0] in LIBRARIES:
                        library = one.name if one.asname else one.name.split(".")[0]
                        yield library, (), one.asname or library, node.lineno
            elif isinstance(node, ast.ImportFrom) and not node.level and str(node.module).split(".")[0] in LIBRARIES:
                for one in node.names:
                    yield str(node.module), (one.name,), one.asname or one.name, node.lineno

    def _imported(self) -> Iterator[tuple[str, str]]:
        """Every other module that is imported, and what it, or what is imported of it, is bound to."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    if one.name.split(".")[0] not in LIBRARIES:
                        yield one.name, one.asname or one.name.split(".")[0]
            elif isinstance(node, ast.ImportFrom) and (node.level or str(node.module).split(".")[0] not in LIBRARIES):
                for one in node.names:
                    yield "" if node.level else str(node.module), one.asname or one.name

    def others(self) -> set[str]:
        """Modules that are no library of these."""
        return {module for module, _ in self._others if module}

    def _assigned(self) -> Iterator[tuple[str, ast.expr]]:
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
                yield node.targets[0].id, node.value

    @staticmethod
    def _returned(node: ast.AST) -> str | None:
        """The library that a call of one of `RETURNS`, or ``sys.modules.get``, gives."""
        if not isinstance(node, ast.Call):
            return None
        if ast.unparse(node.func) == "sys.modules.get" and isinstance(node.args[0], ast.Constant):
            name = str(node.args[0].value)
            return name if name.split(".")[0] in LIBRARIES else None
        _, names = _chain(node.func)
        return RETURNS.get(names[-1] if names else getattr(node.func, "id", ""))

    def uses(self) -> Iterator[Use]:
        """All of them."""
        for node in ast.walk(self.tree):
            if isinstance(node, ast.Import):
                for one in node.names:
                    if one.name.split(".")[0] in LIBRARIES:
                        yield Use(f"{self.name}:{node.lineno}", one.name, ())
        for library, names, _, line in self._imports():
            if names:
                yield Use(f"{self.name}:{line}", library, names)
        calls = {id(node.func): _call_of(node) for node in ast.walk(self.tree) if isinstance(node, ast.Call)}
        theirs, ours = {bound for _, bound in self._others}, self.on_gpu and all(map(_is_installed, self.others()))
        inner = {id(node.value) for node in ast.walk(self.tree) if isinstance(node, ast.Attribute)}
        for node in ast.walk(self.tree):
            where, call = f"{self.name}:{getattr(node, 'lineno', 0)}", calls.get(id(node))
            if isinstance(node, ast.Name) and node.id in self._bound and id(node) in calls:
                yield Use(where, *self._bound[node.id], call)
            if not isinstance(node, ast.Attribute) or not isinstance(node.ctx, ast.Load):
                continue
            start, names = _chain(node)
            if isinstance(start, ast.Name) and start.id in self._bound:
                library, first = self._bound[start.id]
                if id(node) not in inner:
                    yield Use(where, library, (*first, *names), call)
            elif library := self._returned(start) or "":
                if id(node) not in inner:
                    yield Use(where, library, names, call)
            elif ours and not (isinstance(start, ast.Name) and start.id in theirs):
                yield Use(where, "", (node.attr,), call)

    def own_names(self) -> set[str]:
        """What the module gives names to."""
        found = set()
        for node in ast.walk(self.tree):
            if isinstance(node, ast.FunctionDef | ast.ClassDef):
                found.add(node.name)
            elif isinstance(node, ast.Attribute | ast.Name) and isinstance(node.ctx, ast.Store):
                found.add(node.attr if isinstance(node, ast.Attribute) else node.id)
        return found


@cache
def _is_installed(module: str) -> bool:
    try:
        importlib.import_module(module)
    except ImportError:
        return False
    return True


@cache
def members(kind: type) -> frozenset[str]:
    """Names of a class and of its objects, as far as its methods say what these have."""
    found = set(dir(kind))
    for one in kind.__mro__:
        found |= set(getattr(one, "__annotations__", ()))
        for method in vars(one).values():
            if inspect.isfunction(method):
                found |= {step.argval for step in dis.get_instructions(method) if step.opname == "STORE_ATTR"}
    return frozenset(found)


def resolve(library: str, names: tuple[str, ...]) -> Any:
    """The object of a name; AttributeError or ImportError where there is none."""
    found = importlib.import_module(library)
    for i, name in enumerate(names):
        try:
            found = getattr(found, name)
        except AttributeError:
            if not inspect.ismodule(found):
                raise
            try:
                found = importlib.import_module(".".join([library, *names[: i + 1]]))
            except ModuleNotFoundError as error:
                raise AttributeError(f"{library} has no {'.'.join(names[: i + 1])}") from error
    return found


def parameters(function: Any) -> inspect.Signature | None:
    """How it is called, as far as it says so: Cython's functions may have it in the first line of their text."""
    try:
        return inspect.signature(function)
    except (ValueError, TypeError):
        pass
    first = (inspect.getdoc(function) or "").partition("\n")[0]
    match = re.fullmatch(r"[\w.]+\((.*)\)(?: *->.*)?", first)
    if match is None:
        return None
    plain = re.sub(r"(?<=[(,*])\s*(?:[\w.\[\] ]+ )(\w+)", r" \1", f"({match[1]})")  # without Cython's types
    try:
        found: dict[str, Any] = {}
        exec(f"def f{plain}: ...", {}, found)
    except SyntaxError:
        return None
    return inspect.signature(found["f"])


def refusal(function: Any, call: tuple[int, tuple[str, ...]], *, method: bool = False) -> str | None:
    """Why a call does not fit, "" where that cannot be known, None where it does."""
    signature = parameters(function)
    if signature is None:
        return ""
    count, keywords = call
    try:
        signature.bind(*[None] * (count + method), **dict.fromkeys(keywords))
    except TypeError as error:
        return f"{error}; it takes {signature}"
    return None


def sources(package: Path) -> list[_Module]:
    """The package's modules."""
    return [_Module(path, str(path.relative_to(package.parent))) for path in sorted(package.rglob("*.py"))]


def _plain(modules: list[_Module]) -> set[str]:
    """What Python, the package and the libraries without a GPU have: names of modules, and members of their classes."""
    found = {name for module in modules for name in module.own_names()}
    named = {name for module in modules for name in module.others()}
    for name in filter(_is_installed, sorted(named | {"builtins", "_thread"})):
        module = importlib.import_module(name)
        found |= set(dir(module))
        for one in vars(module).values():
            if isinstance(one, type):
                found |= members(one)
    return found


def check(package: Path = PACKAGE, also: tuple[str, ...] = ALSO, exactly: tuple[str, ...] = MEMBERS) -> Found:
    """Look for all that a package uses."""
    modules, found, classes = sources(package), Found(), []
    uses = [use for module in modules for use in module.uses()]

    def called(use: Use, refusals: list[str | None]) -> None:
        """Count a call, of what has to take it at least once."""
        if None in refusals:
            found.calls += 1
        elif "" in refusals:
            found.unknown += 1
        else:
            found.missing.append(f"{use.where}: {use}: {refusals[0]}")

    for name in also:
        try:
            classes.append(resolve(*_cut(name)))
        except (ImportError, AttributeError) as error:
            found.missing.append(f"{Path(__file__).name}: {name}: {error}")
    for name in exactly:
        found.names += 1
        holder, member = _cut(name)
        try:
            library, (kind,) = _cut(holder)
            resolve(library, (kind, *member))
        except (ImportError, AttributeError) as error:
            found.missing.append(f"{Path(__file__).name}: {name}: {error}")
    for use in uses:
        if not use.library:
            continue
        found.names += 1
        try:
            thing = resolve(use.library, use.names)
        except (ImportError, AttributeError) as error:
            found.missing.append(f"{use.where}: {use}: {error}")
            continue
        holders = [resolve(use.library, use.names[:count]) for count in range(len(use.names) + 1)]
        classes += [holder for holder in holders if isinstance(holder, type)]
        if use.call is not None:
            called(use, [refusal(thing, use.call)])
    classes, plain = list(dict.fromkeys(classes)), _plain(modules)
    for use in uses:
        if use.library:
            continue
        name = use.names[-1]
        holders = [one for one in classes if name in members(one)]
        if not holders and name in INSIDE:
            if f"def {name}(" not in inspect.getsource(importlib.import_module(INSIDE[name])):
                found.missing.append(f"{use.where}: {use}: {INSIDE[name]} does not define it")
        elif not holders and name not in plain:
            found.missing.append(f"{use.where}: {use}: no class that is known has it")
        if holders:
            found.names += 1
            if use.call is not None and name not in plain:
                called(use, [_refusal_of_member(inspect.getattr_static(one, name, None), use.call) for one in holders])
    return found


def _cut(name: str) -> tuple[str, tuple[str, ...]]:
    library, _, last = name.rpartition(".")
    return library, (last,)


def _refusal_of_member(member: Any, call: tuple[int, tuple[str, ...]]) -> str | None:
    """`refusal` of a method, or of what an attribute holds, of which nothing is known."""
    if isinstance(member, staticmethod | classmethod):
        return refusal(member.__func__, call, method=isinstance(member, classmethod))
    return refusal(member, call, method=True) if callable(member) else ""


def main() -> int:
    """Say what was found; the exit status."""
    found = check()
    for line in found.missing:
        print(line)
    installed = packages_distributions()
    versions = ", ".join(f"{one} {version(one)}" for library in LIBRARIES[:-1] for one in installed[library][:1])
    print(
        f"{found.names} names and {found.calls} calls are there, {found.unknown} calls do not say what they take, "
        f"{len(found.missing)} missing: {versions}"
    )
    return int(bool(found.missing))


if __name__ == "__main__":
    sys.exit(main())
