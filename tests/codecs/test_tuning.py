"""Measured launch choices: where they are kept, and what is made of an entry that is not as it should be."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cudf_fsst.codecs.fsst import launch, tuning
from cudf_fsst.codecs.fsst.tuning import DEFAULT, LIMITS, Choices
from cudf_fsst.codecs.text.launch import decode_codes_capacity
from cudf_fsst.codecs.text.layout import TILE_SIZES

GPU = "NVIDIA Test (80GB) sm_90"
MEASURED = {256: Choices(12, 2.0, 6, 1.25), 1024: Choices(None, 1.0, None, 0.5)}


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(tuning.CACHE_VARIABLE, str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_where(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    assert tuning.folder() == tmp_path / "cache"
    monkeypatch.delenv(tuning.CACHE_VARIABLE)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "xdg"))
    assert tuning.folder() == tmp_path / "xdg" / "cudf_fsst"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert tuning.folder() == tmp_path / ".cache" / "cudf_fsst"
    assert tuning.path("a/../b c").parent == tuning.folder()


def test_written_and_read(caplog: pytest.LogCaptureFixture) -> None:
    assert tuning.load(GPU) == {}
    file = tuning.save(GPU, MEASURED, {"date": "2026-01-01"})
    assert tuning.load(GPU) == MEASURED
    tuning.save(GPU, {256: DEFAULT}, {})
    assert tuning.load(GPU) == {256: DEFAULT}
    assert [path.name for path in file.parent.iterdir()] == [file.name], "nothing but the entry is left"
    assert tuning.load("another GPU") == {}
    assert not caplog.records


def test_an_earlier_entry_survives_a_failed_write(monkeypatch: pytest.MonkeyPatch) -> None:
    file = tuning.save(GPU, MEASURED, {})
    with pytest.raises(ValueError, match="encode_warps is 0"):
        tuning.save(GPU, {256: replace(DEFAULT, encode_warps=0)}, {})

    def fail(*_: object) -> None:
        raise OSError("no space left")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="no space"):
        tuning.save(GPU, {}, {})
    assert tuning.load(GPU) == MEASURED
    assert [path.name for path in file.parent.iterdir()] == [file.name]


def changed(change: Callable[[dict[str, Any]], object]) -> bytes:
    entry = json.loads(tuning.path(GPU).read_text())
    change(entry)
    return json.dumps(entry).encode()


#: (content of the file, what the warning says)
BAD: dict[str, tuple[Callable[[], bytes], str]] = {
    "empty": (lambda: b"", "Expecting value"),
    "cut": (lambda: tuning.path(GPU).read_bytes()[:-20], ""),
    "not text": (lambda: b"\xff\xfe\x00\xd8", ""),
    "a list": (lambda: b"[1]", "not a file of launch choices"),
    "null": (lambda: b"null", "not a file of launch choices"),
    "deep": (lambda: b"[" * 60_000, ""),
    "long": (lambda: b" " * 10**6, "longer than"),
    "other layout": (lambda: changed(lambda entry: entry.update(layout=tuning.LAYOUT + 1)), "of another version"),
    "other GPU": (lambda: changed(lambda entry: entry.update(gpu="NVIDIA Other sm_70")), "NVIDIA Other sm_70"),
    "GPU of no kind": (lambda: changed(lambda entry: entry.update(gpu=["x" * 500])), "measured on"),
    "other kernels": (lambda: changed(lambda entry: entry.update(kernels="0" * 64)), "kernels of another version"),
    "no sizes": (lambda: changed(lambda entry: entry.pop("tile_sizes")), "no tile sizes"),
    "unknown size": (lambda: changed(lambda entry: entry["tile_sizes"].update({"100": {}})), "tile size '100'"),
    "no choices": (lambda: changed(lambda entry: entry["tile_sizes"].update({"256": 7})), "choices must be"),
    "one missing": (lambda: changed(lambda entry: entry["tile_sizes"]["256"].pop("decode_warps")), "choices must be"),
    "one too many": (lambda: changed(lambda entry: entry["tile_sizes"]["256"].update(more=1)), "choices must be"),
}


@pytest.mark.parametrize("case", BAD)
def test_ignored_with_one_warning(case: str, caplog: pytest.LogCaptureFixture) -> None:
    file = tuning.save(GPU, MEASURED, {})
    content, message = BAD[case]
    file.write_bytes(content())
    assert tuning.load(GPU) == {}
    (record,) = caplog.records
    assert record.levelname == "WARNING"
    assert record.name == "cudf_fsst"
    assert str(file) in record.getMessage()
    assert message in record.getMessage()
    assert len(record.getMessage()) < 500


@pytest.mark.parametrize("name", LIMITS)
@pytest.mark.parametrize("value", [0, -1, 1e9, 10**400, float("nan"), float("inf"), True, "4", [4], {}, 1.5, None])
def test_value_of_a_choice(name: str, value: Any, caplog: pytest.LogCaptureFixture) -> None:
    file = tuning.save(GPU, MEASURED, {})
    file.write_bytes(changed(lambda entry: entry["tile_sizes"]["256"].update({name: value})))
    whole = LIMITS[name][2]
    right = value is None if whole else value == 1.5
    if right:
        assert tuning.load(GPU) == MEASURED | {256: replace(MEASURED[256], **{name: value})}
    else:
        assert tuning.load(GPU) == {}
        assert f"{name} is " in caplog.text or "integer" in caplog.text


def test_no_place_to_read_from(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    tuning.path(GPU).mkdir(parents=True)
    assert tuning.load(GPU) == {}
    assert "not a file" in caplog.text
    (tmp_path / "file").write_text("")
    monkeypatch.setenv(tuning.CACHE_VARIABLE, str(tmp_path / "file"))
    assert tuning.load(GPU) == {}

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv(tuning.CACHE_VARIABLE)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    assert tuning.load(GPU) == {}
    assert "home directory" in caplog.text


def test_hash_follows_the_kernels(monkeypatch: pytest.MonkeyPatch) -> None:
    tuning.save(GPU, MEASURED, {})
    before = tuning.kernels_hash()
    assert before == tuning.kernels_hash.__wrapped__()
    monkeypatch.setattr(tuning, "source", lambda name: name + " in a new version")
    assert before != tuning.kernels_hash.__wrapped__()


_values = {
    name: st.one_of(st.none(), st.integers(int(least), int(most))) if whole else st.floats(least, most)
    for name, (least, most, whole) in LIMITS.items()
}


@given(
    chosen=st.builds(Choices, **_values),
    tile_size=st.sampled_from(TILE_SIZES),
    shared=st.sampled_from([(65536, 65536), (98304, 98304), (101376, 102400), (166912, 167936), (232448, 233472)]),
    codes_per_tile=st.integers(1, max(TILE_SIZES)),
)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_valid_choice_is_a_legal_launch(
    chosen: Choices, tile_size: int, shared: tuple[int, int], codes_per_tile: int
) -> None:
    per_block, per_multiprocessor = shared
    encode = launch.encode_shape(tile_size, per_block, chosen.encode_warps)
    most = launch.encode_shape(tile_size, per_block)
    assert encode.threads == min(most.threads, 32 * (chosen.encode_warps or 32))
    assert encode.shared <= per_block
    assert launch.encode_defines(tile_size, per_block, chosen.encode_warps)["ENCODE_THREADS"] == encode.threads

    codes = min(codes_per_tile, tile_size) * 1000
    capacity = decode_codes_capacity(tile_size, codes, 1000, chosen.decode_capacity)
    decode = launch.decode_shape(tile_size, capacity, per_block, per_multiprocessor, chosen.decode_warps)
    assert 32 <= decode.threads <= 32 * (chosen.decode_warps or launch.DECODE_WARPS_MAX)
    assert decode.threads % 32 == 0
    assert decode.shared <= per_block
    assert tile_size + 16 <= decode.codes_capacity <= capacity
    assert decode.codes_capacity % 16 == 0
