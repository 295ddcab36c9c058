"""Make the golden files that are missing: ``python tests/golden/make.py``.

A golden file is made once and then kept: every later version of the package must read it (tests/test_golden.py). New
ones go to the end of `columns`, as all draw from one generator.

``NAME.fsst`` is the stored column, ``NAME.json`` what it holds: a list with, for each row, ``null`` or its bytes as
Latin-1 text. ``frames/NAME.fsst`` is a stored frame, ``frames/NAME.txt`` the rows of its Arrow table, as Python shows
them. ``version3/NAME.fsst`` is a frame or a column of version 3, ``version3/NAME.txt`` what `shown` shows of it.
``version4`` has the same of version 4.
``more_types/NAME.fsst`` is one of types that version 2 has not, ``more_types/NAME.txt`` its rows.
"""

from __future__ import annotations

import json
import random
import sys
from pathlib import Path
from typing import Any
from unittest import mock

FOLDER = Path(__file__).parent
sys.path.insert(0, str(FOLDER.parent))

from cudf_fsst.codecs.fsst.symbols import SymbolTable  # noqa: E402
from cudf_fsst.codecs.text import cpu  # noqa: E402
from cudf_fsst.codecs.text.segment import Segment  # noqa: E402
from handmade import handmade_segment, strings_of  # noqa: E402  # needs the path above
from stored_file import save_column  # noqa: E402

Rows = list[bytes | None]

ADJECTIVES = "quick lazy final ironic silent bold express regular unusual pending".split()
NOUNS = "foxes deposits packages requests theodolites accounts platelets pinto-beans".split()
VERBS = "sleep haggle nag wake cajole boost integrate detect".split()


def sentences(generator: random.Random, count: int) -> Rows:
    """Text as TPC-H has it in its comments."""
    return [
        " ".join(generator.choice(words) for words in (ADJECTIVES, NOUNS, VERBS) for _ in range(2)).encode()
        for _ in range(count)
    ]


def with_nulls(generator: random.Random, rows: Rows) -> Rows:
    """Every fifth row or so null, every tenth empty."""
    return [generator.choices([row, None, b""], [7, 2, 1])[0] for row in rows]


def columns() -> dict[str, tuple[Rows, list[Segment]]]:
    """Name -> rows and the segments that hold them."""
    generator = random.Random(20190218)
    text = sentences(generator, 400)
    nulls = with_nulls(generator, text)
    urls: Rows = [b"https://example.org/%s/%d?q=%x" % (w.encode(), i, i * i) for i, w in enumerate(NOUNS * 36)]
    binary: Rows = [bytes(range(256)), generator.randbytes(3000), None, b"\xff" * 300, b"", b"\0"]
    table = SymbolTable.from_symbols([b"foxes", b"foxes sl", b"qu", b"q", b"e", b" ", b"quick ", b"ee", b"s"])
    pieces = [text[:100], nulls[100:400], [None, b""], [b"quick foxes sleep" * 200]]

    made = {f"text_{size}": (text, cpu.compress(strings_of(text), tile_size=size)) for size in (128, 256, 512, 1024)}
    for name, rows in {
        "nulls": nulls,
        "urls": urls,
        "binary": binary,
        "no_rows": [],
        "all_null": [None] * 300,
        "empty_strings": [b""] * 300,
        "one_byte_rows": [bytes([65 + i % 26]) for i in range(1000)],
    }.items():
        made[name] = rows, cpu.compress(strings_of(rows))
    made["level_max"] = nulls, cpu.compress(strings_of(nulls), level="max")
    made["imported_table"] = text[:200], cpu.compress(strings_of(text[:200]), table=table)
    made["any_parse"] = nulls[:300], [handmade_segment(nulls[:300], table, choose=generator.choice, spare=3)]
    made["segments"] = (
        [row for rows in pieces for row in rows],
        [segment for rows in pieces for segment in cpu.compress(strings_of(rows))],
    )
    made["level_max_from_default"] = nulls, cpu.compress(strings_of(nulls), level="max")  # trained in another way
    return made


def schema_and_index(rows: Rows) -> tuple[bytes, bytes | None]:
    """What a pandas Series with these rows stores."""
    import pandas as pd

    from cudf_fsst.interop import schema

    return schema.to_bytes("golden", pd.StringDtype(na_value=float("nan")), pd.RangeIndex(len(rows)))


def frames() -> dict[str, tuple[Any, dict[str, str]]]:
    """Name -> a pandas DataFrame, and the codecs asked for."""
    import numpy as np
    import pandas as pd

    generator = np.random.default_rng(20190218)
    rows = 3000
    price = generator.integers(100, 100_000, rows) / 100
    types = pd.DataFrame(
        {
            "sorted": np.sort(generator.integers(0, 10**6, rows)),
            "price": price,
            "walk": np.cumsum(generator.normal(0, 0.01, rows)).astype("f4"),
            "flag": generator.random(rows) < 0.5,
            "day": pd.Timestamp("2020-01-01") + pd.to_timedelta(generator.integers(0, 900, rows), "D"),
            "maybe": pd.array(generator.integers(0, 7, rows), "Int16"),
            "kind": pd.Categorical.from_codes(generator.integers(0, 3, rows), ["a", "bb", "ccc"]),
            "text": [f"item {i % 77}" for i in range(rows)],
        }
    )
    types.loc[::7, ["maybe", "text", "kind"]] = None
    types.loc[3::9, "day"] = pd.NaT
    lists = pd.DataFrame(
        {"lists": [[1, 2, 3][: i % 4] for i in range(500)]}, index=pd.Index(range(500, 0, -1), name="n")
    )
    numbers = types[["sorted", "price"]]
    return {
        "types": (types, {"text": "fsst"}),
        "lists": (lists, {}),
        **{codec: (numbers, dict.fromkeys(numbers, codec)) for codec in ("bitpack", "gfc", "gpulz", "raw")},
    }


def version_3() -> dict[str, Any]:
    """Name -> a compressed frame or column that only version 3 can say."""
    import pandas as pd
    import pyarrow as pa

    import cudf_fsst
    from cudf_fsst import CompressedColumn
    from cudf_fsst.codecs import host
    from cudf_fsst.codecs.dict import plan
    from cudf_fsst.codecs.node import Content
    from cudf_fsst.index import CompressedIndex
    from cudf_fsst.interop import arrow_columns

    rows = pd.DataFrame([[1, "a", 1.5, True], [2, None, 2.5, False]])
    words = ["one", None, "three", "four", "five"]
    kinds = pd.MultiIndex.from_arrays(
        [
            pd.interval_range(0, 4),
            pd.Categorical(list("abca"), categories=list("cbad"), ordered=True),
            pd.date_range("2020", periods=4, tz="Europe/Paris", unit="s"),
            pd.Index([1, 2, None, 4], dtype="UInt8"),
        ],
        names=["bin", None, ("t", 1), 5],
    )
    bins = pd.CategoricalIndex(pd.cut([1.0, 5.0, 9.0, float("nan"), 2.0], 3), name="bin")
    # What cuDF has: integers with missing labels.
    arrays = [pa.array([1, None, 2**60 + 1, 4, None]), pa.array([True, None, False, True, True])]
    levels = [
        Content(host.HostCompressor(None, {}).node(arrow_columns.describe(one)), one.type, None) for one in arrays
    ]
    notes = {"names": ["i", None], "multi": True, "dtypes": [None] * 2, "freqs": [None] * 2}
    plain = pd.Series(words).fsst.compress()
    modes = ["AIR", "RAIL", "SHIP", "TRUCK", "", "REG AIR", None]
    repeated = pd.Series([modes[i * i % 11 % 7] for i in range(1500)], name="mode")
    many = pd.Series([f"clerk {i % 300}" for i in range(700)])
    listed = [[mode, "x"][: i % 3] for i, mode in enumerate(repeated)]
    frame = pd.DataFrame({"list": listed, "bytes": [b"\xff", b""] * 750}, index=pd.Index(repeated, name="label"))
    with mock.patch.object(plan, "LEAST_ROWS", 1024):  # nobody can name the codec of an index
        nested = frame.fsst.compress(codecs={"bytes": "dict"})
    return {
        "divided": divided().fsst.compress(codecs={"whole": "bitpack"}),
        "levels_of_labels": rows.set_axis(kinds, axis=1).fsst.compress(),
        "periods": rows.set_axis(pd.period_range("2020", periods=4, freq="Q"), axis=1).fsst.compress(),
        "column_of_bins": pd.Series(words, index=bins, name=("a", 1)).fsst.compress(),
        "column_of_nulls": CompressedColumn._make(
            plain._content, plain._backend, "n", CompressedIndex(notes, 5, levels), plain.dtype
        ),
        "dictionary": repeated.fsst.compress(codec="dict"),
        "dictionaries": cudf_fsst.concat(
            [
                *(pd.Series([None, "one", "two"]).fsst.compress(codec=codec) for codec in ("fsst", "dict", "dict")),
                many.fsst.compress(codec="dict"),
                pd.Series([None] * 5, dtype="str").fsst.compress(codec="dict"),
                many[:3].fsst.compress(codec="fsst"),
            ]
        ),
        "nested_dictionary": nested,
    }


def version_4() -> dict[str, tuple[Any, str | None]]:
    """Name -> a compressed frame or column that only version 4 can say, and the outer codec that it is saved with."""
    import pandas as pd

    import cudf_fsst

    words = [f"line {i % 40} of a text, {i * i % 977}" for i in range(1200)]
    kinds = ["AIR", None, "SHIP"] * 400
    data = pd.DataFrame({"text": words, "kind": kinds, "n": [i // 7 * 1000 for i in range(1200)]})
    data.index = pd.Index([i * 3 % 1200 for i in range(1200)], name="i")

    generator = random.Random(20250803)
    rows = [row if row is None else row.decode() for row in with_nulls(generator, sentences(generator, 400))]
    text = pd.Series(rows, name="comment", dtype="str")
    binary = [bytes(range(256)), generator.randbytes(3000), None, b"\xff" * 700, b"", b"\0", b"\0\0\x7f" * 40] * 3
    lists = [None if i % 9 == 4 else rows[i : i + i % 4] for i in range(90)]
    frame = pd.DataFrame({"bytes": binary, "list": lists[: len(binary)]})
    symbols = [b"foxes", b"foxes sl", b"quick lazy packa", b"eep", b"e", b"  ", b"quick "] * 2
    tables = [cudf_fsst.OnPairTable.from_symbols(bits, [one for one in symbols if len(one) > 1]) for bits in (10, 12)]
    pieces = [text[100 * i : 100 * (i + 1)] for i in range(4)]
    mixed = [
        pieces[0].fsst.compress(table=tables[0], tile_size=128),
        pieces[1].fsst.compress(codec="fsst"),
        pieces[2].fsst.compress(table=tables[1], tile_size=1024),
        pieces[3].fsst.compress(codec="onpair"),
    ]
    return {
        "outer_frame": (data.fsst.compress(codecs={"n": "raw"}), "zstd"),
        "outer_column": (data["text"].fsst.compress(), "zstd"),
        "onpair": (text.fsst.compress(codec="onpair"), None),
        "onpair_max": (text.fsst.compress(codec="onpair", level="max"), None),
        "onpair_frame": (frame.fsst.compress(codecs={"bytes": "onpair", "list": "onpair"}), None),
        "onpair_mixed": (cudf_fsst.concat(mixed), None),
        "nan": (with_nan().fsst.compress(), None),
    }


def with_nan() -> Any:
    """A pandas DataFrame of floating point numbers, some of which are NaN, of several bits."""
    import numpy as np
    import pandas as pd

    generator = np.random.default_rng(24)
    rows = 1500
    missing = generator.random(rows) < 0.03
    minutes = np.where(missing, np.nan, generator.integers(1, 2400, rows))
    single = np.where(missing, np.nan, generator.integers(1, 2400, rows)).astype("f4")
    single.view("u4")[missing] = generator.choice(np.array([0xFFC00000, 0x7F800001], "u4"), missing.sum())
    line = np.arange(rows) / 4 + 256
    line[1030::20] = np.nan
    prices = pd.array(generator.integers(100, 9000, rows) / 100, dtype="double[pyarrow]")
    prices[::50] = None
    return pd.DataFrame({"minutes": minutes, "single": single, "line": line, "price": prices})


def divided() -> Any:
    """A pandas DataFrame of numbers that have a common divisor, all or most of them."""
    from decimal import Decimal

    import numpy as np
    import pandas as pd
    import pyarrow as pa

    generator = np.random.default_rng(86400)
    rows = 1500
    some = 250 * generator.integers(-90, 90, rows)
    some[1400] += 1  # the second block is not divided
    prices = [Decimal(int(cents)).scaleb(-2) for cents in 100 * generator.integers(-(10**5), 10**6, rows)]
    frame = pd.DataFrame(
        {
            "day": pd.to_datetime(86400 * generator.integers(8000, 10600, rows), unit="s").astype("M8[s]"),
            "step": np.cumsum(2500 * generator.integers(1, 4, rows)) + 1_700_000_000_123,
            "small": (10 * generator.integers(-12, 13, rows)).astype("i1"),
            "price": pd.array(prices, dtype=pd.ArrowDtype(pa.decimal128(30, 2))),
            "maybe": pd.array(60 * generator.integers(0, 1440, rows), "UInt32"),
            "some": some,
            "whole": generator.integers(-500, 500, rows).astype("f8"),
        }
    )
    frame.loc[::7, "maybe"] = None
    return frame


def more_types() -> dict[str, Any]:
    """Name -> a compressed frame or column of types that only version 3 has."""
    from decimal import Decimal

    import pandas as pd
    import pyarrow as pa
    import pyarrow.compute as pc

    rows = 90
    texts = [None if i % 7 == 3 else f"text number {i % 20}" for i in range(rows)]
    arrays = {
        "vectors": pa.array([None if i % 9 == 4 else [i, i / 2, None] for i in range(rows)], pa.list_(pa.float32(), 3)),
        "matrices": pa.array([[[i, 1], [2, i % 5]] for i in range(rows)], pa.list_(pa.list_(pa.int16(), 2), 2)),
        "map": pa.array(
            [None if i % 8 == 2 else [(f"k{j}", i + j) for j in range(i % 3)] for i in range(rows)],
            pa.map_(pa.string(), pa.int32()),
        ),
        "ids": pa.array([None if i % 5 == 1 else (i**5).to_bytes(16, "big") for i in range(rows)], pa.binary(16)),
        "big": pa.array([None if i % 6 == 5 else Decimal(i - 99) * 10**45 for i in range(rows)], pa.decimal256(60, 2)),
        "views": pa.array([[text, "x"] for text in texts], pa.list_(pa.string_view())),
        "list views": pa.array([[i] * (i % 4) for i in range(rows)], pa.list_view(pa.int32())),
        "runs": pc.run_end_encode(pa.array([texts[i // 9] for i in range(rows)])),
    }
    columns = {
        name: pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([array]))) for name, array in arrays.items()
    }
    frame = pd.DataFrame(columns)
    return {"frame": frame.fsst.compress(), "column": frame["vectors"].fsst.compress()}


def shown(loaded: Any) -> str:
    """Labels, index and values, with their types."""
    import pandas as pd

    data = loaded.decompress()
    labels = data.columns if isinstance(data, pd.DataFrame) else pd.Index([data.name], tupleize_cols=False)
    lines = []
    for index in (labels, data.index):
        dtypes = [str(level.dtype) for level in (index.levels if isinstance(index, pd.MultiIndex) else [index])]
        lines += [f"{list(index.names)!r} {dtypes!r}", *map(repr, index.tolist())]
    return "\n".join([*lines, repr(data.to_numpy().tolist())]) + "\n"


def main() -> None:
    """Write the golden files that are not there."""
    import cudf_fsst  # noqa: F401 - registers the accessors

    for name, compressed in version_3().items():
        path = FOLDER / "version3" / f"{name}.fsst"
        if not path.exists():
            compressed.save(path)
            path.with_suffix(".txt").write_text(shown(compressed), encoding="utf-8")

    for name, (compressed, outer) in version_4().items():
        path = FOLDER / "version4" / f"{name}.fsst"
        if not path.exists():
            path.parent.mkdir(exist_ok=True)
            compressed.save(path, compression=outer)
            path.with_suffix(".txt").write_text(shown(compressed), encoding="utf-8")

    for name, compressed in more_types().items():
        path = FOLDER / "more_types" / f"{name}.fsst"
        if not path.exists():
            compressed.save(path)
            path.with_suffix(".txt").write_text(
                "\n".join(map(repr, compressed.to_arrow().to_pylist())), encoding="utf-8"
            )
    for name, (frame, codecs) in frames().items():
        path = FOLDER / "frames" / f"{name}.fsst"
        if not path.exists():
            compressed = frame.fsst.compress(codecs=codecs)
            compressed.save(path)
            text = "\n".join(map(repr, compressed.to_arrow().to_pylist()[:200]))
            path.with_suffix(".txt").write_text(text + "\n", encoding="utf-8")
    for name, (rows, segments) in columns().items():
        if (FOLDER / f"{name}.fsst").exists():
            continue
        schema, index = schema_and_index(rows)
        save_column(FOLDER / f"{name}.fsst", segments=segments, schema=schema, index=index)
        expected = [None if row is None else row.decode("latin-1") for row in rows]
        text = json.dumps(expected, indent=0, separators=(",", ":"))
        (FOLDER / f"{name}.json").write_text(text + "\n", encoding="ascii")


if __name__ == "__main__":
    main()
