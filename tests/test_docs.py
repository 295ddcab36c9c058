"""What the README, the pages and the notebooks say is true."""

from __future__ import annotations

import doctest
import importlib
import importlib.util
import io
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from typer.testing import CliRunner

import cudf_fsst
from cudf_fsst import cli
from cudf_fsst.files.versions import FORMAT_VERSION
from cudf_fsst.query.strings import StringMethods

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
README = (ROOT / "README.md").read_text()
PAGES = sorted([*DOCS.glob("*.md"), *DOCS.glob("reference/*.md")])
#: What stands before an example that needs cuDF and a GPU.
ON_A_GPU = "<!-- on a GPU -->\n"


def blocks(language: str, page: str = README, *, gpu: bool = False) -> list[str]:
    """Examples of a page; with `gpu` also those that need one."""
    found = re.findall(rf"^({re.escape(ON_A_GPU)})?```{language}\n(.*?)^```", page, re.MULTILINE | re.DOTALL)
    return [example for mark, example in found if gpu or not mark]


def module_of(path: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="module")
def table() -> ModuleType:
    return module_of(ROOT / "benchmarks" / "readme_table.py")


def test_first_example_runs(tmp_path: Path) -> None:
    """As a program of its own, the way a reader would try it."""
    (example,) = blocks("python")
    assert len(example.splitlines()) == 6
    assert blocks("python", (DOCS / "index.md").read_text()) == [example]
    found = {**os.environ, "PYTHONPATH": str(Path(cudf_fsst.__file__).parents[1])}
    command = [sys.executable, "-W", "error", "-c", example]
    result = subprocess.run(command, cwd=tmp_path, env=found, capture_output=True, text=True)
    assert result.returncode == 0, result.stderr


def run_examples(page: Path, *, gpu: bool) -> None:
    """All examples of a page, from the top, as one program."""
    examples = "\n".join(blocks("python", page.read_text(), gpu=gpu))
    exec(compile(examples, page.name, "exec"), {"__name__": "__main__"})


@pytest.mark.parametrize("page", [page for page in PAGES if blocks("python", page.read_text())], ids=lambda p: p.stem)
def test_examples_of_a_page_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for example in blocks("python", page.read_text(), gpu=True):
        compile(example, page.name, "exec")
    run_examples(page, gpu=False)


@pytest.mark.gpu
@pytest.mark.parametrize("page", [page for page in PAGES if ON_A_GPU in page.read_text()], ids=lambda p: p.stem)
def test_examples_on_a_gpu_run(page: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    run_examples(page, gpu=True)


def test_commands_of_the_command_lines_page_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    page = DOCS / "cli.md"
    run_examples(page, gpu=False)
    commands = [line for example in blocks("bash", page.read_text()) for line in example.splitlines()]
    assert {command.split()[1] for command in commands} == {"compress", "inspect", "decompress", "demo"}
    for command in commands:
        program, *arguments = shlex.split(command)
        assert program == "cudf-fsst"
        result = CliRunner().invoke(cli.app, arguments)
        assert result.exit_code == 0, f"{command}: {result.output}"
        if command == commands[0]:
            (shown,) = blocks("text", page.read_text())
            assert "\n".join(shown.splitlines()[2:4]) in result.output
    original, again = (pd.read_parquet(tmp_path / name) for name in ("people.parquet", "again.parquet"))
    pd.testing.assert_frame_equal(original, again)


def test_every_public_name_is_in_the_reference() -> None:
    reference = "".join(page.read_text() for page in (DOCS / "reference").glob("*.md"))
    shown = set(re.findall(r"^\.\. auto(?:class|function):: (?:[\w.]+\.)?(\w+)$", reference, re.MULTILINE))
    assert set(cudf_fsst.__all__) <= shown
    assert ".. automodule:: cudf_fsst.dask" in reference


def public(kind: type) -> set[str]:
    return {name for name in dir(kind) if not name.startswith("_")}


@pytest.mark.parametrize("page", ["column", "frame"])
def test_the_table_of_a_class_has_all_that_is_public(page: str) -> None:
    kind = {"column": cudf_fsst.CompressedColumn, "frame": cudf_fsst.CompressedFrame}[page]
    listed = re.findall(r"`~(?:[\w.]+\.)?(\w+)\.(\w+)`", (DOCS / "reference" / f"{page}.md").read_text())
    assert len(listed) == len(set(listed))
    own = {name for of, name in listed if of == kind.__name__}
    assert {name for name in own if not name.startswith("_")} == public(kind)
    assert all(hasattr(kind, name) for name in own)
    of_text = {name for of, name in listed if of == "StringMethods"}
    assert of_text == (public(StringMethods) if page == "column" else set())


def test_every_notebook_is_on_the_site() -> None:
    listed = re.findall(r"^notebooks/(\w+)$", (DOCS / "guides.md").read_text(), re.MULTILINE)
    assert sorted(listed) == sorted(path.stem for path in (ROOT / "notebooks").glob("*.ipynb"))


def test_every_page_of_the_reference_has_an_example() -> None:
    for page in (DOCS / "reference").glob("*.md"):
        assert blocks("python", page.read_text()), page.name


#: Characters of a line of code that fit on the site at 1,400 pixels; `site.css` breaks longer lines.
MOST_CHARS = 100


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.stem)
def test_examples_fit_into_their_box(page: Path) -> None:
    for example in blocks("python", page.read_text(), gpu=True) + blocks("bash", page.read_text()):
        for line in example.splitlines():
            assert len(line) <= MOST_CHARS, line


def test_words_that_users_search_for_are_on_the_pages() -> None:
    """Sphinx finds whole words; it searches what is written, not what is meant."""
    words = {word for page in PAGES for word in re.findall(r"[a-z]+", page.read_text().lower())}
    assert {"csv", "group", "groupby", "join", "sort", "regex", "parquet", "arrow", "polars"} <= words


def test_examples_of_the_docstrings_run() -> None:
    for public in (getattr(cudf_fsst, name) for name in cudf_fsst.__all__):
        for example in doctest.DocTestFinder().find(public, globs={}):
            assert doctest.DocTestRunner().run(example).failed == 0, example.name


def test_all_say_the_same_version() -> None:
    released = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert f"\nversion: {released}\n" in (ROOT / "CITATION.cff").read_text()
    assert re.search(r"^## (\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)[1] == released


def anchors_of(page: Path) -> set[str]:
    """What links can lead to: headings, as GitHub and MyST make anchors of them."""
    headings = re.findall(r"^#+ (.*)$", re.sub(r"^```.*?^```", "", page.read_text(), flags=re.M | re.S), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize(
    "page", [*PAGES, *(ROOT / name for name in ("README.md", "CONTRIBUTING.md", "CHANGELOG.md"))], ids=lambda p: p.stem
)
def test_links_within_the_project_lead_somewhere(page: Path) -> None:
    text = re.sub(r"^```.*?^```", "", page.read_text(), flags=re.MULTILINE | re.DOTALL)
    for target in re.findall(r"\]\((?!https?:)(.*?)\)", text):
        path, _, anchor = target.partition("#")
        place = page.parent / path if path else page
        assert place.exists(), target
        assert not anchor or anchor in anchors_of(place), target


def test_links_of_the_site_are_checked(tmp_path: Path) -> None:
    """.ci/check_links.py, which .ci/run calls, finds what leads nowhere."""
    check = module_of(ROOT / ".ci" / "check_links.py")
    (tmp_path / "_static").mkdir()
    (tmp_path / "_static" / "template.html").write_text('<a href="{{ nothing }}">')
    (tmp_path / "index.html").write_text(
        '<a href="a%20page.html#here"><a href="#top"><a href="https://example.org">'
        '<img src="_static/template.html"><i id="top">'
    )
    (tmp_path / "a page.html").write_text('<i id="here"><a href="index.html"><a href="index.html#top">')
    assert check.broken(tmp_path) == []
    (tmp_path / "wrong.html").write_text(
        '<a href="gone.html"><a href="index.html#gone"><img src="../a.png"><a href="#gone">'
    )
    assert [line.split(": ")[1] for line in check.broken(tmp_path)] == [
        "gone.html",
        "index.html#gone",
        "../a.png",
        "#gone",
    ]


def test_pictures_of_the_pages_are_drawn_from_what_they_show(tmp_path: Path) -> None:
    draw = module_of(DOCS / "draw.py")
    described = r"<dc:description>(.*?)</dc:description>"
    for path in draw.draw(tmp_path):
        kept = (DOCS / "drawings" / path.name).read_text()
        assert re.search(described, path.read_text())[1] == re.search(described, kept)[1], path.name


def test_readme_is_one_page() -> None:
    """What it is, an example, numbers, two commands, and where to go; in lines that are read without scrolling."""
    assert len(README.splitlines()) <= 115
    prose = [line for line in README.splitlines() if not line.startswith(("|", "!["))]
    assert max(map(len, prose)) <= 160
    assert [len(block.splitlines()) for block in blocks("bash")] == [1, 1]


def test_ci_runs_the_readmes_test_command() -> None:
    """.ci/run takes the command out of the README with this pattern."""
    pattern = re.search(r"sed -n 's/(.*)/\\1/p' README", (ROOT / ".ci" / "run").read_text())[1]
    found = re.findall(pattern.replace(r"\(", "(").replace(r"\)", ")"), README, re.MULTILINE)
    assert found == [blocks("bash")[1].rstrip("\n")]


def test_measured_numbers_are_the_newest_results(table: ModuleType) -> None:
    assert table.measured_part(README) == table.render(table.newest())
    text = table.render_real_text(table.real_text())
    assert table.measured_part(README, table.BEGIN_REAL) == text
    assert table.measured_part((DOCS / "compress.md").read_text(), table.BEGIN_REAL) == table.of_page(text)


@pytest.mark.parametrize("page", ["spilling", "codecs", "parquet", "engines"])
def test_pages_show_the_newest_results(page: str) -> None:
    module = module_of(ROOT / "benchmarks" / "spill_page.py")
    path = DOCS / f"{page}.md"
    text = path.read_text()
    assert module.written(path, text) == text
    assert "Not measured yet" not in text


#: What pages say -> the constants of the code that it is true of. A page has each text once.
CONSTANTS: dict[str, tuple[tuple[str, str], ...]] = {
    "codecs": (
        ("in blocks of {:,} values", "codecs.bitpack.launch.BLOCK"),
        ("decided anew for every {} MiB of a column", "codecs.text.plan.TABLE_SCOPE >> 20"),
        ("more than one for every {} bytes", "codecs.dict.plan._NBYTES_PER_VALUE"),
        ("distinct values take more than {} MiB", "codecs.dict.plan.MOST_CHARS >> 20"),
    ),
    "dask": (
        ("less than {} a column (`threshold`)", "dask._DEFAULTS['threshold']"),
        ("by less than a factor of {} (`min_ratio`)", "dask._DEFAULTS['min-ratio']"),
    ),
    "kernels": (
        ("cut into **tiles**, of {} bytes unless", "codecs.fsst.TILE_SIZE"),
        ("has up to {} symbols", "codecs.fsst.symbols.MAX_SYMBOLS"),
    ),
    "questions": (
        ("`isin` of strings | up to {:,} strings", "query.asked.MOST_VALUES"),
        ("needs more than {} states", "automata.machine.MAX_STATES"),
        ("rows of more than {} KiB on a GPU", "codecs.text.launch.MOST_ROW >> 10"),
        ("a pattern of more than {} bytes", "codecs.text.search.MAX_PATTERN"),
    ),
    "performance": (
        ("segments of 1/{} of its characters", "round(2**32 / codecs.text.plan.segment_size(2**32))"),
        ("at least {} and ", "codecs.text.plan.SEGMENT_MIN >> 20"),
        ("at most {} MiB. There are two slots", "codecs.text.plan.SEGMENT_MAX >> 20"),
    ),
    "parquet": (
        ("more than {} row groups", "parquet.sources._FEW"),
        ("at most 2^{} rows and ", "parquet.sources._FEW_ROWS.bit_length() - 1"),
        ("and {} MiB in Parquet's encodings", "parquet.sources._FEW_NBYTES >> 20"),
        ("up to 2^{} rows and ", "parquet.sources._PIECE_ROWS.bit_length() - 1"),
        ("rows and {} MiB. Otherwise", "parquet.sources._PIECE_NBYTES >> 20"),
        ("decoded as it is read, about {} MiB at a time", "batches.PIECE_NBYTES >> 20"),
    ),
    "tuning": (("at least {:.0f} % faster", "100 * cli.autotune._WORTH - 100"),),
}


@pytest.mark.parametrize("page", CONSTANTS)
def test_numbers_of_the_pages_are_those_of_the_code(page: str) -> None:
    for module in (
        "cli.autotune",
        "dask",
        "parquet.sources",
        "query.asked",
        "codecs.bitpack.launch",
        "codecs.dict.plan",
    ):
        importlib.import_module(f"cudf_fsst.{module}")
    text = (DOCS / f"{page}.md").read_text()
    for said, constant in CONSTANTS[page]:
        assert said.format(eval(constant, vars(cudf_fsst))) in text, said


def test_the_column_of_the_questions_is_as_large_as_the_page_says() -> None:
    records = json.loads((ROOT / "benchmarks" / "results" / "query.json").read_text())["records"]
    one = next(record for record in records if record["dataset"] == "tpch.l_comment.sf10")
    said = f"{one['rows'] / 1e6:.0f} million rows, {one['bytes'] / 1e9:.2f} GB of characters"
    assert said in (DOCS / "questions.md").read_text()


def test_sizes_that_pages_promise_were_measured(table: ModuleType) -> None:
    """README, index and compress.md, of the newest results."""
    records = json.loads((ROOT / "benchmarks" / "results" / "compare.json").read_text())["records"]
    ratios = {
        (record["dataset"], record.get("sweep"), record["tile_size"], record.get("scope_limit")): record["value"]
        for record in records
        if (record["codec"], record["measure"], record.get("level")) == ("cudf_fsst", "ratio_column", "default")
    }

    def ratio(dataset: str) -> float:
        return ratios[dataset, None, 256, None]

    for page in (README, (DOCS / "index.md").read_text()):
        assert "Real text takes 30 to 60 % of its size" in page
    for name, sizes in table.nbytes_of(table.real_text()).items():
        share = sizes["cudf_fsst.cpu"] / sizes["arrow"]
        assert share < 0.1 if name == "time zones" else 0.3 < share < 0.6, name
    text = (DOCS / "compress.md").read_text()
    assert "Comments and log lines become about 2 to 4 times smaller, books and Chinese text up to 2 times." in text
    for dataset in ("tpch.l_comment.sf10", "tpch.o_comment.sf10", "generated.log_lines"):
        assert 1.95 < ratio(dataset) < 4
    for dataset in ("dbtext.faust", "dbtext.chinese"):
        assert 1.7 < ratio(dataset) < 2.05
    assert "Random characters hardly become smaller." in text
    assert ratio("generated.random") < 1.1
    assert "Pieces of 32 MiB or more compress almost as well as the whole column." in text
    for dataset in ("tpch.l_comment.sf10", "generated.log_lines"):
        assert ratios[dataset, "scope", 256, 32 << 20] > 0.99 * ratio(dataset)


def test_measured_numbers_are_taken_from_the_file(table: ModuleType, tmp_path: Path) -> None:
    records = [
        {
            "dataset": "tpch.d",
            "codec": "cudf_fsst",
            "level": "default",
            "measure": "decompress_call_gbps",
            "value": 512.4,
        },
        {"dataset": "tpch.d", "codec": "cudf_fsst", "level": "default", "measure": "ratio_column", "value": 2.951},
        {"dataset": "tpch.d", "codec": "nvcomp.lz4", "measure": "ratio_column", "value": 9.0},
    ]
    content = {"machine": {"gpu": "Some GPU"}, "date": "2026-01-02T03:04", "command": "", "records": records}
    (tmp_path / "column.json").write_text(json.dumps(content))
    (tmp_path / "older.json").write_text(json.dumps(content | {"date": "2025-01-02", "machine": {"gpu": "Old"}}))
    (tmp_path / "cpu.json").write_text(json.dumps(content | {"date": "2027-01-02", "machine": {"gpu": None}}))
    shown = table.render(table.newest(tmp_path))
    assert "**Some GPU**" in shown
    assert "2026-01-02" in shown
    assert "| `d` | 2.95 |  | 512 |" in shown
    assert "| `d`, nvCOMP LZ4 in the same run | 9.00 |  |  |" in shown


@pytest.mark.parametrize("path", sorted((ROOT / "notebooks").glob("*.ipynb")), ids=lambda path: path.name)
def test_notebooks_carry_no_outputs_and_use_what_is_public(path: Path) -> None:
    for cell in json.loads(path.read_text())["cells"]:
        assert not cell.get("outputs")
        assert cell.get("execution_count") is None
        assert not re.search(r"\w\._[a-z]", "".join(cell["source"])), "a private name"


# The errors table: a case for each line, in the table's order.


def stored(tmp_path: Path) -> Path:
    path = tmp_path / "column.fsst"
    pd.Series(["one", "two"] * 100, name="n").fsst.compress().save(path)
    return path


def load_damaged(tmp_path: Path) -> None:
    path = stored(tmp_path)
    content = bytearray(path.read_bytes())
    content[-1] ^= 1
    path.write_bytes(content)
    cudf_fsst.load(path)


def load_newer(tmp_path: Path) -> None:
    path = stored(tmp_path)
    content = bytearray(path.read_bytes())
    content[8:12] = (FORMAT_VERSION + 7).to_bytes(4, "little")
    path.write_bytes(content)
    cudf_fsst.load(path)


def append_other_dtype(tmp_path: Path) -> None:
    compressor = cudf_fsst.Compressor()
    compressor.append(pd.Series(["a"], dtype="str"))
    compressor.append(pd.Series(["a"], dtype="string"))


def concat_other_columns(_: Path) -> None:
    cudf_fsst.concat([pd.DataFrame({label: [1]}).fsst.compress() for label in "ab"])


def save_complex_index(tmp_path: Path) -> None:
    pd.Series(["a"], index=[1j]).fsst.compress().save(tmp_path / "column.fsst")


def fill_a_pool(_: Path) -> None:
    with cudf_fsst.SpillPool(host_limit=10) as pool:
        pool["a"] = pd.Series(["a long string", "and another"])


def use_a_pool_after_a_fork(_: Path) -> None:
    pool = cudf_fsst.SpillPool()
    pool._owner += 1  # as a child of that process has it
    len(pool)


def column() -> cudf_fsst.CompressedColumn:
    return pd.Series(["one", "two", None]).fsst.compress()


def of_any_bytes() -> cudf_fsst.CompressedColumn:
    array = pa.array([b"one", b"\xff"]).view(pa.string())
    return pd.Series(pd.array(array, dtype="str")).fsst.compress()


ERRORS: tuple[tuple[type[Exception], str, Callable[[Path], Any]], ...] = (
    (AttributeError, "complex128", lambda _: pd.Series([1j, 2]).fsst),
    (UnicodeEncodeError, "surrogates not allowed", lambda _: pd.Series(["\ud800"], dtype=object).fsst.compress()),
    (IndexError, "row 3 is out of range for a column of 3 rows", lambda _: column()[3]),
    (IndexError, "mask of 2 rows .* column of 3 rows", lambda _: column().filter(np.array([True, False]))),
    (TypeError, "rows are selected by position", lambda _: column()["a"]),
    (TypeError, r"f\.equals\(other\)", lambda _: pd.DataFrame({"n": [1]}).fsst.compress() == 1),
    (TypeError, r"no operator &; write c\.decompress\(\) & \.\.\.", lambda _: column() & [True, False, True]),
    (UnicodeDecodeError, "invalid start byte, in row 1", lambda _: np.asarray(of_any_bytes())),
    (ValueError, "stream=7", lambda _: pd.Series(["a"]).fsst.compress(stream=7)),
    (ValueError, "tile_size .* 100", lambda _: pd.Series(["a"]).fsst.compress(tile_size=100)),
    (TypeError, "table must be a SymbolTable", lambda _: pd.Series(["a"]).fsst.compress(table=b"abc")),
    (TypeError, "of dtype str, this one is string", append_other_dtype),
    (ValueError, "frames have different columns", concat_other_columns),
    (TypeError, "index of dtype complex128 cannot be stored", save_complex_index),
    (FileNotFoundError, "memory://nothing/f.fsst: no such file", lambda _: cudf_fsst.load("memory://nothing/f.fsst")),
    (ValueError, "compression must be one of", lambda folder: column().save(folder / "c", compression="gzip")),
    (TypeError, "open for text", lambda _: cudf_fsst.load(io.StringIO("text"))),
    (ValueError, "codes of segment 0: checksum", load_damaged),
    (ValueError, "truncated", lambda _: cudf_fsst.SymbolTable.from_bytes(b"abc")),
    (ValueError, rf"version {FORMAT_VERSION + 7}; .* versions 1, 2, 3 and 4$", load_newer),
    (TypeError, "column 'odd': dtype object", lambda _: pd.DataFrame({"odd": [1, "a"]}, dtype=object).fsst.compress()),
    (KeyError, "does not have: 'm'", lambda _: pd.DataFrame({"n": [1]}).fsst.compress(codecs={"m": "raw"})),
    (ValueError, "column 'n': codec 'fsst'", lambda _: pd.DataFrame({"n": [1]}).fsst.compress(codecs={"n": "fsst"})),
    (MemoryError, "'a'", fill_a_pool),
    (RuntimeError, "belongs to process .* cannot be used in process", use_a_pool_after_a_fork),
)


def test_errors_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    listed = re.findall(
        r"^\| .* \| (?:RMM's )?`(\w+)`.* \|$",
        (DOCS / "limits.md").read_text().split("## Which errors are there?")[1],
        re.MULTILINE,
    )
    assert [kind.__name__ for kind, _, _ in ERRORS] + ["ImportError", "MemoryError"] == listed
    for kind, message, fail in ERRORS:
        with pytest.raises(kind, match=message):
            fail(tmp_path)
    # None in sys.modules makes the import fail, also where cuDF is installed.
    compressed = column()
    monkeypatch.setitem(sys.modules, "cudf", None)
    with pytest.raises(ImportError, match=r"pip install '\.\[cuda12\]'"):
        compressed.to_cudf()
