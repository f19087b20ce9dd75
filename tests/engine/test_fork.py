"""Forks: at any event, of any run, killed anywhere, with other settings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.clients.port import Client
from agents.templates import Templates
from engine.config import Config
from engine.core.state import State
from engine.loop.run import RunLoop
from engine.loop.start import forked, recover, resumed
from engine.loop.texts import Texts
from events.bodies import (
    AgentCalled,
    AgentReplied,
    Body,
    BudgetExhausted,
    EvaluationFinished,
    NodeSelected,
    RunForked,
    RunStopped,
    Usage,
)
from events.envelope import Event
from events.outcomes import Correct, Label, Refused
from events.reader import LogReader
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.evaluate.labels import accepted
from projections.run.overview import overview_of
from replay.recorded import out_of_log
from replay.verify import replay
from tests.engine.outside import ScriptedClient, ScriptedEvaluator
from tests.engine.test_loop import DyingLog, dies, start
from tests.engine.world import World, as_events, config_of, team_of
from tests.replayed import replayed
from tests.thorough import examples

pytestmark = pytest.mark.anyio


async def fork(
    path: Path,
    parent: int,
    at: int,
    clients: Mapping[str, Client],
    *,
    config: Config | None = None,
    recorded: bool = False,
    evaluator: ScriptedEvaluator | None = None,
    kill_at: int | None = None,
) -> State:
    """Fork the run at event ``at``; the file's newest run is the fork. With an ``evaluator``,
    verdicts are recorded ones, too."""
    async with DyingLog(path) as log:
        log.kill_at = kill_at
        with LogReader(path) as reader:
            found = recover(reader, parent, upto=at)
            shared = list(reader.events(parent, upto=at))
            texts = Texts(reader.text)
            clients, verdicts = out_of_log(
                reader, clients, parent=parent, run=parent, upto=at,
                replies="recorded" if recorded else "live",
                evaluations="recorded" if evaluator else "anew",
            )  # fmt: skip
            first = forked(
                found.state, {}, parent=reader.find_run(str(parent)).uid, at=at,
                config=config or found.state.config, changed={},
                replies="recorded" if recorded else "live",
                evaluations="recorded" if evaluator else "anew", canned=False,
            )  # fmt: skip
            uid = f"fork {len(reader.runs())}"
            loop = RunLoop(
                log=log, run_id=log.fork(parent, shared[-1], uid), uid=uid, state=found.state,
                texts=texts,
                templates=Templates(texts=found.templates), clients=clients,
                evaluator=evaluator or ScriptedEvaluator(),
                recorded=verdicts,
            )  # fmt: skip
            return await loop.run(first)


async def resume(path: Path, run: int, parent: int, client: ScriptedClient) -> State:
    """Go on with a fork that takes recorded replies."""
    async with DyingLog(path) as log:
        with LogReader(path) as reader:
            found, texts = recover(reader, run), Texts(reader.text)
            clients, _ = out_of_log(
                reader, {"fake:m": client}, parent=parent, run=run, replies="recorded",
                evaluations="anew",
            )  # fmt: skip
            loop = RunLoop(
                log=log, run_id=run, uid="fork", state=found.state, texts=texts,
                templates=Templates(texts=found.templates), clients=clients,
                evaluator=ScriptedEvaluator(),
            )  # fmt: skip
            return await loop.run(resumed({}))


def check(path: Path, run: int, *, shares: int) -> list[Event]:
    """The file is intact, the run replays with its prompts and is gapless; its events."""
    events, verified, report, prompts = replayed(path, run)
    assert verified.problems == []
    assert report.difference is None
    assert prompts.different == []
    assert [event.run_seq for event in events] == list(range(1, len(events) + 1))
    assert all(event.run_id == run for event in events[shares:])
    assert not any(event.run_id == run for event in events[:shares])
    assert isinstance(events[shares].body, RunForked)
    return events


def decided(events: list[Event]) -> list[Body]:
    """What a run decided: its selections without the state's digest, each call once."""
    found: list[Body] = []
    for event in events:
        body = event.body
        if isinstance(body, NodeSelected):
            body = msgspec.structs.replace(body, state_digest="")
        if event.kind == "decision" and getattr(body, "try_", 1) == 1:
            found.append(body)
    return found


@pytest.fixture
async def whole(tmp_path: Path) -> Path:
    """A finished run of four attempts, one after the other."""
    path = tmp_path / "log.db"
    await start(path, config_of(attempts=4), ScriptedClient(), ScriptedEvaluator())
    return path


async def test_a_fork_that_changes_nothing_decides_the_same_and_asks_nobody(whole: Path) -> None:
    with LogReader(whole) as reader:
        parent = list(reader.events(1))
    ending = next(e.run_seq for e in parent if isinstance(e.body, BudgetExhausted))
    for run, at in enumerate(range(1, ending, 2), 2):
        client, evaluator = ScriptedClient(), ScriptedEvaluator()
        verdicts = evaluator if run % 2 else None
        state = await fork(
            whole, 1, at, {"fake:m": client}, recorded=True, evaluator=verdicts
        )  # fmt: skip
        assert (state.stopped, state.attempts_ended) == ("finished", 4)
        assert client.sent == evaluator.judged == []
        with LogReader(whole) as reader:
            events = list(reader.events(run))
        assert events[:at] == parent[:at]
        assert decided(events) == decided(parent)
        reused = [e.body.reused for e in events[at:] if isinstance(e.body, AgentReplied)]
        replies = [e.run_seq for e in parent if isinstance(e.body, AgentReplied)]
        assert reused == [seq for seq in replies if seq > at]
        taken = [e.body.reused for e in events[at:] if isinstance(e.body, EvaluationFinished)]
        given = [e.run_seq for e in parent if isinstance(e.body, EvaluationFinished)]
        wanted = [seq for seq in given if seq > at]
        assert taken == (wanted if verdicts else [None] * len(wanted))
    check(whole, run, shares=at)
    with LogReader(whole) as reader:
        assert list(reader.events(1)) == parent


@pytest.mark.parametrize("workers", [1, 3])
async def test_forks_at_any_event_killed_and_resumed(tmp_path: Path, workers: int) -> None:
    path = tmp_path / "log.db"
    await start(path, config_of(attempts=4, workers=workers), ScriptedClient(), ScriptedEvaluator())
    with LogReader(path) as reader:
        length = sum(1 for _ in reader.events(1))
    run = 1
    for at in range(2, length - 12, 6):
        client, run = ScriptedClient(), run + 1
        config = config_of(attempts=5, workers=workers, epsilon=0.8)
        await dies(
            fork(path, 1, at, {"fake:m": client}, config=config, recorded=True, kill_at=at + 7)
        )
        state = await resume(path, run, 1, client)
        assert (state.stopped, state.attempts_ended) == ("finished", 5)
        events = check(path, run, shares=at)
        bodies = [event.body for event in events]
        replies = [body for body in bodies if isinstance(body, AgentReplied)]
        assert len({body.call for body in replies}) == len(replies), "one answer a call"
        reused = [body for body in replies if body.reused is not None]
        assert len({body.reused for body in reused}) == len(reused), "each recorded reply once"
        assert all(body.usage == Usage() for body in reused)
        before = sum(isinstance(body, AgentReplied) for body in bodies[:at])
        assert len(replies) - before - len(reused) <= len(client.sent)


async def test_a_killed_fork_is_there_with_its_first_event_or_not_at_all(whole: Path) -> None:
    client = {"fake:m": ScriptedClient()}
    await dies(fork(whole, 1, 9, client, kill_at=9))
    with LogReader(whole) as reader:
        assert len(reader.runs()) == 1
    await dies(fork(whole, 1, 9, client, kill_at=10))
    with LogReader(whole) as reader:
        assert [run.parent_seq for run in reader.runs()] == [None, 9]
        assert [event.run_seq for event in reader.events(2, after=8)] == [9, 10]


class Labelling(ScriptedEvaluator):
    """What is right falls back, and is refused where the request says so."""

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        verdict = await super().evaluate(request)
        if isinstance(verdict.outcome, Correct):
            right = msgspec.structs.replace(verdict.outcome, labels=["fallback"])
            verdict = msgspec.structs.replace(
                verdict, outcome=accepted(right, verdict.notes, request.refuse)
            )
        return verdict


def refusing(config: Config, *labels: Label) -> Config:
    sandbox = msgspec.structs.replace(config.sandbox, refuse=list(labels))
    return msgspec.structs.replace(config, sandbox=sandbox)


async def test_recorded_verdicts_are_held_against_what_the_fork_refuses(tmp_path: Path) -> None:
    """Both ways: a right one may be refused now, and a refused one has to be judged."""
    taken, strict = config_of(attempts=1), refusing(config_of(attempts=1), "fallback")
    for name, before, now in (("a", taken, strict), ("b", strict, taken), ("c", strict, strict)):
        path, evaluator = tmp_path / f"{name}.db", Labelling()
        await start(path, before, ScriptedClient(), Labelling())
        client = {"fake:m": ScriptedClient()}
        await fork(path, 1, 3, client, config=now, recorded=True, evaluator=evaluator)
        with LogReader(path) as reader:
            given, found = (
                next(e.body for e in reader.events(run) if isinstance(e.body, EvaluationFinished))
                for run in (1, 2)
            )
        assert isinstance(given.outcome, Refused) == (before is strict)
        assert isinstance(found.outcome, Refused) == (now is strict)
        assert (found.reused is None) == (name == "b") == bool(evaluator.judged)
        check(path, 2, shares=3)


async def test_another_model_gets_what_was_in_flight_at_the_fork(whole: Path) -> None:
    with LogReader(whole) as reader:
        called = next(e for e in reader.events(1) if isinstance(e.body, AgentCalled))
    client = ScriptedClient()
    config = msgspec.structs.replace(config_of(attempts=2), model="other:m")
    state = await fork(whole, 1, called.run_seq, {"other:m": client}, config=config)
    assert state.stopped == "finished"
    events = check(whole, 2, shares=called.run_seq)
    again = [e.body for e in events[called.run_seq :] if isinstance(e.body, AgentCalled)]
    assert {body.model for body in again} == {"other:m"}
    assert (again[0].role, again[0].call, again[0].try_) == ("plan", 2, 1)


async def test_what_was_due_at_the_fork_is_decided_under_its_own_settings(whole: Path) -> None:
    """The selection of attempt 3 was due; with leaf exploration always on it is explored."""
    with LogReader(whole) as reader:
        events = list(reader.events(1))
    selected = next(e for e in events if isinstance(e.body, NodeSelected) and e.body.attempt == 3)
    at = selected.run_seq - 1
    for epsilon, rule in ((1.0, "explore"), (0.0, "exploit")):
        config = config_of(attempts=3, epsilon=epsilon)
        await fork(whole, 1, at, {"fake:m": ScriptedClient()}, config=config)
        with LogReader(whole) as reader:
            fork_run = reader.runs()[-1].run_id
        events = check(whole, fork_run, shares=at)
        first = next(e.body for e in events[at:] if isinstance(e.body, NodeSelected))
        assert (first.attempt, first.rule) == (3, rule)


async def test_a_fork_of_a_fork_and_a_smaller_budget(whole: Path) -> None:
    client = {"fake:m": ScriptedClient()}
    await fork(whole, 1, 20, client, config=config_of(attempts=6))
    await fork(whole, 2, 30, client, recorded=True)
    events = check(whole, 3, shares=30)
    assert [e.run_id for e in events] == [1] * 20 + [2] * 10 + [3] * (len(events) - 30)
    await fork(whole, 3, 12, client)  # before it was one: the events are run 1's
    check(whole, 4, shares=12)
    with LogReader(whole) as reader:
        assert reader.lineage(3) == [(1, 20), (2, 30), (3, 2**62)]
        found = overview_of(reader.events(3))
        assert reader.newest_seq(run_id=4, before=10**9) == 0
        own = len(list(reader.events(4))) - 12
        since = reader.since(reader.newest_seq(run_id=4, before=own + 2), run_id=4)
    assert [e.run_seq for e in since] == list(range(11, 13 + own))
    assert found.fork is not None
    assert (found.fork.at, found.attempts_allowed) == (30, 6)
    await fork(whole, 1, len(list(_events(whole, 1))), client, config=config_of(attempts=4))
    ended = list(_events(whole, 5))[-2:]
    assert [type(event.body) for event in ended] == [BudgetExhausted, RunStopped]


@settings(max_examples=examples(200), deadline=None)
@given(st.integers(0, 10**6), st.data())
def test_any_moment_of_any_search_forks_into_any_other(chance: int, data: st.DataObject) -> None:
    """Whatever was in flight, due, failing or paused: the fork settles it, and replays."""
    workers = st.sampled_from([1, 2, 4])
    told = config_of(attempts=6, workers=data.draw(workers), call_tries=2)
    world = World(told, chance, trouble=0.3).run()
    at = data.draw(st.integers(1, len(world.bodies)))
    config = config_of(
        attempts=data.draw(st.integers(1, 9)), workers=data.draw(workers), call_tries=2,
        policy=data.draw(st.sampled_from(["stark", "best_of_k"])), epsilon=0.6,
        windows=data.draw(st.booleans()), root_throttle=data.draw(st.sampled_from([None, 1, 5])),
        seed=data.draw(st.integers(0, 3)),
    )  # fmt: skip
    config = msgspec.structs.replace(
        config, model=data.draw(st.sampled_from(["fake:m", "other:m"]))
    )
    fork = world.fork(at, config).run()
    assert replay(as_events(fork.bodies), team_of).difference is None
    assert fork.state.stopped
    assert fork.state.attempts == {}
    began = sum(isinstance(body, NodeSelected) for body in fork.bodies[:at])
    assert fork.state.attempts_ended <= max(began, config.budget.attempts)
    asked = [b for b in fork.bodies[at:] if isinstance(b, AgentCalled)]
    assert {body.model for body in asked} <= {config.model}
    answers = [b.call for b in fork.bodies if isinstance(b, AgentReplied)]
    assert len(answers) == len(set(answers)), "one answer a call"


def _events(path: Path, run: int) -> Any:
    with LogReader(path) as reader:
        yield from reader.events(run)
