"""``engine simulate``: what another policy would have done on recorded trees."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

import click
import msgspec

from engine.cli.address import Opened, open_run
from engine.cli.exits import Failure
from engine.cli.inspect.inspect import emit, json_option
from engine.cli.settings.layers import SettingsError, amend
from engine.cli.views.draw import CANNED, printable, set_words
from engine.cli.views.table import table_lines
from events.figures import whole_percent

if TYPE_CHECKING:
    from replay.simulate.estimate import Estimate
    from replay.simulate.record import Record

__all__ = ["simulate"]


@click.command()
@click.argument("logs", metavar="LOG...", nargs=-1, required=True)
@click.option("--policy", help="The policy to simulate (default: the first LOG's own).")
@click.option("--set", "assignments", multiple=True, metavar="KEY=VALUE",
              help="Change the configuration, as search.epsilon=0.1. Repeatable.")  # fmt: skip
@click.option("--seeds", type=click.IntRange(min=1), default=100, show_default=True,
              help="How many simulations.")  # fmt: skip
@click.option("--attempts", type=click.IntRange(min=1),
              help="Budget of each (default: what the first LOG was allowed).")  # fmt: skip
@json_option
def simulate(
    logs: tuple[str, ...], policy: str | None, assignments: tuple[str, ...], seeds: int,
    attempts: int | None, as_json: bool,
) -> None:  # fmt: skip
    """What another policy would have done on the trees that each LOG recorded.

    Runs the search itself, with recorded attempts as outcomes, and stops where a LOG has
    none. Several LOGs have to be of one task, device, protocol and method.
    """
    from engine.core.policies import POLICIES
    from engine.loop.methods import team_of
    from replay.simulate.estimate import estimate
    from replay.simulate.record import NotComparable

    given = list(assignments)
    if policy is not None:
        if policy not in POLICIES:
            raise Failure(f"no policy {policy!r} (known: {', '.join(POLICIES)})")
        given.append(f"search.policy={policy}")
    if attempts is not None:
        given.append(f"budget.attempts={attempts}")
    try:
        records = [_record(log) for log in logs]
        first = records[0]
        allowed = msgspec.structs.replace(
            first.config,
            budget=msgspec.structs.replace(first.config.budget, attempts=first.attempts_allowed),
        )
        config, changed = amend(allowed, given)
        made = estimate(records, config, team_of, seeds=seeds, changed=changed)
    except (NotComparable, SettingsError) as error:
        raise Failure(str(error)) from error
    if as_json:
        emit(made)
        return
    for line in _lines(made):
        click.echo(line)
    for warning in made.warnings:
        click.echo(f"note: {warning}", err=True)
    if made.canned:
        click.echo(CANNED, err=True)


def _record(log: str) -> Record:
    from replay.simulate.record import FOLDS, record_of

    with open_run(log) as opened:
        bodies = opened.reader.bodies(opened.run.run_id, FOLDS)
        return record_of(bodies, opened.name, _lineage(opened))


def _lineage(opened: Opened) -> list[str]:
    """The run's uid, then its parent's, and so on."""
    uids = {run.run_id: run.uid for run in opened.reader.runs()}
    return [uids[part] for part, _ in reversed(opened.reader.lineage(opened.run.run_id))]


def _lines(made: Estimate) -> Iterator[str]:
    yield (
        f"{printable(made.task)}: {made.policy}, {_seeds(made.seeds)} of {made.attempts} attempts"
        f"{f' ({set_words(made.changed)})' if made.changed else ''}"
    )
    counts = sorted(done.attempts for done in made.simulations)
    covered, least = (whole_percent(s, "") for s in (made.coverage, made.least_coverage))
    yield (
        f"coverage {covered} (least {least}): the record answered"
        f" {counts[0]} to {counts[-1]} attempts, median {counts[len(counts) // 2]};"
        f" {made.reached} of {_seeds(made.seeds)} to their end"
    )
    yield ""
    yield "best speedup so far, over the seeds that got there:"
    yield from table_lines(
        ["attempt", "coverage", "seeds", "correct", "low", "median", "high", *_names(made)],
        _rows(made),
    )


def _rows(made: Estimate) -> Iterator[Sequence[Any]]:
    """The attempts at which something changes, the first and the last."""
    before: tuple[Any, ...] = ()
    for point in made.curve:
        told = (point.seeds, point.correct, point.low, point.median, point.high)
        recorded = [_at(run.best, point.attempt) for run in made.recorded]
        if told != before or point is made.curve[-1]:
            share = whole_percent(point.seeds / made.seeds, "")
            yield [point.attempt, share, *told[:2], *map(_times, told[2:]), *map(_times, recorded)]
        before = told


def _names(made: Estimate) -> list[str]:
    """The recorded searches' columns."""
    if len(made.recorded) == 1:
        return ["recorded"]
    return [f"recorded {number}" for number in range(1, len(made.recorded) + 1)]


def _at(curve: Sequence[float | None], attempt: int) -> float | None:
    return curve[attempt - 1] if attempt <= len(curve) else None


def _times(speedup: float | None) -> str | None:
    return None if speedup is None else f"{speedup:.2f}×"


def _seeds(count: int) -> str:
    return f"{count} seed{'' if count == 1 else 's'}"
