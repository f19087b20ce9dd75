"""``engine reparse``: what today's reader makes of a log's replies."""

from __future__ import annotations

import click

from engine.cli.address import log_errors, open_run
from engine.cli.inspect.inspect import emit, json_option
from engine.cli.views.draw import printable
from engine.cli.views.table import table_lines
from replay.reparse import Reread, reread

__all__ = ["reparse"]


@click.command()
@click.argument("log")
@click.option("--call", type=int, default=None, help="Only this call, with the whole reply.")
@json_option
def reparse(log: str, call: int | None, as_json: bool) -> None:
    """Read the replies in LOG once more, and show where that differs from what was recorded.

    Nothing is written, and a replay goes by what was recorded.
    """
    with open_run(log) as opened, log_errors():
        events = list(opened.reader.events(opened.run.run_id))
        found = list(reread(events, opened.reader.text))
        if call is not None:
            found = [each for each in found if each.call == call]
        wanted = {each.run_seq for each in found if call is not None}
        parts = [
            (name, opened.reader.text(sha256))
            for event in events
            if event.run_seq in wanted
            for name, sha256 in opened.reader.blob_names(event.seq)
        ]
    if as_json:
        for each in found:
            emit({**{name: getattr(each, name) for name in each.__struct_fields__},
                  "same": each.same})  # fmt: skip
        return
    for line in table_lines(["event", "call", "role", "recorded", "now", "same"], map(_row, found)):
        click.echo(line)
    for name, text in parts:
        click.echo(f"\n--- {name} ---\n{printable(text).rstrip()}")
    differing = sum(not each.same for each in found)
    click.echo(f"{len(found)} replies, {differing} read differently now", err=True)


def _row(each: Reread) -> list[str | int]:
    recorded = "not read" if each.recorded is None else str(each.recorded)
    same = "same" if each.same else "different"
    return [each.run_seq, each.call, each.role, recorded, str(each.now), same]
