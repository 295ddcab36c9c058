"""What users' own tools see: sizes, pages of notebooks, the log, ranges of a profiler."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import cudf_fsst
from cudf_fsst import profiling
from cudf_fsst.codecs.values import plan
from cudf_fsst.tables import as_html

pytest.importorskip("distributed")

from dask.sizeof import sizeof

import cudf_fsst.dask  # where sizeof comes to know the classes

ROWS = 5000


def data(index: Any = None) -> pd.DataFrame:
    numbers = np.arange(ROWS)
    frame = {"price": numbers * 0.25, "text": [f"a text of {i % 99} words" for i in numbers], "<i>&": numbers % 7 == 0}
    return pd.DataFrame(frame, index=index)


# Sizes --------------------------------------------------------------------------------------------------------------

INDEXES = {
    "range": None,
    "dates": pd.date_range("2020", periods=ROWS, freq="h"),
    "levels": pd.MultiIndex.from_arrays([np.arange(ROWS) % 9, [f"r{i}" for i in range(ROWS)]]),
}


def frames(kind: str, folder: Path) -> dict[str, cudf_fsst.CompressedFrame]:
    frame = data(INDEXES[kind]).fsst.compress()
    frame.save(folder / "frame")
    column = data(INDEXES[kind])["text"].fsst.compress()
    column.save(folder / "column")
    return {
        "made": frame,
        "loaded": cudf_fsst.load(folder / "frame"),
        "a part": frame[["text"]],
        "no columns": frame[[]],
        "of a column": cudf_fsst.frame.of_column(column),
        "of a stored column": cudf_fsst.frame.of_column(cudf_fsst.load(folder / "column")),
        "joined": cudf_fsst.concat([frame, frame]),
    }


@pytest.mark.parametrize("kind", INDEXES)
def test_sizes_of_frames_agree(kind: str, tmp_path: Path) -> None:
    for what, frame in frames(kind, tmp_path).items():
        usage = frame.memory_usage()
        assert usage.sum() == frame.nbytes, what
        assert frame.memory_usage(index=False).sum() + usage["Index"] == frame.nbytes
        for label in frame.columns:
            column = frame.column(label)
            assert column.nbytes == column.memory_usage(index=False) == usage[label]
            assert column.memory_usage() == usage[label] + usage["Index"]
        seen = sys.getsizeof(frame)
        assert sizeof(frame) == seen
        assert 0 <= seen - frame.nbytes < 1000
        assert frame.ratio == pytest.approx(frame.uncompressed_nbytes / frame.nbytes if frame.nbytes else 1)


@pytest.mark.parametrize("kind", INDEXES)
def test_sizes_of_columns_agree(kind: str) -> None:
    for name in data():
        column = data(INDEXES[kind])[name].fsst.compress()
        assert sizeof(column) == sys.getsizeof(column)
        assert 0 <= sys.getsizeof(column) - column.memory_usage() < 200


# Pages --------------------------------------------------------------------------------------------------------------


class Page(HTMLParser):
    """Elements of a page, which must be closed in order, and what a reader sees."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[str] = []
        self.open: list[str] = []
        self.seen: list[str] = []
        self.styles: list[str] = []
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag: str, attributes: Any) -> None:
        self.open.append(tag)
        self.elements.append(tag)
        self.styles += [value for name, value in attributes if name == "style"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, text: str) -> None:
        self.seen.append(text)


def check(page: Page) -> None:
    assert set(page.elements) <= {"table", "caption", "thead", "tbody", "tr", "th", "td", "div", "p"}
    for style in page.styles:
        assert not re.search(r"#[0-9a-f]{3}|rgb|url|expression", style), "the page's own colours only"


def widths(page: Page) -> list[float]:
    return [float(found[1]) for style in page.styles if (found := re.search(r"width:([\d.]+)%", style))]


def test_page_of_a_frame() -> None:
    frame = data().fsst.compress()
    page = Page(frame._repr_html_())
    check(page)
    assert {"price", "text", "<i>&", "dict", f"{frame.column('text').nbytes:,}"} <= set(page.seen)
    nodes = [column.node for column in frame._columns]
    widest = max(node.uncompressed_nbytes for node in nodes)
    wanted = [100 * size / widest for node in nodes for size in (node.uncompressed_nbytes, node.nbytes)]
    assert widths(page) == pytest.approx(wanted, abs=0.06)


def test_page_of_a_column() -> None:
    column = data()["text"].rename("<i>&").fsst.compress()
    page = Page(column._repr_html_())
    check(page)
    assert repr("<i>&") in page.seen
    assert widths(page) == pytest.approx([100, 100 / column.ratio], abs=0.06)


def test_page_of_what_did_not_become_smaller() -> None:
    noise = pd.Series(np.random.default_rng(0).bytes(8)).to_frame("one row")
    page = Page(noise.fsst.compress()._repr_html_())
    assert max(widths(page)) == 100


def test_pages_of_nothing_and_of_much() -> None:
    check(Page(data()[[]].fsst.compress()._repr_html_()))
    check(Page(data().iloc[:0].fsst.compress()._repr_html_()))
    check(Page(data()["text"].iloc[:0].fsst.compress()._repr_html_()))
    many = pd.DataFrame({i: [i] for i in range(70)}).fsst.compress()
    page = Page(many._repr_html_())
    check(page)
    assert page.elements.count("tr") == 61
    assert "... and 10 more columns" in page.seen


def test_text_of_a_table_is_escaped() -> None:
    page = Page(as_html("<script>", [["<b>"], ['"</table>']], [(1, 2)]))
    check(page)
    assert {"<script>", "<b>", '"</table>'} <= set(page.seen)


# The log ------------------------------------------------------------------------------------------------------------


def test_choices_are_logged(caplog: pytest.LogCaptureFixture) -> None:
    rng = np.random.default_rng(1)
    frame = data().assign(
        noise=rng.integers(0, 2**64, ROWS, np.uint64),
        wanted=np.arange(ROWS),
        gaps=np.where(np.arange(ROWS) % 3, 1.5, None),
    )
    frame["gaps"] = frame["gaps"].astype("Float64")
    with caplog.at_level(logging.DEBUG, "cudf_fsst.codecs"):
        made = frame.fsst.compress(codecs={"wanted": "raw"})
    records = [record.getMessage() for record in caplog.records if record.name == "cudf_fsst.codecs"]
    found = {}
    for message in records:
        if match := re.fullmatch(r"(.*): codec (\S+?)(?:\(.*\))?; a sample of ([\d,]+) B: (.*)", message):
            sizes = {one: int(size.replace(",", "")) for one, size in re.findall(r"(\w+)[^,]*? ([\d,]+) B", match[4])}
            found[match[1]] = match[2], int(match[3].replace(",", "")), sizes
    assert {what.removeprefix("validity of ") for what in found} == {
        f"column {label!r}" for label in ("price", "<i>&", "noise", "gaps")
    }
    for what, (codec, nbytes, sizes) in found.items():
        best = min(sizes.values())
        assert sizes.get(codec, nbytes) <= best or codec == "raw", what
        assert (codec == "raw") == (best > 0.95 * nbytes), what
    assert found["column 'noise'"][:2] == ("raw", 8 * ROWS)
    assert "validity of column 'gaps'" in found
    for label, node in zip(frame, (column.node for column in made._columns), strict=True):
        asked = ", as asked" if label == "wanted" else ""
        start, sizes = f"column {label!r} of type ", f"{node.uncompressed_nbytes:,} B in Arrow as {node.nbytes:,} B"
        (said,) = [message for message in records if message.startswith(start)]
        assert said.endswith(f": codec {node.codec}{asked}, {sizes}")


def test_nothing_is_made_for_a_log_that_is_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan.Choice, "__str__", lambda self: 1 / 0)
    data().fsst.compress()


# A profiler ---------------------------------------------------------------------------------------------------------


class Domain:
    """What `nvtx.get_domain` gives."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.seen: list[tuple[str, ...]] = []

    def get_event_attributes(self, message: str) -> str:
        return message

    def push_range(self, attributes: str) -> None:
        self.open.append(attributes)
        self.seen.append(tuple(self.open))

    def pop_range(self) -> None:
        self.open.pop()


@pytest.fixture
def domain(monkeypatch: pytest.MonkeyPatch) -> Domain:
    made = Domain()
    monkeypatch.setattr(profiling, "_domain", lambda: made)
    for stage in vars(profiling).values():
        if isinstance(stage, profiling.Stage):
            monkeypatch.setattr(stage, "_attributes", None)
    return made


def test_stages_are_ranges(domain: Domain) -> None:
    frame = data()[["price", "text"]].fsst.compress()
    assert domain.seen == [("describe",), ("encode",), ("encode", "measure"), ("describe",), ("encode",)]
    domain.seen.clear()
    assert frame.decompress().equals(data()[["price", "text"]])
    assert domain.seen == [("decode",)]
    domain.seen.clear()
    assert frame.column("text").str.contains("7 words", regex=False).any()
    assert ("match",) in domain.seen
    assert not domain.open


def test_ranges_end_with_an_error(domain: Domain) -> None:
    with pytest.raises(ValueError, match="codec 'fsst' takes strings"):
        data()[["price"]].fsst.compress(codecs={"price": "fsst"})
    with pytest.raises(RuntimeError), profiling.ENCODE:
        raise RuntimeError
    assert not domain.open


@pytest.mark.slow
def test_with_and_without_the_package(tmp_path: Path) -> None:
    """In a process of its own: what it is asked for is what `nvtx` has."""
    work = "import sys, pandas as pd, cudf_fsst; pd.Series([1.5] * 99).fsst.compress(codec='raw').decompress()"
    (tmp_path / "nvtx.py").write_text(
        "class Domain:\n"
        "    def get_event_attributes(self, message=None): return [message]\n"
        "    def push_range(self, attributes): print('push', *attributes)\n"
        "    def pop_range(self): print('pop')\n"
        "def get_domain(name):\n"
        "    print(name)\n"
        "    return Domain()\n"
    )
    folder = str(Path(cudf_fsst.__file__).parents[1])

    def said(code: str) -> str:
        command = [sys.executable, "-c", f"import sys; sys.path[:0] = {[folder, str(tmp_path)]!r}; {code}"]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    assert said(work).split() == "cudf_fsst push describe pop push encode push measure pop pop push decode pop".split()
    assert said("sys.modules['nvtx'] = None; " + work) == ""
