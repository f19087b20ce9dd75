"""``engine export``: what logs hold, in the forms that other programs read."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.address import log_errors, split
from engine.cli.exits import Failure
from events.reader import LogReader

__all__ = ["export"]


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(["parquet", "jsonl", "csv"]),
              help="Tables runs, nodes, calls and evaluations.")  # fmt: skip
@click.option("--redact", "redacting", is_flag=True,
              help="A copy of one LOG without prompts, replies, sources and logs.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True,
              help="The folder for tables, or the new log.")  # fmt: skip
def export(logs: tuple[str, ...], form: str | None, redacting: bool, output: Path) -> None:
    """Write what LOGs hold (files, or folders of them) to OUTPUT.

    A redacted log verifies and replays like its original.
    """
    if redacting == bool(form):
        raise Failure("say what to write: --format parquet, jsonl or csv; or --redact")
    if redacting:
        _redact(logs, output)
        return
    from engine.cli.export_tables import export_tables

    for path, rows in export_tables(logs, str(form), output).items():
        click.echo(f"{path}: {rows} rows", err=True)


def _redact(logs: tuple[str, ...], output: Path) -> None:
    from events.redact import redact

    path, run = split(logs[0])
    if len(logs) > 1 or run is not None:
        raise Failure("--redact copies one whole file at a time")
    with log_errors(), LogReader(path) as reader:
        done = redact(reader, output)
    click.echo(
        f"{output}: {done.runs} runs, {done.events} events; {done.blobs} texts redacted"
        f" ({done.bytes_left_out} bytes). One-line reasons, names and settings are still there.",
        err=True,
    )
