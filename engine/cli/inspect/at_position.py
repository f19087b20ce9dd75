"""``--at SEQ``: a run as it stood right after one of its events, rebuilt from the log."""

from __future__ import annotations

from collections.abc import Iterator

import click

from engine.cli.address import Opened
from engine.cli.exits import Failure
from events.envelope import Event
from projections.run.overview import Overview, overview_of

__all__ = ["at_option", "events_until", "load"]

at_option = click.option(
    "--at", type=int, metavar="SEQ",
    help="As it stood after this event of the run (counted in the run: run_seq).",
)  # fmt: skip


def events_until(opened: Opened, at: int | None) -> Iterator[Event]:
    """The run's events up to and with ``at``; all of them for None. Raises ``Failure``."""
    newest = opened.reader.newest_run_seq(opened.run.run_id)
    if at is not None and not 1 <= at <= newest:
        there = f"events 1 to {newest}" if newest else "no events yet"
        raise Failure(f"--at {at}: {opened.name} has {there}")
    return opened.reader.events(opened.run.run_id, upto=at)


def load(opened: Opened, at: int | None = None) -> Overview:
    """The run's overview, up to event ``at``. Raises ``Failure``."""
    return overview_of(events_until(opened, at))
