"""Codecs that are not in the package, each a folder and a registration: nothing in the package knows their names."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
import toy_values
from cudf_fsst.codecs import registry
from cudf_fsst.files import storage


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    with registry.registered(toy_values):
        yield


def test_a_codec_says_since_which_version(tmp_path: Path) -> None:
    """A file has the first version that has all of its codecs, and one of a version before has none of its streams."""
    path = tmp_path / "frame.fsst"
    frame = pd.DataFrame({"a": np.arange(1000) ** 2, "b": np.arange(1000.0)})
    for codec, version in ("bitpack", 2), (toy_values.NAME, 4):
        frame.fsst.compress(codecs={"a": codec, "b": "raw"}).save(path)
        assert storage.version_of(path) == version
        pd.testing.assert_frame_equal(cudf_fsst.load(path).decompress(), frame)
    frame["a"].fsst.compress(codec=toy_values.NAME).save(path)
    assert storage.version_of(path) == 4
    pd.testing.assert_series_equal(cudf_fsst.load(path).decompress(), frame["a"])
    stored = storage.load(path)
    storage.save_streams(path, streams=stored.streams, schema=stored.schema, version=3)
    with pytest.raises(ValueError, match=f"codec b'{toy_values.NAME}' is not known"):
        cudf_fsst.load(path)


def test_names() -> None:
    assert toy_values.NAME in registry.names()
    with pytest.raises(ValueError, match="already"), registry.registered(toy_values):
        pass
    assert toy_values.NAME not in registry.streams(3)
    assert toy_values.NAME in registry.streams(4)
