"""Files: what is written is read back; damage is found and named; a failing save leaves nothing behind."""

from __future__ import annotations

import gc
import os
import resource
import stat
import struct
import time
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xxhash

from checker import same_parts
from cudf_fsst.codecs.fsst.symbols import SymbolTable
from cudf_fsst.codecs.text import cpu
from cudf_fsst.codecs.text.segment import Segment
from cudf_fsst.codecs.values import cpu as values
from cudf_fsst.files import sections, storage
from cudf_fsst.files.versions import NEWEST_VERSION
from handmade import handmade_segment, rows_of
from reference_reader import rows_of_file
from stored_file import Stored, load_stored, save_column

PIECE = values.compress(np.zeros(1, np.uint8), codec="raw")[0]
TABLE = SymbolTable.from_symbols([b"the ", b"fox", b"ab", b"a", b" "])
OTHER_TABLE = SymbolTable.from_symbols([b"over ", b"\0"])
ROWS: list[list[bytes | None]] = [
    [b"the fox", None, b"", b"the fox jumps over the fox", b"ababab", None, b"a"] * 3,
    [b"over \0over ", b"over over " * 15],
]


def small_column() -> list[Segment]:
    """Two segments, one with nulls, both with tiles that are raw and tiles that are not."""
    return [handmade_segment(ROWS[0], TABLE), handmade_segment(ROWS[1], OTHER_TABLE)]


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    """A file with a schema, an index, two tables and two segments."""
    path = tmp_path / "c.fsst"
    save_column(path, segments=small_column(), schema=b"the schema", index=b"the index")
    return path


def with_checksums(data: bytes | bytearray) -> bytes:
    """Rewrite every checksum of a damaged file that can still be found."""
    data = bytearray(data)
    columns, segments, sections = struct.unpack_from("<III", data, 24)
    end = 64 + 64 * (columns + segments) + 32 * sections
    if end <= len(data):
        for at in range(end - 32 * sections, end, 32):
            offset, size = struct.unpack_from("<QQ", data, at + 8)
            if offset + size <= len(data):
                struct.pack_into("<Q", data, at + 24, xxhash.xxh3_64_intdigest(data[offset : offset + size]))
        struct.pack_into("<Q", data, 40, xxhash.xxh3_64_intdigest(data[64:end]))
    struct.pack_into("<Q", data, 56, xxhash.xxh3_64_intdigest(data[:56]))
    return bytes(data)


def places_of(data: bytes) -> dict[tuple[int, int], tuple[int, int]]:
    """(kind, number) -> offset and size of each section of a sound file."""
    columns, segments, sections = struct.unpack_from("<III", data, 24)
    records = struct.iter_unpack("<IIQQQ", data[64 + 64 * (columns + segments) :][: 32 * sections])
    return {(kind, number): (offset, size) for kind, number, offset, size, _ in records}


def test_round_trip(saved: Path) -> None:
    stored = load_stored(saved)
    same_parts(stored.segments, small_column())
    assert (stored.schema, stored.index) == (b"the schema", b"the index")
    assert rows_of_file(saved.read_bytes()) == ROWS[0] + ROWS[1]


@pytest.mark.parametrize("kind", [str, os.fsencode, Path])
def test_paths(tmp_path: Path, kind: type) -> None:
    path = kind(os.fspath(tmp_path / "ö.fsst"))
    save_column(path, segments=small_column(), schema=b"")
    assert load_stored(path).index is None


def test_column_without_rows(tmp_path: Path) -> None:
    path = tmp_path / "c.fsst"
    save_column(path, segments=[], schema=b"s", index=b"")
    stored = load_stored(path)
    assert stored == Stored(1, [("fsst", [])], b"s", b"")
    assert rows_of_file(path.read_bytes()) == []


def test_a_table_is_stored_once(tmp_path: Path) -> None:
    path = tmp_path / "c.fsst"
    segments = [handmade_segment([b"the fox"], table) for table in (TABLE, OTHER_TABLE, TABLE)]
    save_column(path, segments=segments, schema=b"")
    assert [number for kind, number in places_of(path.read_bytes()) if kind == 3] == [0, 1]
    same_parts(load_stored(path).segments, segments)


def test_equal_columns_make_equal_files(saved: Path, tmp_path: Path) -> None:
    again = tmp_path / "again.fsst"
    stored = load_stored(saved)
    save_column(again, segments=stored.segments, schema=stored.schema, index=stored.index)
    assert again.read_bytes() == saved.read_bytes()


def test_every_damaged_byte_is_found(saved: Path) -> None:
    data = saved.read_bytes()
    for at in range(len(data)):
        for flip in (1 << at % 8, 0xFF):
            damaged = bytearray(data)
            damaged[at] ^= flip
            saved.write_bytes(damaged)
            with pytest.raises(ValueError, match=r"c\.fsst: "):
                load_stored(saved)


def test_every_truncation_is_found(saved: Path) -> None:
    data = saved.read_bytes()
    for size in range(len(data)):
        saved.write_bytes(data[:size])
        with pytest.raises(ValueError, match=r"c\.fsst: "):
            load_stored(saved)
        if size >= 64:
            saved.write_bytes(with_checksums(data[:16] + struct.pack("<Q", size) + data[24:size]))
            with pytest.raises(ValueError, match=r"c\.fsst: "):
                load_stored(saved)


def test_appended_bytes_are_found(saved: Path) -> None:
    saved.write_bytes(saved.read_bytes() + b"\0")
    with pytest.raises(ValueError, match=r"the file should have \d+ bytes, it has \d+"):
        load_stored(saved)


def test_bytes_that_lie(saved: Path) -> None:
    """With all checksums made good again, `load` accepts exactly what the reference reader accepts."""
    data = saved.read_bytes()
    accepted = 0
    for at in range(12, len(data)):
        for value in {data[at] ^ 1, (data[at] + 8) % 256, 0xFF} - {data[at]}:
            lying = bytearray(data)
            lying[at] = value
            lying = with_checksums(lying)
            saved.write_bytes(lying)
            try:
                expected = rows_of_file(lying)
            except ValueError:
                with pytest.raises(ValueError, match=r"c\.fsst: "):
                    load_stored(saved)
            else:
                assert rows_of(cpu.read(load_stored(saved).segments)) == expected, at
                accepted += 1
    assert accepted > 100  # other literals, symbols, schema: not every change is an error


LIES = {
    # what is wrong: (section, offset in it, struct code, value, message)
    "tile_size": ((0, 0), 64 + 64 + 24, "I", 96, "segment 0: tile size 96"),
    "table": ((0, 0), 64 + 64 + 28, "I", 2, "segment 0: wants symbol table 2, the column has 2"),
    "rows": ((0, 0), 64 + 64, "Q", 2**62, "column 0: states 23 rows"),
    "codec": ((0, 0), 64, "B", 0, "column 0: codec b'\\\\x00sst' is not known"),
    "columns": ((0, 0), 24, "I", 2, "2 columns; version 1 has one"),
    "segments": ((0, 0), 28, "I", 2**32 - 1, "4294967295 segments and 8 sections need more than the file's"),
    "schema size": ((0, 0), 64 + 3 * 64 + 16, "Q", 2**63, "schema: ends at byte"),
    "schema place": ((0, 0), 64 + 3 * 64 + 8, "Q", 0, "schema: starts at byte 0"),
    "kind": ((0, 0), 64 + 3 * 64, "I", 9, "directory: section 0 is of kind 9"),
    "symbols": ((3, 1), 1, "B", 77, "symbol table 1: "),
    "block_starts": ((4, 0), 0, "Q", 1, "segment 0: meta: block_starts disagrees with the tile lengths at block 0"),
    "last block_starts": ((4, 0), 8, "Q", 2**63, "segment 0: meta: block_starts disagrees .* at block 1"),
    "row_starts": ((4, 0), 16, "Q", 1, "segment 0: meta: row_starts disagrees with the row lengths at row block 0"),
    "row_minima": ((4, 1), 32, "I", 2**32 - 1, "segment 1: meta: row block 0 holds more than the characters"),
    "row_words": ((4, 0), 48, "I", 8, "segment 0: meta: row_words does not grow by a multiple of 8"),
    "gap": ((4, 0), 47, "B", 1, "segment 0: meta: the bytes after row_minima are not zero"),
    "tile_lengths": ((4, 0), 64, "B", 128, "segment 0: meta: tile 0 has a length outside its bytes"),
    "validity": ((4, 0), -16, "B", 0b11011111, "segment 0: meta: validity has 5 nulls, not 6"),
    "null with characters": ((4, 0), -16, "B", 0b11011110, "segment 0: meta: null row 0 has characters"),
    "validity past the end": ((4, 0), -14, "B", 0xFF, "segment 0: meta: validity has bits past the last row"),
    "code": ((5, 0), 0, "B", 77, "segment 0: codes: tile 0 has a code that its symbol table lacks"),
    "length of a tile": ((5, 1), 1, "B", 0, "segment 1: codes: tile 0 does not decode to its bytes"),
}


@pytest.mark.parametrize("lie", LIES)
def test_lies_are_named(saved: Path, lie: str) -> None:
    section, offset, code, value, message = LIES[lie]
    load_stored(saved)  # what is compiled and imported for that does not count
    data = bytearray(saved.read_bytes())
    start, size = places_of(data).get(section, (0, 0))
    struct.pack_into(f"<{code}", data, start + (offset if offset >= 0 else size + offset), value)
    saved.write_bytes(with_checksums(data))
    tracemalloc.start()
    try:
        with pytest.raises(ValueError, match=message):
            load_stored(saved)
        assert tracemalloc.get_traced_memory()[1] < 2**20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    ("section", "name"),
    [
        ((1, 0), "schema"),
        ((2, 0), "index"),
        ((3, 1), "symbol table 1"),
        ((4, 0), "meta of segment 0"),
        ((5, 1), "codes of segment 1"),
    ],
)
def test_damage_is_named(saved: Path, section: tuple[int, int], name: str) -> None:
    data = bytearray(saved.read_bytes())
    data[places_of(data)[section][0]] ^= 1
    saved.write_bytes(data)
    with pytest.raises(ValueError, match=f"{name}: checksum does not match"):
        load_stored(saved)


@pytest.mark.parametrize("version", [0, NEWEST_VERSION + 1, 2**32 - 1])
def test_other_version(saved: Path, version: int) -> None:
    data = bytearray(saved.read_bytes())
    struct.pack_into("<I", data, 8, version)
    saved.write_bytes(data)
    with pytest.raises(ValueError, match=f"format version {version}; .* reads versions 1, 2, 3 and 4$"):
        load_stored(saved)


def test_not_ours(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="missing"):
        load_stored(tmp_path / "missing")
    with pytest.raises(ValueError, match="not a cudf_fsst file"):
        load_stored(tmp_path)
    foreign = tmp_path / "foreign"
    for content in (b"", b"PAR1", b"PAR1" * 100):
        foreign.write_bytes(content)
        with pytest.raises(ValueError, match="foreign: not a cudf_fsst file"):
            load_stored(foreign)
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(ValueError, match="pipe: not a cudf_fsst file"):
        load_stored(tmp_path / "pipe")


def test_a_text_mode_transfer_is_found(saved: Path) -> None:
    for line_end, other in ((b"\r\n", b"\n"), (b"\n", b"\r\n")):
        damaged = saved.with_name("damaged.fsst")
        damaged.write_bytes(saved.read_bytes().replace(line_end, other))
        with pytest.raises(ValueError, match="not a cudf_fsst file"):
            load_stored(damaged)


def test_save_replaces_and_follows_links(saved: Path, tmp_path: Path) -> None:
    link = tmp_path / "link.fsst"
    link.symlink_to(saved)
    save_column(link, segments=[], schema=b"new")
    assert link.is_symlink()
    assert load_stored(saved).schema == b"new"
    assert sorted(os.listdir(tmp_path)) == ["c.fsst", "link.fsst"]


def test_links_are_followed_wherever_they_lead(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    (tmp_path / "a").symlink_to("folder/b")
    (tmp_path / "folder" / "b").symlink_to("c")
    save_column(tmp_path / "a", segments=[], schema=b"new")  # nothing is there yet
    assert (tmp_path / "a").is_symlink()
    assert (tmp_path / "folder" / "b").is_symlink()
    assert load_stored(tmp_path / "folder" / "c").schema == b"new"
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(OSError, match=r"symbolic links: .*round'$"):
        save_column(tmp_path / "round", segments=[], schema=b"new")
    assert (tmp_path / "round").is_symlink()
    assert sorted(os.listdir(tmp_path)) == ["a", "folder", "round"]


def mode_of(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


@pytest.fixture
def written_as(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Modes that unfinished files had whenever something was written to one."""
    modes: list[int] = []
    write = os.pwritev

    def watched(descriptor: int, *arguments: Any) -> int:
        modes.append(stat.S_IMODE(os.fstat(descriptor).st_mode))
        return write(descriptor, *arguments)

    monkeypatch.setattr(os, "pwritev", watched)
    return modes


@pytest.mark.parametrize("mode", [0o600, 0o640, 0o444, 0o666, 0o777], ids=oct)
def test_save_keeps_permissions(saved: Path, mode: int, written_as: list[int]) -> None:
    saved.chmod(mode)
    save_column(saved, segments=[], schema=b"new")
    assert mode_of(saved) == mode
    assert set(written_as) == {0o600}
    link = saved.with_name("link")
    link.symlink_to(saved)
    save_column(link, segments=[], schema=b"newer")
    assert mode_of(saved) == mode
    assert load_stored(saved).schema == b"newer"


@pytest.mark.parametrize("mask", [0o022, 0o077, 0o002], ids=oct)
def test_new_files_have_the_permissions_of_new_files(tmp_path: Path, mask: int, written_as: list[int]) -> None:
    before = os.umask(mask)
    try:
        save_column(tmp_path / "c.fsst", segments=[], schema=b"")
        (tmp_path / "other").touch()
    finally:
        os.umask(before)
    assert mode_of(tmp_path / "c.fsst") == mode_of(tmp_path / "other") == 0o666 & ~mask
    assert set(written_as) == {0o666 & ~mask}


needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to others")


@needs_root
def test_save_keeps_owner_and_group(saved: Path) -> None:
    os.chown(saved, 1234, 4321)
    saved.chmod(0o640)
    save_column(saved, segments=[], schema=b"new")
    found = saved.stat()
    assert (found.st_uid, found.st_gid, stat.S_IMODE(found.st_mode)) == (1234, 4321, 0o640)


@needs_root
@pytest.mark.parametrize(("mode", "kept"), [(0o660, 0o600), (0o664, 0o644), (0o604, 0o644), (0o640, 0o600)])
def test_no_other_group_gets_what_a_group_had(
    saved: Path, mode: int, kept: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise PermissionError("Operation not permitted")

    os.chown(saved, 1234, 4321)
    saved.chmod(mode)
    monkeypatch.setattr(os, "fchown", refuse)
    save_column(saved, segments=[], schema=b"new")
    assert load_stored(saved).schema == b"new"
    assert (saved.stat().st_gid, mode_of(saved)) == (os.getegid(), kept)


@pytest.mark.parametrize("failing", ["fsync", "replace"])
def test_a_failing_save_leaves_the_old_file(saved: Path, monkeypatch: pytest.MonkeyPatch, failing: str) -> None:
    data = saved.read_bytes()

    def fail(*args: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, failing, fail)
    with pytest.raises(OSError, match="no space left"):
        save_column(saved, segments=[], schema=b"new")
    assert os.listdir(saved.parent) == [saved.name]
    assert saved.read_bytes() == data


def test_a_write_that_fails_half_way(saved: Path) -> None:
    data = saved.read_bytes()
    big = handmade_segment([bytes(100_000)], TABLE)
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, hard))
    try:
        with pytest.raises(OSError, match="File too large"):
            save_column(saved, segments=[big], schema=b"new")
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert os.listdir(saved.parent) == [saved.name]
    assert saved.read_bytes() == data


def test_save_into_a_missing_folder(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "c.fsst"
    with pytest.raises(FileNotFoundError, match=f": '{path}'$"):
        save_column(path, segments=[], schema=b"")
    assert os.listdir(tmp_path) == []


def test_save_onto_a_folder(tmp_path: Path) -> None:
    (tmp_path / "folder").mkdir()
    path = tmp_path / "folder"
    with pytest.raises(IsADirectoryError, match=f": '{path}'$"):
        save_column(path, segments=[], schema=b"")
    assert os.listdir(tmp_path) == ["folder"]


@pytest.mark.slow
def test_damage_of_a_big_file_is_found_in_threads(tmp_path: Path) -> None:
    path = tmp_path / "c.fsst"
    segments = [handmade_segment([bytes([number]) * 300_000], TABLE, tile_size=1024) for number in range(4)]
    save_column(path, segments=segments, schema=b"")
    same_parts(load_stored(path).segments, segments)
    data = bytearray(path.read_bytes())
    assert len(data) > 2**20
    data[places_of(data)[5, 2][0] + 1000] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="codes of segment 2: checksum does not match"):
        load_stored(path)


@pytest.mark.parametrize("compression", [None, "zstd"])
def test_bytes_that_arrive_later(compression: str | None, tmp_path: Path) -> None:
    """Buffers are looked at when they have arrived, and not before; nothing else is waited for, or twice."""
    streams: list[storage.Stream] = [("fsst", small_column()), ("raw", [PIECE] * 3)]
    of: dict[str, Any] = {"schema": b"a schema", "compression": compression, "version": 4}
    storage.save(tmp_path / "whole", streams=streams, **of)
    contents: dict[int, Any] = {}

    def on_its_way(buffer: Any) -> Any:
        made = np.zeros(buffer.size, np.uint8)
        contents[id(made)] = made, buffer
        return made

    def arrived(buffer: Any) -> None:
        made, source = contents.pop(id(buffer))
        made[:] = source

    late: list[storage.Stream] = [
        (codec, [replace(part, meta=on_its_way(part.meta), codes=on_its_way(part.codes)) for part in parts])
        for codec, parts in streams
    ]
    storage.save(tmp_path / "late", streams=late, arrived=arrived, **of)
    assert not contents
    assert (tmp_path / "late").read_bytes() == (tmp_path / "whole").read_bytes()


def seconds(path: Path, streams: list[storage.Stream]) -> float:
    """CPU time of writing and reading these streams, without what happens once."""
    times = []
    gc.collect()
    gc.disable()  # what it takes depends on all the objects that earlier tests have left
    try:
        for _ in range(3):
            begin = time.process_time()
            storage.save(path, streams=streams, schema=b"")
            load_stored(path)
            times.append(time.process_time() - begin)
    finally:
        gc.enable()
    return min(times)


MANY: dict[str, Callable[[int], list[storage.Stream]]] = {
    "empty streams": lambda count: [("raw", [])] * 4 * count,
    "streams": lambda count: [("raw", [PIECE])] * count,
    "pieces": lambda count: [("raw", [PIECE] * count)],
    "segments": lambda count: [("fsst", [handmade_segment([b"the fox"], TABLE)] * count)],
}


@pytest.mark.slow
@pytest.mark.parametrize("what", MANY)
def test_time_is_in_proportion_to_records(what: str, tmp_path: Path) -> None:
    path = tmp_path / "c.fsst"
    few, many = (seconds(path, MANY[what](count)) for count in (2000, 16_000))
    assert many < 30 * few  # 8 times as many; 64 times as long if it were quadratic


@pytest.mark.slow
def test_thousands_of_segments(tmp_path: Path) -> None:
    """In more runs than a thread takes at a time, some without characters, some with a table of their own."""
    path = tmp_path / "c.fsst"
    tables = [SymbolTable.from_symbols([b"%03d" % number]) for number in range(300)]
    rows = [[b"%03d" % (number % 300) * (number % 50), None][: 1 + number % 2] for number in range(9000)]
    segments = [handmade_segment(some, tables[number % 300]) for number, some in enumerate(rows)]
    save_column(path, segments=segments, schema=b"")
    assert path.stat().st_size > 2 * sections.WORTH_THREADS
    stored = load_stored(path).segments
    same_parts(stored, segments)
    everything = [row for some in rows for row in some]
    assert rows_of(cpu.read(stored)) == everything
    assert rows_of(cpu.read(stored, 700, 800)) == everything[700:800]
    picked = np.arange(0, len(everything), 37)[::-1].copy()
    assert rows_of(cpu.take(stored, picked)) == [everything[row] for row in picked]
    data = bytearray(path.read_bytes())
    start, size = places_of(data)[5, 8999]
    data[start + size - 1] ^= 1
    path.write_bytes(data)
    with pytest.raises(ValueError, match="codes of segment 8999: checksum does not match"):
        load_stored(path)
