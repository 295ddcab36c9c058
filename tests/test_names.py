"""One name, one meaning: in the CUDA sources as in the package."""

from __future__ import annotations

from collections import defaultdict

from cuda_sources import all_definitions


def test_kernels_structs_and_functions() -> None:
    """A name is defined in one file; there it may have several forms, for several types."""
    files = defaultdict(set)
    made = all_definitions()
    for one in made:
        files[one.name].add(one.file)
    assert {name: where for name, where in files.items() if len(where) > 1} == {}
    for name in {one.name for one in made if one.is_type}:
        assert sum(one.name == name for one in made) == 1, name
    assert {"fsst_encode", "find_view", "SegmentView", "PackRoom"} <= set(files)  # the reader sees all kinds
