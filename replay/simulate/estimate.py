"""Many simulations as one estimate, with what it rests on and why not to trust it too far.

Nothing is extrapolated: a figure at an attempt is over the seeds that the record could
answer up to there, and says how many these are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from statistics import median
from typing import Any

import msgspec

from engine.config import Config
from engine.core.state import TeamOf
from events.figures import whole_percent
from replay.simulate.record import NotComparable, Record, check_comparable
from replay.simulate.search import Simulation, simulate

__all__ = ["Estimate", "Point", "Recorded", "changed_keys_allowed", "estimate"]

_SELECTING = {
    "search.policy", "search.seed", "search.epsilon", "search.root_throttle", "search.dead_branch",
    "search.leaf_bias", "budget.attempts", "budget.usd", "budget.target_speedup",
    "budget.patience",
}  # fmt: skip
_SHOWING = {"search.leaders", "search.windows", "search.window_nodes", "search.window_sampling"}
"""What agents are shown: a record can't say what they would have answered instead."""

_LOW_COVERAGE = 0.5


class Point(msgspec.Struct, frozen=True, kw_only=True):
    """The best speedup so far after ``attempt`` attempts, over the ``seeds`` that got there.

    ``correct`` of these had a correct kernel; the speedups are over those.
    """

    attempt: int
    seeds: int
    correct: int
    low: float | None
    median: float | None
    high: float | None


class Recorded(msgspec.Struct, frozen=True, kw_only=True):
    """A log that was simulated on; ``best`` is its own best speedup after each attempt."""

    log: str
    policy: str
    workers: int
    attempts: int
    best: list[float | None]


class Estimate(msgspec.Struct, frozen=True, kw_only=True):
    """What the policy would have done. ``attempts`` is the budget B of each simulation.

    ``coverage`` is the share of the budget that the record could answer, over all seeds;
    ``reached`` counts the seeds that it answered to their end.
    """

    task: str
    canned: bool
    policy: str
    changed: dict[str, Any]
    attempts: int
    seeds: int
    coverage: float
    least_coverage: float
    reached: int
    curve: list[Point]
    simulations: list[Simulation]
    recorded: list[Recorded]
    warnings: list[str]


def changed_keys_allowed(changed: Mapping[str, Any]) -> None:
    """Raises ``NotComparable`` for a setting that a record can't answer for."""
    unknown = sorted(set(changed) - _SELECTING - _SHOWING)
    if unknown:
        raise NotComparable(
            f"{unknown[0]} can't be simulated: it does not steer which node is selected"
            f" (these do: {', '.join(sorted(_SELECTING | _SHOWING))})"
        )


def estimate(
    records: Sequence[Record],
    config: Config,
    team_of: TeamOf,
    *,
    seeds: int,
    changed: Mapping[str, Any],
) -> Estimate:
    """Simulate ``config`` with ``seeds`` seeds. ``changed`` says what of it is not the first
    record's. Raises ``NotComparable``."""
    check_comparable(records)
    changed_keys_allowed(changed)
    # Money is recorded with each reply; the time that an attempt took is not simulated.
    budget = msgspec.structs.replace(config.budget, wall_s=None)
    config = msgspec.structs.replace(config, budget=budget)
    simulations = [simulate(records, config, team_of, order=order) for order in range(seeds)]
    first = records[0]
    return Estimate(
        task=first.started.task_name,
        canned=any(record.started.canned for record in records),
        policy=config.search.policy,
        changed=dict(changed),
        attempts=budget.attempts,
        seeds=seeds,
        coverage=sum(done.coverage for done in simulations) / seeds,
        least_coverage=min(done.coverage for done in simulations),
        reached=sum(done.stopped != "no_outcome" for done in simulations),
        curve=list(_curve(simulations)),
        simulations=simulations,
        recorded=[_recorded(record) for record in records],
        warnings=list(_warnings(records, config, simulations, changed)),
    )


def _selecting(changed: Mapping[str, Any]) -> set[str]:
    """The changes that steer a selection; a longer search begins as the recorded one did."""
    return _SELECTING & set(changed) - {"budget.attempts"}


def _recorded(record: Record) -> Recorded:
    search = record.config.search
    return Recorded(
        log=record.name, policy=search.policy, workers=search.workers,
        attempts=record.attempts, best=record.best,
    )  # fmt: skip


def _curve(simulations: Sequence[Simulation]) -> Iterator[Point]:
    for at in range(max(done.attempts for done in simulations)):
        there = [done.best[at] for done in simulations if done.attempts > at]
        best = [speedup for speedup in there if speedup is not None]
        yield Point(
            attempt=at + 1,
            seeds=len(there),
            correct=len(best),
            low=min(best, default=None),
            median=median(best) if best else None,
            high=max(best, default=None),
        )


def _warnings(
    records: Sequence[Record],
    config: Config,
    simulations: Sequence[Simulation],
    changed: Mapping[str, Any],
) -> Iterator[str]:
    searches = [config.search for record in records for config in record.configs]
    policies = sorted({search.policy for search in searches})
    yield (
        f"Outcomes were recorded under {' and '.join(policies)}, and agents saw the attempts of"
        " that search. In another order of attempts their windows would have held others, and"
        " they might have answered otherwise."
    )
    sequential = all(search.workers == 1 for search in searches)
    whole = len(records) == len(records[0].lineage) == 1
    if whole and sequential and not _selecting(changed):
        yield (
            "Seed number 0 is the recorded search itself: it shows that the simulation is faithful,"
            " and says nothing new."
        )
    ran_out = sum(done.stopped == "no_outcome" for done in simulations)
    if ran_out:
        yield (
            f"{ran_out} of {len(simulations)} seeds asked for an outcome that was not recorded,"
            " and end there. Figures at later attempts are over the seeds that are left: those"
            " that searched as the record did, not a fair sample."
        )
    coverage = sum(done.coverage for done in simulations) / len(simulations)
    if coverage < _LOW_COVERAGE:
        yield (
            f"The record covers {whole_percent(coverage, '')} of what was asked: this is what a few"
            " seeds would have found, not what the policy finds."
        )
    if len(records) > 1:
        yield (
            "Logs are pooled at the root only: a child of the root may come from any log, and"
            " what is below it comes from the same log. Speedups are over each log's own root."
        )
    if not sequential:
        yield "Recorded with several workers, simulated with one."
    shown = sorted(_SHOWING & set(changed))
    if shown:
        yield (
            f"{', '.join(shown)}: changes only what agents are shown, which a record can't"
            " answer for. The estimate is the same as without it."
        )
