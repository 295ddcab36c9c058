"""Groups, order and rows of frames that are drawn: what `f.decompress()` gives with the same call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

METHODS = ["sum", "min", "max", "mean", "count", "nunique", "first", "last", "any", "all", "size", "std", "median"]


def drawn_frame(rng: np.random.Generator) -> pd.DataFrame:
    """Columns of all kinds of keys; sometimes few rows, other labels, or a name that is the index's too."""
    rows = int(rng.choice([6000, 0, 1, 20, 5000]))
    made = pd.DataFrame(
        {
            "s": pd.Series(rng.choice(["b", "a", "", None, "é"], rows), dtype="str"),
            "o": pd.Series(rng.choice(["x", "y", None], rows), dtype=object),
            "p": pd.Series(pd.array(rng.choice(["q", "r", None], rows), dtype="string[pyarrow]")),
            "w": pd.Series(pd.array(rng.choice(["z", "u", None], rows), dtype=pd.ArrowDtype(pa.string()))),
            "k": pd.Categorical(rng.choice(list("abc"), rows), list("dcba"), ordered=bool(rng.integers(2))),
            "i": rng.integers(0, 5, rows),
            "n": pd.array(rng.choice([1, 2, None], rows), dtype="Int64"),
            "f": np.where(rng.random(rows) < 0.2, np.nan, rng.integers(0, 6, rows) / 2),
            "b": rng.integers(0, 2, rows).astype(bool),
            "t": pd.Timestamp("2026") + pd.to_timedelta(rng.integers(0, 9, rows), "D"),
            "u": [f"u{i * 7919 % rows}" for i in range(rows)],
        }
    )
    if rng.random() < 0.3:
        made.index = pd.Index(rng.integers(0, 50, rows), name="s" if rng.random() < 0.3 else "label")
    if rng.random() < 0.2:
        made.columns = pd.Index([5 if label == "i" else label for label in made.columns], dtype=object)
    return made


def drawn_group(rng: np.random.Generator, labels: list[Any], keys: list[Any]) -> Callable[[Any], Any]:
    by = keys if len(keys) > 1 or rng.random() < 0.5 else keys[0]
    options = {name: bool(rng.integers(2)) for name in ("sort", "dropna", "as_index") if rng.random() < 0.5}
    options |= {"observed": bool(rng.integers(2))} if rng.random() < 0.7 else {}
    method, way = str(rng.choice(METHODS)), int(rng.integers(6))
    values = [labels[place] for place in rng.choice(len(labels), int(rng.integers(1, 3)), replace=False)]

    def call(data: Any) -> Any:
        groups = data.groupby(by, **options)
        if way == 0:
            return getattr(groups, method)()
        if way == 1:
            return getattr(groups[values], method)()
        if way == 2:
            return getattr(groups[values[0]], method)()
        if way == 3:
            return groups.agg(dict.fromkeys(values, method))
        if way == 4:
            return groups.agg(**{f"r{number}": (label, method) for number, label in enumerate(values)})
        return groups[values].agg([method, "count"])

    return call


def drawn_merge(rng: np.random.Generator, frame: pd.DataFrame, keys: list[Any]) -> Callable[[Any], Any]:
    """With some of its own rows, in another order, and rows whose keys it does not have; by names or the index."""
    how = str(rng.choice(["inner", "left", "right", "outer"]))
    options: dict[str, Any] = {"sort": bool(rng.integers(2))} | ({"indicator": True} if rng.random() < 0.3 else {})
    if rng.random() < 0.5:
        options["suffixes"] = ("", "_other")
    rows = rng.choice(len(frame), min(len(frame), 12), replace=False)
    other = frame.iloc[rows][list(dict.fromkeys([*keys, "u", "f", "b"]))].reset_index(drop=True)
    if rng.random() < 0.5:
        other = pd.concat([other, other.iloc[:3].assign(u="nobody's")], ignore_index=True)
    by = int(rng.integers(4))
    packed = bool(rng.integers(2))

    def call(data: Any) -> Any:
        there = other.fsst.compress() if packed and hasattr(data, "decompress") else other
        if by == 0:
            return data.merge(there, how, on="u", **options)
        if by == 1:
            return data.merge(other.set_index("u"), how, left_on="u", right_index=True, **options)
        if by == 2:
            return data.merge(there.rename(columns={"u": "v"}), how, left_on=["u"], right_on=["v"], **options)
        return data.merge(there, how, on=[*keys, "u"], **options)

    return call


def drawn_calls(rng: np.random.Generator, frame: pd.DataFrame) -> dict[str, Callable[[Any], Any]]:
    labels = list(frame.columns)
    keys = [labels[place] for place in rng.choice(len(labels) - 1, int(rng.integers(1, 4)), rng.random() < 0.05)]
    up, keep = bool(rng.integers(2)), str(rng.choice(["first", "last", "all"]))
    return {
        f"groupby {keys}": drawn_group(rng, labels, keys),
        f"sort {keys}": lambda data: data.sort_values(keys, kind="stable", ascending=up),
        "nlargest": lambda data: data.nlargest(7, "f", keep=keep),
        f"duplicates {keys}": lambda data: data.drop_duplicates(keys, keep=False if keep == "all" else keep),
        f"dropna {keys}": lambda data: data.dropna(subset=keys, how="any" if up else "all"),
        f"drop {keys}": lambda data: data.drop(columns=keys),
        "rename": lambda data: data.rename(columns={keys[0]: "new"}),
        f"merge {keys}": drawn_merge(rng, frame, keys),
        "query": lambda data: data.query(f"f > 1 {'and' if up else 'or'} s == 'a'"),
        f"loc {keys}": lambda data: data.loc[data["b"], keys],
        "loc of labels": lambda data: data.loc[list(frame.index[: 3 * up])],
        "sample": lambda data: data.sample(frac=0.3, random_state=5, weights="i" if up and "i" in frame else None),
        f"describe {keys}": lambda data: data[[*keys, "f"]].describe(include="all"),
        f"set_index {keys}": lambda data: data.set_index(keys, append=up, drop=keep == "first"),
        "reset_index": lambda data: data.reset_index(drop=up),
        # pandas makes NaN of None in an index of objects; a compressed column has None.
        f"there and back {keys}": lambda data: data.set_index([k for k in keys if k != "o"] or "u").reset_index(),
        "assign": lambda data: data.assign(new=lambda one: one["f"] * 2, b=up, u=frame["u"].iloc[::-1]),
        "fillna": lambda data: data.fillna({"s": "none", "f": 1.5, "n": 7}),
        "astype": lambda data: data.astype({"s": "category", "f": "float32", "b": "int8"}),
    }


def outcome(call: Callable[[Any], Any], data: Any) -> Any:
    try:
        made = call(data)
    except Exception as error:
        return error
    return made.decompress() if hasattr(made, "decompress") else made


@pytest.mark.filterwarnings("ignore")  # of pandas, on what it will do otherwise
@pytest.mark.sampled(1)
@pytest.mark.parametrize("seed", range(3))
def test_drawn(seed: int) -> None:
    rng = np.random.default_rng(seed)
    for number in range(20):
        frame = drawn_frame(rng)
        compressed = frame.fsst.compress()
        for name, call in drawn_calls(rng, frame).items():
            found, wanted = outcome(call, compressed), outcome(call, frame)
            what = f"{number}, {len(frame)} rows, {name}"
            if isinstance(wanted, Exception):
                assert type(found) is type(wanted), (what, found, wanted)
            elif isinstance(wanted, pd.Series):
                pd.testing.assert_series_equal(found, wanted, obj=what)
            else:
                pd.testing.assert_frame_equal(found, wanted, obj=what)
