"""OnPair on the host: tables, training, tiles to codes and back, damaged ones."""

from __future__ import annotations

import pickle
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st

import reference_onpair
from cudf_fsst.codecs.onpair import cpu, patricia, plan
from cudf_fsst.codecs.onpair.cpu_kernels import find_damage
from cudf_fsst.codecs.onpair.symbols import BITS, OnPairTable
from cudf_fsst.codecs.onpair.train import MAX_SAMPLE, train_table
from cudf_fsst.codecs.unaligned import address
from onpair_cases import KINDS, encoded, table_for, text

symbols = st.lists(
    st.one_of(st.binary(min_size=2, max_size=16), st.text("ab\0", min_size=2, max_size=16).map(str.encode)),
    max_size=60,
    unique=True,
)


def _addresses(table: OnPairTable) -> tuple[int, ...]:
    return cpu.DECODER.addresses(table)


def _decoded(table: OnPairTable, codes: npt.NDArray[np.uint8], lengths: Any, chars: int, tile_size: int) -> bytes:
    """Characters, or a ValueError."""
    guarded = np.full(chars + 64, 0xA5, np.uint8)
    out = guarded[:chars]
    codes = codes.copy()  # of its own, so that what lies behind is not ours
    ends = np.cumsum(np.append(0, lengths.astype(np.int64) + 1))
    starts = np.append(ends[:-1][::128], ends[-1]).astype(np.uint64)
    bad = cpu.DECODER.decode_chars(
        *(address(codes), codes.size, address(starts), address(lengths), chars, tile_size, 0, chars),
        *(address(out), address(np.empty(tile_size + 64, np.uint8)), _addresses(table)),
    )
    assert (guarded[chars:] == 0xA5).all()
    if bad >= 0:
        raise ValueError(f"tile {bad}")
    return out.tobytes()


@given(st.sampled_from(BITS), symbols)
def test_tables_are_kept(bits: int, listed: list[bytes]) -> None:
    table = OnPairTable.from_symbols(bits, listed)
    data = table.to_bytes()
    assert len(data) == table.nbytes
    assert OnPairTable.from_bytes(data) == table
    assert pickle.loads(pickle.dumps(table)) == table
    assert hash(OnPairTable.from_bytes(data)) == hash(table)
    assert reference_onpair.Table(data).symbols[256:] == list(table.symbols)
    assert len(table) == 256 + len(listed)
    assert (table == OnPairTable.from_symbols(22 - bits, listed)) == (bits == 11)


def test_tables_that_are_refused() -> None:
    good = OnPairTable.from_symbols(10, [b"ab", b"abc", b"0123456789abcdef"]).to_bytes()
    for data, message in [
        (b"", "truncated"),
        (good[:-1], "truncated"),
        (good + b"x", "too long"),
        (b"x" + good[1:], "begins with"),
        (good[:4] + b"\x0d" + good[5:], "13 bits"),
        (good[:6] + b"\1" + good[7:], "begins with"),
        (good[:8] + b"\xff\xff" + good[10:], "too many"),
    ]:
        with pytest.raises(ValueError, match=message):
            OnPairTable.from_bytes(data)
    with pytest.raises(ValueError, match="codes have one of"):
        OnPairTable(9, ())
    with pytest.raises(ValueError, match="ascending"):
        OnPairTable(10, (b"abc", b"ab"))
    with pytest.raises(ValueError, match="has 17 bytes"):
        OnPairTable.from_symbols(10, [b"x" * 17])
    with pytest.raises(ValueError, match="769 symbols are too many"):
        OnPairTable.from_symbols(10, [b"%05d" % i for i in range(769)])
    with pytest.raises(TypeError):
        OnPairTable.from_symbols(10, [3])  # type: ignore[list-item]


@given(st.sampled_from(BITS), symbols, st.binary(max_size=700), st.sampled_from([128, 256]), st.data())
def test_tiles_of_any_table(bits: int, listed: list[bytes], noise: bytes, tile_size: int, data: st.DataObject) -> None:
    words = data.draw(st.lists(st.sampled_from(listed), max_size=80)) if listed else []
    content = b"".join(words) + noise
    table = OnPairTable.from_symbols(bits, listed)
    chars = np.frombuffer(content or b"x", np.uint8)
    codes, lengths, ends = encoded(table, chars, tile_size)
    reference, at = reference_onpair.Table(table.to_bytes()), 0
    for tile, length in enumerate(lengths.tolist()):
        piece = chars[tile * tile_size : (tile + 1) * tile_size].tobytes()
        own = codes[at : at + length + 1].tobytes()
        assert own == reference.encode(piece)
        assert reference.decode(own, len(piece)) == piece
        at += length + 1
        if tile % 128 == 127:
            assert ends[tile // 128] == at
    assert ends[-1] == at == codes.size
    assert _decoded(table, codes, lengths, chars.size, tile_size) == chars.tobytes()
    assert find_damage(address(codes), lengths, _addresses(table), chars.size, tile_size) == (0, 0)


@pytest.mark.parametrize("kind", ["words", "mixed"])
def test_where_nodes_are_crowded(kind: str, rng: np.random.Generator) -> None:
    """Edges that find no room: their symbols are found in another way, and are the same."""
    chars = text(kind, 40_000, rng)
    table, other = table_for(kind, chars, 12), table_for(kind, chars, 12)
    trie = patricia.build(table.words, table.lengths, len(table), sizes=True, entries=1 << 10)
    table.__dict__["patricia"] = trie
    assert (trie.pairs >> 4 & 0x7FFF == 256).any()
    for made, expected in zip(encoded(table, chars, 256), encoded(other, chars, 256), strict=True):
        np.testing.assert_array_equal(made, expected)


@pytest.mark.parametrize("bits", BITS)
@pytest.mark.parametrize("kind", KINDS)
def test_trained_tables(kind: str, bits: int, rng: np.random.Generator) -> None:
    chars = text(kind, 40_000, rng)
    table = table_for(kind, chars, bits)
    assert table == table_for(kind, chars, bits)
    assert len(set(table.symbols)) == len(table.symbols)
    codes, lengths, _ = encoded(table, chars, 256)
    assert _decoded(table, codes, lengths, chars.size, 256) == chars.tobytes()
    if kind == "words":
        assert codes.size < chars.size / 4
    if kind == "bytes":
        assert codes.size <= chars.size


def test_training_depends_on_the_sample_alone(rng: np.random.Generator) -> None:
    """Equal chunks in another order of the symbols' codes: what the rounds keep must not depend on it."""
    chars = text("words", 20_480, rng)
    starts = np.arange(0, chars.size, 512, dtype=np.int64)
    expected = train_table(chars, starts, 10**6, 11)
    padded = np.concatenate([np.zeros(7, np.uint8), chars])[7:]  # at another address
    assert train_table(padded, starts, 10**6, 11) == expected
    assert train_table(chars[:0], starts[:0], 0, 11).symbols == ()
    assert train_table(chars[:1], starts[:1], 1, 11).symbols == ()
    with pytest.raises(ValueError, match="more than"):
        train_table(np.zeros(MAX_SAMPLE + 1, np.uint8), starts, 10**9, 11)


def test_a_string_pays_for_its_place(rng: np.random.Generator) -> None:
    """The larger the column, the more symbols are worth their bytes."""
    chars = text("words", 40_000, rng)
    starts = np.arange(0, chars.size, 512, dtype=np.int64)
    sizes = [len(train_table(chars, starts, column, 12)) for column in (40_000, 400_000, 4_000_000)]
    assert sizes[0] < sizes[1] < sizes[2]


def test_samples() -> None:
    chars = np.arange(3_000_000, dtype=np.uint32).view(np.uint8)
    for nbytes, level, expected in [
        (100, "default", 100),
        (1 << 17, "default", 1 << 17),
        (chars.size, "default", 1 << 17),
        (chars.size, "max", 1 << 20),
    ]:
        sample, starts = plan.sample(chars, chars.size - nbytes, nbytes, level)
        assert sample.size == expected
        assert starts[0] == 0
        positions = plan.sample_positions(chars.size - nbytes, nbytes, level)
        assert (np.diff(positions) >= 512).all()
        assert chars.size - nbytes <= positions[0]
        assert positions[-1] < chars.size
        np.testing.assert_array_equal(sample[:100], chars[positions[0] :][:100])
    assert plan.sample_nbytes(1 << 29, "default") == 1 << 20
    assert (plan.sample_positions(0, chars.size, "max") != plan.sample_positions(0, chars.size, "max", 1)).any()


def test_levels(rng: np.random.Generator) -> None:
    """Level ``max`` takes the bits with which the whole is smallest."""
    words = text("words", 400_000, rng)
    assert cpu.train(words, 0, words.size, "default").bits == plan.BITS
    letters = rng.choice(np.frombuffer(b"abcdefghijklmnop", np.uint8), 60_000)
    for chars in (words, letters):
        table = cpu.train(chars, 0, chars.size, "max")
        sizes = dict.fromkeys(BITS, 0)
        for bits in BITS:
            other = train_table(*plan.sample(chars, 0, chars.size, "max"), chars.size, bits)
            sizes[bits] = encoded(other, chars, 256)[0].size + other.nbytes
        assert sizes[table.bits] == min(sizes.values())


@pytest.mark.parametrize("bits", BITS)
def test_damage_is_found(bits: int, rng: np.random.Generator) -> None:
    chars = text("words", 5_000, rng)
    table = table_for("words", chars, bits)
    codes, lengths, _ = encoded(table, chars, 256)
    addresses = _addresses(table)

    def damage(codes: npt.NDArray[np.uint8], lengths: Any) -> int:
        return int(find_damage(address(codes), lengths, addresses, chars.size, 256)[0])

    unused = codes.copy()
    unused[:4] = 255  # 2^bits - 1, a code that a small table lacks
    assert len(table) < 1 << bits
    assert damage(unused, lengths) == 2
    count = 8 * (int(lengths[0]) + 1) // bits
    spare = 8 * (int(lengths[0]) + 1) - count * bits
    if spare:
        behind = codes.copy()
        behind[lengths[0]] |= 0x80
        assert damage(behind, lengths) == 3
    other = codes.copy()
    other[:2] = codes[2:4]
    found = {damage(other, lengths), damage(codes, np.roll(lengths, 1))}
    assert found <= {0, 1, 2, 3, 4}
    assert found != {0}
    for _ in range(200):
        wrong = codes.copy()
        wrong[rng.integers(0, wrong.size, 3)] = rng.integers(0, 256, 3)
        if damage(wrong, lengths):
            continue
        assert len(_decoded(table, wrong, lengths, chars.size, 256)) == chars.size


def test_a_table_of_arrays() -> None:
    """As training on a GPU makes it: equal to the table of the same symbols, in all that it gives."""
    table = OnPairTable.from_symbols(10, [b"ab", b"ba", b"a\0b", b"0123456789abcdef"])
    made = OnPairTable.of_arrays(10, table.words[: len(table)], table.lengths[: len(table)])
    assert len(made) == len(table) == 260
    assert made.nbytes == table.nbytes
    assert made == table
    assert hash(made) == hash(table)
    assert made.symbols == table.symbols
    assert made.to_bytes() == table.to_bytes()
    assert pickle.loads(pickle.dumps(made)) == table
    assert made != OnPairTable.from_symbols(11, table.symbols)
    with pytest.raises(AttributeError, match="nothing"):
        _ = made.nothing
