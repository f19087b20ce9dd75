"""``engine sql``: questions to a log in SQL, read-only, with views that derive the rest."""

from __future__ import annotations

import csv
import sqlite3
import sys
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import Any

import click

from engine.cli.address import log_errors, split
from engine.cli.exits import Failure
from engine.cli.inspect.inspect import emit
from engine.cli.views.draw import for_stdout
from engine.cli.views.table import table_lines
from events.connect import connect_read_only
from events.errors import LogError
from events.reader import LogReader

__all__ = ["sql"]

_STEPS = 100_000
"""Virtual machine steps between two looks for Ctrl-C: some milliseconds."""

_TOLD = {
    "history": "Every run's events in order, with what a fork shares with its parent.",
    "nodes": "The root (0) and every attempt.",
    "calls": "Every request to a model, its answer, tokens and cost.",
    "evaluations": "Every verdict: outcome, ratio, timings.",
    "baselines": "What the reference takes, eager and compiled.",
    "best_over_time": "Each new best kernel, by attempts, money and time.",
    "costs_by_role": "Calls, tokens and money of each role.",
    "in_doubt": "Requests that were sent and have no answer.",
}
_TABLES = ("runs", "events", "event_blobs", "blobs")


@click.command()
@click.argument("log")
@click.argument("query", required=False)
@click.option("--limit", type=click.IntRange(min=0), default=None,
              help="At most so many rows; 0: all (default: 200 for people, else all).")  # fmt: skip
@click.option("--json", "as_json", is_flag=True, help="Print one JSON object a row.")
@click.option("--csv", "as_csv", is_flag=True, help="Print CSV with a header.")
@click.option("--datasette-metadata", "metadata", is_flag=True,
              help="Print a metadata file for `datasette LOG -m FILE`.")  # fmt: skip
def sql(
    log: str, query: str | None, limit: int | None, as_json: bool, as_csv: bool, metadata: bool
) -> None:
    """Answer QUERY from LOG; without one, list the views and their columns.

    The connection can only read. text(SHA256) is a stored text, unpacked: SELECT node,
    text(source_sha256) FROM nodes WHERE outcome = 'correct'.
    """
    path, run = split(log)
    if run is not None:
        raise Failure(f"a query reads the whole file: name {path}, and WHERE run_id = …")
    if as_json and as_csv:
        raise Failure("choose one of --json and --csv")
    if metadata:
        emit(_metadata(path.stem))
        return
    with log_errors(), LogReader(path) as texts:
        connection = connect_read_only(path, views=True)
        try:
            connection.create_function("text", 1, lambda sha: _text(texts, sha))
            # A Python callback now and then lets Ctrl-C end a long query.
            connection.set_progress_handler(lambda: None, _STEPS)
            if query is None:
                _list(connection)
                return
            names, rows = _ask(connection, query)
            if as_json:
                _print_json(names, _first(rows, limit or 0))
            elif as_csv:
                _print_csv(names, _first(rows, limit or 0))
            else:
                shown = _first(rows, 200 if limit is None else limit)
                click.echo("\n".join(table_lines(names, shown)))
        except sqlite3.OperationalError as error:
            if str(error) == "interrupted":
                raise click.Abort from error
            raise _explain(error) from error
        except (sqlite3.Error, sqlite3.Warning) as error:
            raise _explain(error) from error
        finally:
            connection.close()


def _ask(connection: sqlite3.Connection, query: str) -> tuple[list[str], Iterator[Sequence[Any]]]:
    cursor = connection.execute(query)
    return [column[0] for column in cursor.description or ()], cursor


def _first(rows: Iterator[Sequence[Any]], limit: int) -> Iterator[Sequence[Any]]:
    yield from islice(rows, limit) if limit else rows
    if limit and next(rows, None) is not None:
        click.echo(f"engine: the first {limit} rows; --limit 0 prints all", err=True)


def _text(texts: LogReader, sha256: str | None) -> str | None:
    if sha256 is None:
        return None
    try:
        return texts.blob(sha256).decode("utf-8", "replace")
    except LogError as error:  # sqlite3 would only say that a function raised
        return f"({error})"


def _explain(error: Exception) -> Failure:
    message = str(error)
    if "not authorized" in message or "prohibited" in message:
        return Failure(f"{message}: a query can only read this log's tables and views")
    return Failure(f"{message}\nWithout a query, `engine sql LOG` lists the views and columns.")


# -- printing -------------------------------------------------------------------------------


def _print_json(names: list[str], rows: Iterator[Sequence[Any]]) -> None:
    for row in rows:
        emit(dict(zip(names, map(_plain, row), strict=True)))


def _print_csv(names: list[str], rows: Iterator[Sequence[Any]]) -> None:
    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(names)
    writer.writerows([_csv_cell(cell) for cell in row] for row in rows)


def _csv_cell(cell: Any) -> Any:
    return for_stdout(cell) if isinstance(cell, str) else _plain(cell)


def _plain(cell: Any) -> Any:
    return cell.hex() if isinstance(cell, bytes) else cell


def _list(connection: sqlite3.Connection) -> None:
    for name in (*_TOLD, *_TABLES):
        names, _ = _ask(connection, f"SELECT * FROM {name} LIMIT 0")
        told = f"  -- {_TOLD[name]}" if name in _TOLD else ""
        click.echo(f"{name}{told}\n  {', '.join(names)}")


def _metadata(name: str) -> dict[str, Any]:
    """What Datasette shows beside the tables, and queries to start from."""
    queries = {
        "leaderboard": {
            "title": "The fastest correct kernels",
            "sql": "select run_id, node, runtime_ms, speedup from nodes"
            " where outcome = 'correct' order by runtime_ms",
        },
        "failures": {
            "title": "Failures by class",
            "sql": "select outcome, count(*) as nodes, min(reason) as example from evaluations"
            " where outcome <> 'correct' group by outcome order by nodes desc",
        },
    }
    tables: dict[str, Any] = {view: {"description": told} for view, told in _TOLD.items()}
    tables |= {"blobs": {"description": "Stored texts, packed: `engine sql` has text(sha256)."}}
    described = {"tables": tables, "queries": queries}
    return {
        "title": "An engine log",
        "description": "Every decision, model call and evaluation of a search, append-only.",
        "databases": {name: described},
    }
