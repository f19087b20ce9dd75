"""Many logs as flat tables: Parquet, JSON lines or CSV."""

from __future__ import annotations

import csv
import os
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import IO, Any, Literal, get_args, get_origin

import msgspec

from engine.cli.address import open_runs
from engine.cli.exits import Exit, Failure
from engine.cli.inspect.inspect import summary_of
from engine.cli.inspect.marked_edits import edits_in
from projections.export.frames import (
    CallRecord,
    EvaluationRecord,
    Frames,
    FramesFold,
    ImplementationRecord,
    NodeRecord,
    RunRecord,
    SignatureRecord,
)

__all__ = ["export_tables"]

_TABLES: dict[str, type[msgspec.Struct]] = {
    "runs": RunRecord, "nodes": NodeRecord, "calls": CallRecord, "evaluations": EvaluationRecord,
    "implementations": ImplementationRecord, "signatures": SignatureRecord,
}  # fmt: skip
_WIDEST = 1 << 63
_SQL_TYPES = {int: "BIGINT", float: "DOUBLE", str: "VARCHAR", bool: "BOOLEAN"}

Write = Callable[[msgspec.Struct], object]


def export_tables(logs: Iterable[str], form: str, folder: Path) -> dict[Path, int]:
    """Write ``folder/TABLE.FORM`` for each table; returns how many rows each has.

    One run is in memory at a time. A file appears under its name when it is whole.
    """
    if form == "parquet":
        _duckdb()  # before any work is done
    counts = dict.fromkeys(_TABLES, 0)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            writes = {
                name: stack.enter_context(_open_table(folder / f"{name}.{form}", record))
                for name, record in _TABLES.items()
            }
            for frames in _frames(logs):
                for name, write in writes.items():
                    for row in getattr(frames, name):
                        write(row)
                        counts[name] += 1
    except OSError as error:
        raise Failure(f"{error.filename or folder}: {error.strerror}") from error
    return {folder / f"{name}.{form}": count for name, count in counts.items()}


def _frames(logs: Iterable[str]) -> Iterator[Frames]:
    for opened in open_runs(logs):
        fold = FramesFold()
        for event in opened.reader.events(opened.run.run_id):
            fold.apply(event)
        edits = edits_in(opened, fold.overview.tree)
        yield fold.frames(summary_of(opened, fold.overview), edits)


@contextmanager
def _open_table(path: Path, record: type[msgspec.Struct]) -> Iterator[Write]:
    part = path.with_name(f".{path.name}.part")
    begin = {".csv": _csv, ".parquet": _narrow_jsonl}.get(path.suffix, _jsonl)
    try:
        with part.open("w", newline="") as file:
            yield begin(file, record)
        if path.suffix == ".parquet":
            _to_parquet(part, path, record)
        else:
            os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def _jsonl(file: IO[str], _: type[msgspec.Struct]) -> Write:
    encode = msgspec.json.Encoder().encode
    return lambda row: file.write(encode(row).decode() + "\n")


def _narrow_jsonl(file: IO[str], record: type[msgspec.Struct]) -> Write:
    """Null for what a column of 64 bits has no place for: in older logs, figures that a candidate
    made up."""
    write = _jsonl(file, record)

    def narrow(row: msgspec.Struct) -> object:
        cells = msgspec.structs.asdict(row).items()
        wide = {k: None for k, v in cells if isinstance(v, int) and not -_WIDEST <= v < _WIDEST}
        return write(msgspec.structs.replace(row, **wide) if wide else row)

    return narrow


def _csv(file: IO[str], record: type[msgspec.Struct]) -> Write:
    writer = csv.writer(file, lineterminator="\n")
    writer.writerow(field.encode_name for field in msgspec.structs.fields(record))
    return lambda row: writer.writerow(msgspec.structs.astuple(row))


def _to_parquet(lines: Path, path: Path, record: type[msgspec.Struct]) -> None:
    """DuckDB reads JSON lines and writes Parquet by itself: no pandas and no pyarrow."""
    types = ", ".join(
        f"'{field.encode_name}': '{_sql_type(field.type)}'"
        for field in msgspec.structs.fields(record)
    )
    part = path.with_name(f".{path.name}.parquet.part")
    duckdb = _duckdb()
    try:
        with duckdb.connect() as connection:
            connection.execute("SET TimeZone = 'UTC'")
            connection.execute(
                f"COPY (SELECT * FROM read_json({_quoted(lines)}, format='newline_delimited',"
                f" columns={{{types}}})) TO {_quoted(part)} (FORMAT parquet, COMPRESSION zstd)"
            )
        os.replace(part, path)
    except duckdb.Error as error:
        raise Failure(f"{path}: {error}") from error
    finally:
        part.unlink(missing_ok=True)


def _sql_type(annotation: Any) -> str:
    """``float | None`` → DOUBLE; every column can be null."""
    if get_origin(annotation) is Literal:
        return _SQL_TYPES[str]
    kinds = get_args(annotation) or (annotation,)
    return next(_SQL_TYPES[kind] for kind in kinds if kind in _SQL_TYPES)


def _quoted(path: Path) -> str:
    return "'" + str(path).replace("'", "''") + "'"


def _duckdb() -> Any:
    try:
        import duckdb
    except ImportError as error:
        raise Failure(
            "Parquet is written by DuckDB, which is not installed:"
            " pip install 'stark-engine[analysis]' (jsonl and csv need nothing)",
            Exit.MISSING,
        ) from error
    return duckdb
