"""Shared by all tests: GPU detection, a GPU of stand-ins, hypothesis profiles, data."""

from __future__ import annotations

import gc
import itertools
import os
import random
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import hypothesis
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import fake_gpu
from column_cases import VALUES
from cudf_fsst.codecs.dict import plan as dictionaries
from cudf_fsst.codecs.text import plan
from emulation import trained

pytest.register_assert_rewrite("cli_cases", "frame_cases", "fsst_gpu", "nasty_values", "spill_cases", "values_gpu")

# "ci" is what .ci/run and the README's command use; "deep" is for an evening: HYPOTHESIS_PROFILE=deep pytest.
_COMMON = {"deadline": None, "suppress_health_check": [hypothesis.HealthCheck.too_slow]}
hypothesis.settings.register_profile("ci", max_examples=50, derandomize=True, database=None, **_COMMON)
hypothesis.settings.register_profile("dev", max_examples=10, **_COMMON)
hypothesis.settings.register_profile("deep", max_examples=2000, **_COMMON)
hypothesis.settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "ci"))

DBTEXT_VARIABLE = "CUDF_FSST_DBTEXT"

# Hundreds of processes import the package: Python shall compile it once.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False


@pytest.fixture(scope="session", autouse=True)
def no_measured_launch_choices(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What was measured on this machine has no part in the tests."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CUDF_FSST_CACHE_DIR", str(tmp_path_factory.mktemp("cache")))
        yield


@pytest.fixture(scope="session", autouse=True)
def kernels_compiled_once(tmp_path_factory: pytest.TempPathFactory, no_measured_launch_choices: None) -> Iterator[None]:
    """By one of xdist's workers, not by each."""
    if "PYTEST_XDIST_WORKER" not in os.environ:
        yield
        return
    from compiled_once import compiled_once

    with compiled_once(tmp_path_factory.getbasetemp().parent / "compiled"):
        yield


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers() -> int:
    """For ``-n auto``: a worker for every core that this process may use, up to eight, for each builds kernels."""
    return min(8, len(os.sched_getaffinity(0)))


def _why_no_gpu() -> str | None:
    """Why tests marked gpu cannot run here, None if they can."""
    try:
        import cudf  # noqa: F401  # only whether it can be imported
        import cupy
    except ImportError as error:
        return f"no cuDF here: {error}"
    try:
        cupy.cuda.runtime.getDeviceCount()
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return f"no usable GPU here: {error}"
    return None


def _mark_slow(items: list[pytest.Item]) -> list[pytest.Item]:
    """Mark what `sampled` does not take, and notebooks but the first one, which takes minutes with their pictures.

    Returns what need not be run: cases of `covering` whose values are met without them.
    """
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    unneeded = []
    for item in items:
        if item.get_closest_marker("sampled"):
            cases.setdefault((item.path, item.nodeid.partition("[")[0]), []).append(item)
        elif item.path.suffix == ".ipynb" and item.path.stem != "quickstart":
            item.add_marker(pytest.mark.slow)
    for (path, name), every in cases.items():
        (count,) = every[0].get_closest_marker("sampled").args
        # At random, for a fixed step could meet one value of a parameter only; always the same ones.
        dice = random.Random(f"{path.name} {name.rpartition('::')[2]}")
        kept = dice.sample(range(len(every)), min(count, len(every)))
        covering = every[0].get_closest_marker("covering")
        needed = range(len(every)) if covering is None else _covering(every, kept, *covering.args)
        for number, item in enumerate(every):
            if number not in kept:
                item.add_marker(pytest.mark.slow)
            if number not in needed:
                unneeded.append(item)
    return unneeded


def _covering(every: list[pytest.Item], kept: list[int], together: int) -> set[int]:
    """Numbers of cases, those kept and more, that meet all values of `together` parameters at a time."""
    values = [[(name, id(value)) for name, value in item.callspec.params.items()] for item in every]
    met = [set(itertools.combinations(one, together)) for one in values]
    found, missing = set(kept), set().union(*met).difference(*(met[number] for number in kept))
    while missing:  # by cases that meet most of it; of these, by one whose values have been met least
        times = Counter(itertools.chain.from_iterable(values[number] for number in found))
        new = max(range(len(every)), key=lambda at: (len(met[at] & missing), -sum(times[one] for one in values[at])))
        found.add(new)
        missing -= met[new]
    return found


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what needs a GPU where there is none, and say why; begin with what takes long."""
    unneeded = set(_mark_slow(items))
    if unneeded and os.environ.get("CUDF_FSST_ALL_CASES") != "1":
        items[:] = [item for item in items if item not in unneeded]
        config.hook.pytest_deselected(items=list(unneeded))
    items.sort(key=lambda item: item.get_closest_marker("long") is None)
    wanted = [item for item in items if item.get_closest_marker("gpu")]
    reason = _why_no_gpu() if wanted else None
    if reason is not None:
        for item in wanted:
            item.add_marker(pytest.mark.skip(reason=reason))


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_protocol(item: pytest.Item) -> Iterator[None]:
    """Emulated kernels train tables where a test asks for it."""
    by_kernels = item.get_closest_marker("trains") or os.environ.get("CUDF_FSST_EMULATED_TRAINING") == "1"
    with trained.training_on_host(not by_kernels):
        return (yield)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """What is there before the first test stays: tests that collect garbage need not look through all of it."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def dbtext() -> Path:
    """Folder with the DBText files of the FSST paper."""
    folder = os.environ.get(DBTEXT_VARIABLE)
    if not folder:
        pytest.skip(f"{DBTEXT_VARIABLE} is not set to the folder of the DBText files")
    return Path(folder)


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> fake_gpu.World:
    """A GPU of stand-ins."""
    return fake_gpu.install(monkeypatch)


@pytest.fixture
def rng() -> np.random.Generator:
    """Random numbers, the same in every run."""
    return np.random.default_rng(20190218)


@pytest.fixture
def small_segments(monkeypatch: pytest.MonkeyPatch) -> None:
    """Several segments and tables in a short column."""
    monkeypatch.setattr(plan, "segment_size", lambda chars: 3000)
    monkeypatch.setattr(plan, "TABLE_SCOPE", 6000)


@pytest.fixture
def automatic(monkeypatch: pytest.MonkeyPatch) -> None:
    """Short columns get a dictionary where one pays, as long ones do."""
    monkeypatch.setattr(dictionaries, "LEAST_ROWS", 1024)


@pytest.fixture
def parquet(tmp_path: Path) -> Path:
    """Strings with nulls in row groups of 100, beside a column of numbers."""
    path = tmp_path / "in.parquet"
    table = pa.table({"text": pa.array(VALUES, pa.string()), "number": range(len(VALUES))})
    pq.write_table(table, path, row_group_size=100)
    return path
