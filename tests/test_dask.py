"""`cudf_fsst.dask`: what Dask spills and sends is compressed and comes back the same; collections stay compressed."""

from __future__ import annotations

import logging
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst

pytest.importorskip("distributed")

import dask
import dask.dataframe as dd
from distributed import Client, LocalCluster, wait
from distributed.protocol import dask_deserialize, dask_serialize, deserialize, serialize
from distributed.protocol.cuda import cuda_serialize
from distributed.protocol.serialize import deserialize_bytes, serialize_bytes
from distributed.sizeof import safe_sizeof

import cudf_fsst.dask as fsst_dask
from cudf_fsst import dask_frames
from nasty_values import KEPT, STAYS, identical

ROWS = 60_000
THRESHOLD = 100_000


def table(seed: int = 0, rows: int = ROWS) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    return pd.DataFrame(
        {
            "key": random.integers(0, 500, rows),
            "day": pd.Timestamp("2020") + pd.to_timedelta(random.integers(0, 999, rows), unit="D"),
            "price": (random.integers(0, 10**4, rows) / 100).round(2),
            "text": [f"somewhere over the {i % 977} rainbows" for i in range(rows)],
            "kind": pd.Categorical(random.choice(["up", "down"], rows)),
        },
        index=pd.Index(np.arange(rows) * 2, name="i"),
    )


def mixed(rows: int = ROWS) -> pd.DataFrame:
    """Arrow has no type for its column."""
    return pd.DataFrame({"a": pd.Series([1, "x"] * (rows // 2), dtype=object)})


@pytest.fixture(autouse=True)
def as_before(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Tables of tests are smaller than what is worth compressing; workers of other processes read the environment."""
    monkeypatch.setenv("DASK_CUDF_FSST__THRESHOLD", "100 kB")
    with dask.config.set({"cudf-fsst.threshold": "100 kB"}):
        yield
    fsst_dask.disable()


def same(found: pd.DataFrame, wanted: pd.DataFrame) -> None:
    """As `assert_frame_equal`, which takes a second for 60,000 strings."""
    assert found.equals(wanted)
    assert found.dtypes.equals(wanted.dtypes)
    assert found.index.identical(wanted.index)
    assert found.columns.identical(wanted.columns)


def frames_nbytes(frames: list[Any]) -> int:
    return sum(memoryview(frame).nbytes for frame in frames)


def is_ours(header: dict[str, Any]) -> bool:
    return header["serializer"] == "dask" and "cudf-fsst" in header["sub-header"]


def more(before: dict[str, int]) -> dict[str, int]:
    return {name: number - before[name] for name, number in fsst_dask.stats().items()}


def test_without_dask() -> None:
    code = "import sys; sys.modules['dask'] = None; import cudf_fsst; import cudf_fsst.dask"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert "needs Dask" in done.stderr
    assert "pip install '.[dask]'" in done.stderr


def test_a_task_brings_the_serializers() -> None:
    """To a worker that has imported nothing."""
    task = pickle.dumps(dask_frames._compress_partition)
    code = f"import pickle; pickle.loads({task!r}); from distributed.protocol import dask_serialize as known; "
    code += "import cudf_fsst; assert cudf_fsst.CompressedFrame in known._lookup"
    subprocess.run([sys.executable, "-c", code], check=True)


# One process --------------------------------------------------------------------------------------------------------


def test_on_and_off() -> None:
    data = table()
    assert serialize(data)[0]["serializer"] == "pickle"
    fsst_dask.enable()
    before = fsst_dask.stats()
    header, frames = serialize(data)
    assert is_ours(header)
    assert frames_nbytes(frames) < 0.5 * data.memory_usage().sum()
    same(deserialize(header, frames), data)
    counted = more(before)
    assert (counted["written"], counted["read"], counted["passed"], counted["failed"]) == (1, 1, 0, 0)
    assert counted["nbytes"] < 0.5 * counted["uncompressed_nbytes"]

    fsst_dask.enable()  # twice is once
    fsst_dask.disable()
    assert serialize(data)[0]["serializer"] == "pickle"
    # What was written before can be read after.
    same(deserialize(header, frames), data)


def test_through_bytes() -> None:
    """As on disk: frames come back as one piece that cannot be written to."""
    fsst_dask.enable(threshold=THRESHOLD)
    for data in (table(), table().set_index(["key", "text"]), table()["text"], table()["price"].rename(("a", 1))):
        text = serialize_bytes(data, on_error="raise")
        assert b"cudf-fsst" in text
        found = deserialize_bytes(text)
        if isinstance(data, pd.Series):
            pd.testing.assert_series_equal(found, data)
        else:
            same(found, data)
            found.iloc[0, 0] = found.iloc[1, 0]  # it can be written to


def test_what_pandas_notes_survives() -> None:
    fsst_dask.enable(threshold=THRESHOLD)
    data = table()
    data.attrs["from"] = "here"
    data = data.set_flags(allows_duplicate_labels=False)
    for wanted in (data, data["text"]):
        header, frames = serialize(wanted)
        assert is_ours(header)
        found = deserialize(header, frames)
        assert found.attrs == {"from": "here"}
        assert not found.flags.allows_duplicate_labels
        assert getattr(found, "name", None) == getattr(wanted, "name", None)


@pytest.mark.parametrize(
    "data",
    [
        table(rows=10),
        pd.DataFrame({"a": np.random.default_rng(0).integers(0, 2**63, ROWS)}),
        pd.DataFrame(),
        table().index,
    ],
    ids=["small", "random", "empty", "index"],
)
def test_what_passes_as_before(data: Any) -> None:
    fsst_dask.enable()
    before = fsst_dask.stats()
    header, frames = serialize(data)
    assert header["serializer"] == "pickle"
    assert deserialize(header, frames).equals(data)
    assert more(before)["failed"] == 0


def test_subclasses_pass_as_before() -> None:
    class Mine(pd.DataFrame):
        pass

    fsst_dask.enable(threshold=0, min_ratio=0)
    assert serialize(Mine(table()))[0]["serializer"] == "pickle"
    fsst_dask.disable()
    with pytest.raises(TypeError, match="No dispatch"):
        dask_serialize.dispatch(Mine)


@pytest.mark.parametrize(
    "data",
    [
        mixed(),
        pd.DataFrame({"a": pd.Series(["x", np.nan] * ROWS, dtype=object)}),
        pd.DataFrame({"a": pd.Series(["x", None, pd.NA] * ROWS, dtype=object)}),
        table(rows=4).set_index(pd.Index(["x", np.nan, "y", None], dtype=object)),
    ],
    ids=["mixed", "nan", "several kinds of missing", "labels"],
)
def test_what_would_change_passes_as_before(data: pd.DataFrame, caplog: pytest.LogCaptureFixture) -> None:
    fsst_dask.enable(threshold=0, min_ratio=0)
    before = fsst_dask.stats()
    with caplog.at_level(logging.INFO, "cudf_fsst.dask"):
        header, frames = serialize(data)
    assert header["serializer"] == "pickle"
    assert more(before)["failed"] == 1
    assert f"of {len(data)} rows is serialized without compression" in caplog.text
    found = deserialize(header, frames)
    for column in data:
        for value, wanted in zip(found[column], data[column], strict=True):
            assert type(value) is type(wanted)
    pd.testing.assert_frame_equal(found, data)


@pytest.mark.parametrize("make", {**KEPT, **STAYS}.values(), ids={**KEPT, **STAYS})
def test_comes_back_the_same(make: Callable[[], Any]) -> None:
    fsst_dask.enable(threshold=0, min_ratio=0)
    wanted = make()
    header, frames = serialize(wanted)
    assert is_ours(header) == (make in KEPT.values())
    identical(deserialize(header, frames), wanted)


def test_errors_are_logged_and_lose_nothing(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    def fail(*_: Any, **__: Any) -> Any:
        raise MemoryError("std::bad_alloc: out_of_memory")

    fsst_dask.enable()
    monkeypatch.setattr("cudf_fsst.accessor.compress_frame", fail)
    data = table()
    header, frames = serialize(data)
    assert header["serializer"] == "pickle"
    same(deserialize(header, frames), data)
    assert "out_of_memory" in caplog.text
    assert "Traceback" in caplog.text


def test_registered_serializers_come_back() -> None:
    def write(data: Any) -> tuple[dict[str, Any], list[bytes]]:
        return {"theirs": True}, [data.to_csv().encode()]

    def read(header: dict[str, Any], frames: list[Any]) -> Any:
        raise AssertionError("not asked for here")

    dask_serialize.register(pd.DataFrame, write)
    try:
        fsst_dask.enable()
        assert is_ours(serialize(table())[0])
        assert serialize(table(rows=5))[0]["sub-header"] == {"theirs": True}
        fsst_dask.disable()
        assert dask_serialize.dispatch(pd.DataFrame) is write
    finally:
        del dask_serialize._lookup[pd.DataFrame]


def test_collections_of_frames() -> None:
    """Dask serializes what is in lists and dicts one by one; small frames among them by pickle."""
    fsst_dask.enable()
    data = {0: table(), 1: table(rows=3), 2: table(1)}
    header, frames = serialize(data)
    assert [one["serializer"] for one in header["sub-headers"]] == ["dask", "pickle", "dask"]
    found = deserialize(header, frames)
    for key, wanted in data.items():
        same(found[key], wanted)


def test_another_version_is_refused() -> None:
    fsst_dask.enable()
    header, frames = serialize(table())
    header["sub-header"]["cudf-fsst"] = 99
    with pytest.raises(ValueError, match="another version of cudf_fsst: version 99, not 4"):
        deserialize(header, frames)


def test_bad_arguments() -> None:
    with pytest.raises(ValueError, match="threshold must be at least 0, not -1"):
        fsst_dask.enable(threshold=-1)
    with pytest.raises(ValueError, match="min_ratio must be at least 0"):
        fsst_dask.Plugin(min_ratio=float("nan"))
    with pytest.raises(ValueError, match="Could not interpret"):
        fsst_dask.enable(threshold="a lot")
    assert serialize(table())[0]["serializer"] == "pickle"
    with pytest.raises(TypeError, match="expected a Dask DataFrame, not DataFrame"):
        fsst_dask.compress(table())
    collection = dd.from_pandas(table(), npartitions=2)
    with pytest.raises(KeyError, match="'nobody'"):
        fsst_dask.compress(collection, codecs={"nobody": "raw"})
    with pytest.raises(ValueError, match="level"):
        fsst_dask.compress(collection, level="best")


def test_threshold_counts_a_column() -> None:
    """What compression costs, it costs every column."""
    data = table()
    text = data[["text"]]
    fsst_dask.enable(threshold=int(text.memory_usage().sum()))  # the others have fewer bytes
    assert is_ours(serialize(text)[0])
    assert is_ours(serialize(data["text"])[0])
    before = fsst_dask.stats()
    assert serialize(data)[0]["serializer"] == "pickle"
    assert more(before)["passed"] == 1
    fsst_dask.enable(threshold=int(data.memory_usage().sum()) // 5)
    assert is_ours(serialize(data)[0])


def test_settings() -> None:
    with dask.config.set({"cudf-fsst.threshold": "1 GiB"}):
        fsst_dask.enable()
        assert serialize(table())[0]["serializer"] == "pickle"
        fsst_dask.enable(threshold=0)
        assert is_ours(serialize(table())[0])
    with dask.config.set({"cudf-fsst.min-ratio": 1000}):
        fsst_dask.enable()
        assert serialize(table())[0]["serializer"] == "pickle"


def test_compressed_frames_and_columns_themselves() -> None:
    frame = table().fsst.compress()
    assert frame.nbytes <= safe_sizeof(frame) < frame.nbytes + 5000
    header, frames = serialize(frame)
    assert header["serializer"] == "dask"
    assert frames_nbytes(frames) <= frame.nbytes
    same(deserialize(header, frames).decompress(), table())
    shared = [np.frombuffer(one, np.uint8) for one in frames]
    buffers = [buffer for column in frame._columns for part in column.node.parts for buffer in (part.meta, part.codes)]
    assert all(any(np.shares_memory(one, buffer) for buffer in buffers) for one in shared)

    column = table()["text"].fsst.compress()
    assert column.nbytes <= safe_sizeof(column) < column.nbytes + 8 * ROWS + 5000
    pd.testing.assert_series_equal(deserialize(*serialize(column)).decompress(), table()["text"])


def test_frames_on_a_gpu_are_sent_from_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """With arrays in host memory for the GPU's buffers."""

    class Gpu:
        device = "cuda:0"

    monkeypatch.setattr(fsst_dask, "DeviceBackend", Gpu)
    monkeypatch.setattr(fsst_dask, "_device_buffer", lambda frame: frame)
    host = table().fsst.compress()
    frame = type(host)._make(Gpu(), host._columns, host._labels, host._index)  # type: ignore[arg-type]
    header, frames = serialize(frame, serializers=("cuda", "dask"), on_error="raise")
    assert header["serializer"] == "cuda"
    assert header["compression"] == (False,) * len(frames)
    parts = [part for column in frame._everything for part in column.node.parts]
    for found, wanted in zip(frames, [buffer for part in parts for buffer in (part.meta, part.codes)], strict=True):
        assert found is wanted
    back = deserialize(header, frames)
    assert back.device == "cuda:0"
    for part, wanted in zip([part for column in back._everything for part in column.node.parts], parts, strict=True):
        assert part.meta is wanted.meta
        assert part.codes is wanted.codes


@pytest.mark.filterwarnings("ignore:Sending large graph")
def test_collections_without_a_cluster() -> None:
    data = table()
    ddf = dd.from_pandas(data, npartitions=3)
    with dask.config.set(scheduler="sync"):
        compressed = fsst_dask.compress(ddf)
        assert compressed.npartitions == 3
        assert "3 partitions" in repr(compressed)
        assert list(compressed.columns) == list(data)
        assert list(compressed.dtypes) == list(ddf.dtypes)
        for made in (compressed, compressed.persist(), dask.persist(compressed)[0]):
            back = made.decompress()
            assert back.divisions == ddf.divisions
            same(back._meta, ddf._meta)
            same(back.compute(), ddf.compute())
        kept = compressed.persist()
        assert all(isinstance(one, cudf_fsst.CompressedFrame) for one in kept.compute())
        assert kept.decompress()["key"].sum().compute() == data["key"].sum()
        sizes = kept.sizes()
        assert sizes["rows"].sum() == ROWS
        assert (sizes["nbytes"] * 2 < sizes["uncompressed_nbytes"]).all()
        same(kept[["text"]].decompress().compute(), ddf[["text"]].compute())
        pd.testing.assert_series_equal(kept["price"].compute(), ddf["price"].compute())
        assert len(kept.to_delayed()) == 3
        assert dask.base.tokenize(compressed) == dask.base.tokenize(fsst_dask.compress(ddf))
        named = fsst_dask.compress(ddf, codecs={"price": "raw"}).compute()
        assert {one.codecs["price"] for one in named} == {"raw"}
        no_divisions = fsst_dask.compress(ddf.clear_divisions())
        assert not no_divisions.decompress().known_divisions


# Clusters -----------------------------------------------------------------------------------------------------------

QUIET: dict[str, Any] = {"threads_per_worker": 1, "dashboard_address": ":0", "processes": True}


@pytest.fixture(scope="module")
def client() -> Iterator[Client]:
    with LocalCluster(n_workers=2, **QUIET) as cluster, Client(cluster) as client:
        yield client


def workers(client: Client) -> list[str]:
    return sorted(client.scheduler_info()["workers"])


def everywhere(client: Client) -> dict[str, int]:
    """Counts of all workers together."""
    return pd.DataFrame(client.run(fsst_dask.stats)).sum(axis=1).to_dict()


def across(client: Client, make: Any, *args: Any) -> Any:
    """What `make` makes on one worker, moved to the other, and from there here."""
    first, second = workers(client)
    made = client.submit(make, *args, workers=[first], pure=False)
    moved = client.submit(lambda data: data, made, workers=[second], pure=False)
    return moved.result()


def test_transfers(client: Client) -> None:
    fsst_dask.enable(client)
    before = everywhere(client)
    for seed in range(3):
        same(across(client, table, seed), table(seed))
    after = everywhere(client)
    # To the other worker, and from there to this process.
    assert after["written"] - before["written"] == 6
    assert after["read"] - before["read"] == 3
    same(across(client, mixed, 200_000), mixed(200_000))
    assert everywhere(client)["failed"] - after["failed"] == 2

    fsst_dask.disable(client)
    before = everywhere(client)
    same(across(client, table), table())
    assert everywhere(client) == before
    fsst_dask.disable(client)  # twice is once


def test_plugin(client: Client) -> None:
    client.register_plugin(fsst_dask.Plugin(threshold=THRESHOLD))
    try:
        before = everywhere(client)
        pd.testing.assert_series_equal(across(client, lambda: table()["text"]), table()["text"])
        assert everywhere(client)["written"] - before["written"] == 2
        assert serialize(table())[0]["serializer"] == "pickle"  # only the workers have it
    finally:
        client.unregister_worker_plugin("cudf-fsst")


@pytest.mark.filterwarnings("ignore:Sending large graph")
def test_shuffle(client: Client) -> None:
    fsst_dask.enable(client, threshold=10_000)
    before = everywhere(client)
    left = dd.from_pandas(table(), npartitions=4)
    right = dd.from_pandas(table(1).drop(columns=["text", "kind"]).iloc[:2000], npartitions=3)
    with dask.config.set({"dataframe.shuffle.method": "tasks"}):
        found = left.merge(right, on="key", npartitions=4).groupby("key").agg({"price_x": "sum", "text": "count"})
        found = found.compute().sort_index()
    wanted = table().merge(right.compute(), on="key").groupby("key").agg({"price_x": "sum", "text": "count"})
    same(found, wanted)
    after = everywhere(client)
    assert after["written"] > before["written"]
    assert after["failed"] == before["failed"]
    fsst_dask.disable(client)


@pytest.mark.filterwarnings("ignore:Sending large graph")
def test_collections_on_a_cluster(client: Client) -> None:
    data = table()
    ddf = dd.from_pandas(data, npartitions=4)
    kept = fsst_dask.compress(ddf).persist()
    wait(kept)
    held = client.run(lambda dask_worker: [type(value).__name__ for value in dask_worker.data.values()])
    assert [name for names in held.values() for name in names].count("CompressedFrame") == 4
    sizes = kept.sizes()
    assert list(sizes["device"]) == ["cpu"] * 4
    assert sizes["nbytes"].sum() < 0.5 * sizes["uncompressed_nbytes"].sum()
    same(kept.decompress().compute(), ddf.compute())
    assert kept.decompress()["key"].sum().compute() == data["key"].sum()
    assert len(kept.compute()) == 4


@pytest.mark.slow
def test_spill_to_disk_by_preload() -> None:
    """A worker that may keep 4 MB of ours in memory gets 20 frames of 3 MB."""
    settings = {
        "distributed.worker.memory.target": 0.004,
        "distributed.worker.memory.spill": False,
        "distributed.worker.memory.pause": False,
        "distributed.worker.memory.terminate": False,
    }
    with (
        dask.config.set(settings),
        LocalCluster(n_workers=1, memory_limit="1 GB", preload=["cudf_fsst.dask"], **QUIET) as cluster,
        Client(cluster) as client,
    ):
        held = [client.submit(table, seed) for seed in range(20)]
        wait(held)
        spilled = next(iter(client.run(lambda dask_worker: tuple(dask_worker.data.spilled_total)).values()))
        counts = everywhere(client)
        assert counts["written"] >= 15
        assert counts["failed"] == 0
        assert spilled[1] < 0.5 * spilled[0]  # on disk, of what it was in memory
        for seed, one in enumerate(held):
            same(one.result(), table(seed))
        assert everywhere(client)["read"] >= 15


# On a GPU -----------------------------------------------------------------------------------------------------------


@pytest.mark.gpu
class TestGpu:
    @pytest.mark.parametrize("serializers", [("dask", "pickle"), ("cuda", "dask", "pickle")], ids=["host", "cuda"])
    def test_round_trip(self, serializers: tuple[str, ...]) -> None:
        import cudf
        from cudf.testing import assert_frame_equal, assert_series_equal

        data = cudf.from_pandas(table())
        plain = serialize(data, serializers=serializers, on_error="raise")
        fsst_dask.enable()
        before = fsst_dask.stats()
        header, frames = serialize(data, serializers=serializers, on_error="raise")
        assert header["serializer"] == serializers[0]
        assert "cudf-fsst" in header["sub-header"]
        on_device = [hasattr(frame, "__cuda_array_interface__") for frame in frames]
        assert set(on_device) == {serializers[0] == "cuda"}
        assert_frame_equal(deserialize(header, frames), data)
        series = data["text"]
        assert_series_equal(deserialize(*serialize(series, serializers=serializers)), series)
        assert more(before)["written"] == more(before)["read"] == 2
        # What is small, and what was written before.
        small = data.head(10)
        header, frames = serialize(small, serializers=serializers)
        assert "cudf-fsst" not in header["sub-header"]
        assert_frame_equal(deserialize(header, frames), small)
        assert_frame_equal(deserialize(*plain), data)
        fsst_dask.disable()
        assert "cudf-fsst" not in serialize(data, serializers=serializers)[0]["sub-header"]

    @pytest.mark.parametrize("serializers", [("dask", "pickle"), ("cuda", "dask", "pickle")], ids=["host", "cuda"])
    def test_compressed_frames(self, serializers: tuple[str, ...]) -> None:
        import cudf
        from cudf.testing import assert_frame_equal

        frame = cudf.from_pandas(table()).fsst.compress()
        assert safe_sizeof(frame) >= frame.nbytes
        found = deserialize(*serialize(frame, serializers=serializers, on_error="raise"))
        assert found.device == frame.device
        assert_frame_equal(found.decompress(), frame.decompress())
        host = frame.to_host()
        assert deserialize(*serialize(host, serializers=serializers, on_error="raise")).device == "cpu"

    def test_out_of_memory(self, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
        import cudf
        from cudf.testing import assert_frame_equal

        def fail(*_: Any, **__: Any) -> Any:
            raise MemoryError("out_of_memory")

        fsst_dask.enable()
        monkeypatch.setattr("cudf_fsst.accessor.compress_frame", fail)
        data = cudf.from_pandas(table())
        header, frames = serialize(data, serializers=("dask", "pickle"), on_error="raise")
        assert "out_of_memory" in caplog.text
        assert_frame_equal(deserialize(header, frames), data)

    def test_spilling_of_dask_cuda(self, tmp_path: Any) -> None:
        pytest.importorskip("dask_cuda")
        pytest.importorskip("dask_cudf")  # says how large cuDF's objects are
        import cudf
        from cudf.testing import assert_frame_equal
        from dask_cuda.device_host_file import DeviceHostFile
        from dask_cuda.is_device_object import is_device_object

        fsst_dask.enable()
        data = [cudf.from_pandas(table(seed)) for seed in range(6)]
        limit = 2 * safe_sizeof(data[0]) + 1
        held = DeviceHostFile(str(tmp_path), device_memory_limit=limit, memory_limit=2**30)
        for number, one in enumerate(data):
            held[number] = one
        assert len(held.device) == 2
        assert sum(map(safe_sizeof, held.host.values())) < 0.5 * sum(map(safe_sizeof, data[:4]))
        for number, one in enumerate(data):
            assert_frame_equal(held[number], one)
        frame = data[0].fsst.compress()
        assert is_device_object(frame)
        assert not is_device_object(frame.to_host())


@pytest.mark.slow
def test_nothing_is_left_registered() -> None:
    fsst_dask.enable()
    fsst_dask.disable()
    for dispatch in (dask_serialize, cuda_serialize):
        assert not any("cudf_fsst" in type(found).__module__ for found in dispatch._lookup.values())
    assert pd.DataFrame in dask_deserialize._lookup  # what was written can be read
