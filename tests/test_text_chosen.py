"""Which codec of text a scope gets: FSST at the default level, the smallest of all at level max."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
import toy_text
from cudf_fsst.buffers import HostStrings
from cudf_fsst.codecs import registry
from cudf_fsst.codecs.text import choose, cpu, plan
from cudf_fsst.files import storage
from handmade import strings_of

FSST, ONPAIR = (registry.of_text(name) for name in ("fsst", "onpair"))
KINDS = ("comments", "digits", "genome", "cities", "parts")
WORDS = "carefully final deposits sleep furiously among the even requests; ironic packages wake above quick accounts "


def rows(kind: str, count: int = 2000) -> list[bytes | None]:
    """Strings of a kind, with nulls."""
    rng = np.random.default_rng(KINDS.index(kind))
    if kind == "comments":
        words = WORDS.split()
        made = [" ".join(words[i] for i in rng.integers(0, len(words), 9)) for _ in range(count)]
    elif kind == "digits":
        made = [f"{one:016x}" for one in rng.integers(0, 2**63, count)]
    elif kind == "genome":
        made = ["".join("acgt"[i] for i in rng.integers(0, 4, 60)) for _ in range(count)]
    elif kind == "cities":
        parts = "al ber ca dor el fal gor hal in ko la mar nor os pra qui ros sal tor ul ville burg ton stadt".split()
        made = ["".join(parts[i] for i in rng.integers(0, len(parts), 3)).title() for _ in range(count)]
    else:
        made = [f"Part#{i:09d}" for i in rng.integers(0, 10**6, count)]
    return [None if i % 50 == 7 else row.encode() for i, row in enumerate(made)]


def codecs(kind: str, level: str, count: int = 2000) -> set[str]:
    column = pd.Series([row if row is None else row.decode() for row in rows(kind, count)]).fsst.compress(level=level)
    return {segment.codec for segment in column.segments}


@pytest.mark.parametrize("kind", KINDS)
def test_choice(kind: str) -> None:
    """FSST at the default level; at level max the smaller one, whatever it is."""
    strings = strings_of(rows(kind))
    assert codecs(kind, "default") == {"fsst"}
    sizes = {}
    for codec in FSST, ONPAIR:
        [segment] = cpu.compress(strings, codec, level="max")
        sizes[codec.NAME] = segment.codes_nbytes + segment.table.nbytes
    chosen = min(sizes, key=lambda name: sizes[name])
    assert chosen == ("onpair" if kind == "comments" else "fsst")
    assert codecs(kind, "max") == {chosen}


def test_the_sample_is_what_is_written() -> None:
    """Of a scope that is its own sample the estimate is exact."""
    strings = strings_of(rows("comments", 300))
    for codec in FSST, ONPAIR:
        [segment] = cpu.compress(strings, codec, level="max")
        encode = codec.host().encoder(segment.table, "max", plan.COMPARED_TILE)
        sample = plan.choice_sample(strings.chars, 0, segment.chars)
        found = plan.scope_nbytes(encode, segment.table, sample, segment.chars)
        assert found == segment.codes_nbytes + segment.table.nbytes


def test_sample_of_a_large_scope() -> None:
    """1 MiB from everywhere, and other chunks than those of trainings."""
    chars = np.random.default_rng(3).integers(0, 256, 3 << 20, dtype=np.uint8)
    found = plan.choice_sample(chars, 1000, chars.size - 1000).reshape(-1, 512)
    assert found.shape == (2048, 512)
    starts = plan.chunk_positions(1000, chars.size - 1000, 2048, 1)
    assert all((found[i] == chars[start : start + 512]).all() for i, start in enumerate(starts))
    assert (np.diff(starts) >= 512).all()
    assert 1000 <= starts[0] < starts[-1] <= chars.size - 512
    assert (starts != plan.chunk_positions(1000, chars.size - 1000, 2048)).any()
    assert plan.choice_sample(chars, 5, 0).size == 0


def test_ties_go_to_the_first() -> None:
    """Raw tiles take the same with every codec, and so does nothing."""
    for some in [], [b""], [None, b"a"]:
        made = cpu.compress(strings_of(some), FSST, ONPAIR, level="max")
        assert {segment.codec for segment in made} <= {"fsst"}


def test_each_scope_by_itself(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """One column has segments of both codecs, which a file keeps; what the user names stands."""
    mixed = [*rows("comments"), *rows("digits", 6000), *rows("comments")]
    series = pd.Series([row if row is None else row.decode() for row in mixed])
    size = len(b"".join(row for row in mixed if row)) // 6
    monkeypatch.setattr(plan, "segment_size", lambda chars: size)
    monkeypatch.setattr(plan, "segments_per_table", lambda chars: 1)
    column = series.fsst.compress(level="max")
    found = [segment.codec for segment in column.segments]
    assert set(found) == {"fsst", "onpair"}
    column.save(tmp_path / "mixed.fsst")
    assert storage.version_of(tmp_path / "mixed.fsst") == 4
    for one in column, cudf_fsst.load(tmp_path / "mixed.fsst"):
        pd.testing.assert_series_equal(one.decompress(), series)
        assert one.str.contains("final", regex=False).tolist() == series.str.contains("final", regex=False).tolist()
    for codec in "fsst", "onpair":
        assert {one.codec for one in series.fsst.compress(level="max", codec=codec).segments} == {codec}
    table = cudf_fsst.train(series, level="max")
    assert series.fsst.compress(level="max", table=table).tables == (table,)


def test_dictionaries_keep_their_codec() -> None:
    """What repeats has a dictionary at level max, too, with values of FSST."""
    series = pd.Series([row.decode() for row in rows("comments", 60) if row is not None] * 100)
    column = series.fsst.compress(level="max")
    assert column.codec == "dict"
    assert {table.codec for table in column.tables} == {"fsst"}


def test_a_new_codec_is_in_the_choice() -> None:
    """Nobody has to tell the chooser of it."""
    with registry.registered(texts=[toy_text]):
        assert registry.of_text(toy_text.NAME) in choose.codecs_of(None, None, "max")
        made: list[HostStrings] = [strings_of(rows("comments"))]
        assert cpu.compress(made[0], *registry.texts(), level="max")[0].codec == "onpair"


@pytest.mark.gpu
@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "cities"])  # they have a dictionary
def test_on_a_gpu(kind: str) -> None:
    """The codec that is chosen, and its bytes, are the host's."""
    import cudf

    host = pd.Series([row if row is None else row.decode() for row in rows(kind, 20_000)], dtype="str")
    column, expected = cudf.Series(host).fsst.compress(level="max"), host.fsst.compress(level="max")
    assert column.codec == expected.codec == ("onpair" if kind == "comments" else "fsst")
    for found, one in zip(column.to_host().segments, expected.segments, strict=True):
        assert found.table == one.table
        assert found.meta.tobytes() == one.meta.tobytes()
        assert found.codes.tobytes() == one.codes.tobytes()
