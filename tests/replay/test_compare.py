"""Curves of the best so far, against a naive reading of the log."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from events.bodies import AttemptAbandoned, EvaluationFinished
from events.envelope import Event
from events.outcomes import Correct
from projections.run.overview import overview_of
from projections.search.steps import Steps
from replay.compare import Compared, best_at, compare
from tests.engine.world import World, as_events, config_of
from tests.thorough import examples

chances = st.integers(0, 10**6)


def curve_of(events: list[Event]) -> tuple[Steps, Compared]:
    curve = Steps()
    for event in events:
        curve.apply(event)
    (run,) = compare([(curve, curve.overview.summary(run="r", log="l"))]).runs
    return curve, run


@settings(max_examples=examples(40), deadline=None)
@given(chances, st.integers(1, 3))
def test_the_curve_is_the_fastest_so_far(chance: int, workers: int) -> None:
    events = as_events(World(config_of(attempts=10, workers=workers), chance).run().bodies)
    _, run = curve_of(events)
    ended, fastest = 0, None
    for place, event in enumerate(events, 1):
        body = event.body
        if not isinstance(body, EvaluationFinished | AttemptAbandoned):
            continue
        ended += 1
        if isinstance(body, EvaluationFinished) and isinstance(body.outcome, Correct):
            fastest = min(fastest or body.outcome.runtime_ms, body.outcome.runtime_ms)
        found = best_at(run, "attempts", ended)
        assert (found and found.runtime_ms) == fastest
        so_far = overview_of(events[:place])
        assert found is None or found.cost_usd <= so_far.spend.total.usd_micros / 1e6
    assert best_at(run, "attempts", ended + 1) is None, "the run has ended"
    assert [s.runtime_ms for s in run.curve] == sorted({s.runtime_ms for s in run.curve})[::-1]


def test_runs_of_other_tasks_devices_or_protocols_are_not_comparable() -> None:
    config = config_of(attempts=2)
    paper = msgspec.structs.replace(config.sandbox, protocol="paper")
    curves = [
        curve_of(as_events(World(config, 1).run().bodies))[0]
        for config in (
            config,
            config_of(attempts=3),
            msgspec.structs.replace(config, sandbox=paper),
        )
    ]
    rows = [(curve, curve.overview.summary(run="r", log="l")) for curve in curves]
    assert compare(rows[:2]).incomparable == {}
    assert compare(rows[:2]).settings == {"budget.attempts": [2, 3]}
    assert compare(rows).incomparable == {"sandbox.protocol": ["strict", "strict", "paper"]}
