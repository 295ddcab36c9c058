"""What a pool gives back does not depend on whether it had to spill."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from cudf_fsst import SpillPool
from cudf_fsst.spill import held
from fake_gpu import FakePacked, FakeSeries, World
from nasty_values import KEPT, ROWS, STAYS, frame, identical, labels, noted, objects
from spill_cases import PLAIN, SLACK, check_books, fake, text


@pytest.mark.sampled(16)
@pytest.mark.parametrize("make", KEPT.values(), ids=KEPT)
def test_goes_to_disk_and_comes_back_the_same(tmp_path: Path, make: Callable[[], Any]) -> None:
    wanted = make()
    with SpillPool(host_limit=0, directory=tmp_path) as pool:
        pool["value"] = wanted
        assert pool.where("value") in ("disk", "host, compressed")
        identical(pool["value"], wanted)
        identical(pool["value"], wanted)
        assert pool.stats.moves["decompress"].count == 2
    identical(wanted, make())


@pytest.mark.parametrize("make", {**KEPT, **STAYS}.values(), ids={**KEPT, **STAYS})
def test_comes_back_the_same_without_spilling(make: Callable[[], Any]) -> None:
    pool = SpillPool()
    wanted = make()
    pool["value"] = wanted
    identical(pool["value"], wanted)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("make", STAYS.values(), ids=STAYS)
def test_what_would_change_is_not_compressed(tmp_path: Path, make: Callable[[], Any]) -> None:
    wanted = make()
    size = held.nbytes_of(wanted)
    with SpillPool(host_limit=size + PLAIN + SLACK, directory=tmp_path) as pool:
        pool["value"] = wanted
        for seed in range(4):
            pool[seed] = text(seed)
        assert pool.where("value") == "host"
        assert pool.where(0) == "disk"
        assert size <= pool.host_nbytes <= size + PLAIN + SLACK
        identical(pool["value"], wanted)
    with SpillPool(host_limit=size - 1, directory=tmp_path) as pool:
        with pytest.raises(TypeError, match=r"'value', while it was compressed: .* would"):
            pool["value"] = wanted
        assert list(pool) == []


def test_decimals_that_signal(tmp_path: Path) -> None:
    """pandas cannot tell whether they are missing."""
    wanted = frame(objects(Decimal("1.5"), Decimal("sNaN")))
    with SpillPool(host_limit=0, directory=tmp_path) as pool:
        with pytest.raises(TypeError, match=r"'value', .* column 'value': .* Arrow has no Decimal\('sNaN'\)"):
            pool["value"] = wanted
        with pytest.raises(TypeError, match=r"'labels', .* Arrow has no Decimal\('sNaN'\)"):
            pool["labels"] = frame(index=labels(Decimal("sNaN")))


def test_what_pandas_cannot_measure(tmp_path: Path) -> None:
    views = pd.Series(pd.arrays.ArrowExtensionArray(pa.array(["a", "b"] * 30, pa.string_view())))
    with SpillPool(host_limit=0, directory=tmp_path) as pool:
        for name, wanted in {"series": views, "frame": views.to_frame("v")}.items():
            pool[name] = wanted
            assert pool.where(name) == "disk"
            assert pa.Table.from_pandas(pd.DataFrame(pool[name])).equals(pa.Table.from_pandas(pd.DataFrame(wanted)))
    labelled = frame(columns=pd.Index(["a", "\udc80"], dtype=object))
    pool = SpillPool()
    pool["labelled"] = labelled
    assert list(pool["labelled"].columns) == ["a", "\udc80"]


def test_attrs_are_a_snapshot(tmp_path: Path) -> None:
    """Of what is put and of what was given, spilled or not."""
    for limit in (None, 0):
        with SpillPool(host_limit=limit, directory=tmp_path) as pool:
            data = noted(pd.DataFrame({"x": range(ROWS)}, index=pd.RangeIndex(ROWS, name="i")))
            pool["a"] = data
            data.attrs["from"].append("changed")
            data.index.name = "changed"
            data.columns.name = "changed"
            for _ in range(2):
                found = pool["a"]
                assert found.attrs == {"from": ["here", 1]}
                assert (found.index.name, found.columns.name) == ("i", None)
                found.attrs["from"].append("changed")
                found.index.name = found.columns.name = "changed"


def test_labels_of_a_compressed_column_that_a_file_would_change(tmp_path: Path) -> None:
    packed = pd.Series("a", labels(np.nan), dtype="str").fsst.compress()
    with SpillPool(host_limit=held.nbytes_of(packed) + SLACK, directory=tmp_path) as pool:
        pool["a"] = packed
        pool["b"] = text(1)
        assert [pool.where(name) for name in "ab"] == ["host, compressed", "disk"]
        assert pool["a"].index[-1] is packed.index[-1]
    pool = SpillPool(host_limit=0, directory=tmp_path)
    with pytest.raises(TypeError, match="'a', while it was written to disk: the index: objects with missing values"):
        pool["a"] = packed


class Mine(FakeSeries):
    """A Series of a subclass of cuDF's."""

    def copy(self, *, deep: bool) -> Mine:
        assert not deep
        return Mine(self.world, self.payload, self.nbytes, self.memory)


def test_a_subclass_of_cudfs(world: World) -> None:
    pool = SpillPool(device_limit=1500)
    pool["mine"] = Mine(world, "payload 1", 1000)
    assert pool.where("mine") == "cuda:0"
    assert pool.device_nbytes == 1000
    for seed in range(3):
        pool[seed] = fake(world, seed)
    assert pool.where("mine") == "cuda:0"
    assert pool.device_nbytes <= 1500
    assert pool["mine"].payload == "payload 1"
    check_books(pool, world)


def test_compressed_on_the_gpu_under_cudf_pandas(world: World) -> None:
    """What gives proxies gives them after it was in host memory, too."""
    pool = SpillPool()
    pool["proxies"], pool["none"] = (FakePacked(world, name, 1000, 250, "cuda:0") for name in "ab")
    packed = FakePacked(world, "a", 1000, 250, "cuda:0")
    packed._proxied = True  # type: ignore[attr-defined]
    pool["proxies"] = packed
    pool.make_room(10**6)
    assert pool.where("proxies") == "host, compressed"
    assert pool["proxies"]._proxied
    assert not getattr(pool["none"], "_proxied", False)
