"""A source that was judged before is recognised, gets that verdict, and is not judged again."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.clients.port import Request
from agents.replies.normal_form import source_key
from events.bodies import EvaluationFinished, PromptRendered, RunForked
from events.bodies import EvaluationRequested as Requested
from events.reader import LogReader
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from projections.run.overview import overview_of
from replay.verify import replay
from tests.engine.outside import ScriptedClient, ScriptedEvaluator
from tests.engine.test_loop import check, dies, go_on, of_type, start
from tests.engine.world import World, as_events, config_of, team_of
from tests.thorough import examples


class Repetitive(ScriptedClient):
    """Three kernels over and over, each time with another comment."""

    def _candidate(self, request: Request) -> str:
        number = len(self.sent) % 3
        kind = ("ok", "wrong", "ok")[number]
        return (
            f'""" {kind} {number} """\nimport torch  # {len(self.sent)}\n\n\n'
            "class ModelNew(torch.nn.Module):\n    def forward(self, x):\n        return 2 * x\n"
        )


@pytest.mark.anyio
@pytest.mark.parametrize("workers", [1, 4])
async def test_each_source_is_judged_once(tmp_path: Path, workers: int) -> None:
    path, client, evaluator = tmp_path / "log.db", Repetitive(), ScriptedEvaluator()
    state = await start(path, config_of(attempts=12, workers=workers), client, evaluator)
    assert (state.stopped, state.attempts_ended) == ("finished", 12)
    assert len(evaluator.judged) == len({source_key(source) for source in evaluator.judged}) <= 3
    bodies = check(path)
    with LogReader(path) as reader:
        overview = overview_of(reader.events(1))
    assert overview.summary(run="", log="").duplicates == 12 - len(evaluator.judged)
    for node in list(overview.tree.nodes.values())[1:]:
        if node.same_as is not None:
            original = overview.tree[node.same_as]
            assert (original.same_as, original.source_key) == (None, node.source_key)
            assert (original.outcome, original.compile_log_sha256) == (
                node.outcome, node.compile_log_sha256,
            )  # fmt: skip
            assert overview.evaluations[node.id].timings_s == {}
    requested = of_type(bodies, Requested)
    finished = {body.attempt: body.same_as for body in of_type(bodies, EvaluationFinished)}
    assert {body.attempt: body.same_as for body in requested} == finished


@pytest.mark.anyio
async def test_agents_are_told_of_a_duplicate_where_it_is_shown(tmp_path: Path) -> None:
    client = Repetitive()
    state = await start(
        tmp_path / "log.db", config_of(attempts=8, epsilon=0), client, ScriptedEvaluator()
    )
    check(tmp_path / "log.db")
    duplicates = {node.id: node.same_as for node in state.tree.nodes.values() if node.same_as}
    told = 0
    for request in client.sent:
        for part in request.parts:
            shown = [n for n in duplicates if part.name == f"attempt {n}"]
            says = "This is the same source as attempt" in part.text
            if part.name != "selected":
                assert says == bool(shown)
            if shown:
                told += 1
                assert f"the same source as attempt {duplicates[shown[0]]}," in part.text
    assert told


@pytest.mark.anyio
async def test_killed_anywhere_it_goes_on(tmp_path: Path) -> None:
    config = config_of(attempts=6, workers=3)
    await start(tmp_path / "whole.db", config, Repetitive(), ScriptedEvaluator())
    for kill_at in range(12, len(check(tmp_path / "whole.db")) - 8, 17):
        path, client, evaluator = tmp_path / f"{kill_at}.db", Repetitive(), ScriptedEvaluator()
        await dies(start(path, config, client, evaluator, kill_at=kill_at))
        assert (await go_on(path, client, evaluator)).attempts_ended == 6
        duplicates = [body for body in of_type(check(path), EvaluationFinished) if body.same_as]
        assert len(duplicates) >= 3


@pytest.mark.anyio
async def test_who_waits_for_a_verdict_that_does_not_come_holds_no_pause_up(
    tmp_path: Path,
) -> None:
    path = tmp_path / "log.db"
    config = config_of(attempts=8, workers=4)
    state = await start(path, config, Repetitive(), ScriptedEvaluator(lost="it burns"))
    assert state.paused == "no device is left: cpu: it burns"
    assert any(state.original(attempt) in state.attempts for attempt in state.attempts)
    state = await go_on(path, Repetitive(), ScriptedEvaluator())
    assert state.attempts_ended == 8
    check(path)


@pytest.mark.anyio
async def test_switched_off_everything_is_judged(tmp_path: Path) -> None:
    evaluator = ScriptedEvaluator()
    config = config_of(attempts=6, deduplicate=False)
    await start(tmp_path / "log.db", config, Repetitive(), evaluator)
    assert len(evaluator.judged) == 6
    bodies = check(tmp_path / "log.db")
    assert all(body.same_as is None for body in of_type(bodies, EvaluationFinished))
    assert of_type(bodies, PromptRendered)


class Keeping(ScriptedEvaluator):
    """Says of each verdict that it was kept, if that will do."""

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        verdict = await super().evaluate(request)
        return msgspec.structs.replace(verdict, cached=request.reuse)


@pytest.mark.anyio
@pytest.mark.parametrize("cache", [False, True])
async def test_a_kept_verdict_is_told_apart(tmp_path: Path, cache: bool) -> None:
    config = config_of(attempts=2)
    sandbox = msgspec.structs.replace(config.sandbox, cache_verdicts=cache)
    config = msgspec.structs.replace(config, sandbox=sandbox)
    await start(tmp_path / "log.db", config, ScriptedClient(), Keeping())
    bodies = check(tmp_path / "log.db")
    assert [body.cached for body in of_type(bodies, EvaluationFinished)] == [cache] * 2
    with LogReader(tmp_path / "log.db") as reader:
        summary = overview_of(reader.events(1)).summary(run="", log="")
    assert summary.cached_verdicts == 2 * cache
    assert (summary.pool is None) == cache


@settings(max_examples=examples(40))
@given(st.integers(0, 2**30), st.sampled_from([1, 3, 8]), st.sampled_from([0.0, 0.2]))
def test_whatever_happens_a_verdict_is_taken_from_a_judged_twin(
    chance: int, workers: int, trouble: float
) -> None:
    world = World(config_of(attempts=15, workers=workers), chance, trouble=trouble).run()
    keys = {node.id: node.source_key for node in world.state.tree.nodes.values()}
    judged: dict[str | None, int] = {}
    ended = set()
    for body in world.bodies:
        if isinstance(body, Requested):
            if body.same_as is None:
                # Asked for again after a fault, it is still the first.
                assert judged.setdefault(keys[body.attempt], body.attempt) == body.attempt
            else:
                assert body.same_as in ended
                assert judged[keys[body.attempt]] == body.same_as
        elif isinstance(body, EvaluationFinished):
            ended.add(body.attempt)
    assert replay(as_events(world.bodies), team_of).difference is None


def test_a_fork_with_other_limits_judges_again() -> None:
    config = config_of(attempts=20)
    parent = World(config, 3).run()
    at = next(
        number for number, body in enumerate(parent.bodies)
        if isinstance(body, EvaluationFinished) and body.attempt == 10
    )  # fmt: skip
    same = parent.fork(at, config).run()
    assert set(same.state.verdicts) & set(range(1, 10))
    patient = config_of(attempts=20, baselines=["eager", "compile"])
    other = parent.fork(at, patient)
    (forked,) = [body for body in other.bodies if isinstance(body, RunForked)]
    assert forked.config["sandbox"] != parent.state.started.config["sandbox"]  # type: ignore[union-attr]
    assert other.state.first_with == {}
