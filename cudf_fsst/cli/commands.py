"""The ``cudf-fsst`` command."""

from __future__ import annotations

import json
import re
import signal
import tempfile
from collections.abc import Callable, Sequence
from functools import wraps
from pathlib import Path
from typing import Annotated, Any, ParamSpec, cast, get_args

import typer
from rich.box import SIMPLE
from rich.table import Table
from rich.text import Text

from . import terminal
from .terminal import counted, printable, say, size_text, steps

app = typer.Typer(
    help="Compress columns and frames, on a GPU with cuDF or on the CPU with pandas.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="markdown",  # paragraphs of docstrings are wrapped anew
    pretty_exceptions_enable=False,
)
_P = ParamSpec("_P")

Device = Annotated[str, typer.Option(help="auto, gpu or cpu")]
Force = Annotated[bool, typer.Option("--force", help="overwrite an existing output")]


def main() -> None:
    """Run the command; a signal to end lets it remove its unfinished files first."""
    for name in ("SIGTERM", "SIGHUP"):
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) == signal.SIG_DFL:
            signal.signal(number, _end)
    app()


def _end(number: int, _frame: object) -> None:
    signal.signal(number, signal.SIG_DFL)  # the next one ends it at once
    raise SystemExit(128 + number)


def _show_version(asked: bool) -> None:
    if asked:
        from .. import __version__

        terminal.out.print(f"cudf-fsst {__version__}", highlight=False)
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="show the version")
    ] = False,
) -> None:
    pass


class CliError(Exception):
    """A mistake of the user's, as one line of text."""


def _one_line_errors(command: Callable[_P, None]) -> Callable[_P, None]:
    """Turn the errors a user can cause into one line and exit status 1; a bug keeps its traceback."""

    @wraps(command)
    def wrapped(*args: _P.args, **kwargs: _P.kwargs) -> None:
        from .demo import DemoError

        try:
            command(*args, **kwargs)
        except (CliError, DemoError, OSError, ValueError, ImportError, MemoryError) as error:
            text = " ".join(str(error).split()) or type(error).__name__
            terminal.err.print(Text.assemble(("error:", "red"), " ", printable(text)), soft_wrap=True, highlight=False)
            raise typer.Exit(1) from None

    return wrapped


@app.command()
@_one_line_errors
def demo(
    scale: Annotated[
        float, typer.Option(help="TPC-H scale factor; 1 is 6 million rows of lineitem, about 0.3 GB on disk", min=1e-4)
    ] = 0.1,
    column: Annotated[list[str] | None, typer.Option(help="TPC-H string column; may be repeated")] = None,
    rows: Annotated[int | None, typer.Option(help="take only the first rows of each column", min=1)] = None,
    data: Annotated[Path | None, typer.Option(help="keep the TPC-H files here (default: a temporary folder)")] = None,
    device: Device = "auto",
) -> None:
    """Compress TPC-H columns, check every row, read random rows, and show sizes and times."""
    from . import demo as work

    columns = tuple(column or work.COLUMNS)
    tables = [work.table_of(name) for name in columns]
    engine = _engine(device)
    reports = []
    with tempfile.TemporaryDirectory() as temporary, terminal.progress_bar() as progress:
        folder = temporary if data is None else data
        task = progress.add_task("", total=steps(len(columns)))
        for name, table in zip(columns, tables, strict=True):
            progress.update(task, description=f"making {table}")
            path = work.make_table(table, scale, Path(folder))
            progress.update(task, description=f"compressing and checking {printable(name)}")
            reports.append(work.run_column(engine, path, name, rows))
            progress.advance(task)

    terminal.show_demo(reports, f"TPC-H, scale factor {scale:g}, on {engine.device} ({engine.name})")


@app.command()
@_one_line_errors
def compress(
    files: Annotated[
        list[Path], typer.Argument(help="files to read: .parquet, .csv, .arrow, .feather", metavar="FILE...")
    ],
    output: Annotated[Path, typer.Option("--output", "-o", help="compressed column or frame to write")],
    column: Annotated[
        list[str] | None, typer.Option("--column", "-c", help="column to compress; may be repeated; default: all")
    ] = None,
    codec: Annotated[
        list[str] | None, typer.Option(metavar="NAME=CODEC", help="codec of a column; may be repeated")
    ] = None,
    level: Annotated[str, typer.Option(help="default, or max: denser, and slower to compress")] = "default",
    text: Annotated[
        list[str] | None, typer.Option(help="CSV column to keep as text, as 007; may be repeated", metavar="NAME")
    ] = None,
    all_text: Annotated[bool, typer.Option("--all-text", help="keep all CSV columns as text")] = False,
    delimiter: Annotated[
        str | None, typer.Option(help=r"what stands between CSV columns: one character, or \\t", show_default=False)
    ] = None,
    encoding: Annotated[str, typer.Option(help="encoding of CSV files, as latin-1")] = "utf-8",
    device: Device = "auto",
    force: Force = False,
) -> None:
    """Compress files: one --column of strings into a column, others, several or all into a frame.

    The suffix says what a file is: Parquet (also without a suffix), CSV, or Arrow's IPC format. Rows of several files
    come one after another.

    The file is read in pieces, so it need not fit into memory uncompressed. Its index is kept. A
    single column of anything else, dictionary-encoded strings included, makes a frame of one column.
    """
    import pyarrow.parquet as pq

    from ..parquet import read_parquet
    from ..parquet.sources import reading
    from .files import as_parquet, known_suffix

    _check_output(output, files, force)
    if known_suffix(output):
        raise CliError(f"{output}: what is written is no {known_suffix(output)} file; call it {output.stem}.fsst")
    options = _csv_options(files, text or (), all_text, delimiter, encoding)
    names = list(dict.fromkeys(column or ()))
    codecs = dict(_codec(assignment) for assignment in codec or ())
    with tempfile.TemporaryDirectory(prefix="cudf-fsst-") as temporary:
        paths = as_parquet(files, Path(temporary), options, terminal.warn)
        with reading(paths[0]), pq.ParquetFile(paths[0]) as parquet:
            schema = parquet.schema_arrow
        columns = _frame_columns(schema, names)
        is_text = len(names) == 1 and names[0] in _string_columns(schema)
        engine = _engine(device)
        try:
            frame = read_parquet(
                paths, columns=columns, codecs=codecs, level=level, device="gpu" if engine.on_gpu else "cpu"
            ).to_host()
            compressed = frame.column_at(0) if is_text else frame
            compressed.save(output)
        except (KeyError, TypeError, ValueError) as error:  # which name the column, or the file that was made of CSV
            message = str(error.args[0] if isinstance(error, KeyError) and error.args else error)
            for path, file in zip(paths, files, strict=True):
                message = message.replace(str(path), str(file))
            raise CliError(message) from error
    shape = counted(len(compressed), "row") + ("" if is_text else f", {counted(len(frame.columns), 'column')}")
    terminal.show_compressed(files, output, compressed, shape, engine)


@app.command()
@_one_line_errors
def decompress(
    files: Annotated[list[Path], typer.Argument(help="compressed columns or frames", metavar="FILE.fsst...")],
    output: Annotated[Path, typer.Option("--output", "-o", help="file to write: .parquet, .csv, .arrow, .feather")],
    force: Force = False,
) -> None:
    """Write a compressed column back as a file with one column, a frame as one with all of its columns.

    Rows of several files come one after another. The output's suffix says how: Parquet (also without a suffix), with
    the index; CSV or Arrow's IPC format, without it.
    """
    from ..frame import CompressedFrame, of_column
    from ..joining import concat
    from ..loading import load
    from .files import format_of, write

    _check_output(output, files, force)
    format_of(output)
    loaded: list[Any] = [load(file) for file in files]
    for file, data in zip(files, loaded, strict=True):
        if isinstance(data, CompressedFrame) != isinstance(loaded[0], CompressedFrame):
            held = ["column" if isinstance(of, CompressedFrame) else "frame" for of in (loaded[0], data)]
            raise CliError(f"{file} is a {held[0]}, and {files[0]} a {held[1]}; decompress them apart")
    try:
        compressed: Any = loaded[0] if len(loaded) == 1 else concat(loaded)
        if isinstance(compressed, CompressedFrame):
            frame, what = compressed, counted(compressed.shape[1], "column")
        else:
            frame = of_column(compressed, "column" if compressed.name is None else None)
            what = f"column {printable(repr(str(frame.columns[0])))}"
        write(frame, output)
    except (NotImplementedError, TypeError) as error:  # Arrow's, of types and names that the file cannot have
        raise CliError(str(error)) from error
    say(f"{printable(output)}: {counted(len(frame), 'row')}, {what}, {size_text(output.stat().st_size)}")


@app.command()
@_one_line_errors
def inspect(
    files: Annotated[list[Path], typer.Argument(help="compressed columns or frames", metavar="FILE.fsst...")],
    symbols: Annotated[bool, typer.Option("--symbols", help="show every symbol of every table")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="a line of JSON for each file; sizes are bytes")] = False,
    check: Annotated[bool, typer.Option("--check", help="read all of each file, and check it as load does")] = False,
) -> None:
    """Show what a compressed column holds: sizes, ratios, segments, symbol tables; of a frame, its columns.

    Only what says that is read. So damage in other parts of a file does not show without --check.
    """
    from .facts import facts_of

    _check_inputs(files)
    for file in files:
        facts = facts_of(file, symbols, check)
        if as_json:
            print(json.dumps(facts))
        elif facts["kind"] == "frame":
            terminal.show_frame(file, facts)
        else:
            terminal.show_column(file, facts)


@app.command()
@_one_line_errors
def autotune(
    file: Annotated[Path | None, typer.Option(help="measure with a Parquet file, not generated text")] = None,
    column: Annotated[str | None, typer.Option("--column", "-c", help="its string column")] = None,
    megabytes: Annotated[int, typer.Option(help="size of the text; less where GPU memory is short", min=16)] = 1024,
    tile_size: Annotated[list[int] | None, typer.Option(help="tile size to tune; may be repeated")] = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="measure and show, but keep nothing")] = False,
    reset: Annotated[bool, typer.Option("--reset", help="forget what was measured for this GPU")] = False,
) -> None:
    """Measure this machine's GPU and keep the fastest launch choices; they never change what is stored."""
    from ..codecs.text.layout import TILE_SIZES
    from ..parquet.sources import reading
    from . import autotune as work

    if (file is None) != (column is None):
        raise CliError("--file and --column go together")
    _check_inputs([file] if file else [])
    sizes = tuple(dict.fromkeys(tile_size or [work.TILE_SIZE]))
    if not set(sizes) <= set(TILE_SIZES):
        raise CliError(f"--tile-size must be one of {TILE_SIZES}")
    engine = _engine("gpu")
    from ..device.memory import free_memory, gpu_model

    gpu = gpu_model()
    entry = work.path(gpu)
    if reset:
        existed = entry.exists()
        if not dry_run:
            entry.unlink(missing_ok=True)
        said = "nothing to forget" if not existed else "would be removed" if dry_run else "removed"
        terminal.out.print(f"{printable(entry)}: {said}", highlight=False, soft_wrap=True)
        return

    # Text (of more bytes than characters, if it is not ASCII), codes and the decompressed text lie there together.
    nbytes = min(megabytes * 2**20, free_memory() // 16)
    tuned: list[work.Tuned] = []
    with terminal.progress_bar() as progress:
        task = progress.add_task("making text", total=None)
        if file is None or column is None:
            series = work.generated_text(engine, nbytes)
        else:
            import pyarrow.parquet as pq

            with reading(file):
                schema = pq.read_schema(file)
            _check_column(schema, column)
            series = work.column_text(engine, file, column, nbytes)
        for size in sizes:
            number = work.count_candidates(size)
            progress.reset(task, total=number, description=f"measuring, {size}-byte tiles")
            tuned += work.tune(series, size, step=lambda: progress.advance(task))

    shown = Table(title=printable(f"{gpu}, {size_text(nbytes)} of text"), title_justify="left", box=SIMPLE)
    shown.add_column("tiles", justify="right")
    shown.add_column("kernels of")
    shown.add_column("fastest launch")
    for heading in ("default GB/s", "best GB/s", "gain"):
        shown.add_column(heading, justify="right")
    for measured in tuned:
        gain = measured.best_gbps / measured.default_gbps - 1
        shown.add_row(
            str(measured.tile_size),
            f"{measured.direction}()",
            work.describe(measured),
            f"{measured.default_gbps:,.0f}",
            f"{measured.best_gbps:,.0f}",
            f"{gain:+.1%}",
        )
    terminal.print_table(shown)
    if dry_run:
        terminal.out.print("Nothing was kept (--dry-run).")
    else:
        terminal.out.print(f"Kept in {printable(work.store(gpu, tuned))}", highlight=False, soft_wrap=True)


def _engine(choice: str) -> Any:
    from ..engine import DeviceChoice, find_engine

    if choice not in get_args(DeviceChoice):
        raise CliError(f"--device must be auto, gpu or cpu, not {choice!r}")
    try:
        return find_engine(cast(DeviceChoice, choice))
    except RuntimeError as error:
        raise CliError(f"no usable GPU: {error}") from error


def _string_columns(schema: Any) -> list[str]:
    from ..arrow_types import is_any_text

    return [field.name for field in schema if is_any_text(field.type)]


def _check_column(schema: Any, column: str) -> None:
    strings = _string_columns(schema)
    if schema.names.count(column) > 1:
        raise CliError(f"the file has {schema.names.count(column)} columns named {column!r}; rename all but one")
    if column in strings:
        return
    known = ", ".join(strings) or "none"
    if column in schema.names:
        raise CliError(f"column {column!r} is {schema.field(column).type}, not a string; string columns: {known}")
    raise CliError(f"no column {column!r}; string columns: {known}")


def _frame_columns(schema: Any, names: list[str]) -> list[str] | None:
    """The wanted columns, in the file's order, or None for all."""
    for name in names or schema.names:
        if name not in schema.names:
            raise CliError(f"no column {name!r}; columns: {', '.join(schema.names) or 'none'}")
        if schema.names.count(name) > 1:
            raise CliError(f"the file has {schema.names.count(name)} columns named {name!r}; rename all but one")
    return [name for name in schema.names if name in names] or None


def _codec(text: str) -> tuple[str, str]:
    name, equals, codec = text.rpartition("=")
    if not equals:
        raise CliError(f"--codec must be NAME=CODEC, not {text!r}")
    return name, codec


def _check_inputs(files: Sequence[Path]) -> None:
    for file in files:
        if file.is_dir():
            raise CliError(f"{file}: a folder, not a file")
        if not file.exists():
            url = re.match(r"[A-Za-z][\w+.-]+:/", str(file)) is not None
            raise CliError(f"{file}: no such file" + "; URLs are for cudf_fsst.read_parquet, in Python" * url)


def _csv_options(
    files: Sequence[Path], text: Sequence[str], all_text: bool, delimiter: str | None, encoding: str
) -> Any:
    """Options for CSV files, checked; CliError where one is given and no file is a CSV file."""
    from .files import CsvOptions, format_of

    given = {"--text": text, "--all-text": all_text, "--delimiter": delimiter, "--encoding": encoding != "utf-8"}
    formats = [format_of(file) for file in files]
    for name, value in given.items():
        if value and "csv" not in formats:
            raise CliError(f"{name} is for CSV files, of which there is none")
    delimiter = "\t" if delimiter == r"\t" else delimiter
    if delimiter is not None and (len(delimiter) != 1 or not delimiter.isascii() or delimiter in '"\r\n'):
        raise CliError(rf"--delimiter must be one ASCII character, or \t, not {delimiter!r}")
    try:
        "".encode(encoding)
    except LookupError as error:
        raise CliError(f"--encoding: {error}") from error
    return CsvOptions(delimiter, encoding, tuple(dict.fromkeys(text)), all_text)


def _check_output(output: Path, files: Sequence[Path], force: bool) -> None:
    _check_inputs(files)
    if output.exists() and any(file.exists() and output.samefile(file) for file in files):
        raise CliError(f"{output} is the input too; give the output another name")
    if output.is_dir():
        raise CliError(f"{output} is a folder")
    if not output.absolute().parent.is_dir():
        raise CliError(f"no folder {output.parent}")
    if output.exists() and not force:
        raise CliError(f"{output} exists; --force overwrites it")
