"""Where two runs part, over made-up searches."""

from __future__ import annotations

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from events.bodies import (
    AgentCalled,
    Body,
    EvaluationRequested,
    NodeSelected,
    RunStarted,
    RunStopped,
)
from projections.run.overview import overview_of
from replay.diff import diff_runs
from tests.engine.world import World, as_events, config_of
from tests.thorough import examples

chances = st.integers(0, 10**6)


def choices(bodies: list[Body]) -> list[tuple[object, ...]]:
    """The selections, askings and evaluations of a run without trouble, as they read."""
    found: list[tuple[object, ...]] = []
    for body in bodies:
        match body:
            case NodeSelected():
                found.append((body.attempt, body.node, body.repair))
            case AgentCalled():
                found.append((body.attempt, body.role, body.call, body.window))
            case EvaluationRequested():
                found.append((body.attempt,))
            case RunStopped():
                found.append((body.status, body.reason))
            case _ if body.KIND == "decision":
                found.append((body,))
    return found


@settings(max_examples=examples(40), deadline=None)
@given(chances, chances, st.sampled_from([0.0, 0.3, 1.0]), st.integers(1, 3))
def test_it_is_the_first_choice_that_differs(
    one: int, two: int, epsilon: float, workers: int
) -> None:
    runs = [
        World(config_of(attempts=8, workers=workers, epsilon=e), chance).run().bodies
        for chance, e in ((one, 0.3), (two, epsilon))
    ]
    found = diff_runs(*(as_events(bodies) for bodies in runs))
    left, right = map(choices, runs)
    same = 0
    while same < min(len(left), len(right)) and left[same] == right[same]:
        same += 1
    assert found.agreed == same
    assert (found.parting is None) == (left == right)
    assert set(found.settings) == ({"search.epsilon"} if epsilon != 0.3 else set())
    if found.parting is not None:
        for side, bodies in zip((found.parting.first, found.parting.second), runs, strict=True):
            whole = overview_of(as_events(bodies))
            assert side.decision is not None
            assert bodies[side.decision.run_seq - 1] == side.decision.body
            before = overview_of(as_events(bodies[: side.decision.run_seq - 1]))
            assert (side.before.attempts, side.after.attempts) == (before.ended, whole.ended)
            assert (side.before.correct, side.after.best) == (before.correct, whole.best)
            assert all(body.body.KIND == "in" for body in side.facts)


def test_other_rules_are_a_difference_of_settings() -> None:
    new = World(config_of(attempts=4), 1).run().bodies
    assert isinstance(new[0], RunStarted)
    old = [msgspec.structs.replace(new[0], format="0.1"), *new[1:]]
    found = diff_runs(as_events(old), as_events(new))
    assert found.settings == {"format": ["0.1", "0.2"]}
    assert found.parting is None, "digests part nobody"


@settings(max_examples=examples(20), deadline=None)
@given(chances, st.data())
def test_trouble_parts_nobody(chance: int, data: st.DataObject) -> None:
    """A run agrees with itself, and with what a kill has left of it so far."""
    bodies = World(config_of(attempts=6), chance, trouble=0.3).run().bodies
    assert diff_runs(as_events(bodies), as_events(bodies)).parting is None
    cut = data.draw(st.integers(1, len(bodies)))
    found = diff_runs(as_events(bodies), as_events(bodies[:cut])).parting
    assert found is None or found.second.decision is None
