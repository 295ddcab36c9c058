"""Files that the command line reads and writes besides its own, by suffix: Parquet, CSV, Arrow's IPC format."""

from __future__ import annotations

import codecs
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import pyarrow as pa

from ..arrow_types import is_any_text
from ..files.disk import replacing

#: What a file is, by its suffix.
FORMATS = {
    ".parquet": "parquet",
    ".pq": "parquet",
    ".csv": "csv",
    ".tsv": "csv",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
}
#: What a CSV file may be packed in besides, and Arrow's names of that.
_PACKED = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}
#: Bytes of a CSV file whose types are looked at first, and that are parsed at once.
_BLOCK_NBYTES = 16 << 20
#: Rows of a row group of what is kept while it is read.
_GROUP_ROWS = 1 << 20
#: Characters that may stand between the columns of a CSV file.
_DELIMITERS = ",;\t|"


class CsvOptions(NamedTuple):
    """How CSV files are read.

    Attributes
    ----------
    delimiter : str or None
        One character. None: a tab in ``.tsv``, else a comma.
    encoding : str
        Python's name of it.
    text : sequence of str
        Columns that are text, whatever their values look like.
    all_text : bool
        All of them are.
    """

    delimiter: str | None = None
    encoding: str = "utf-8"
    text: Sequence[str] = ()
    all_text: bool = False


def known_suffix(path: Path) -> str | None:
    """The suffix of a file that is read and written here, ``.csv.gz`` as a whole; None for others."""
    *_, before, last = ["", "", *(suffix.lower() for suffix in path.suffixes)]
    if last in _PACKED and FORMATS.get(before) == "csv":
        return before + last
    return last if last in FORMATS else None


def format_of(path: Path) -> str:
    """parquet, csv or arrow; Parquet too where the name has no suffix.

    Raises
    ------
    ValueError
        The suffix is another one; it is named.
    """
    suffix = known_suffix(path)
    if suffix is None and path.suffix:
        texts = [name for name, fmt in FORMATS.items() if fmt == "csv"]
        others = [name for name, fmt in FORMATS.items() if fmt != "csv"]
        known = f"{', '.join(others)}, {', '.join(texts)}, or {' or '.join(texts)} with {', '.join(_PACKED)} after it"
        raise ValueError(f"{path}: suffix {path.suffix!r} must be one of {known}")
    return FORMATS["." + suffix.split(".")[1]] if suffix else "parquet"


def as_parquet(files: Sequence[Path], folder: Path, options: CsvOptions, say: Callable[[str], None]) -> list[Path]:
    """Parquet files of the same rows: each file itself, or what was made of it in `folder`.

    A column of several CSV files has the type that fits the values of all. `say` is told where that is text because
    the files differ. Where files of other formats are among them, these have the say.

    Raises
    ------
    ValueError
        A file cannot be read, or it has other columns or types than others; it is named, and the column.
    """
    formats = [format_of(path) for path in files]
    parquet_files = [
        path if fmt == "parquet" else folder / f"{number}-{path.name}.parquet"
        for number, (path, fmt) in enumerate(zip(files, formats, strict=True))
    ]
    for path, fmt, parquet in zip(files, formats, parquet_files, strict=True):
        if fmt == "arrow":
            with _naming(path), _batches(path) as reader:
                _keep(reader, reader.schema, parquet)
        elif fmt == "csv":
            _csv_as_parquet(path, parquet, options, {})
    schemas = [_schema(path, parquet) for path, parquet in zip(files, parquet_files, strict=True)]
    _check_text(options.text, [schema for schema, fmt in zip(schemas, formats, strict=True) if fmt == "csv"])
    for path, schema in zip(files[1:], schemas[1:], strict=True):
        _check_names(path, schema, files[0], schemas[0])
    types = _wanted_types(files, schemas, formats, say) if "csv" in formats else {}
    for number, (path, fmt) in enumerate(zip(files, formats, strict=True)):
        others = {
            name: type for name, type in types.items() if fmt == "csv" and schemas[number].field(name).type != type
        }
        if others:
            _again(path, parquet_files[number], options, others, schemas[number])
            schemas[number] = _schema(path, parquet_files[number])
    for path, schema in zip(files[1:], schemas[1:], strict=True):
        _check_types(path, schema, files[0], schemas[0])
    return parquet_files


def _schema(path: Path, parquet: Path) -> Any:
    import pyarrow.parquet as pq

    with _naming(path):
        return pq.read_schema(parquet)


def _check_text(names: Sequence[str], schemas: Sequence[Any]) -> None:
    for name in names:
        if not any(name in schema.names for schema in schemas):
            raise ValueError(f"no CSV file has a column {name!r}, which is to be text")


def _check_names(path: Path, schema: Any, other: Path, other_schema: Any) -> None:
    for has, has_path, lacks, lacks_path in ((schema, path, other_schema, other), (other_schema, other, schema, path)):
        for name in has.names:
            if name not in lacks.names:
                raise ValueError(f"{has_path} has a column {name!r}, which {lacks_path} has not")


def _check_types(path: Path, schema: Any, other: Path, other_schema: Any) -> None:
    """Columns of two files are both text or both not, both days or both not: others would be cut off."""
    for name in other_schema.names:
        if schema.names.count(name) == other_schema.names.count(name) == 1:
            kind, expected = schema.field(name).type, other_schema.field(name).type
            if pa.null() not in (kind, expected) and (
                _is_text(kind) != _is_text(expected) or pa.types.is_date(kind) != pa.types.is_date(expected)
            ):
                raise ValueError(f"{path}: column {name!r} is of type {kind}, and {expected} in {other}")


def _is_text(kind: Any) -> bool:
    return is_any_text(kind.value_type if pa.types.is_dictionary(kind) else kind)


def _wanted_types(
    files: Sequence[Path], schemas: Sequence[Any], formats: Sequence[str], say: Callable[[str], None]
) -> dict[str, Any]:
    """Types that columns of CSV files shall have, where these do not agree with each other or with the other files."""
    common_types = {}
    for name in schemas[0].names:
        if any(schema.names.count(name) > 1 for schema in schemas):
            continue
        types = [schema.field(name).type for schema in schemas]
        given = [type for type, fmt in zip(types, formats, strict=True) if fmt != "csv" and not pa.types.is_null(type)]
        if given:
            common_types[name] = pa.string() if _is_text(given[0]) else given[0]
            continue
        wanted = pa.null()
        for type in types:
            wanted = _both(wanted, type)
        common_types[name] = wanted
        if _is_text(wanted) and not all(_is_text(type) or pa.types.is_null(type) for type in types):
            which: dict[Any, Path] = {}
            for type, path in zip(types, files, strict=True):
                which.setdefault(type, path)
            first = next(type for type in which if not _is_text(type) and not pa.types.is_null(type))
            other = next(type for type in which if _both(first, type) == pa.string())
            say(f"column {name!r} becomes text: {first} in {which[first]}, {other} in {which[other]}")
    return common_types


def _both(left: Any, right: Any) -> Any:
    """The type that Arrow would find for a column with the values of two columns of CSV files, of their types."""
    for first, second in ((left, right), (right, left)):
        if first == second or pa.types.is_null(first):
            return second
        if pa.types.is_int64(first) and pa.types.is_float64(second):
            return second
        if pa.types.is_date(first) and pa.types.is_timestamp(second):
            return second
        if pa.types.is_timestamp(first) and pa.types.is_timestamp(second) and first.tz == second.tz:
            return second if second.unit == "ns" else first
    return pa.string()


def _again(path: Path, output: Path, options: CsvOptions, types: dict[str, Any], schema: Any) -> None:
    """Read a CSV file as other types than those that fit it, which other files have."""
    try:
        _csv_as_parquet(path, output, options, types)
    except (ValueError, NotImplementedError) as error:  # pyarrow reads no CSV as some types
        differing = ", ".join(f"{name!r} is {schema.field(name).type}, not {type}" for name, type in types.items())
        raise ValueError(f"{path}: other files have other types: column {differing} ({error})") from error


def _csv_as_parquet(path: Path, output: Path, options: CsvOptions, types: dict[str, Any]) -> None:
    with _naming(path):
        try:
            schema = _csv_in_pieces(path, output, options, types)
        except (pa.ArrowInvalid, UnicodeError) as error:
            _refuse_other_encodings(path, options.encoding)
            if "Expected 1 columns" in str(error) and options.delimiter is None:
                raise ValueError(f"{error}; has it another --delimiter?") from error
            raise
        if any(pa.types.is_binary(kind) or pa.types.is_large_binary(kind) for kind in schema.types):
            _refuse_other_encodings(path, options.encoding)  # Arrow takes what is not UTF-8 for binary


def _csv_in_pieces(path: Path, output: Path, options: CsvOptions, types: dict[str, Any]) -> Any:
    import pyarrow.csv as csv

    read = csv.ReadOptions(block_size=_BLOCK_NBYTES, encoding=options.encoding)
    delimiter = options.delimiter or _delimiter_of(path)
    parse = csv.ParseOptions(newlines_in_values=True, delimiter=delimiter)
    # An empty field is missing, an empty string has quotes: so it is written, and no text is taken for a null.
    convert = csv.ConvertOptions(null_values=[""], strings_can_be_null=True, quoted_strings_can_be_null=False)
    convert.column_types = types | dict.fromkeys(options.text, pa.string())
    with _open(path) as file, csv.open_csv(file, read, parse, convert) as reader:
        names = reader.schema.names
    if len(names) == 1:
        others = [delimiter for delimiter in _DELIMITERS if delimiter in names[0]]
        if others and options.delimiter is None:
            raise ValueError(
                f"its only column is {names[0]!r}; is it --delimiter {_shell(others[0])}? "
                f"If it has one column, say --delimiter {_shell(delimiter)}"
            )
        parse.ignore_empty_lines = False  # an empty line is a value that is missing
    if options.all_text:
        convert.column_types = dict.fromkeys(names, pa.string())
    with _open(path) as file, csv.open_csv(file, read, parse, convert) as reader:
        try:
            _keep(reader, reader.schema, output)
            return reader.schema
        except pa.ArrowInvalid:  # types were taken from the first block, and later values are of others
            pass
    with _open(path) as file:
        table = csv.read_csv(file, read, parse, convert)
    _keep(table.to_batches(), table.schema, output)
    return table.schema


def _open(path: Path) -> Any:
    """The bytes of a CSV file, unpacked."""
    return pa.input_stream(str(path), compression=_PACKED.get(path.suffix.lower()))


def _delimiter_of(path: Path) -> str:
    return "\t" if (known_suffix(path) or "").startswith(".tsv") else ","


def _shell(delimiter: str) -> str:
    return f"'{delimiter}'" if delimiter != "\t" else r"'\t'"


def _refuse_other_encodings(path: Path, encoding: str) -> None:
    """Refuse a file whose bytes are no text in an encoding; the first such byte is named."""
    decoder = codecs.getincrementaldecoder(encoding)()
    before = lines = 0
    with _open(path) as file:
        while piece := file.read(1 << 20):
            _decode(path, encoding, decoder, piece, before, lines, False)
            before, lines = before + len(piece), lines + piece.count(b"\n")
        _decode(path, encoding, decoder, b"", before, lines, True)


def _decode(path: Path, encoding: str, decoder: Any, piece: bytes, before: int, lines: int, final: bool) -> None:
    try:
        decoder.decode(piece, final)
    except UnicodeDecodeError as error:
        _refuse_byte(path, encoding, error, before - (len(error.object) - len(piece)), lines)


def _refuse_byte(path: Path, encoding: str, error: UnicodeDecodeError, before: int, lines: int) -> NoReturn:
    other = "utf-16" if before == 0 and error.object[:2] in (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE) else "latin-1"
    line = lines + error.object[: error.start].count(b"\n") + 1
    where = f"byte 0x{error.object[error.start]:02x} at {before + error.start:,}, in line {line:,}, is not {encoding}"
    raise ValueError(f"{path}: {where}; name the file's encoding, as in --encoding {other}") from error


def _keep(batches: Any, schema: Any, output: Path) -> None:
    import pyarrow.parquet as pq

    with pq.ParquetWriter(output, schema) as writer:
        group: list[Any] = []
        rows = 0
        for batch in batches:
            group.append(batch)
            rows += batch.num_rows
            if rows >= _GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(group, schema).unify_dictionaries(), _GROUP_ROWS)
                group, rows = [], 0
        if group:
            writer.write_table(pa.Table.from_batches(group, schema).unify_dictionaries(), _GROUP_ROWS)


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
            batches = (reader.get_batch(number) for number in range(reader.num_record_batches))
            yield pa.RecordBatchReader.from_batches(reader.schema, batches)


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
    fmt = format_of(output)
    if fmt == "parquet":
        frame.to_parquet(output)
        return
    reader = pa.RecordBatchReader.from_stream(frame)
    with _naming(output), replacing(output) as file:
        if fmt == "arrow":
            with pa.ipc.new_file(file, reader.schema) as writer:
                _write_batches(reader, writer)
            return
        import pyarrow.csv as csv

        options = csv.WriteOptions(delimiter=_delimiter_of(output))
        packed = _PACKED.get(output.suffix.lower())
        with open(os.dup(file.fileno()), "wb") as same:  # which Arrow closes
            target = pa.CompressedOutputStream(same, packed) if packed else pa.PythonFile(same, "w")
            with target, csv.CSVWriter(target, reader.schema, write_options=options) as writer:
                _write_batches(reader, writer)


def _write_batches(reader: Any, writer: Any) -> None:
    for batch in reader:
        writer.write_batch(batch)
