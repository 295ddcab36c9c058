"""What the ``cudf-fsst`` command prints: tables and facts, sizes, progress."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, Task, TextColumn, TimeElapsedColumn
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from .demo import Report

# Piped output is not squeezed into the 80 columns that Rich assumes. Names are no markup.
out = Console(width=None if sys.stdout is not None and sys.stdout.isatty() else 110, markup=False, emoji=False)
err = Console(stderr=True, markup=False, emoji=False)

#: Characters below which a column's times are mostly those of a call.
_SMALL = 10 * 2**20


def printable(text: object) -> str:
    """Text of any origin for the terminal: what does not print is escaped as Python escapes it."""
    return "".join(char if char.isprintable() else repr(char)[1:-1] for char in str(text))


def show_demo(reports: Sequence[Report], title: str) -> None:
    """The table of a demo, and what came back equal."""
    shown = Table(title=printable(title), title_justify="left", box=SIMPLE)
    shown.add_column("column", no_wrap=True)
    headings = ["rows", "Arrow", "compressed", "ratio", "compress\nGB/s", "decompress\nGB/s", "random\nrows, ms"]
    for heading in headings:
        shown.add_column(heading, justify="right", no_wrap=True)
    for report in reports:
        shown.add_row(
            printable(report.column),
            f"{report.rows:,}",
            size_text(report.uncompressed_nbytes),
            size_text(report.nbytes),
            f"{report.ratio:.2f}",
            _gbps(report.chars_nbytes, report.compress_seconds),
            _gbps(report.chars_nbytes, report.decompress_seconds),
            f"{report.take_seconds * 1e3:.2f}",
        )
    print_table(shown)
    total, taken = sum(report.rows for report in reports), max(report.taken_rows for report in reports)
    lines = [f"All {total:,} rows came back equal, and so did {taken:,} of each column, taken at random."]
    small = [printable(report.column) for report in reports if report.chars_nbytes < _SMALL]
    if small:
        lines.append(f"Too small to show the device's speed: {', '.join(small)}. A larger --scale does.")
    for line in lines:
        out.print(line, highlight=False)


def show_compressed(files: Sequence[Path], output: Path, compressed: Any, shape: str, engine: Any) -> None:
    """What was written, and its sizes on the way."""
    say(f"{printable(output)}: {shape}, by {printable(engine.device)}")
    inputs = "input file" if len(files) == 1 else f"{len(files)} input files"
    for what, size in (
        (inputs, size_text(sum(file.stat().st_size for file in files))),
        ("in Arrow", size_text(compressed.uncompressed_nbytes)),
        ("in memory", f"{size_text(compressed.nbytes)}, ratio {compressed.ratio:.2f}"),
        ("on disk", size_text(output.stat().st_size)),
    ):
        say(f"  {what + ':':<16}{size}")


def show_column(file: Path, facts: dict[str, Any]) -> None:
    """What is known of the column of a file, and its segments."""
    _show_facts(
        file,
        ("format version", str(facts["format_version"])),
        ("name", printable(repr(facts["name"]))),
        ("dtype", printable(facts["dtype"])),
        ("index", printable(facts["index"])),
        ("rows", f"{facts['rows']:,}"),
        ("nulls", f"{facts['nulls']:,}"),
        ("bytes as Arrow has them", f"{facts['uncompressed_nbytes']:,}"),
        ("bytes compressed", f"{facts['nbytes']:,}"),
        ("bytes of the file", f"{facts['file_nbytes']:,}"),
        ("ratio of the column", f"{facts['ratio']:.3f}"),
        ("characters", f"{facts['chars_nbytes']:,}"),
        ("their codes", f"{facts['codes_nbytes']:,}"),
        ("ratio of the characters", f"{facts['chars_ratio']:.3f}"),
        ("codec", facts["codec"]),
        ("segments", f"{len(facts['segments']):,}"),
        ("symbol tables", f"{facts['tables']:,}"),
    )
    listed = Table(title="segments", title_justify="left", box=SIMPLE)
    for heading in ("number", "rows", "characters", "codes", "ratio", "tile size", "nulls", "table", "symbols"):
        listed.add_column(heading, justify="right", no_wrap=True)
    for number, segment in enumerate(facts["segments"]):
        listed.add_row(
            str(number),
            f"{segment['rows']:,}",
            f"{segment['chars_nbytes']:,}",
            f"{segment['codes_nbytes']:,}",
            f"{segment['ratio']:.3f}",
            str(segment["tile_size"]),
            f"{segment['nulls']:,}",
            str(segment["table"]),
            str(segment["symbols"]),
        )
    if facts["segments"]:
        print_table(listed)
    _show_symbols(facts)


def _show_symbols(facts: dict[str, Any], where: str = "") -> None:
    """Symbols of all tables of a column, if they were asked for, by their codes."""
    for number, (table, first) in enumerate(zip(facts.get("symbols", ()), facts.get("first_codes", ()), strict=True)):
        shown = "  ".join(f"{code}={repr(bytes.fromhex(symbol))[1:]}" for code, symbol in enumerate(table, first))
        say(f"{where}table {number}: {shown}")


def show_frame(file: Path, facts: dict[str, Any]) -> None:
    """What is known of the frame of a file, and its columns."""
    columns = facts["columns"]
    _show_facts(
        file,
        ("format version", str(facts["format_version"])),
        ("rows", f"{facts['rows']:,}"),
        ("columns", f"{len(columns):,}"),
        ("bytes of the file", f"{facts['file_nbytes']:,}"),
    )
    listed = Table(title="columns", title_justify="left", box=SIMPLE)
    for heading in ("name", "dtype", "codec"):
        listed.add_column(heading, overflow="fold")
    for heading in ("nulls", "bytes in Arrow", "bytes", "ratio"):
        listed.add_column(heading, justify="right", no_wrap=True)

    def numbers(of: dict[str, Any]) -> tuple[str, ...]:
        return f"{of['uncompressed_nbytes']:,}", f"{of['nbytes']:,}", f"{of['ratio']:.3f}"

    for column in columns + facts["index"]:
        listed.add_row(
            printable(column["name"]),
            printable(column["dtype"]),
            column["codec"],
            f"{column['nulls']:,}",
            *numbers(column),
        )
    listed.add_section()
    listed.add_row("total", "", "", "", *numbers(facts))
    print_table(listed)
    for column in columns + facts["index"]:
        _show_symbols(column, f"{printable(column['name'])}, ")
    if not any(column.get("symbols", True) for column in columns + facts["index"]):
        say("No column has a symbol table.")


def counted(number: int, what: str) -> str:
    """``1,000 rows``, or ``1 row``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def warn(text: str) -> None:
    """A line on the error stream."""
    err.print(printable(text), soft_wrap=True, highlight=False)


def say(line: str) -> None:
    """A line as it is, however long."""
    out.print(line, highlight=False, soft_wrap=True)


def print_table(table: Table) -> None:
    """Print a table; where it is too wide, with less space between its columns, for numbers must not be cut short."""
    if out.measure(table, options=out.options.update(max_width=10_000)).maximum > out.width:
        table.padding = 0
    out.print(table)


def _show_facts(file: Path, *facts: tuple[str, str]) -> None:
    shown = Table(title=printable(file), title_justify="left", show_header=False, box=SIMPLE)
    shown.add_column()
    shown.add_column(justify="right")
    for fact, value in facts:
        shown.add_row(fact, value)
    out.print(shown)


class _Count(MofNCompleteColumn):
    """Steps done, of those there are. Of a single step there is no count: its bar just moves."""

    def render(self, task: Task) -> Text:
        return Text() if task.total is None else super().render(task)


def steps(count: int) -> int | None:
    """The total of a progress bar: None for one step, which would stand at 0 until all is done."""
    return count if count > 1 else None


def progress_bar() -> Progress:
    """A bar that goes when it is done; nothing where nobody looks."""
    return Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        _Count(),
        TimeElapsedColumn(),
        console=err,
        transient=True,
        disable=not err.is_terminal,
    )


def size_text(nbytes: int) -> str:
    """Bytes with a unit, three digits."""
    size = float(nbytes)
    for unit in ("B", "kB", "MB"):
        if size < 999.5:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _gbps(nbytes: int, seconds: float) -> str:
    rate = nbytes / 1e9 / max(seconds, 1e-9)
    return f"{rate:.3g}" if rate < 999.5 else f"{rate:,.0f}"
