"""The script that holds what the package uses of cuDF and others against what they have. These are stand-ins here."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parent.parent

LIBRARY = """
class Series:
    def __init__(self, values): self.kept = values
    annotated: int
    @classmethod
    def made(cls, values, *, name=None): return cls(values)
    @staticmethod
    def free(values): pass
    def method(self, one, two=2): pass
    @property
    def held(self): pass
    def undocumented(*args): pass
class Other:
    def method(self, one, two, three, four): pass
def concat(parts, ignore_index=False): pass
"""

GOOD = """
import cudf
import cudf as renamed
import cudf.core.inside as deep
from cudf import concat as join
from cudf.core.inside import Thing
import threading, numpy as np
types = np.random

def cudf_module(): return cudf

class Own:
    ours: int
    def set(self): self.own = 1

def work(series, rows, lock: threading.Lock):
    library = cudf_module()
    library.Series.made(rows, name="a")
    cudf_module().concat([rows], ignore_index=True)
    cudf.Series(rows).method(1, two=3)
    renamed.Series.free(1)
    join(rows)
    join(*rows, **rows)
    deep.Thing(1, 2).go()
    Thing.limit
    other = cudf.Other
    series.kept, series.annotated, series.held, series.own, series.ours, series.tolist
    series.method(1, 2, 3, 4)
    types.nothing_of_the_libraries(1)
    with lock:
        lock.release()
"""

INSIDE = """
class Thing:
    limit = 3
    def __init__(self, a, b): pass
    def go(self): pass
"""


@pytest.fixture(scope="module")
def script() -> Iterator[Any]:
    """Once, for it keeps what it has found out about pandas."""
    spec = importlib.util.spec_from_file_location("check_gpu_api", ROOT / ".ci" / "check_gpu_api.py")
    made = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, spec.name, made)
        spec.loader.exec_module(made)
        yield made


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for modules, beside a cuDF of stand-ins."""
    for name in [one for one in sys.modules if one.split(".")[0] in ("cudf", "cupy", "rmm", "pylibcudf")]:
        monkeypatch.delitem(sys.modules, name)
    for name in ("cudf", "cudf.core", "cudf.core.inside"):  # gone again at the end
        monkeypatch.setitem(sys.modules, name, ModuleType(name))
        del sys.modules[name]
    (tmp_path / "cudf" / "core").mkdir(parents=True)
    (tmp_path / "cudf" / "__init__.py").write_text(LIBRARY)
    (tmp_path / "cudf" / "core" / "__init__.py").write_text("")
    (tmp_path / "cudf" / "core" / "inside.py").write_text(INSIDE)
    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "package").mkdir()
    return tmp_path / "package"


def found(script: Any, package: Path, text: str) -> Any:
    (package / "module.py").write_text(text)
    return script.check(package, (), ())


def test_what_is_there(script: Any, package: Path) -> None:
    seen = found(script, package, GOOD)
    assert seen.missing == []
    assert seen.names == 20
    assert seen.calls >= 9


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("cudf.gone", r"module.py:2: cudf.gone: .*no"),
        ("cudf.Series.gone(1)", r"cudf.Series.gone: type object 'Series' has no attribute 'gone'"),
        ("cudf.Series.made(1, other=2)", r"cudf.Series.made: got an unexpected keyword argument 'other'; it takes"),
        ("cudf.Series.made()", r"cudf.Series.made: missing a required argument: 'values'"),
        ("cudf.Series.free(1, 2)", r"cudf.Series.free: too many positional arguments"),
        ("cudf.Series(1, 2)", r"cudf.Series: too many positional arguments"),
        ("cudf.concat([1], sort=True)", r"cudf.concat: got an unexpected keyword argument 'sort'"),
        ("from cudf.core.inside import gone", r"cudf.core.inside.gone: .*no"),
        ("import cudf.core.gone", r"cudf.core.gone: No module named 'cudf.core.gone'"),
        ("cudf.core.inside.Thing(1)", r"cudf.core.inside.Thing: missing a required argument: 'b'"),
        ("cudf.Series; x.gone_for_ever", r"an attribute .gone_for_ever: no class that is known has it"),
        ("cudf.Series; x.method()", r"an attribute .method: missing a required argument: 'one'"),
        ("cudf.Series; x.made(1, 2)", r"an attribute .made: too many positional arguments"),
        ("cudf_module().gone", r"cudf.gone: .*no"),
        ("library = cudf_module(); library.gone", r"cudf.gone: .*no"),
        ("import sys; proxies = sys.modules.get('cudf.core'); proxies.gone", r"cudf.core.gone: .*no"),
    ],
)
def test_what_is_missing(line: str, message: str, script: Any, package: Path) -> None:
    text = line if line.startswith(("import cudf.", "from")) else f"import cudf\n{line}"
    (said,) = found(script, package, text).missing
    assert re.search(message, said), said


def test_modules_of_what_is_not_installed(script: Any, package: Path) -> None:
    text = "import cudf, nobody_has_this\ncudf.Series\nx.gone_for_ever\ncudf.gone"
    (said,) = found(script, package, text).missing
    assert "cudf.gone" in said


def test_classes_that_the_sources_do_not_name(script: Any, package: Path) -> None:
    (package / "module.py").write_text("import cudf\nx.go(); x.limit")
    assert len(script.check(package, (), ()).missing) == 2
    assert script.check(package, ("cudf.core.inside.Thing",), ("cudf.core.inside.Thing.go",)).missing == []
    (said,) = [one for one in script.check(package, ("cudf.core.inside.Gone",), ()).missing if "Gone" in one]
    assert "check_gpu_api.py" in said


def test_members_of_a_class_that_others_have_too(script: Any, package: Path) -> None:
    (package / "module.py").write_text("import cudf\ncudf.Series.free(1)")
    (said,) = script.check(package, (), ("cudf.Series.method", "cudf.core.inside.Thing.method")).missing
    assert "Thing.method: type object 'Thing' has no attribute 'method'" in said


def test_parameters_of_functions_in_cython(script: Any) -> None:
    class Function:
        __signature__ = "none"

        def __init__(self, text: str) -> None:
            self.__doc__ = text

        __call__ = None

    for text in (
        "f(Column column, size_type offset=0, *, bool validate=True) -> Column\n\nText.",
        "f(column, offset=0)",
    ):
        assert list(script.parameters(Function(text)).parameters)[:2] == ["column", "offset"]
    for text in ("Text alone.", "f(not python at all (", ""):
        assert script.parameters(Function(text)) is None


def test_workflows() -> None:
    """They run what developers run, and actions of others that cannot change."""
    commands, actions = [], []
    for path in sorted((ROOT / ".github" / "workflows").glob("*.yml")):
        for job in yaml.safe_load(path.read_text())["jobs"].values():
            commands += [step["run"] for step in job["steps"] if "run" in step]
            actions += [step["uses"] for step in job["steps"] if "uses" in step]
    assert ".ci/run" in commands
    assert ".venv/bin/python .ci/check_gpu_api.py" in commands
    assert actions
    assert all(re.fullmatch(r"actions/[\w-]+@[0-9a-f]{40}", action) for action in actions)


def test_the_package_is_read(script: Any) -> None:
    """All of its modules; the place that knows cuDF has most of what is looked for."""
    uses = [use for module in script.sources(script.PACKAGE) for use in module.uses()]
    named = {str(use) for use in uses if use.library}
    assert {"cudf.Series.from_pylibcudf", "pylibcudf.Column", "rmm.DeviceBuffer", "cupy.RawModule"} <= named
    attributes = {use.names[0] for use in uses if not use.library and use.where.startswith("cudf_fsst/interop/cudf")}
    assert {"plc_column", "null_mask", "access", "_column"} <= attributes
    launch = next(use for use in uses if str(use) == "cupy.cuda.driver.launchKernel")
    assert launch.call == (11, ())
    assert "cupy.cuda.function.Function.ptr" in script.MEMBERS  # which that gets, by a name that many have
    assert len(named) > 60
