"""``search.score``: which of two speedups a search goes by."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from engine.core.state import State
from events.bodies import BaselineMeasured, Body, EvaluationFinished, EvaluationRequested
from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from projections.run.overview import overview_of
from projections.search.tree import fold_tree
from replay.verify import replay
from tests.engine.outside import ScriptedClient, ScriptedEvaluator
from tests.engine.test_loop import check, of_type, start
from tests.engine.world import World, as_events, config_of, team_of
from tests.thorough import examples


def scored(world: World) -> dict[int, float]:
    """The speedup by which each correct node is ranked, straight from the definition."""
    found: dict[int, float] = {}
    for body in world.bodies:
        if isinstance(body, EvaluationFinished) and isinstance(body.outcome, Correct):
            eager = body.outcome.eager_speedup
            found[body.attempt] = body.outcome.speedup if eager is None else eager
    return found


@given(st.integers(0, 2**31), st.sampled_from([1, 4]))
@settings(max_examples=examples(40), deadline=None)
def test_by_eager_time_the_best_is_the_fastest_in_a_loop(chance: int, workers: int) -> None:
    config = config_of(score="eager", attempts=20, workers=workers)
    world = World(config, chance, failing=0.3).run()
    speedups, best = scored(world), world.state.tree.best
    assert (best is None) == (not speedups)
    if best is not None:
        fastest = max(speedups.values())
        assert speedups[best.id] == pytest.approx(fastest)
        order = [speedups[node.id] for node in world.state.tree.leaderboard()]
        assert order == sorted(order, reverse=True)
    assert replay(as_events(world.bodies), team_of).difference is None


def verdict(attempt: int, speedup: float, eager: float | None) -> Correct:
    return Correct(
        runtime_ms=10 / speedup, speedup=speedup, ratio=1 / speedup, ratio_low=0.9 / speedup,
        ratio_high=1.1 / speedup, pairs=20, candidate_ms=10 / speedup, baseline_ms=10.0,
        eager_speedup=eager,
    )  # fmt: skip


def judged(score: str, *speedups: tuple[float, float | None]) -> State:
    """A run whose first attempts come to these speedups, on the device and in a loop."""
    world = World(config_of(score=score, attempts=len(speedups), epsilon=0), 1, failing=0.0)
    outcomes = [verdict(number, *each) for number, each in enumerate(speedups, 1)]
    world._outcome = lambda: outcomes.pop(0)  # type: ignore[method-assign]
    return world.run().state


@pytest.mark.parametrize(("score", "best"), [("device", 1), ("eager", 3)])
def test_who_is_best_goes_by_the_score(score: str, best: int) -> None:
    """The third has no figure of its loops: its speedup ranks it."""
    tree = judged(score, (4.0, 0.8), (2.0, 1.5), (3.0, None)).tree
    assert tree.best is not None
    assert tree.best.id == best
    other = tree.best_by("device" if score == "eager" else "eager")
    assert other is not None
    assert other.id == 4 - best
    assert tree.best.runtime_ms == pytest.approx(10 / {1: 4.0, 3: 3.0}[best])


def test_what_is_slower_than_the_root_in_a_loop_is_not_gone_on_from() -> None:
    """Exploiting takes the best score: of a host-bound kernel the root's is better."""
    assert judged("eager", (4.0, 0.8), (4.0, 0.9)).tree[2].parent == 0
    assert judged("device", (4.0, 0.8), (4.0, 0.9)).tree[2].parent == 1


def test_a_target_is_reached_by_the_score() -> None:
    config = config_of(score="eager", attempts=3)
    config = msgspec.structs.replace(
        config, budget=msgspec.structs.replace(config.budget, target_speedup=2.0)
    )
    world = World(config, 1, failing=0.0)
    outcomes = [verdict(1, 4.0, 1.2), verdict(2, 1.5, 2.5)]
    world._outcome = lambda: outcomes.pop(0)  # type: ignore[method-assign]
    state = world.run().state
    assert (state.stop_reason, state.attempts_ended) == ("target_speedup", 2)


def test_a_fork_by_the_other_score_ranks_what_is_there_anew() -> None:
    world = World(config_of(attempts=3, epsilon=0), 1, failing=0.0)
    outcomes = [verdict(1, 4.0, 0.8), verdict(2, 2.0, 1.5), verdict(3, 3.0, 1.1)]
    world._outcome = lambda: outcomes.pop(0)  # type: ignore[method-assign]
    world.run()
    assert world.state.tree.best is world.state.tree[1]
    forked = world.fork(len(world.bodies) - 1, config_of(score="eager", attempts=3, epsilon=0))
    assert [node.id for node in forked.state.tree.leaderboard()] == [2, 3, 1]
    assert list(forked.state.frontier.best()) == [2]
    assert replay(as_events(forked.bodies), team_of).difference is None


def test_logs_from_before_there_was_a_choice_go_by_device_time() -> None:
    world = World(config_of(attempts=2), 1, failing=0.0)
    outcomes = [verdict(1, 4.0, 0.8), verdict(2, 2.0, 1.5)]
    world._outcome = lambda: outcomes.pop(0)  # type: ignore[method-assign]
    first, *rest = world.run().bodies
    config = {**first.config, "search": {**first.config["search"]}}  # type: ignore[attr-defined]
    del config["search"]["score"]
    bodies: list[Body] = [msgspec.structs.replace(first, config=config), *rest]
    tree = fold_tree(bodies)
    assert tree.score == "device"
    assert tree.best is not None
    assert tree.best.id == 1


def test_patience_counts_from_the_last_best_by_the_score() -> None:
    """The second is slower on the device, and a new best all the same."""
    state = judged("eager", (4.0, 1.2), (2.0, 1.5), (5.0, 1.1))
    assert state.last_improvement == 2


def test_new_bests_are_by_the_score() -> None:
    world = World(config_of(score="eager", attempts=3, epsilon=0), 1, failing=0.0)
    outcomes = [verdict(1, 4.0, 1.2), verdict(2, 2.0, 1.5), verdict(3, 5.0, 1.1)]
    world._outcome = lambda: outcomes.pop(0)  # type: ignore[method-assign]
    overview = overview_of(as_events(world.run().bodies))
    best, other = overview.best, overview.best_otherwise
    assert best is not None
    assert (best.node, best.score, best.speedup, best.eager_speedup) == (2, "eager", 2.0, 1.5)
    assert best.scored == 1.5
    assert other is not None
    assert (other.node, other.score, other.scored) == (3, "device", pytest.approx(5.0))


class Timed(ScriptedEvaluator):
    """Every kernel is half as fast in a loop."""

    def __init__(self) -> None:
        super().__init__()
        self.asked: list[EvaluationRequest] = []

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        self.asked.append(request)
        found = await super().evaluate(request)
        if not isinstance(found.outcome, Correct):
            return found
        eager = found.outcome.speedup / 2
        outcome = msgspec.structs.replace(found.outcome, eager_speedup=eager)
        return msgspec.structs.replace(found, outcome=outcome)


@pytest.mark.anyio
@pytest.mark.parametrize(("score", "times"), [("device", 1), ("eager", 2)])
async def test_the_sandbox_is_told_what_to_beat_by_the_score(
    tmp_path: Path, score: str, times: int
) -> None:
    path, evaluator = tmp_path / "log.db", Timed()
    await start(path, config_of(attempts=8, score=score), ScriptedClient(), evaluator)
    bodies = check(path)
    requested = [body for body in of_type(bodies, EvaluationRequested) if body.same_as is None]
    finished = {body.attempt: body.outcome for body in of_type(bodies, EvaluationFinished)}
    with_one = 0
    for body, asked in zip(requested, evaluator.asked, strict=True):
        assert asked.score == score
        if body.incumbent is not None:
            with_one += 1
            incumbent = finished[body.incumbent]
            assert isinstance(incumbent, Correct)
            assert asked.incumbent_ms == pytest.approx(times * incumbent.runtime_ms)
    assert with_one
    assert [body.runtime_ms for body in of_type(bodies, BaselineMeasured)] == [10]
