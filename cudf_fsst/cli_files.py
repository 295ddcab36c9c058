"""Files that the command line reads and writes besides its own, by suffix: Parquet, CSV, Arrow's IPC format."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from .files.disk import replacing

#: What a file is, by its suffix.
KINDS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
#: What a CSV file that is read may be packed in besides.
_PACKED = (".gz", ".bz2", ".zst")
#: Bytes of a CSV file whose types are looked at first, and that are parsed at once.
_BLOCK_NBYTES = 16 << 20
#: Rows of a row group of what is kept while it is read.
_GROUP_ROWS = 1 << 20


def kind_of(path: Path, *, reads: bool = False) -> str:
    """parquet, csv or arrow; Parquet too where the name has no suffix.

    Raises
    ------
    ValueError
        The suffix is another one; it is named.
    """
    suffixes = [suffix.lower() for suffix in path.suffixes]
    if reads and suffixes[-2:-1] == [".csv"] and suffixes[-1] in _PACKED:
        return "csv"
    kind = KINDS.get(suffixes[-1]) if suffixes else "parquet"
    if kind is None:
        raise ValueError(f"{path}: suffix {path.suffix!r} must be one of {', '.join(KINDS)}")
    return kind


def as_parquet(files: Sequence[Path], folder: Path) -> list[Path]:
    """Parquet files of the same rows: each file itself, or what was made of it in `folder`.

    Raises
    ------
    ValueError
        A file has other columns than the first one; it is named, and the column.
    """
    made = [
        path if kind == "parquet" else _converted(path, kind, folder / f"{number}-{path.name}.parquet")
        for number, (path, kind) in enumerate((path, kind_of(path, reads=True)) for path in files)
    ]
    if len(made) > 1:
        first = _schema(files[0], made[0])
        for path, parquet in zip(files[1:], made[1:], strict=True):
            _check_columns(path, _schema(path, parquet), files[0], first)
    return made


def _schema(path: Path, parquet: Path) -> Any:
    import pyarrow.parquet as pq

    with _naming(path):
        return pq.read_schema(parquet)


def _check_columns(path: Path, schema: Any, other: Path, wanted: Any) -> None:
    """Columns of two files have the same names, and are both text or both not."""
    for some, one, others, another in ((schema, path, wanted, other), (wanted, other, schema, path)):
        for name in some.names:
            if name not in others.names:
                raise ValueError(f"{one} has a column {name!r}, which {another} has not")
    for name in wanted.names:
        if schema.names.count(name) == wanted.names.count(name) == 1:
            found, expected = schema.field(name).type, wanted.field(name).type
            if _is_text(found) != _is_text(expected) and pa.null() not in (found, expected):
                raise ValueError(f"{path}: column {name!r} is of type {found}, and {expected} in {other}")


def _is_text(kind: Any) -> bool:
    kind = kind.value_type if pa.types.is_dictionary(kind) else kind
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind))


def _converted(path: Path, kind: str, output: Path) -> Path:
    with _naming(path):
        if kind == "arrow":
            with _batches(path) as reader:
                _keep(reader, reader.schema, output)
            return output
        options = _csv_options()
        with _csv(path, options) as reader:
            single = len(reader.schema) == 1
        if single:  # an empty line is a value that is missing
            options["parse_options"].ignore_empty_lines = False
        with _csv(path, options) as reader:
            try:
                _keep(reader, reader.schema, output)
                return output
            except pa.ArrowInvalid:  # types were taken from the first block, and later values are of others
                pass
        import pyarrow.csv

        table = pyarrow.csv.read_csv(path, **options)
        _keep(table.to_batches(), table.schema, output)
    return output


def _keep(batches: Any, schema: Any, output: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(output, schema) as writer:
        some: list[Any] = []
        rows = 0
        for batch in batches:
            some.append(batch)
            rows += batch.num_rows
            if rows >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(some, schema).unify_dictionaries(), _GROUP_ROWS)
                some, rows = [], 0
        if some:
            writer.write_table(pa.Table.from_batches(some, schema).unify_dictionaries(), _GROUP_ROWS)


def _csv_options() -> dict[str, Any]:
    import pyarrow.csv as csv

    # An empty field is missing, an empty string has quotes: so it is written, and no text is taken for a null.
    convert = csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    return {
        "read_options": csv.ReadOptions(block_size=_BLOCK_NBYTES),
        "parse_options": csv.ParseOptions(newlines_in_values=True),
        "convert_options": convert,
    }


def _csv(path: Path, options: Any) -> Any:
    import pyarrow.csv

    return pyarrow.csv.open_csv(path, **options)


@contextmanager
def _batches(path: Path) -> Iterator[Any]:
    """Batches of a file in Arrow's IPC format, or of a stream that was written into one."""
    with pa.memory_map(str(path)) as source:
        is_file = source.read(6) == b"ARROW1"
        source.seek(0)
        if not is_file:
            with pa.ipc.open_stream(source) as reader:
                yield reader
            return
        with pa.ipc.open_file(source) as reader:
            found = (reader.get_batch(number) for number in range(reader.num_record_batches))
            yield pa.RecordBatchReader.from_batches(reader.schema, found)


@contextmanager
def _naming(path: Path) -> Iterator[None]:
    """What goes wrong names the file, as an OSError or a ValueError."""
    try:
        yield
    except (pa.ArrowException, OSError, ValueError) as error:
        if str(path) in str(error):
            raise
        raise (OSError if isinstance(error, OSError) else ValueError)(f"{path}: {error}") from error


def write(frame: Any, output: Path) -> None:
    """Write a compressed frame piece by piece, as the output's suffix says; CSV and IPC files have no index."""
    kind = kind_of(output)
    if kind == "parquet":
        frame.to_parquet(output)
        return
    import pyarrow.csv

    reader = pa.RecordBatchReader.from_stream(frame)
    make = pyarrow.csv.CSVWriter if kind == "csv" else pa.ipc.new_file
    with _naming(output), replacing(output) as file, make(file, reader.schema) as writer:
        for batch in reader:
            writer.write_batch(batch)
