"""Computing on a compressed frame on a GPU gives what cuDF gives."""

from __future__ import annotations

from typing import Any

import pandas as pd
import pytest

from test_compute import CALLS, frame

pytestmark = pytest.mark.gpu
NAMES = [
    "sum of one", "nulls are a group", "two keys", "named", "no index", "size", "dict of lists", "key of numbers too",
    "sort", "sort, from 0", "nlargest", "nsmallest", "duplicates", "dropna of some",
]  # fmt: skip
#: Whose order cuDF leaves open.
OPEN = {*NAMES[:4], *NAMES[5:8], "duplicates"}


def on_host(made: Any) -> Any:
    made = made.to_pandas()
    return made.to_frame() if isinstance(made, pd.Series) else made


@pytest.mark.parametrize("name", NAMES)
def test_as_cudf(name: str) -> None:
    cudf = pytest.importorskip("cudf")
    df = cudf.from_pandas(frame().drop(columns=[7]))
    f = df.fsst.compress()
    found, wanted = on_host(CALLS[name](f)), on_host(CALLS[name](df))
    if name in OPEN:
        found, wanted = (one.sort_index() for one in (found, wanted))
    elif name == "no index":
        found, wanted = (one.sort_values("mode", ignore_index=True) for one in (found, wanted))
    pd.testing.assert_frame_equal(found, wanted, check_index_type="equiv", check_column_type=False)
