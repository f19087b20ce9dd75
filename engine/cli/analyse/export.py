"""``engine export``: what logs hold, in the forms that other programs read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from engine.cli.address import log_errors, split
from engine.cli.exits import Failure
from events.reader import LogReader

__all__ = ["export"]


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(["parquet", "jsonl", "csv", "sft"]),
              help="Tables runs, nodes, calls, evaluations; or sft: training pairs.")  # fmt: skip
@click.option("--redact", "redacting", is_flag=True,
              help="A copy of one LOG without prompts, replies, sources and logs.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True,
              help="The folder for tables, the file for pairs, or the new log.")  # fmt: skip
@click.option("--role", type=click.Choice(["plan", "code", "debug", "single"]),
              help="sft: the role to train.")  # fmt: skip
@click.option("--outcome", type=click.Choice(["correct", "compiled", "any"]), default="correct",
              show_default=True, help="sft: what at least became of the attempt.")  # fmt: skip
@click.option("--min-speedup", type=float, default=0.0, show_default=True,
              help="sft: over eager.")  # fmt: skip
@click.option("--canned", is_flag=True, help="sft: take replies of playbooks, too.")
def export(
    logs: tuple[str, ...], form: str | None, redacting: bool, output: Path, role: str | None,
    **filters: Any,
) -> None:  # fmt: skip
    """Write what LOGs hold (files, or folders of them) to OUTPUT.

    Pairs are JSON lines with chat messages in prompt and completion, the outcome and where they
    come from; of equal answers to one task the fastest is taken. A redacted log verifies and
    replays like its original.
    """
    if redacting == bool(form):
        raise Failure("say what to write: --format parquet, jsonl, csv or sft; or --redact")
    if (form == "sft") != bool(role):
        raise Failure("--format sft and --role plan, code or debug go together")
    if redacting:
        _redact(logs, output)
    elif role is not None:
        _pairs(logs, output, role, filters)
    else:
        _tables(logs, str(form), output)


def _tables(logs: tuple[str, ...], form: str, output: Path) -> None:
    from engine.cli.analyse.export_tables import export_tables

    for path, rows in export_tables(logs, form, output).items():
        click.echo(f"{path}: {rows} rows", err=True)


def _pairs(logs: tuple[str, ...], output: Path, role: str, filters: dict[str, Any]) -> None:
    from engine.cli.analyse.export_pairs import export_pairs
    from projections.export.training import Wanted

    with log_errors():
        chosen = export_pairs(logs, Wanted(role=role, **filters), output)
    repeated = sum(seen for _, seen in chosen.pairs) - len(chosen.pairs)
    canned = f", {chosen.canned} canned (--canned takes them)" if chosen.canned else ""
    click.echo(
        f"{output}: {len(chosen.pairs)} pairs; left out: {chosen.filtered} by outcome,"
        f" {repeated} repeated{canned}",
        err=True,
    )


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
