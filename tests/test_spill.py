"""SpillPool as a dict, what lies where in host memory and on disk, its end and its looks."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst import CompressedColumn, SpillPool
from cudf_fsst.sizes import format_bytes, parse_bytes
from fake_gpu import files_under
from spill_cases import PACKED, PLAIN, SLACK, same, text

# Sizes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("written", "nbytes"),
    [
        (0, 0), (np.int64(7), 7), ("12", 12), ("4 GiB", 4 << 30), ("4GiB", 4 << 30), (" 1.5 kB ", 1500),
        ("2 Mi", 2 << 20), ("1e9", 10**9), ("3 tb", 3 * 10**12), (".5 KiB", 512), ("10 B", 10),
    ],
)  # fmt: skip
def test_parse_bytes(written: Any, nbytes: int) -> None:
    assert parse_bytes("limit", written) == nbytes


@pytest.mark.parametrize(
    ("written", "error"),
    [("", ValueError), ("4 Gib it", ValueError), ("-1", ValueError), (-1, ValueError), (1.5, TypeError),
     (None, TypeError), ("1e999", ValueError), ("4 XiB", ValueError)],
)  # fmt: skip
def test_sizes_that_are_none(written: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="limit"):
        parse_bytes("limit", written)


def test_format_bytes() -> None:
    sizes = (0, 1023, 1024, 1536 << 20, 5 << 40)
    assert [format_bytes(n) for n in sizes] == ["0 B", "1023 B", "1.0 KiB", "1.5 GiB", "5.0 TiB"]


# As a dict -------------------------------------------------------------------------------------------------------


def test_is_a_dict() -> None:
    pool = SpillPool()
    assert not pool
    assert list(pool) == []
    pool["a"] = text(1)
    pool[2, "b"] = text(2)
    assert len(pool) == 2
    assert "a" in pool
    assert "c" not in pool
    assert list(pool) == ["a", (2, "b")]
    same(pool["a"], text(1))
    same(pool.get((2, "b")), text(2))
    assert pool.get("c") is None
    with pytest.raises(KeyError, match="c"):
        pool["c"]
    with pytest.raises(KeyError, match="c"):
        del pool["c"]
    with pytest.raises(KeyError, match="c"):
        pool.pop("c")
    with pytest.raises(KeyError, match="c"):
        pool.prefetch("c")
    assert pool.pop("c", None) is None
    same(pool.setdefault("a", text(9)), text(1))
    pool["a"] = text(3)
    assert list(pool) == ["a", (2, "b")]
    same(pool.pop("a"), text(3))
    assert list(dict(pool.items())) == [(2, "b")]
    pool.update({"x": text(4), "y": text(5)})
    del pool["x"]
    assert list(pool) == [(2, "b"), "y"]
    pool.clear()
    assert len(pool) == 0
    assert pool != SpillPool()
    assert pool in {pool}


def test_refuses_what_it_cannot_hold() -> None:
    pool = SpillPool()
    for value in (1, "text", text(1).to_list(), pd.Index(["a"])):
        with pytest.raises(TypeError, match=r"'x': a pool holds a Series"):
            pool["x"] = value
    assert "x" not in pool


def test_series_of_any_dtype(tmp_path: Path) -> None:
    made = {
        "numbers": pd.Series(np.arange(20_000) % 100, index=pd.Index(np.arange(20_000) * 3, name="i"), name="n"),
        "dates": pd.Series(pd.date_range("2020", periods=20_000, freq="h")),
        "kinds": pd.Series(pd.Categorical(["a", "b"] * 10_000), name=("x", 1)),
    }
    with SpillPool(host_limit="100 KiB", directory=tmp_path) as pool:
        pool.update(made)
        assert pool.stats.moves["compress"].count >= 2
        for name, series in made.items():
            pd.testing.assert_series_equal(pool[name], series)
            assert pool[name].name == series.name


def test_limits_are_checked(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="device_limit"):
        SpillPool(device_limit="lots", directory=tmp_path)
    with pytest.raises(ValueError, match="host_limit"):
        SpillPool(host_limit=-1, directory=tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_is_a_snapshot() -> None:
    pool = SpillPool()
    series = text(1)
    pool["a"] = series
    series.iloc[0] = "changed"
    got = pool["a"]
    got.iloc[1] = "changed too"
    same(pool["a"], text(1))


def test_what_is_put_compressed_comes_back_compressed(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PACKED + SLACK, directory=tmp_path)
    pool["a"] = text(1).fsst.compress()
    assert pool.where("a") == "host, compressed"
    pool["b"] = text(2).fsst.compress()
    assert pool.where("a") == "disk"
    for name, seed in (("a", 1), ("b", 2), ("a", 1)):
        got = pool[name]
        assert isinstance(got, CompressedColumn)
        same(got.decompress(), text(seed))
    assert pool.host_nbytes <= PACKED + SLACK


# Tiers of the host -----------------------------------------------------------------------------------------------


def test_pandas_is_compressed_then_written(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PLAIN + 2 * PACKED + SLACK, directory=tmp_path)
    seen = []
    for seed in range(5):
        pool[seed] = text(seed)
        seen.append([pool.where(name) for name in pool])
        assert pool.host_nbytes <= PLAIN + 2 * PACKED + SLACK
    plain, packed, disk = "host", "host, compressed", "disk"
    assert seen == [
        [plain],
        [packed, plain],
        [packed, packed, plain],
        [disk, packed, packed, plain],
        [disk, disk, packed, packed, plain],
    ]
    same(pool[1], text(1))
    assert [pool.where(name) for name in pool] == [disk, plain, disk, packed, packed]
    same(pool[0], text(0))
    # 1 lay on disk as well, so it left without a move; and 0 does.
    same(pool[1], text(1))
    assert [pool.where(name) for name in pool] == [disk, plain, disk, packed, packed]
    assert pool.stats.dropped == 2
    assert pool.stats.moves["save"].count == 3
    for seed in (3, 0, 4, 2, 1):
        same(pool[seed], text(seed))


def test_reading_counts_as_use(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=2 * PLAIN + PACKED + SLACK, directory=tmp_path)
    for seed in range(2):
        pool[seed] = text(seed)
    assert pool.stats.hits == 0
    same(pool[0], text(0))
    assert pool.stats.hits == 1
    pool[2] = text(2)
    assert [pool.where(name) for name in pool] == ["host", "host, compressed", "host"]
    same(pool[1], text(1))
    assert pool.stats.misses == 1


def test_larger_than_the_limit(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PACKED // 2, directory=tmp_path)
    pool["a"] = text(1)
    assert pool.where("a") == "disk"
    assert pool.host_nbytes == 0
    same(pool["a"], text(1))
    assert pool.where("a") == "disk"
    assert pool.disk_nbytes == sum(path.stat().st_size for path in tmp_path.rglob("*.fsst"))


def test_no_directory() -> None:
    pool = SpillPool(host_limit=PLAIN + SLACK)
    pool["a"] = text(1)
    with pytest.raises(MemoryError, match=r"'b': .* do not fit host_limit .*no directory"):
        pool["b"] = text(2, rows=4000)
    assert list(pool) == ["a"]
    same(pool["a"], text(1))
    with pytest.raises(MemoryError, match=r"'a': .* do not fit"):
        pool["a"] = text(2, rows=4000)
    same(pool["a"], text(1))
    assert pool.host_nbytes <= PLAIN + SLACK


def test_what_a_file_cannot_give_back_stays(tmp_path: Path) -> None:
    odd = text(1)
    odd.index = pd.Index([1, "b"] * 200, dtype=object)
    pool = SpillPool(host_limit=PLAIN + PACKED, directory=tmp_path)
    with pytest.raises(TypeError, match="'odd', while it was written to disk"):
        SpillPool(host_limit=0, directory=tmp_path)["odd"] = odd
    roomy = SpillPool(host_limit=3 * PLAIN, directory=tmp_path)
    roomy["odd"] = odd
    for seed in range(6):
        roomy[seed] = text(seed)
    same(roomy["odd"], odd)
    for seed in range(6):
        same(roomy[seed], text(seed))
    pool.close()


def test_incompressible_data_goes_to_disk_all_the_same(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    noise = pd.Series([rng.bytes(30).hex() for _ in range(3)], dtype="str")
    pool = SpillPool(host_limit=int(noise.memory_usage(deep=True)), directory=tmp_path)
    pool["noise"] = noise
    pool["more"] = noise[::-1]
    assert pool.where("noise") == "disk"
    same(pool["noise"], noise)
    same(pool["more"], noise[::-1])


# Its end ---------------------------------------------------------------------------------------------------------


def test_pools_have_folders_of_their_own(tmp_path: Path) -> None:
    (tmp_path / "mine.fsst").write_text("of somebody else")
    folder = tmp_path / "not there"
    with SpillPool(host_limit=0, directory=folder) as one, SpillPool(host_limit=0, directory=folder) as other:
        one["a"], other["a"] = text(1), text(2)
        assert len(list(folder.iterdir())) == 2
        same(one["a"], text(1))
        same(other["a"], text(2))
        one["a"] = text(3)
        assert len(files_under(folder)) == 2
        del other["a"]
        assert len(files_under(folder)) == 1
    assert list(folder.iterdir()) == []
    assert (tmp_path / "mine.fsst").exists()


def test_directory_in_one_that_is_missing(tmp_path: Path) -> None:
    """A path that is spelt wrong makes no folders."""
    with pytest.raises(FileNotFoundError, match="there"):
        SpillPool(directory=tmp_path / "not" / "there")
    assert list(tmp_path.iterdir()) == []
    (tmp_path / "file").touch()
    with pytest.raises(NotADirectoryError):
        SpillPool(directory=tmp_path / "file")


def test_closed(tmp_path: Path) -> None:
    pool = SpillPool(directory=tmp_path)
    pool["a"] = text(1)
    pool.close()
    pool.close()
    assert pool.closed
    assert len(pool) == 0
    uses: list[Callable[[], Any]] = [
        lambda: pool["a"],
        lambda: pool.__setitem__("a", text(1)),
        lambda: pool.pop("a"),
        lambda: pool.prefetch("a"),
        lambda: pool.__delitem__("a"),
        lambda: pool.clear(),
        lambda: pool.where("a"),
        lambda: pool.__enter__(),
    ]
    for use in uses:
        with pytest.raises(ValueError, match="closed"):
            use()
    assert "closed" in repr(pool)
    assert list(tmp_path.iterdir()) == []


def test_collected(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(1)
    pool.prefetch("a").result()
    assert files_under(tmp_path)
    del pool
    for _ in range(10_000):  # the thread that prefetched lets go a moment later
        gc.collect()
        if not list(tmp_path.iterdir()):
            break
        time.sleep(0.02)
    assert list(tmp_path.iterdir()) == []


# Its looks -------------------------------------------------------------------------------------------------------


def test_repr(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=PLAIN + SLACK, directory=tmp_path)
    assert "0 entries" in repr(pool)
    assert "empty" in pool._repr_html_()
    for seed in range(25):
        pool[f"<{seed}>"] = text(seed)
    pool["<3>"]
    shown = repr(pool)
    for part in ("25 entries", "name", "'<0>'", "disk", "5 more", "compress", "save", "GB/s", "1 misses"):
        assert part in shown
    page = pool._repr_html_()
    assert "&lt;3&gt;" in page
    assert "<3>" not in page
    assert page.count("<table>") == page.count("</table>") == 2
    assert pool._ipython_key_completions_()[0] == "<0>"


def test_stats(tmp_path: Path) -> None:
    pool = SpillPool(host_limit=0, directory=tmp_path)
    pool["a"] = text(1)
    pool["a"]
    stats = pool.stats
    assert (stats.hits, stats.misses, stats.failed) == (0, 1, 0)
    counts = {kind: moves.count for kind, moves in stats.moves.items()}
    assert counts == {"compress": 1, "to_host": 0, "save": 1, "load": 1, "to_device": 0, "decompress": 1}
    assert stats.moves["compress"].nbytes == stats.moves["decompress"].nbytes == PLAIN_OF_1
    assert all(moves.seconds > 0 for moves in stats.moves.values() if moves.count)
    stats.hits = 99
    assert pool.stats.hits == 0


PLAIN_OF_1 = int(text(1).memory_usage(deep=True))


def test_pinned_limit() -> None:
    with pytest.raises(ValueError, match=r"the limit must be a number of bytes .*not 'much'"):
        cudf_fsst.set_pinned_limit("much")
    with pytest.raises(ValueError, match="must not be negative"):
        cudf_fsst.set_pinned_limit(-1)
    cudf_fsst.set_pinned_limit("1 GiB")
    cudf_fsst.set_pinned_limit(None)
