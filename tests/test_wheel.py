"""The wheel: built from the tree, installed into an environment of its own, used from there."""

from __future__ import annotations

import os
import subprocess
import sys
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

pytestmark = pytest.mark.slow


def run(*command: object, cwd: Path) -> str:
    # Nothing of this process's packages may be found: the wheel has to stand on its own.
    environment = {key: value for key, value in os.environ.items() if not key.startswith(("PYTHON", "CUDF_FSST"))}
    result = subprocess.run([str(part) for part in command], cwd=cwd, env=environment, capture_output=True, text=True)
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, ROOT, cwd=folder)
    (path,) = folder.glob("cudf_fsst-*.whl")
    return path


def test_contents(wheel: Path) -> None:
    names = set(zipfile.ZipFile(wheel).namelist())
    package = {name.removeprefix("cudf_fsst/") for name in names if name.startswith("cudf_fsst/")}
    assert {name.partition("/")[0] for name in names} == {"cudf_fsst", wheel.name.split("-py3")[0] + ".dist-info"}

    kernels = {f"kernels/{path.name}" for path in (ROOT / "kernels").iterdir() if path.suffix in (".cu", ".cuh")}
    assert kernels
    sources = {
        path.relative_to(ROOT / "cudf_fsst").as_posix()
        for path in (ROOT / "cudf_fsst").rglob("*.py")
        if "__pycache__" not in path.parts
    }
    assert package == sources | kernels | {"py.typed"}


@pytest.mark.long
def test_installed_wheel_runs_the_demo(wheel: Path, tmp_path: Path) -> None:
    environment = tmp_path / "environment"
    venv.create(environment)
    python = environment / "bin" / "python"
    pip = sys.executable, "-m", "pip", "--python", python
    # To compile all modules of all dependencies would take most of the time, and few of them are imported.
    run(*pip, "install", "--quiet", "--no-compile", f"{wheel}[demo]", cwd=tmp_path)
    where = run(python, "-c", "import cudf_fsst; print(cudf_fsst.__file__)", cwd=tmp_path)
    assert environment in Path(where.strip()).parents
    version = wheel.name.split("-")[1]
    assert run(environment / "bin" / "cudf-fsst", "--version", cwd=tmp_path) == f"cudf-fsst {version}\n"

    shown = run(
        environment / "bin" / "cudf-fsst", "demo", "--scale", "0.001", "--column", "l_comment", "--device", "cpu",
        cwd=tmp_path,
    )  # fmt: skip
    assert "l_comment" in shown
    assert "came back equal" in shown
