"""URLs and file objects, where pandas takes them: servers on this machine see what is asked of them."""

from __future__ import annotations

import asyncio
import functools
import io
import os
import signal
import tarfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import cudf_fsst
from cudf_fsst.workers import at_work
from url_servers import Files, Objects, gs_server, http_server, s3_server

fsspec = pytest.importorskip("fsspec")
ROWS = 30_000


def table() -> pd.DataFrame:
    rng = np.random.default_rng(5)
    made = {f"n{i}": rng.integers(0, 2**60, ROWS) for i in range(8)}
    words = [f"word {number % 5000} of many" for number in range(ROWS)]
    return pd.DataFrame(made | {"text": words, "mode": ["AIR", "MAIL", None] * (ROWS // 3)})


DATA = table()


def read(path: Any, **options: Any) -> cudf_fsst.CompressedFrame:
    return cudf_fsst.read_parquet(path, device="cpu", **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("served")
    DATA.fsst.compress().save(made / "f.fsst")
    DATA["text"].fsst.compress().save(made / "c.fsst")
    DATA.to_parquet(made / "p.parquet", row_group_size=ROWS // 2)
    return made


@pytest.fixture
def served(folder: Path) -> Iterator[Files]:
    with http_server(folder) as files:
        yield files


@pytest.fixture(scope="module")
def s3() -> Iterator[tuple[Any, dict[str, Any]]]:
    pytest.importorskip("moto")
    with s3_server() as (proxy, options):
        fsspec.filesystem("s3", **options).mkdir("bucket")
        yield proxy, options


@pytest.fixture
def memory() -> Iterator[str]:
    yield "memory://here"
    system = fsspec.filesystem("memory")
    if system.exists("/here"):
        system.rm("/here", recursive=True)


# HTTP ---------------------------------------------------------------------------------------------------------------


def test_load_by_http(served: Files) -> None:
    loaded = cudf_fsst.load(f"{served.url}/f.fsst")
    pd.testing.assert_frame_equal(loaded.decompress(), DATA)
    column = cudf_fsst.CompressedColumn.load(f"{served.url}/c.fsst")
    pd.testing.assert_series_equal(column.decompress(), DATA["text"])


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_some_columns_take_few_ranges(served: Files, knows_ranges: bool) -> None:
    served.knows_ranges = knows_ranges
    size = (served.folder / "f.fsst").stat().st_size
    found = cudf_fsst.load(f"{served.url}/f.fsst", columns=["n5", "mode"])
    pd.testing.assert_frame_equal(found.decompress(), DATA[["n5", "mode"]])
    if knows_ranges:
        assert len(served.ranges) <= 5
        assert served.nbytes < size / 4
    else:
        assert len(served.ranges) == 1


@pytest.mark.parametrize("knows_ranges", [True, False])
def test_some_columns_of_parquet(served: Files, knows_ranges: bool) -> None:
    served.knows_ranges = knows_ranges
    size = (served.folder / "p.parquet").stat().st_size
    found = read(f"{served.url}/p.parquet", columns=["n5", "mode"])
    pd.testing.assert_frame_equal(found.decompress(), pd.read_parquet(served.folder / "p.parquet")[["n5", "mode"]])
    if knows_ranges:
        assert len(served.ranges) <= 6
        assert served.nbytes < size / 3
    else:
        assert len(served.ranges) == 1
    whole = read(f"{served.url}/p.parquet")
    assert whole.equals(read(served.folder / "p.parquet"))


def test_filters_by_http(served: Files) -> None:
    found = read(f"{served.url}/p.parquet", columns=["n1"], filters=[("mode", "==", "AIR")])
    expected = pd.read_parquet(served.folder / "p.parquet", columns=["n1"], filters=[("mode", "==", "AIR")])
    pd.testing.assert_frame_equal(found.decompress(), expected)


def test_a_connection_that_breaks(served: Files) -> None:
    served.breaks_at = 100_000
    for call in (cudf_fsst.load, read):
        name = "f.fsst" if call is cudf_fsst.load else "p.parquet"
        with pytest.raises(OSError, match=f"{served.url}/{name}"):
            call(f"{served.url}/{name}")


def test_an_interrupt_waits_for_no_server(served: Files, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cudf_fsst.files.storage._FAR_NBYTES", 100_000)
    cudf_fsst.load(f"{served.url}/f.fsst")  # nothing is left to be compiled, where an interrupt may be lost
    served.ranges.clear()
    served.may_end.clear()

    def interrupt() -> None:
        while len(served.ranges) <= 2:  # until the server lets somebody wait
            time.sleep(0.01)
        time.sleep(0.2)
        os.kill(os.getpid(), signal.SIGINT)

    before = signal.signal(signal.SIGINT, signal.default_int_handler)  # what runs behind a shell ignores it
    threading.Thread(target=interrupt, daemon=True).start()
    try:
        with pytest.raises(KeyboardInterrupt):
            cudf_fsst.load(f"{served.url}/f.fsst")
    finally:
        signal.signal(signal.SIGINT, before)
    assert not served.waited_in_vain
    served.may_end.set()
    assert not at_work()
    pd.testing.assert_frame_equal(cudf_fsst.load(f"{served.url}/f.fsst").decompress(), DATA)


def test_what_is_not_there(served: Files) -> None:
    for call in (cudf_fsst.load, read):
        with pytest.raises(FileNotFoundError, match=f"{served.url}/no"):
            call(f"{served.url}/no")
    with pytest.raises(OSError, match=r"http://127\.0\.0\.1:1/no: .*[Cc]onnect") as found:  # no server is there
        cudf_fsst.load("http://127.0.0.1:1/no")
    assert not isinstance(found.value, FileNotFoundError)
    with pytest.raises(OSError, match=f"{served.url}/new"):
        DATA.fsst.compress().save(f"{served.url}/new")
    with pytest.raises(ValueError, match="nosuch"):
        cudf_fsst.load("nosuch://a/b")
    with pytest.raises(ValueError, match="storage_options are for URLs, not for the path"):
        cudf_fsst.load(served.folder / "f.fsst", storage_options={"key": "x"})


def test_damage_by_http(served: Files, tmp_path: Path) -> None:
    broken = bytearray((served.folder / "f.fsst").read_bytes())
    broken[-1] ^= 1
    (served.folder / "broken.fsst").write_bytes(broken)
    with pytest.raises(ValueError, match=rf"{served.url}/broken\.fsst: codes of segment \d+: checksum"):
        cudf_fsst.load(f"{served.url}/broken.fsst")


# S3 -----------------------------------------------------------------------------------------------------------------


def test_s3(s3: tuple[Any, dict[str, Any]]) -> None:
    proxy, options = s3
    frame = DATA.fsst.compress()
    frame.save("s3://bucket/f.fsst", storage_options=options)
    frame.to_parquet("s3://bucket/p.parquet", storage_options=options, row_group_size=10_000)
    assert cudf_fsst.load("s3://bucket/f.fsst", storage_options=options).equals(frame)
    assert read("s3://bucket/p.parquet", storage_options=options).equals(frame)
    pd.testing.assert_frame_equal(pd.read_parquet("s3://bucket/p.parquet", storage_options=options), DATA)
    proxy.gets.clear()
    found = cudf_fsst.load("s3://bucket/f.fsst", columns=["n2"], storage_options=options)
    pd.testing.assert_frame_equal(found.decompress(), DATA[["n2"]])
    assert 1 <= len(proxy.gets) <= 4
    proxy.gets.clear()
    found = read("s3://bucket/p.parquet", columns=["n2"], storage_options=options)
    pd.testing.assert_frame_equal(found.decompress(), DATA[["n2"]])
    assert 1 <= len(proxy.gets) <= 6


def test_several_files_of_s3(s3: tuple[Any, dict[str, Any]]) -> None:
    _, options = s3
    for number, some in enumerate((DATA[:10_000], DATA[10_000:])):
        some.to_parquet(f"s3://bucket/many/part-{number}.parquet", storage_options=options)
        some.fsst.compress().save(f"s3://bucket/many/part-{number}.fsst", storage_options=options)
    for what in (
        "s3://bucket/many/part-*.parquet",
        ["s3://bucket/many/part-0.parquet", "s3://bucket/many/part-1.parquet"],
    ):
        pd.testing.assert_frame_equal(read(what, storage_options=options).decompress(), DATA)
    polars = pytest.importorskip("polars")
    scanned = cudf_fsst.scan("s3://bucket/many/part-*.fsst", storage_options=options)
    assert scanned.filter(polars.col("mode") == "AIR").collect().height == ROWS // 3
    with pytest.raises(FileNotFoundError, match=r"s3://bucket/none-\*"):
        read("s3://bucket/none-*.parquet", storage_options=options)
    with pytest.raises(FileNotFoundError, match="s3://bucket/none"):
        read(["s3://bucket/many/part-0.parquet", "s3://bucket/none"], storage_options=options)


def test_folders_of_s3(s3: tuple[Any, dict[str, Any]]) -> None:
    _, options = s3
    data = DATA.assign(mode=DATA["mode"].fillna("SHIP"))
    data.fsst.compress().to_parquet("s3://bucket/hive", partition_cols=["mode"], storage_options=options)
    found = read("s3://bucket/hive", storage_options=options).decompress()
    expected = pd.read_parquet("s3://bucket/hive", storage_options=options)
    pd.testing.assert_frame_equal(found, expected)
    assert sorted(found["mode"].unique()) == ["AIR", "MAIL", "SHIP"]
    with pytest.raises(IsADirectoryError, match="s3://bucket/hive"):
        read(["s3://bucket/hive", "s3://bucket/p.parquet"], storage_options=options)


@pytest.mark.parametrize("fails", ["PUT", "partNumber=2", "POST uploadId"])
def test_an_upload_that_fails_leaves_nothing(s3: tuple[Any, dict[str, Any]], fails: str, monkeypatch: Any) -> None:
    """At once; in the middle of several parts; when these are to be put together."""
    proxy, options = s3
    frame = DATA.fsst.compress()
    if fails != "PUT":
        import s3fs.core

        monkeypatch.setattr(s3fs.core, "calculate_chunksize", lambda *_, **__: 400_000)
    monkeypatch.setattr(proxy, "fails", fails)
    for call in (frame.save, frame.to_parquet):
        with pytest.raises(OSError, match="s3://bucket/broken"):
            call("s3://bucket/broken", storage_options=options)
    proxy.fails = ""
    system = fsspec.filesystem("s3", **options)
    system.invalidate_cache()
    assert not system.exists("bucket/broken")


# Cloud Storage --------------------------------------------------------------------------------------------------------


@pytest.fixture
def gs(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[Objects, dict[str, Any]]]:
    # Without it gcsfs asks by gRPC what kind of bucket it is.
    monkeypatch.setenv("GCSFS_EXPERIMENTAL_ZB_HNS_SUPPORT", "false")
    pytest.importorskip("gcsfs")
    monkeypatch.setattr(
        "gcsfs.retry.asyncio", SimpleNamespace(sleep=lambda _: asyncio.sleep(0))
    )  # which waits a minute
    with gs_server() as objects:
        yield objects, {"endpoint_url": objects.url, "token": "anon", "skip_instance_cache": True}


#: gcsfs sends bytes, of which aiohttp warns where there are many.
sends_bytes = pytest.mark.filterwarnings("ignore:Sending a large body:ResourceWarning")


@sends_bytes
def test_gs(gs: tuple[Objects, dict[str, Any]]) -> None:
    objects, options = gs
    frame = DATA.fsst.compress()
    frame.save("gs://bucket/f.fsst", storage_options=options)
    frame.to_parquet("gs://bucket/p.parquet", storage_options=options, row_group_size=10_000)
    frame.column("text").save("gs://bucket/c.fsst", storage_options=options)
    assert cudf_fsst.load("gs://bucket/f.fsst", storage_options=options).equals(frame)
    assert cudf_fsst.load("gs://bucket/c.fsst", storage_options=options).decompress().equals(DATA["text"])
    assert read("gs://bucket/p.parquet", storage_options=options).equals(frame)
    pd.testing.assert_frame_equal(pd.read_parquet("gs://bucket/p.parquet", storage_options=options), DATA)
    for call, name in ((cudf_fsst.load, "bucket/f.fsst"), (read, "bucket/p.parquet")):
        objects.ranges.clear()
        found = call(f"gs://{name}", columns=["n2"], storage_options=options)
        pd.testing.assert_frame_equal(found.decompress(), DATA[["n2"]])
        assert 1 <= len(objects.ranges) <= 6
        assert sum(stop - start for _, start, stop in objects.ranges) < len(objects.data[name]) / 3
        with pytest.raises(FileNotFoundError, match="gs://bucket/none"):
            call("gs://bucket/none", storage_options=options)
    polars = pytest.importorskip("polars")
    scanned = cudf_fsst.scan("gs://bucket/f.*", storage_options=options)
    assert scanned.filter(polars.col("mode") == "AIR").collect().height == ROWS // 3
    data = DATA[["n1", "mode"]].fillna({"mode": "SHIP"})
    data.fsst.compress().to_parquet("gs://bucket/hive", partition_cols=["mode"], storage_options=options)
    found = read("gs://bucket/hive", storage_options=options).decompress()
    assert found.groupby("mode", observed=True).size().tolist() == [ROWS // 3] * 3


@sends_bytes
@pytest.mark.parametrize("breaks", ["multipart", "resumable", "0", "262144"])
def test_a_connection_that_breaks_in_an_upload_leaves_nothing(
    gs: tuple[Objects, dict[str, Any]], breaks: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of one part; when one of several parts begins; in its first part; in the second."""
    import gcsfs

    objects, options = gs
    put_file = functools.partialmethod(gcsfs.core.GCSFileSystem._put_file, chunksize=1 << 18)
    monkeypatch.setattr(gcsfs.core.GCSFileSystem, "_put_file", put_file)
    rows = 10 if breaks == "multipart" else 700_000
    frame = pd.DataFrame({"n": np.random.default_rng(3).integers(-(2**63), 2**63 - 1, rows)}).fsst.compress()
    objects.breaks = breaks
    for call, before in ((frame.save, {}), (frame.to_parquet, {"bucket/broken": b"older"})):
        objects.data = dict(before)
        with pytest.raises(OSError, match="gs://bucket/broken"):
            call("gs://bucket/broken", storage_options=options)
        assert objects.data == before
        assert not objects.unfinished
    objects.breaks = ""
    frame.save("gs://bucket/whole", storage_options=options)
    assert cudf_fsst.load("gs://bucket/whole", storage_options=options).equals(frame)


# Memory and other file systems ----------------------------------------------------------------------------------------


def test_memory(memory: str) -> None:
    frame = DATA.fsst.compress()
    frame.save(f"{memory}/f.fsst")
    frame.column("text").save(f"{memory}/c.fsst")
    frame.to_parquet(f"{memory}/p.parquet", compression="zstd")
    DATA[:100].fsst.compress().to_csv(f"{memory}/t.csv", index=False)
    assert pd.read_csv(f"{memory}/t.csv")["n5"].tolist() == DATA["n5"][:100].tolist()
    assert cudf_fsst.load(f"{memory}/f.fsst").equals(frame)
    assert cudf_fsst.load(f"{memory}/c.fsst").decompress().equals(DATA["text"])
    assert read(f"{memory}/p.parquet").equals(frame)
    assert not [name for name in fsspec.filesystem("memory").ls("/here") if "tmp" in str(name)]


def test_files_by_url(tmp_path: Path) -> None:
    frame = DATA[:100].fsst.compress()
    frame.save(f"file://{tmp_path}/f.fsst")
    assert cudf_fsst.load(tmp_path / "f.fsst").equals(frame)
    assert cudf_fsst.load(f"local://{tmp_path}/f.fsst").equals(frame)
    frame.to_parquet(f"file://{tmp_path}/p.parquet")
    assert read(f"file://{tmp_path}/p.parquet").equals(frame)


def test_a_file_system_of_plain_files_gets_whole_ones(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As SFTP: a file is there as soon as it is begun, so it is written by another name."""
    from fsspec.implementations.local import LocalFileSystem

    class Plain(LocalFileSystem):
        protocol = "plain"
        broken = False

        def put_file(self, lpath: str, rpath: str, *args: Any, **kwargs: Any) -> None:
            super().put_file(lpath, rpath, *args, **kwargs)
            if self.broken:
                os.truncate(self._strip_protocol(rpath), 10)
                raise ConnectionResetError("gone")

    fsspec.register_implementation("plain", Plain, clobber=True)
    frame = DATA[:1000].fsst.compress()
    url = f"plain://{tmp_path}/f.fsst"
    frame.save(url)
    assert cudf_fsst.load(url).equals(frame)
    monkeypatch.setattr(Plain, "broken", True)
    with pytest.raises(OSError, match=rf"{url}: .*gone"):
        DATA[:500].fsst.compress().save(url)
    assert os.listdir(tmp_path) == ["f.fsst"]
    assert cudf_fsst.load(tmp_path / "f.fsst").equals(frame)


def test_a_file_in_an_archive_is_read_by_one_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads of its file system share a file, and its place."""
    monkeypatch.setattr("cudf_fsst.files.storage._FAR_NBYTES", 100_000)
    frame = pd.DataFrame({f"n{i}": np.random.default_rng(i).integers(0, 2**63, 30_000) for i in range(20)})
    frame.fsst.compress().save(tmp_path / "f.fsst")
    with tarfile.open(tmp_path / "f.tar", "w") as archive:
        archive.add(tmp_path / "f.fsst", "f.fsst")
    for _ in range(5):
        loaded = cudf_fsst.load(f"tar://f.fsst::{tmp_path}/f.tar")
        pd.testing.assert_frame_equal(loaded.decompress(), frame)


# File objects ---------------------------------------------------------------------------------------------------------


class Pipe(io.RawIOBase):
    """Bytes that come one after another."""

    def __init__(self, data: bytes) -> None:
        self._data = io.BytesIO(data)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        return self._data.readinto(buffer)


def test_file_objects(tmp_path: Path) -> None:
    frame = DATA.fsst.compress()
    stored, parquet = io.BytesIO(), io.BytesIO()
    frame.save(stored)
    frame.to_parquet(parquet)
    assert cudf_fsst.load(stored).equals(frame)
    assert read(parquet).equals(frame)
    assert read(parquet, columns=["mode", "n1"]).equals(frame[["mode", "n1"]])
    assert not parquet.closed
    with (tmp_path / "f.fsst").open("w+b") as file:
        file.write(b"")
        frame.save(file)
        assert cudf_fsst.load(file, columns=["text"]).equals(frame[["text"]])
    with (tmp_path / "p.parquet").open("w+b") as file:
        frame.to_parquet(file)
        assert read(file).equals(frame)
        assert not file.closed
    assert cudf_fsst.load(Pipe(stored.getvalue())).equals(frame)
    assert read(Pipe(parquet.getvalue())).equals(frame)
    with fsspec.open(str(tmp_path / "p.parquet"), "rb") as file:
        assert read(file).equals(frame)


def test_a_raw_file_that_takes_some_bytes_at_a_time() -> None:
    class Raw(io.RawIOBase):
        def __init__(self, room: int) -> None:
            self.data, self.room = bytearray(), room

        def writable(self) -> bool:
            return True

        def write(self, piece: Any) -> int | None:
            taken = bytes(piece)[: min(7000, self.room - len(self.data))]
            self.data += taken
            return len(taken) or None

    frame = DATA[:3000].fsst.compress()
    for write in (frame.save, frame.to_parquet, frame.to_csv):
        whole, raw = io.BytesIO(), Raw(1 << 30)
        write(whole)
        write(raw)
        assert raw.data == whole.getvalue()
        with pytest.raises(BlockingIOError, match="a Raw takes no more bytes"):
            write(Raw(8000))

    class Wrapped:  # of no such class
        file = io.BytesIO()

        def write(self, piece: Any) -> int:
            return self.file.write(piece[: len(piece) // 2 + 1])

    frame.save(wrapped := Wrapped())
    assert cudf_fsst.load(wrapped.file).equals(frame)


def test_a_bytesio_with_its_own_write() -> None:
    class Counted(io.BytesIO):
        nbytes = 0

        def write(self, piece: Any) -> int:
            self.nbytes += memoryview(piece).nbytes
            return super().write(piece)

    file = Counted()
    DATA[:100].fsst.compress().save(file)
    assert file.nbytes == len(file.getvalue())


def test_file_objects_that_are_none(tmp_path: Path) -> None:
    frame = DATA[:10].fsst.compress()
    (tmp_path / "text").write_text("text")
    with (tmp_path / "text").open() as file:
        for call in (cudf_fsst.load, read):
            with pytest.raises(TypeError, match="open for text"):
                call(file)
    for value in (5, None, {"a": 1}):
        with pytest.raises(TypeError):
            cudf_fsst.load(value)
        with pytest.raises(TypeError):
            frame.save(value)
        with pytest.raises(TypeError):
            read(value)
    with pytest.raises(ValueError, match="not a cudf_fsst file"):
        cudf_fsst.load(io.BytesIO(b"something else"))
    with pytest.raises(ValueError, match="storage_options"):
        cudf_fsst.load(io.BytesIO(), storage_options={"a": 1})


def test_paths_at_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    frame = DATA[:100].fsst.compress()
    frame.save("~/f.fsst")
    frame.to_parquet(Path("~/p.parquet"))
    frame.to_parquet("~/hive", partition_cols=["n2"])
    assert sorted(path.name for path in tmp_path.iterdir()) == ["f.fsst", "hive", "p.parquet"]
    for path in ("~/f.fsst", Path("~/f.fsst"), b"~/f.fsst"):
        assert cudf_fsst.load(path).equals(frame)
    for paths in ("~/p.parquet", ["~/p.parquet"], "~/p.*"):
        assert read(paths).equals(frame)
    assert len(read("~/hive")) == len(frame)
    with pytest.raises(FileNotFoundError, match=f"{tmp_path}/none"):
        read("~/none")
    pytest.importorskip("polars")
    assert cudf_fsst.scan("~/f.*").collect().height == len(frame)


# What to_parquet takes ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("index", [None, True, False])
@pytest.mark.parametrize(
    "labels",
    [None, pd.RangeIndex(3, 9, 2, name="r"), pd.Index(["x", "y", "z"], name="i"), pd.Index([3, 1, 2])],
    ids=str,
)
def test_index(tmp_path: Path, index: bool | None, labels: Any) -> None:
    data = pd.DataFrame({"a": [1, 2, 3], "s": ["p", None, "q"]}, index=labels)
    data.fsst.compress().to_parquet(tmp_path / "ours.parquet", index=index)
    data.to_parquet(tmp_path / "theirs.parquet", index=index)
    ours, theirs = pq.read_schema(tmp_path / "ours.parquet"), pq.read_schema(tmp_path / "theirs.parquet")
    assert ours.names == theirs.names
    assert ours.pandas_metadata == theirs.pandas_metadata
    found = pd.read_parquet(tmp_path / "ours.parquet")
    pd.testing.assert_frame_equal(found, pd.read_parquet(tmp_path / "theirs.parquet"))
    pd.testing.assert_frame_equal(read(tmp_path / "ours.parquet").decompress(), found)


@pytest.mark.parametrize("size", [1, 700, 5000, 10**9])
def test_row_groups(tmp_path: Path, size: int, monkeypatch: pytest.MonkeyPatch) -> None:
    data = DATA[: 5 if size == 1 else 12_345]
    monkeypatch.setattr("cudf_fsst.batches.PIECE_NBYTES", 200_000)  # several pieces
    data.fsst.compress().to_parquet(tmp_path / "p.parquet", row_group_size=size)
    metadata = pq.read_metadata(tmp_path / "p.parquet")
    rows = [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]
    assert rows == [min(size, len(data) - a) for a in range(0, len(data), size)]
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "p.parquet"), data)


@pytest.mark.parametrize("keys", [["k"], "k", ["k", "y"]], ids=str)
def test_partitions(tmp_path: Path, keys: Any) -> None:
    data = pd.DataFrame(
        {"k": ["a b", "c/d", "a b", "ä"] * 50, "n": range(200), "y": [2025, 2026] * 100, "t": "text"},
        index=pd.Index(range(0, 400, 2), name="i"),
    )
    data.fsst.compress().to_parquet(tmp_path / "ours", partition_cols=keys)
    data.to_parquet(tmp_path / "theirs", partition_cols=keys)

    def folders(name: str) -> set[str]:
        return {os.path.relpath(where, tmp_path / name) for where, _, files in os.walk(tmp_path / name) if files}

    assert folders("ours") == folders("theirs")
    expected = pd.read_parquet(tmp_path / "theirs")
    pd.testing.assert_frame_equal(pd.read_parquet(tmp_path / "ours"), expected)
    pd.testing.assert_frame_equal(read(tmp_path / "ours").decompress(), expected)
    for file in (tmp_path / "ours").rglob("*.parquet"):
        assert not file.is_symlink()
    assert not list((tmp_path / "ours").glob(".*")), "nothing of the writing is left"


def test_partitions_of_nulls(tmp_path: Path) -> None:
    """pandas writes them, and cannot read them."""
    data = pd.DataFrame({"n": range(9), "mode": ["b", None, "a"] * 3, "year": [2026, 2025, None] * 3})
    for keys in (["mode"], ["year", "mode"]):
        path = tmp_path / "-".join(keys)
        data.fsst.compress().to_parquet(path, partition_cols=keys)
        found = read(path).decompress().sort_values("n", ignore_index=True)
        assert found["mode"].fillna("a").tolist() == data["mode"].fillna("a").tolist()
        assert found["mode"].isna().tolist() == data["mode"].isna().tolist()
        assert found["year"].astype(float).equals(data["year"])


def test_partitions_that_fail(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    frame = pd.DataFrame({"k": ["a", "b"], "n": [1, 2]}).fsst.compress()
    with pytest.raises(KeyError, match="'z'"):
        frame.to_parquet(tmp_path / "p", partition_cols=["z"])
    with pytest.raises(ValueError, match="twice"):
        frame.to_parquet(tmp_path / "p", partition_cols=["k", "k"])
    with pytest.raises(ValueError, match="all columns"):
        frame.to_parquet(tmp_path / "p", partition_cols=["n", "k"])
    with pytest.raises(ValueError, match="folder, not a BytesIO"):
        frame.to_parquet(io.BytesIO(), partition_cols=["k"])
    with pytest.raises(TypeError, match="compression must be a str or None, not int"):
        frame.to_parquet(tmp_path / "p", compression=5)
    for option, value in {"row_group_size": 0, "index": "yes"}.items():
        with pytest.raises(ValueError, match=option):
            frame.to_parquet(tmp_path / "p", **{option: value})
    frame.to_parquet(tmp_path / "p", partition_cols=["k"])
    before = sorted((tmp_path / "p").rglob("*"))

    def full(*_: Any) -> Any:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("cudf_fsst.batches.arrays", full)
    with pytest.raises(OSError, match="No space left"):
        frame.to_parquet(tmp_path / "p", partition_cols=["k"])
    assert sorted((tmp_path / "p").rglob("*")) == before


def test_a_schema_with_other_names(tmp_path: Path) -> None:
    """Fields of structs are columns of the file, too."""
    nested = pa.table({"s": [{"a": 1, "b": "x"}] * 10, "s.a": range(10), "l": [[1, 2]] * 10})
    pq.write_table(nested, tmp_path / "n.parquet")
    data = io.BytesIO((tmp_path / "n.parquet").read_bytes())
    assert read(data).equals(read(tmp_path / "n.parquet"))
    assert read(data, columns=["l"]).equals(read(tmp_path / "n.parquet", columns=["l"]))
