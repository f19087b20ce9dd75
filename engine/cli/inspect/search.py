"""``engine search``: words in a log's prompts, replies, plans, sources and logs."""

from __future__ import annotations

from itertools import islice

import click

from engine.cli.address import log_errors, split
from engine.cli.exits import Exit, Failure
from engine.cli.inspect.inspect import emit, json_option
from engine.cli.views.draw import printable
from events.reader import LogReader
from events.text_index import KINDS, Hit, IndexUnusable, TextIndex

__all__ = ["search"]


@click.command()
@click.argument("log")
@click.argument("words", nargs=-1, required=True)
@click.option("--in", "kind", type=click.Choice(KINDS), help="Only in texts of this kind.")
@click.option("--limit", type=click.IntRange(min=1), default=20, show_default=True,
              help="At most this many texts.")  # fmt: skip
@json_option
def search(log: str, words: tuple[str, ...], kind: str | None, limit: int, as_json: bool) -> None:
    """Find the texts of LOG that have all WORDS: '"a phrase"' stays together, load* is a prefix.

    The index is LOG.fts beside the log; it can be deleted, and is made anew.
    """
    path, run = split(log)
    with log_errors(), LogReader(path) as reader:
        run_id = None if run is None else reader.find_run(run).run_id
        try:
            with TextIndex(reader) as index:
                hits = index.find(" ".join(words), kind=kind, run_id=run_id)
                found = list(islice(hits, limit + 1))
        except IndexUnusable as error:
            raise Failure(str(error), Exit.MISSING) from error
    for hit in found[:limit]:
        if as_json:
            emit(hit)
        else:
            click.echo(_line(hit))
    if len(found) > limit:
        click.echo(f"engine: the best {limit}; --limit shows more", err=True)
    if not found and not as_json:
        click.echo("engine: no text has all of these words", err=True)


def _line(hit: Hit) -> str:
    where = "" if hit.node is None else f"node {hit.node} "
    role = f"{hit.role} " if hit.role else ""
    more = f" (in {hit.events} events)" if hit.events > 1 else ""
    run = f"#{hit.run_id} " if hit.run_id > 1 else ""
    what = hit.kind if hit.kind == hit.name else f"{hit.kind}/{hit.name}"
    return (
        f"{run}event {hit.run_seq}: {where}{role}{what}, line {hit.line}{more}\n"
        f"    {printable(hit.excerpt)}"
    )
