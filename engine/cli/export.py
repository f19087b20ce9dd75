"""``engine export``: what logs hold, in the forms that other programs read."""

from __future__ import annotations

from pathlib import Path

import click

from engine.cli.exits import Failure

__all__ = ["export"]


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--format", "form", type=click.Choice(["parquet", "jsonl", "csv"]),
              help="Tables runs, nodes, calls and evaluations.")  # fmt: skip
@click.option("-o", "--output", type=click.Path(path_type=Path), required=True,
              help="The folder for the tables.")  # fmt: skip
def export(logs: tuple[str, ...], form: str | None, output: Path) -> None:
    """Write the runs of all LOGs (files, or folders of them) to OUTPUT."""
    from engine.cli.export_tables import export_tables

    if form is None:
        raise Failure("say what to write: --format parquet, jsonl or csv")
    for path, rows in export_tables(logs, form, output).items():
        click.echo(f"{path}: {rows} rows", err=True)
