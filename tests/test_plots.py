"""Pictures and docs/performance.md show what the committed results say.

The SVGs are not compared byte by byte with those drawn here: the outlines of letters and the order of attributes are
matplotlib's, of the version that drew them. Compared are the values that a picture carries in its description and the
texts that matplotlib writes beside their outlines; that the same version draws the same bytes twice is a test too.
"""

from __future__ import annotations

import importlib
import itertools
import json
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any
from xml.etree import ElementTree

import pytest

ROOT = Path(__file__).resolve().parent.parent
DESCRIPTION = ".//{http://purl.org/dc/elements/1.1/}description"
GPU = "Some GPU"


@pytest.fixture(scope="module")
def modules() -> Iterator[dict[str, ModuleType]]:
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(ROOT / "benchmarks")
        yield {
            name: importlib.import_module(name) for name in ("measured", "performance_page", "plots", "readme_table")
        }


def shown(path: Path) -> tuple[Any, set[str]]:
    """Values and texts of a picture."""
    text = path.read_text()
    description = ElementTree.fromstring(text).find(DESCRIPTION)
    return json.loads(description.text), set(re.findall(r"<!-- (.*?) -->", text))


def tiny(folder: Path) -> None:
    """Results that are as small as results can be."""
    ours = {
        "ratio_chars": 2.0,
        "ratio_column": 2.0,
        "compress_call_gbps": 10.0,
        "decompress_call_gbps": 100.0,
        "encode_kernel_gbps": 20.0,
        "decode_kernel_gbps": 200.0,
    }
    common = {"dataset": "tpch.l_comment.sf10", "codec": "cudf_fsst", "level": "default", "bytes": 10**9}
    records: list[dict[str, Any]] = [
        {"dataset": "none", "codec": "copy", "level": "none", "measure": "device_copy_gbps", "value": 3000.0}
    ]
    for measure, value in ours.items():
        records.append({**common, "measure": measure, "value": value})
        if "kernel" in measure:
            records.append({**common, "measure": "stage_ms", "value": 5.0, "stage": f"some_{measure[:6]}"})
    machine = {"gpu": GPU, "driver": "1", "cuda": "2", "python": "3", "versions": {"cudf": "4"}}
    content = {"machine": machine, "date": "2026-01-02", "command": "python x.py", "records": records}
    (folder / "column.json").write_text(json.dumps(content))
    (folder / "anchors.json").write_bytes((ROOT / "benchmarks" / "results" / "anchors.json").read_bytes())


def test_committed_pictures_show_the_newest_results(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    plots = modules["plots"]
    drawn = plots.write(modules["measured"].read(), tmp_path)
    assert {path.name for path in plots.PICTURES.iterdir()} == {path.name for path in drawn}
    for path in drawn:
        assert shown(plots.PICTURES / path.name) == shown(path)
        assert (plots.PICTURES / path.name).stat().st_size < 200_000


def test_values_of_a_picture_are_those_of_the_file(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    tiny(tmp_path)
    found = {path.stem: shown(path) for path in modules["plots"].write(modules["measured"].read(tmp_path), tmp_path)}
    values, texts = found["ratio_rate"]
    assert values["compress"]["cudf_fsst"] == [10.0, 2.0]
    assert values["decompress"]["Vortex kernel"] == [251, 2.887]
    assert f"TPC-H l_comment, 1.00 GB in the memory of one {GPU}" in texts
    assert found["columns"][0]["tpch.l_comment.sf10"]["decompress_call_gbps"] == 100.0
    assert found["stages"][0]["compress"] == {"compress()": 100.0, "span": 50.0, "some encode": 5.0}
    assert found["ingestion"][0]["points"]["cudf_fsst"][1] == pytest.approx(1 / (1 / (2 * 55.3) + 1 / 100))


def test_same_results_same_bytes(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    results, folders = modules["measured"].read(), (tmp_path / "a", tmp_path / "b")
    for folder in folders:
        folder.mkdir()
        modules["plots"].write(results, folder)
    for path in folders[0].iterdir():
        assert path.read_bytes() == (folders[1] / path.name).read_bytes()


def drawn_texts(figure: Any, kind: type) -> list[tuple[str, Any]]:
    """Place of every text in a figure, without the labels of ticks that are out of view."""
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    texts = [text for text in figure.findobj(kind) if text.get_text() and text.get_visible() and text not in hidden]
    return [(text.get_text(), text.get_window_extent()) for text in texts]


def test_texts_do_not_overlap(modules: dict[str, ModuleType]) -> None:
    plots, results = modules["plots"], modules["measured"].read()
    with plots.matplotlib.rc_context(plots.STYLE):
        for name, draw in plots.DRAWINGS.items():
            figure, _ = draw(results)
            figure.draw_without_rendering()
            texts = drawn_texts(figure, plots.matplotlib.text.Text)
            for (one, box), (other, beside) in itertools.combinations(texts, 2):
                assert not box.overlaps(beside), (name, one, other)
            for one, box in texts:
                assert figure.bbox.x0 <= box.x0 <= box.x1 <= figure.bbox.x1, (name, one)
                assert figure.bbox.y0 <= box.y0 <= box.y1 <= figure.bbox.y1, (name, one)


def test_pareto_front(modules: dict[str, ModuleType]) -> None:
    points = [(1, 5), (2, 3), (2, 4), (3, 1), (3, 1), (2.5, 1), (1, 2)]
    assert modules["plots"].pareto(points) == [(1, 5), (2, 4), (3, 1)]


def test_anchors_are_no_run_of_ours(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    table = modules["readme_table"]
    anchors = json.loads((table.RESULTS / "anchors.json").read_text())
    assert all({"gpu", "provenance"} < set(record) for record in anchors["records"])
    (tmp_path / "anchors.json").write_text(json.dumps(anchors | {"date": "2999-01-01"}))
    assert table.newest(tmp_path) is None
    with pytest.raises(FileNotFoundError, match="no results of a GPU"):
        modules["measured"].read(tmp_path)


def test_page_shows_the_newest_results(modules: dict[str, ModuleType]) -> None:
    page = modules["performance_page"]
    text = page.PAGE.read_text()
    assert [part[1] for part in page.PART.findall(text)] == ["machine", "anchors", "stages", "latency", "floor"]
    assert page.filled(text, modules["measured"].read()) == text
    for target in re.findall(r"\]\((?!http)(.*?)\)", text):
        assert (page.PAGE.parent / target).exists(), target


def test_numbers_of_the_page_are_taken_from_the_file(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    tiny(tmp_path)
    page, results = modules["performance_page"], modules["measured"].read(tmp_path)
    filled = page.filled("<!-- measured: floor -->\n<!-- measured: end -->\n\nNot <!-- measured: end -->", results)
    assert "| compress | 1.50 | 2,000 | 20 | 1% | 10 | 0% |" in filled
    assert "| decompress | 1.50 | 2,000 | 200 | 10% | 100 | 5% |" in filled
    assert filled.endswith("<!-- measured: end -->\n\nNot <!-- measured: end -->")
    assert page.filled(filled, results) == filled
    assert "| some encode | 5.00 | 200 |" in page.stages(results)
