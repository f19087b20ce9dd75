"""``engine tail``: a log's newest events, from another process than the one that writes."""

from __future__ import annotations

import time
from collections.abc import Iterator

import click

from engine.cli.address import log_errors, split
from engine.cli.inspect.inspect import emit, json_option
from engine.cli.views.draw import printable
from engine.cli.views.event_lines import event_line
from events.envelope import Event
from events.lock import holder
from events.reader import LogReader

__all__ = ["followed", "tail"]

_POLL_S = 0.01
_POLLS_A_LOOK = 50
"""Polls between two looks whether anybody still writes the log."""


@click.command()
@click.argument("log")
@click.option("-n", "--events", "count", type=click.IntRange(min=0), default=10, show_default=True,
              help="How many of the newest events to begin with.")  # fmt: skip
@click.option("-f", "--follow", is_flag=True,
              help="Go on with what comes, until the log has no writer.")  # fmt: skip
@json_option
def tail(log: str, count: int, follow: bool, as_json: bool) -> None:
    """Print the newest events of LOG, with --json one object a line; works while it is written."""
    path, name = split(log)
    with log_errors(), LogReader(path) as reader:
        run_id = None if name is None else reader.find_run(name).run_id
        several = run_id is None and len(reader.runs()) > 1
        after = reader.newest_seq(run_id=run_id, before=count)
        for event in followed(reader, after, run_id, follow=follow):
            if as_json:
                emit(_record(event, reader))
            else:
                click.echo(_line(event, several=several))


def followed(
    reader: LogReader, after: int, run_id: int | None, *, follow: bool
) -> Iterator[Event]:  # fmt: skip
    """What is there after ``after``, then what comes."""
    polls, last_look = 0, not follow
    while True:
        events = reader.since(after, run_id=run_id)
        yield from events
        if events:
            after = events[-1].seq
        elif last_look:
            return
        else:
            # Once more after the writer has gone: it may have appended since the last poll.
            last_look = polls % _POLLS_A_LOOK == 0 and holder(reader.path) is None
            polls += 1
            if not last_look:
                time.sleep(_POLL_S)


def _record(event: Event, reader: LogReader) -> dict[str, object]:
    return {
        "seq": event.seq, "run_id": event.run_id, "run_seq": event.run_seq, "epoch": event.epoch,
        "kind": event.kind, "type": event.type, "ts_us": event.ts_us, "body": event.body,
        "blobs": [{"name": name, "sha256": sha} for name, sha in reader.blob_names(event.seq)],
    }  # fmt: skip


def _line(event: Event, *, several: bool) -> str:
    clock = time.strftime("%H:%M:%S", time.localtime(event.ts_us // 1_000_000))
    where = f"#{event.run_id} {event.run_seq:>5}" if several else f"{event.run_seq:>5}"
    return f"{clock} {where}  {event.type:<19}  {printable(event_line(event.body))}".rstrip()
