"""A slow reader of stored columns, written from docs/format.md alone.

It shares nothing with the package: plain Python, the standard library, and `xxhash` for the checksums. It is what the
package's readers are compared with, and a start for a reader in another language.
"""

from __future__ import annotations

import functools
import struct
import sys
from collections.abc import Callable

import xxhash

ESCAPE = 255


def read(path) -> list[bytes | None]:
    """All rows of the column in a file."""
    with open(path, "rb") as file:
        return rows_of_file(file.read())


def rows_of_file(data: bytes) -> list[bytes | None]:
    """All rows of the column that `data`, a file's bytes, holds (section 8)."""
    need(data[:8] == bytes.fromhex("89 46 53 54 0D 0A 1A 0A"), "magic")
    need(len(data) >= 64, "preamble is cut off")
    need(u32(data, 8) == 1, "version")
    need(checksum(data[:56]) == u64(data, 56), "checksum of the preamble")
    need(u64(data, 16) == len(data), "size of the file")
    need(not any(data[12:16]) and not any(data[36:40]) and not any(data[48:56]), "zero bytes of the preamble")
    columns, segments, sections = u32(data, 24), u32(data, 28), u32(data, 32)
    need(columns == 1, "number of columns")

    column = 64
    first_segment = column + 64 * columns
    directory = first_segment + 64 * segments
    end = directory + 32 * sections
    need(end <= len(data), "records are cut off")
    need(checksum(data[column:end]) == u64(data, 40), "checksum of the records")

    tables = u32(data, column + 44)
    need(data[column : column + 8] == b"fsst\0\0\0\0", "codec")
    need(u32(data, column + 32) == 0 and u32(data, column + 36) == segments, "segments of the column")
    need(u32(data, column + 40) == 0, "tables of the column")
    need(not any(data[column + 48 : column + 64]), "zero bytes of the column")

    content = {}
    order = []
    for at in range(directory, directory + 32 * sections, 32):
        kind, number, offset, size, expected = struct.unpack_from("<IIQQQ", data, at)
        need(offset == -(-end // 64) * 64 and offset + size <= len(data), "place of a section")
        need(not any(data[end:offset]), "bytes between sections")
        end = offset + size
        content[kind, number] = data[offset:end]
        need(checksum(content[kind, number]) == expected, f"checksum of section {kind}, {number}")
        order.append((kind, number))
    need(end == len(data), "end of the last section")
    index = [(2, 0)] if (2, 0) in content else []
    need(sections == 1 + len(index) + tables + 2 * segments, "number of sections")
    per_segment = [(kind, number) for kind in (4, 5) for number in range(segments)]
    need(order == [(1, 0), *index, *((3, number) for number in range(tables)), *per_segment], "order of sections")

    symbols = [symbols_of_table(content[3, number]) for number in range(tables)]
    rows = []
    totals = [0, 0, 0]
    for number in range(segments):
        record = data[first_segment + 64 * number :][:64]
        need(not any(record[36:]), "zero bytes of a segment")
        need(u32(record, 28) < tables, "table of a segment")
        decode = functools.partial(decode_tile, symbols=symbols[u32(record, 28)])
        rows += rows_of_segment(record, decode, content[4, number], content[5, number])
        totals = [total + u64(record, 8 * field) for field, total in enumerate(totals)]
    need(totals == list(struct.unpack_from("<QQQ", data, column + 8)), "sums of the column")
    return rows


def symbols_of_table(data: bytes) -> list[bytes]:
    """Symbols in code order (section 5)."""
    need(len(data) >= 17, "table is cut off")
    head = u64(data, 0)
    need(head >> 32 == 20190218 and head & 0xFF == 1, "version of a table")
    need(data[8] == 0, "table for zero-terminated strings")
    counts = data[9:17]
    need(sum(counts) == head >> 8 & 0xFF, "number of symbols")
    symbols = []
    at = 17
    for length in (2, 3, 4, 5, 6, 7, 8, 1):
        for _ in range(counts[length - 1]):
            symbols.append(data[at : at + length])
            at += length
    need(at == len(data), "size of a table")
    return symbols


def rows_of_segment(
    record: bytes, decode: Callable[[bytes, int], bytes], meta: bytes, codes: bytes
) -> list[bytes | None]:
    """Rows of one segment (sections 1, 3 and 4); `decode` gives the bytes of a tile, so many, of its codes."""
    rows, chars, null_count, tile_size, _, words = struct.unpack_from("<QQQIII", record)
    need(tile_size in (128, 256, 512, 1024), "tile size")
    need(rows >= 1 and null_count <= rows, "number of nulls")
    tiles = ceil(chars, tile_size)
    blocks = ceil(tiles, 128)
    row_blocks = ceil(rows, 256)

    at = 0

    def section(size: int, count: int) -> list[int]:
        nonlocal at
        need(at + size * count <= len(meta), "size of meta")
        values = [int.from_bytes(meta[i : i + size], "little") for i in range(at, at + size * count, size)]
        end = at + size * count
        at = ceil(end, 16) * 16
        need(not any(meta[end:at]), "gaps of meta")
        return values

    block_starts = section(8, blocks + 1)
    row_starts = section(8, row_blocks + 1)
    row_minima = section(4, row_blocks)
    row_words = section(4, row_blocks + 1)
    tile_lengths = section(1 if tile_size <= 256 else 2, tiles)
    row_bits = section(4, words)
    validity = section(1, ceil(rows, 8) if null_count else 0)
    need(at == len(meta), "size of meta")

    characters = bytearray()
    start = 0
    for tile, length_minus_one in enumerate(tile_lengths):
        if tile % 128 == 0:
            need(block_starts[tile // 128] == start, "start of a block of tiles")
        size = min(tile_size, chars - tile * tile_size)
        stop = start + length_minus_one + 1
        need(stop - start <= size and stop <= len(codes), "length of a tile")
        characters += decode(codes[start:stop], size)
        start = stop
    need(start == len(codes) == block_starts[blocks], "number of codes")

    lengths = []
    need(row_words[0] == 0 and row_words[row_blocks] == words, "ends of row_words")
    for block in range(row_blocks):
        need(row_starts[block] == sum(lengths), "start of a row block")
        width, rest = divmod(row_words[block + 1] - row_words[block], 8)
        need(0 <= width <= 63 and rest == 0, "width of a row block")
        packed = 0
        for i, word in enumerate(row_bits[row_words[block] : row_words[block + 1]]):
            packed |= word << (32 * i)
        differences = [packed >> (i * width) & ((1 << width) - 1) for i in range(256)]
        inside = min(256, rows - 256 * block)
        need(not any(differences[inside:]), "differences past the last row")
        lengths += [row_minima[block] + difference for difference in differences[:inside]]
    need(sum(lengths) == chars == row_starts[row_blocks], "sum of the row lengths")

    result: list[bytes | None] = []
    start = 0
    for row, length in enumerate(lengths):
        if validity and not validity[row // 8] >> (row % 8) & 1:
            need(length == 0, "length of a null")
            result.append(None)
        else:
            result.append(bytes(characters[start : start + length]))
        start += length
    need(result.count(None) == null_count, "number of nulls")
    need(not validity or rows % 8 == 0 or validity[-1] >> (rows % 8) == 0, "validity past the last row")
    return result


def decode_tile(codes: bytes, size: int, symbols: list[bytes]) -> bytes:
    """The `size` bytes of a tile (section 2)."""
    if len(codes) == size:
        return codes
    characters = bytearray()
    remaining = iter(codes)
    for code in remaining:
        if code == ESCAPE:
            literal = next(remaining, None)
            need(literal is not None, "escape at the end of a tile")
            characters.append(literal)
        else:
            need(code < len(symbols), "code without a symbol")
            characters += symbols[code]
    need(len(characters) == size, "decoded size of a tile")
    return bytes(characters)


def ceil(a: int, b: int) -> int:
    return -(-a // b)


def checksum(data: bytes) -> int:
    return xxhash.xxh3_64_intdigest(data)


def u32(data: bytes, at: int) -> int:
    return struct.unpack_from("<I", data, at)[0]


def u64(data: bytes, at: int) -> int:
    return struct.unpack_from("<Q", data, at)[0]


def need(condition: bool, what: str) -> None:
    if not condition:
        raise ValueError(f"wrong: {what}")


if __name__ == "__main__":
    for row in read(sys.argv[1]):
        print(row)
