"""``engine diff``: where two runs part, or what changed between two nodes' sources."""

from __future__ import annotations

import difflib
from collections.abc import Iterator
from typing import Any

import click
import msgspec

from engine.cli.address import Opened, open_run
from engine.cli.exits import Failure
from engine.cli.inspect.at_position import load
from engine.cli.inspect.inspect import emit, find_node, json_option
from engine.cli.views.draw import loop_words, ms, printable, value_text
from engine.cli.views.event_lines import event_line
from engine.cli.views.table import table_lines
from projections.candidate.labels import labels_words
from replay.diff import LoggedEvent, Parting, RunDiff, Side, diff_runs

__all__ = ["diff"]


@click.command()
@click.argument("what", metavar="RUN RUN | LOG NODE NODE", nargs=-1, required=True)
@json_option
def diff(what: tuple[str, ...], as_json: bool) -> None:
    """Find the first decision in which two runs part, and what came of it.

    RUN is a log, or LOG#RUN; a fork and its parent are two runs of one log. With LOG NODE NODE:
    what changed from the first node's source to the second's.
    """
    match what:
        case (first, second):
            _runs(first, second, as_json)
        case (log, one, two) if one.isdecimal() and two.isdecimal():
            _nodes(log, int(one), int(two), as_json)
        case _:
            raise Failure("name two runs (LOG or LOG#RUN), or a log and two of its nodes")


# -- two nodes ------------------------------------------------------------------------------


def _nodes(log: str, one: int, two: int, as_json: bool) -> None:
    with open_run(log) as opened:
        overview = load(opened)
        found = [find_node(overview, number) for number in (one, two)]
        for node in found:
            if node.source_sha256 is None:
                raise Failure(f"node {node.id} has no source: it is {node.status}")
        before, after = (opened.reader.text(node.source_sha256).splitlines() for node in found)
    lines = difflib.unified_diff(before, after, f"node {one}", f"node {two}", lineterm="")
    text = "\n".join(lines)
    if as_json:
        emit({"nodes": found, "diff": text})
    elif text:
        click.echo(printable(text))
    else:
        click.echo(f"nodes {one} and {two} have the same source", err=True)


# -- two runs -------------------------------------------------------------------------------


def _runs(first: str, second: str, as_json: bool) -> None:
    with open_run(first) as one, open_run(second) as two:
        found = diff_runs(*(opened.reader.events(opened.run.run_id) for opened in (one, two)))
    if as_json:
        emit({"runs": [one.run.uid, two.run.uid], "logs": [one.name, two.name],
              **msgspec.structs.asdict(found)})  # fmt: skip
        return
    for line in diff_lines(one, two, found):
        click.echo(line)


def diff_lines(one: Opened, two: Opened, found: RunDiff) -> Iterator[str]:
    """The comparison for people; A and B are the runs in the order they were named."""
    yield f"A  {one.name}, run {one.run.uid}"
    yield f"B  {two.name}, run {two.run.uid}"
    if found.settings:
        yield ""
        rows = [(key, *map(value_text, values)) for key, values in found.settings.items()]
        yield from table_lines(("setting", "A", "B"), rows)
    yield ""
    agreed = f"{found.agreed} decisions choose the same"
    if found.agreed:
        agreed += ", the last at event {} of A and {} of B".format(*found.agreed_upto)
    yield agreed if found.parting else f"{agreed}: the runs do not part"
    if found.parting is not None:
        yield from _parting(found.parting)


def _parting(parting: Parting) -> Iterator[str]:
    sides = {"A": parting.first, "B": parting.second}
    for name, side in sides.items():
        yield from (f"   {name} then had {_event(fact)}" for fact in side.facts)
    yield "They part:"
    for name, side in sides.items():
        what = _event(side.decision) if side.decision else "no decision any more"
        yield f"   {name} {what}"
    if parting.fields:
        rows = [(key, *map(value_text, values)) for key, values in parting.fields.items()]
        yield ""
        yield from table_lines(("field", "A", "B"), rows)
    yield ""
    columns = [_led_to(side) for side in sides.values()]
    rows = [(name, *(column[name] for column in columns)) for name in columns[0]]
    yield from table_lines(("from there to the end", "A", "B"), rows)


def _led_to(side: Side) -> dict[str, str]:
    before, after = side.before, side.after
    best = after.best
    fresh = best is not None and (before.best is None or best.node != before.best.node)
    return {
        "attempts": str(after.attempts - before.attempts),
        "correct": str(after.correct - before.correct),
        "abandoned": str(after.abandoned - before.abandoned),
        "dollars": f"{after.cost_usd - before.cost_usd:.4f}",
        "best before": _best(before.best),
        "best at the end": _best(best) + (", new" if fresh else ""),
    }


def _best(best: Any) -> str:
    if best is None:
        return "none"
    speed = f"{best.speedup:.2f}×{loop_words(best.eager_speedup)}{labels_words(best.labels)}"
    return f"node {best.node}: {ms(best.runtime_ms)}, {speed}"


def _event(logged: LoggedEvent) -> str:
    return printable(
        f"event {logged.run_seq} {logged.type}: {event_line(logged.body)}".removesuffix(": ")
    )
