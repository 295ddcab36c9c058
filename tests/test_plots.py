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
            name: importlib.import_module(name)
            for name in ("keep_run", "measured", "performance_page", "plots", "query_page", "readme_table")
        }


@pytest.fixture(scope="module")
def newest(modules: dict[str, ModuleType], tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The pictures of the newest results, drawn."""
    drawn: list[Path] = modules["plots"].write(modules["measured"].read(), tmp_path_factory.mktemp("newest"))
    return drawn


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


def whole(folder: Path) -> None:
    """Made-up results of a whole comparison, so far apart and so close together as real ones may be."""
    records: list[dict[str, Any]] = [
        {"dataset": "none", "codec": "copy", "level": "none", "measure": "device_copy_gbps", "value": 4200.0}
    ]
    main = "tpch.l_comment.sf10"

    def add(dataset: str, codec: str, figures: dict[str, float], **more: Any) -> None:
        common = {"dataset": dataset, "codec": codec, "level": "default", "bytes": 1_600_000_000, **more}
        records.extend({**common, "measure": measure, "value": value} for measure, value in figures.items())

    def figures(ratio: float, compress: float, decompress: float, memory: float) -> dict[str, float]:
        rates = {"compress_call_gbps": compress, "decompress_call_gbps": decompress}
        peaks = {"compress_peak_extra_bytes": memory, "decompress_peak_extra_bytes": memory / 3}
        return {"ratio_chars": ratio * 0.97, "ratio_column": ratio, **rates, **peaks}

    columns = [main, *(f"dbtext.{name}" for name in ("urls2", "uuid", "hex")), "generated.random"]
    for number, dataset in enumerate(columns):
        for level, ratio in (("default", 3.3), ("max", 3.5)):
            rates = (500 - 60 * number, 1200 - 150 * number) if level == "default" else (5 - number / 3, 1210)
            add(dataset, "cudf_fsst", figures(ratio - number / 3, *rates, 6e7), level=level)
            for kernel, call in (("encode", "compress"), ("decode", "decompress")):
                add(dataset, "cudf_fsst", {f"{kernel}_kernel_gbps": 1300.0 - 150 * number}, level=level)
                add(dataset, "cudf_fsst", {"stage_ms": 2.0}, level=level, stage=f"fsst_{call}")
    for nbytes in (10**6, 10**7, 10**8):
        both = {"compress_latency_ms": nbytes**0.1 / 4, "decompress_latency_ms": 0.2}
        add(main, "cudf_fsst", both, bytes=nbytes)
    add(main, "cudf_fsst", {"take_1m_ms": 2.5})
    add(main, "cudf", {"take_1m_ms": 3.9})
    others = {
        "nvcomp.lz4": (2.2, 15, 89),
        "nvcomp.snappy": (2.4, 15, 158),
        "nvcomp.zstd": (3.6, 12, 69),
        "nvcomp.deflate": (2.8, 13, 28),
        "nvcomp.gdeflate": (2.75, 13, 78),
        "nvcomp.ans": (1.9, 276, 434),
        "nvcomp.bitcomp": (1.4, 334, 288),
        "nvcomp.cascaded": (1.1, 120, 397),
        "cudf.parquet_snappy": (2.6, 3.4, 18.8),
        "cudf.parquet_zstd": (3.64, 4.0, 17.8),
        "cudf.category": (1.02, 1.6, 110),
    }
    for number, (codec, rates) in enumerate(others.items()):
        if codec.startswith("nvcomp"):
            add(main, codec, figures(*rates, 2e8 * (number + 1)), chunk_bytes=1 << 16)
            for shift in (14, 16, 18, 20):
                found = figures(rates[0] * (0.8 + shift / 80), rates[1] * shift / 16, rates[2] * 16 / shift, 1e9)
                add(main, codec, found, chunk_bytes=1 << shift, sweep="chunk")
        else:
            found = figures(*rates, 2e8 * (number + 1))
            del found["ratio_chars"]
            add(main, codec, found)
    copy = {"ratio_column": 1.0, "compress_call_gbps": 48.0, "decompress_call_gbps": 48.2}
    add(main, "cudf.pinned_copy", copy, moved_bytes=1_840_000_000)
    cpu = {"ratio_chars": 3.2, "ratio_column": 3.3, "compress_call_gbps": 4.0, "decompress_call_gbps": 12.0}
    add(main, "cudf_fsst.cpu", cpu, threads=16, bytes=64_000_000)
    for power in (16, 18, 20, 22, 24, 26, 28, 30, 33):
        for codec, top in (("cudf_fsst", 1200.0), ("nvcomp.lz4", 90.0), ("nvcomp.ans", 430.0)):
            rate = 1 / (1 / top + 1 / (2**power / 2e5))
            both = {"compress_call_gbps": rate / 2, "decompress_call_gbps": rate}
            if codec == "cudf_fsst" or power <= 30:
                add(main, codec, both, bytes=2**power - 20, sweep="size")
    for dataset, ratio in ((main, 3.3), ("generated.log_lines", 2.1)):
        for tile in (128, 256, 512, 1024):
            add(
                dataset,
                "cudf_fsst",
                figures(ratio + tile / 9000, 200 * ratio, 350 * ratio - tile / 3, 0),
                tile_size=tile,
                sweep="tile",
            )
            for kernel, stages in (("encode", (2.1, 1.2, 0.02, 0.01)), ("decode", (1.3, 0.2))):
                add(dataset, "cudf_fsst", {f"{kernel}_kernel_gbps": 500.0}, tile_size=tile, sweep="tile")
                for number, value in enumerate(stages):
                    more = {"stage": f"{number} of {kernel}, transpose, gather", "tile_size": tile, "sweep": "tile"}
                    add(dataset, "cudf_fsst", {"stage_ms": value * (1 + tile / 4000)}, **more)
        for shift in (26, 27, 28, 29, 30, 31):
            found = figures(ratio - shift / 300, 300 * ratio - 10 * shift, 360 * ratio, 0)
            add(dataset, "cudf_fsst", found, table_scope=(1 << shift) + 10**7, sweep="scope")
    arrive = "arrive_gbps"
    add(main, "copy", {arrive: 48.0}, blocks=1, moved_bytes=1_840_000_000, sweep="ingestion")
    add(main, "nvcomp.ans", {arrive: 79.0}, blocks=1, moved_bytes=800_000_000, sweep="ingestion")
    for blocks in (1, 2, 4, 8, 16, 32):
        more = {"blocks": blocks, "moved_bytes": 560_000_000, "sweep": "ingestion"}
        add(main, "cudf_fsst", {arrive: 125.0 - blocks / 2}, **more)
        if blocks > 1:
            add(main, "cudf_fsst", {arrive: 150.0 - 40 / blocks}, overlapped=True, **more)
    machine = {"gpu": GPU, "driver": "1", "cuda": "2", "python": "3", "versions": {"cudf": "4"}}
    run = {"date": "2026-01-02", "command": "python compare.py"}
    parts: dict[str, Any] = {f"{kind}:{main}": {"seconds": 1.0, **run} for kind in ("ours", "max", "cpu", "nvcomp")}
    parts[f"nvcomp:{main}"]["failed"] = ["Cascaded, chunks of 16384: ValueError('no')"] * 2
    content = {"machine": machine, **run, "parts": parts, "records": records}
    (folder / "compare.json").write_text(json.dumps(content))
    counters = {"duration_ns": 2e6, "dram_read_bytes": 3e8, "dram_write_bytes": 1e8, "instructions": 1.25e8}
    counters |= {"active_lanes": 25.0, "shared_wavefronts": 5e7, "shared_conflicts": 1e7, "issue_slots_pct": 71.0}
    counters |= {"shared_pipe_pct": 63.0, "dram_pct": float("nan")}
    common = {"kernel": "fsst_encode", "call": "compress", "bytes": 256_000_000, "codes_bytes": 80_000_000}
    counted = [{**common, "measure": measure, "value": value} for measure, value in counters.items()]
    content = {
        "machine": machine,
        "date": "2026-01-03",
        "command": "python profile_kernels.py",
        "records": counted,
        "note": "As a test has it.",
    }
    (folder / "kernels.json").write_text(json.dumps(content))
    both = (("cudf_fsst", 1.0), ("cudf", 0.25))
    common = {"dataset": "d", "level": "default", "rows": 2_700_000}
    latency = [
        {**common, "codec": codec, "measure": measure, "value": value}
        for measure in ("frame16_100k_compress_ms", "filter_ms", "first_to_host_gbps")
        for codec, value in both
    ]
    latency.append({**common, "codec": "cudf_fsst", "measure": "take10_ms", "value": 3.0})
    content = {"machine": machine | {"cpu_cores": 16}, "date": "2026-01-04", "command": "python bench_latency.py"}
    (folder / "latency.json").write_text(json.dumps(content | {"records": latency}))
    (folder / "anchors.json").write_bytes((ROOT / "benchmarks" / "results" / "anchors.json").read_bytes())


def test_committed_pictures_show_the_newest_results(
    modules: dict[str, ModuleType], newest: list[Path], tmp_path: Path
) -> None:
    plots, questions = modules["plots"], modules["query_page"].draw(folder=tmp_path)
    assert {path.name for path in plots.PICTURES.iterdir()} == {path.name for path in (*newest, *questions)}
    for path in (*newest, *questions):
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


@pytest.mark.slow
def test_same_results_same_bytes(modules: dict[str, ModuleType], newest: list[Path], tmp_path: Path) -> None:
    again = modules["plots"].write(modules["measured"].read(), tmp_path)
    for path, other in zip(newest, again, strict=True):
        assert path.name == other.name
        assert path.read_bytes() == other.read_bytes()


def drawn_texts(figure: Any, kind: type) -> list[tuple[str, Any]]:
    """Place of every text in a figure, without the labels of ticks that are out of view."""
    hidden = set()
    for axis in (axis for axes in figure.axes for axis in (axes.xaxis, axes.yaxis)):
        low, high = sorted(axis.get_view_interval())
        hidden |= {tick.label1 for tick in axis.get_major_ticks() if not low <= tick.get_loc() <= high}
    texts = [text for text in figure.findobj(kind) if text.get_text() and text.get_visible() and text not in hidden]
    return [(text.get_text(), text.get_window_extent()) for text in texts]


def results_of(modules: dict[str, ModuleType], folder: Path, kind: str) -> Any:
    if kind == "committed":
        return modules["measured"].read()
    whole(folder)
    return modules["measured"].read(folder)


@pytest.mark.parametrize("kind", ["committed", pytest.param("whole", marks=pytest.mark.slow)])
def test_texts_do_not_overlap(modules: dict[str, ModuleType], tmp_path: Path, kind: str) -> None:
    plots, results = modules["plots"], results_of(modules, tmp_path, kind)
    with plots.matplotlib.rc_context(plots.STYLE):
        for name, draw in plots.DRAWINGS.items():
            drawn = draw(results)
            if drawn is None:
                assert kind == "committed", name
                continue
            figure, _ = drawn
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
    results = modules["measured"].read()
    texts = [one.read_text() for one in page.PAGES]
    assert sorted(part[1] for text in texts for part in page.PART.findall(text)) == sorted(page.PARTS)
    for text in texts:
        assert page.filled(text, results) == text
    text = texts[0]
    for target in re.findall(r"\]\((?!http)(.*?)\)", text):
        path, _, heading = target.partition("#")
        assert (page.PAGE.parent / path).exists(), target
        assert path or f"\n## {heading.replace('-', ' ')}\n" in text.lower(), target


def test_whole_comparison_is_shown(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    page, results = modules["performance_page"], results_of(modules, tmp_path, "whole")
    parts = {name: part(results) for name, part in page.PARTS.items()}
    assert "| nvCOMP ANS, chunks of 64 KiB | 1.90 | 276 | 434 | 1,144 | 381 |" in parts["comparison"]
    assert "| cuDF Parquet, Zstd | 3.64 | 4 | 17.8 |" in parts["comparison"]
    assert "first 64 MB, with 16 threads" in parts["comparison"]
    assert "| decode kernel, GB/s | 1,300 | 2,000 | 1,200 | must |" in parts["targets"]
    assert "geometric mean of 3 DBText files | 1.077 | 1.070 | 1.040 | aim |" in parts["targets"]
    assert "`compress()` of 1 MB" not in parts["targets"]
    assert "| generated.random | 1.91 | 1.97 | 700 | 600 | 700 | 260 |" in parts["worst"]
    assert "| compress: `fsst_encode` | 256 | 2.000 | 1.56 | 50.0 | 25.0 | 0.195 | 20% | 63% | 71% |\n" in (
        parts["kernels"] + "\n"
    )
    assert "As a test has it." in parts["kernels"]
    assert "* `decompress()`, 1,200 GB/s: the decode kernel takes 1.23 of 1.33 ms" in parts["limits"]
    assert "* encode kernels" not in parts["limits"]  # they reach the aim
    assert "* decode kernel" not in parts["limits"]  # not counted in these results
    assert "our CPU codec on 4 of 5 columns" in parts["unmeasured"]
    assert "Cascaded is missing on 1 of 5 columns, tpch.l_comment.sf10 the first" in parts["unmeasured"]
    assert "Each further block costs" in parts["pictures"]
    assert re.findall(r"\((pictures/.*?)\)", parts["pictures"]) == [f"pictures/{name}.svg" for name in page.PICTURES]


def test_calls_are_shown_beside_cudfs(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    page = modules["performance_page"]
    shown = page.calls(results_of(modules, tmp_path, "whole"))
    assert shown.startswith("## What a call costs\n")
    assert "2026-01-04, by `python bench_latency.py`" in shown
    assert "| lineitem, 16 columns, 100,000 rows: `compress()`, ms | 1 | 0.25 |\n" in shown
    assert "| l_comment, whole: `filter` to 2.7 million rows, ms | 1 | 0.25 |\n" in shown
    assert "`take` of 10" not in shown, "cuDF's is not there"
    (tmp_path / "latency.json").unlink()
    assert page.calls(modules["measured"].read(tmp_path)) == ""


def test_runs_are_kept_and_shown(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    keep, page, measured = modules["keep_run"], modules["performance_page"], modules["measured"]
    whole(tmp_path)
    assert page.runs(measured.read(tmp_path)) == ""
    content = json.loads((tmp_path / "compare.json").read_text())
    content["machine"]["cpu_cores"] = 8
    runs = keep.with_run([], keep.kept(content, "A slow host."))
    with pytest.raises(ValueError, match="this run of 2026-01-02 is kept already"):
        keep.with_run(runs, keep.kept(content, ""))
    for record in content["records"]:
        record["value"] /= 2
    runs = keep.with_run(runs, keep.kept(content | {"date": "2026-02-02"}, ""))
    (tmp_path / "compare_runs.json").write_text(keep.as_file(runs))
    shown = page.runs(measured.read(tmp_path))
    assert "* run 2: 2026-02-02, Some GPU, driver 1, 8 CPU cores.\n" in shown
    assert "* run 3: 2026-01-02, Some GPU, driver 1, 8 CPU cores. A slow host.\n" in shown
    assert "| | this run | run 2 | run 3 | spread |" in shown
    assert "| `compress()`, GB/s | 500 | 250 | 500 | 100% |" in shown
    assert "| encode kernels, Chinese text, GB/s |  |  |  |  |" in shown, "not measured"
    assert measured.Results(runs[0], ()).chars() == 1_600_000_000


def test_sweeps_do_not_hide_the_run(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    results = results_of(modules, tmp_path, "whole")
    assert results.ours()["compress_call_gbps"] == 500
    assert results.chars() == 1_600_000_000
    assert results.datasets()[-1] == "generated.random"
    assert len(results.datasets()) == 5
    assert results.values()["nvcomp.lz4"]["compress_call_gbps"] == 15
    assert results.values()["cudf_fsst.max"]["compress_call_gbps"] == 5


def test_ingestion_model(modules: dict[str, ModuleType]) -> None:
    """One block is no overlap; many blocks reach what is slower of link and decoder."""
    plots = modules["plots"]
    for decoder in (20, 80, 160, 1000):
        one = 1 / (1 / (3 * 50) + 1 / decoder)
        assert plots.ingested_gbps(3, decoder, 50) == pytest.approx(one)
        assert plots.overlapped_gbps(3, decoder, 50, 1) == pytest.approx(one)
        assert plots.overlapped_gbps(3, decoder, 50, 10**9) == pytest.approx(min(decoder, 3 * 50))
    assert plots.overlapped_gbps(3, 100, 50, 4) == pytest.approx(1 / (1 / 100 + 1 / (4 * 150)))
    assert plots.overlapped_gbps(3, 200, 50, 4) == pytest.approx(1 / (1 / 150 + 1 / (4 * 200)))


def test_numbers_of_the_page_are_taken_from_the_file(modules: dict[str, ModuleType], tmp_path: Path) -> None:
    tiny(tmp_path)
    page, results = modules["performance_page"], modules["measured"].read(tmp_path)
    filled = page.filled("<!-- measured: floor -->\n<!-- measured: end -->\n\nNot <!-- measured: end -->", results)
    assert "| compress | 1.50 | 2,000 | 20 | 1% | 10 | 0% |" in filled
    assert "| decompress | 1.50 | 2,000 | 200 | 10% | 100 | 5% |" in filled
    assert filled.endswith("<!-- measured: end -->\n\nNot <!-- measured: end -->")
    assert page.filled(filled, results) == filled
    assert "| some encode | 5.00 | 200 |" in page.stages(results)
