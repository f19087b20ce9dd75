"""The shell with a real log: what it appends, what it survives."""

from __future__ import annotations

from collections import Counter
from collections.abc import Awaitable, Iterable
from pathlib import Path
from typing import Any

import anyio
import msgspec
import pytest

from agents.clients.port import CallFailed, CapabilityMissing, Reply, Request
from agents.templates import Templates, load
from engine.cli.views.draw import tree_lines
from engine.config import Budget, Config
from engine.core.state import State
from engine.loop.methods import team_of
from engine.loop.prompts import request_digest
from engine.loop.run import RunLoop
from engine.loop.start import recover, resumed, run_started
from engine.loop.texts import Texts
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    BaselineMeasured,
    Body,
    CapabilityLearned,
    DeviceQuarantined,
    EvaluationFaulted,
    PromptRendered,
    ReplyRejected,
    RunPaused,
    RunResumed,
    RunStopped,
)
from events.connect import connect_read_only
from events.envelope import Blob, Event
from events.outcomes import WrongResult
from events.reader import LogReader
from events.writer import LogWriter
from gpu_sandbox.api.evaluator import Baseline, BaselineRequest, EvaluationRequest, Verdict
from projections.run.overview import overview_of
from tests.engine.outside import TASK, ScriptedClient, ScriptedEvaluator
from tests.engine.world import config_of
from tests.replayed import replayed

pytestmark = pytest.mark.anyio


class Killed(Exception):
    """Stands for kill -9: nothing after it reaches the log."""


class DyingLog(LogWriter):
    """Takes events up to ``kill_at`` of the run, then nothing from anybody."""

    kill_at: int | None = None

    def append(self, run_id: int, body: Body, blobs: Iterable[Blob] = ()) -> Event:
        if self.kill_at is not None and self._tails[run_id].run_seq >= self.kill_at:
            raise Killed
        return super().append(run_id, body, blobs)


async def dies(work: Awaitable[State]) -> None:
    """``work`` has to end by the kill, and by nothing else."""
    killed = False
    try:
        await work
    except* Killed:
        killed = True
    assert killed


async def start(
    path: Path,
    config: Config,
    client: ScriptedClient,
    evaluator: ScriptedEvaluator,
    *,
    kill_at: int | None = None,
    given: str | None = None,
) -> State:
    async with DyingLog(path) as log:
        log.kill_at = kill_at
        run_id = log.create_run("feed")
        texts = Texts(_no_text)
        loop = _loop(log, run_id, State(team_of), texts, load(), client, evaluator)
        first, blobs = run_started(
            config=config, task_name="double.py", task_source=TASK, device={"name": "scripted"},
            canned=False, texts=texts, given=given,
        )  # fmt: skip
        return await loop.run(first, blobs)


async def go_on(
    path: Path,
    client: ScriptedClient,
    evaluator: ScriptedEvaluator,
    *,
    kill_at: int | None = None,
    attempts: int = 0,
) -> State:
    async with DyingLog(path) as log:
        log.kill_at = kill_at
        with LogReader(path) as reader:
            recovered = recover(reader, 1)
            loop = _loop(
                log, 1, recovered.state, Texts(reader.text), Templates(texts=recovered.templates),
                client, evaluator,
            )  # fmt: skip
            first = resumed({}, extra={"attempts": attempts}, unsent=recovered.unsent)
            return await loop.run(first)


def _loop(
    log: LogWriter, run_id: int, state: State, texts: Texts, templates: Templates,
    client: ScriptedClient, evaluator: ScriptedEvaluator,
) -> RunLoop:  # fmt: skip
    return RunLoop(
        log=log, run_id=run_id, uid="feed", state=state, texts=texts, templates=templates,
        clients={"fake:m": client}, evaluator=evaluator,
    )  # fmt: skip


def _no_text(sha256: str) -> str:
    raise AssertionError(f"{sha256} should still be in memory")


def check(path: Path) -> list[Body]:
    """The log is intact and replays, prompts included; its bodies."""
    events, verified, report, prompts = replayed(path)
    assert verified.problems == []
    assert report.difference is None
    assert prompts.different == []
    assert prompts.rendered == sum(isinstance(e.body, PromptRendered) for e in events)
    return [event.body for event in events]


def of_type(bodies: list[Body], type_: type[Body]) -> list[Any]:
    return [body for body in bodies if isinstance(body, type_)]


@pytest.mark.parametrize("workers", [1, 4])
async def test_a_run_uses_its_budget_and_replays(tmp_path: Path, workers: int) -> None:
    client, evaluator = ScriptedClient(), ScriptedEvaluator(together=min(workers, 2))
    state = await start(
        tmp_path / "log.db", config_of(attempts=12, workers=workers), client, evaluator
    )
    assert (state.stopped, state.attempts_ended) == ("finished", 12)
    assert evaluator.most_busy > 1 if workers > 1 else evaluator.most_busy == 1
    bodies = check(tmp_path / "log.db")
    assert len(of_type(bodies, AgentReplied)) == len(client.sent)
    assert isinstance(bodies[-1], RunStopped)


@pytest.mark.parametrize("workers", [1, 3])
async def test_killed_at_any_event_and_resumed_it_finishes_and_pays_nothing_twice(
    tmp_path: Path, workers: int
) -> None:
    config = config_of(attempts=4, workers=workers, baselines=["eager", "compile"])
    whole = await _length(tmp_path / "whole.db", config)
    for kill_at in range(1, whole - 8, 3):
        path = tmp_path / f"{kill_at}.db"
        client, evaluator = ScriptedClient(), ScriptedEvaluator()
        await dies(start(path, config, client, evaluator, kill_at=kill_at))
        # ... and once more while resuming.
        await dies(go_on(path, client, evaluator, kill_at=kill_at + 4))
        state = await go_on(path, client, evaluator)
        assert (state.stopped, state.attempts_ended) == ("finished", 4)
        bodies = check(path)
        for at, body in enumerate(bodies):
            if isinstance(body, RunResumed):
                assert sorted(body.unsent) == unsent(bodies[:at])
        replied: set[int] = set()
        for body in bodies:
            if isinstance(body, AgentCalled | PromptRendered):
                assert body.call not in replied, "an answered call was asked again"
            if isinstance(body, AgentReplied):
                assert body.call not in replied
                replied.add(body.call)


def unsent(bodies: list[Body]) -> list[int]:
    """The calls without an answer of which nothing says that the newest try was sent."""
    tries = {body.call: body.try_ for body in of_type(bodies, AgentCalled)}
    sent = {(body.call, body.try_) for body in of_type(bodies, PromptRendered)}
    ended = {body.call for body in of_type(bodies, AgentReplied)}
    ended |= {b.call for b in of_type(bodies, AgentFailed) if tries[b.call] == b.try_}
    return [call for call, try_ in tries.items() if call not in ended and (call, try_) not in sent]


async def _length(path: Path, config: Config) -> int:
    await start(path, config, ScriptedClient(), ScriptedEvaluator())
    return len(check(path))


async def test_other_baselines_are_measured_beside_the_search(tmp_path: Path) -> None:
    path, client, evaluator = tmp_path / "log.db", ScriptedClient(), ScriptedEvaluator()
    config = config_of(attempts=3, baselines=["compile", "max-autotune"])
    await start(path, config, client, evaluator)
    bodies = check(path)
    assert [b.baseline for b in of_type(bodies, BaselineMeasured)] == ["eager", "compile"]
    assert isinstance(bodies[-1], RunStopped), "one that the sandbox failed at holds nothing up"
    with LogReader(path) as reader:
        best = overview_of(reader.events(1)).best
    assert best is not None
    assert best.speedups == {"eager": best.speedup, "compile": best.speedup / 2}

    await go_on(path, client, evaluator, attempts=1)
    # (Which of two is asked for first is the event loop's choice.)
    asked = Counter(evaluator.baselines)
    assert asked == {"eager": 1, "compile": 1, "max-autotune": 2}
    last = of_type(check(path), BaselineMeasured)[-1]
    assert (last.baseline, last.runtime_ms, last.cached) == ("max-autotune", 5.0, True)


class OnABusyMachine(ScriptedEvaluator):
    async def baseline(self, request: BaselineRequest) -> Baseline:
        measured = await super().baseline(request)
        return msgspec.structs.replace(
            measured, labels=["busy-machine"], measured_at="2026-11-22T10:00:00Z"
        )


async def test_a_baseline_of_a_busy_machine_is_named_as_one(tmp_path: Path) -> None:
    path, client = tmp_path / "log.db", ScriptedClient()
    await start(path, config_of(attempts=3), client, OnABusyMachine())
    (measured,) = of_type(check(path), BaselineMeasured)
    assert (measured.labels, measured.measured_at) == (["busy-machine"], "2026-11-22T10:00:00Z")
    prompts = ["\n".join(part.text for part in request.parts) for request in client.sent]
    assert prompts
    assert all("it takes 10 ms, timed on a busy machine" in prompt for prompt in prompts)
    with LogReader(path) as reader:
        overview = overview_of(reader.events(1))
        connection = connect_read_only(path, views=True)
        (row,) = connection.execute("SELECT labels, measured_at FROM baselines").fetchall()
        (root,) = connection.execute("SELECT labels FROM nodes WHERE node = 0").fetchall()
        connection.close()
    assert (tuple(row), tuple(root)) == (
        ("busy-machine", "2026-11-22T10:00:00Z"), ("busy-machine",)
    )  # fmt: skip
    assert next(tree_lines(overview)).startswith("0 reference  10 ms eager  [busy-machine]")


async def test_resume_with_more_attempts(tmp_path: Path) -> None:
    path, client, evaluator = tmp_path / "log.db", ScriptedClient(), ScriptedEvaluator()
    await start(path, config_of(attempts=2), client, evaluator)
    state = await go_on(path, client, evaluator, attempts=3)
    assert state.attempts_ended == 5
    check(path)


async def test_failed_calls_are_retried_as_logged_decisions(tmp_path: Path) -> None:
    client = ScriptedClient(fail=Counter(plan=2, code=1))
    await start(
        tmp_path / "log.db", config_of(attempts=2, retry_wait_ms=1), client, ScriptedEvaluator()
    )
    bodies = check(tmp_path / "log.db")
    assert len(of_type(bodies, AgentFailed)) == 3
    assert [b.try_ for b in of_type(bodies, AgentCalled) if b.call == 1] == [1, 2, 3]
    assert all(b.wait_ms >= 1 for b in of_type(bodies, AgentCalled) if b.try_ > 1)


async def test_an_outage_pauses_the_run_and_costs_no_attempt(tmp_path: Path) -> None:
    path, evaluator = tmp_path / "log.db", ScriptedEvaluator()
    client = ScriptedClient(fail=Counter(code=3))
    config = config_of(attempts=3, retry_wait_ms=1, call_tries=3)
    state = await start(path, config, client, evaluator)
    assert state.paused is not None
    assert "busy" in state.paused
    assert len(of_type(check(path), RunPaused)) == 1
    state = await go_on(path, client, evaluator)
    assert (state.stopped, state.attempts_ended) == ("finished", 3)
    assert len(evaluator.judged) == 3
    check(path)


async def test_an_unusable_reply_is_asked_again_then_abandoned(tmp_path: Path) -> None:
    path, client = tmp_path / "log.db", ScriptedClient(unusable=3)
    await start(path, config_of(attempts=2, reasks=2), client, ScriptedEvaluator())
    bodies = check(path)
    assert len(of_type(bodies, ReplyRejected)) == 3
    assert [b.attempt for b in of_type(bodies, AttemptAbandoned)] == [1]
    # The second asking says why the first was no use.
    assert client.sent[0].ask == 0
    assert client.sent[1].ask == 1
    assert client.sent[1].parts[-1].name == "reask"


async def test_sandbox_faults_are_retried_and_then_pause(tmp_path: Path) -> None:
    path, client = tmp_path / "log.db", ScriptedClient()
    state = await start(path, config_of(attempts=2), client, ScriptedEvaluator(faults=2))
    assert state.attempts_ended == 2
    other = tmp_path / "other.db"
    state = await start(other, config_of(attempts=2), client, ScriptedEvaluator(faults=3))
    assert state.paused == "the sandbox fails again and again"
    state = await go_on(other, client, ScriptedEvaluator())
    assert state.attempts_ended == 2
    check(other)


@pytest.mark.parametrize(
    "odd", [RecursionError("too\ndeep"), ExceptionGroup("g", [OSError(28, "full")])]
)
async def test_what_nobody_foresaw_is_a_fault_that_says_what_and_where(
    tmp_path: Path, odd: Exception
) -> None:
    path, client = tmp_path / "log.db", ScriptedClient()
    state = await start(path, config_of(attempts=2), client, ScriptedEvaluator(faults=3, odd=odd))
    assert state.paused == "the sandbox fails again and again"
    told = [fault.message for fault in of_type(check(path), EvaluationFaulted)]
    assert len(told) == 3
    alone = isinstance(odd, RecursionError)
    what = "RecursionError: too deep" if alone else "OSError: [Errno 28] full"
    assert all(line.startswith(f"unexpected {what} (at ") for line in told)
    assert all("engine/outside.py:" in line for line in told)
    state = await go_on(path, client, ScriptedEvaluator(faults=1, odd=odd))
    assert state.attempts_ended == 2
    check(path)


async def test_a_baseline_that_nobody_foresaw_failing_is_tried_again(tmp_path: Path) -> None:
    class Odd(ScriptedEvaluator):
        async def baseline(self, request: BaselineRequest) -> Baseline:
            found = await super().baseline(request)
            if len(self.baselines) <= self.faults:
                raise KeyError("uuid")
            return found

    path, client = tmp_path / "log.db", ScriptedClient()
    state = await start(path, config_of(attempts=1), client, Odd(faults=3))
    assert state.paused
    assert state.paused.startswith(
        "the baseline can't be measured: unexpected KeyError: 'uuid' (at "
    )
    state = await go_on(path, client, ScriptedEvaluator())
    assert state.attempts_ended == 1
    check(path)


async def test_without_a_device_the_run_pauses_at_once_and_says_why(tmp_path: Path) -> None:
    path, client = tmp_path / "log.db", ScriptedClient()
    state = await start(path, config_of(attempts=2), client, ScriptedEvaluator(lost="it burns"))
    assert state.paused == "no device is left: cpu: it burns"
    bodies = check(path)
    assert [(q.device, q.reason) for q in of_type(bodies, DeviceQuarantined)] == [
        ("cpu", "it burns")
    ]
    assert len(of_type(bodies, EvaluationFaulted)) == 1
    with LogReader(path) as reader:
        overview = overview_of(reader.events(1))
    assert overview.summary(run="", log="").quarantined == {"cpu": "it burns"}
    state = await go_on(path, client, ScriptedEvaluator())
    assert state.attempts_ended == 2
    check(path)


async def test_stop_request_ends_at_once_and_resumes(tmp_path: Path) -> None:
    path, client, evaluator = tmp_path / "log.db", ScriptedClient(), ScriptedEvaluator()
    async with LogWriter(path) as log:
        run_id = log.create_run("feed")
        texts = Texts(_no_text)
        loop = _loop(log, run_id, State(team_of), texts, load(), client, evaluator)

        def stop(event: Event, state: State) -> None:
            if state.attempts_ended == 2 and not state.over and not loop.stop_requested:
                task_group.start_soon(_stop, loop)

        loop.observe(stop)
        first, blobs = run_started(
            config=config_of(attempts=50, workers=2), task_name="double.py", task_source=TASK,
            device={}, canned=False, texts=texts,
        )  # fmt: skip
        async with anyio.create_task_group() as task_group:
            state = await loop.run(first, blobs)
    assert state.stopped == "interrupted"
    with LogReader(path) as reader:
        assert overview_of(reader.events(1)).status == "interrupted"
    state = await go_on(path, client, evaluator)
    assert state.attempts_ended == 50
    check(path)


async def _stop(loop: RunLoop) -> None:
    loop.request_stop("SIGINT")


async def test_windows_reach_the_prompt_in_order(tmp_path: Path) -> None:
    client = ScriptedClient()
    await start(tmp_path / "log.db", config_of(attempts=10), client, ScriptedEvaluator())
    called = of_type(check(tmp_path / "log.db"), AgentCalled)
    for body, request in zip(called, client.sent, strict=True):
        shown = [int(p.name.split()[1]) for p in request.parts if p.name.startswith("attempt ")]
        node = body.window[0]
        assert shown == [other for other in body.window if other not in (node, 0)]


class Spy(ScriptedClient):
    """Looks into the log, with a reader of its own, at the moment a request is sent."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.path = path
        self.committed: list[bool] = []

    async def send(self, request: Request) -> Reply:
        with LogReader(self.path) as reader:
            newest = [e.body for e in reader.events(1) if isinstance(e.body, PromptRendered)]
        digest = request_digest(request)
        self.committed.append(any(body.request_sha256 == digest for body in newest))
        return await super().send(request)


async def test_a_request_is_on_disk_before_it_is_sent(tmp_path: Path) -> None:
    client = Spy(tmp_path / "log.db")
    await start(client.path, config_of(attempts=3), client, ScriptedEvaluator())
    assert client.committed
    assert all(client.committed)


class Stuck(ScriptedEvaluator):
    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        await anyio.sleep(600)
        raise AssertionError("nobody waited for this")


async def test_a_stop_does_not_wait_for_what_is_in_flight(tmp_path: Path) -> None:
    async with LogWriter(tmp_path / "log.db") as log:
        run_id = log.create_run("feed")
        texts = Texts(_no_text)
        loop = _loop(log, run_id, State(team_of), texts, load(), ScriptedClient(), Stuck())
        first, blobs = run_started(
            config=config_of(attempts=5, workers=2), task_name="double.py", task_source=TASK,
            device={}, canned=False, texts=texts,
        )  # fmt: skip

        def stop(event: Event, state: State) -> None:
            if event.type == "EvaluationRequested" and not loop.stop_requested:
                task_group.start_soon(_stop, loop)

        loop.observe(stop)
        with anyio.fail_after(5):
            async with anyio.create_task_group() as task_group:
                state = await loop.run(first, blobs)
    assert state.stopped == "interrupted"


async def test_the_wall_clock_budget_ends_the_run(tmp_path: Path) -> None:
    config = msgspec.structs.replace(
        config_of(attempts=1_000_000, root_throttle=None),
        budget=Budget(attempts=1_000_000, wall_s=0.3),
    )
    state = await start(tmp_path / "log.db", config, ScriptedClient(), ScriptedEvaluator())
    assert (state.stopped, state.stop_reason) == ("exhausted", "wall")
    check(tmp_path / "log.db")


class Picky(ScriptedClient):
    """Refuses ``temperature`` until it is left out; with ``stubborn``, even then."""

    def __init__(self, *, stubborn: bool = False) -> None:
        super().__init__()
        self.stubborn = stubborn

    async def send(self, request: Request) -> Reply:
        if self.stubborn or "temperature" not in request.refused:
            raise CapabilityMissing("temperature", "no temperature\udc80 here")
        return await super().send(request)


async def test_a_refused_parameter_is_left_out_from_then_on(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    state = await start(path, config_of(attempts=3), Picky(), ScriptedEvaluator())
    assert state.attempts_ended == 3
    bodies = check(path)
    assert len(of_type(bodies, CapabilityLearned)) == 1
    stubborn = await start(
        tmp_path / "b.db", config_of(attempts=3), Picky(stubborn=True), ScriptedEvaluator()
    )
    assert stubborn.paused is not None
    assert len(of_type(check(tmp_path / "b.db"), AgentFailed)) == 2


class Odd(ScriptedEvaluator):
    """A verdict that JSON can't hold."""

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        verdict = await super().evaluate(request)
        return msgspec.structs.replace(
            verdict, outcome=WrongResult(reason="nan\udc80", max_abs_error=float("nan"))
        )


async def test_a_verdict_that_cannot_be_logged_is_a_fault_of_the_sandbox(tmp_path: Path) -> None:
    path = tmp_path / "log.db"
    state = await start(path, config_of(attempts=2), ScriptedClient(), Odd())
    assert state.paused == "the sandbox fails again and again"
    assert (await go_on(path, ScriptedClient(), ScriptedEvaluator())).attempts_ended == 2
    check(path)


async def test_a_provider_that_wants_an_hour_pauses_the_run(tmp_path: Path) -> None:
    class Busy(ScriptedClient):
        async def send(self, request: Request) -> Reply:
            raise CallFailed("rate_limited", "later", retryable=True, retry_after_s=float("inf"))

    state = await start(tmp_path / "log.db", config_of(), Busy(), ScriptedEvaluator())
    assert state.paused is not None
    assert "later" in state.paused
