"""What the user tells a run steers it, whoever appends it, and replays."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.clients.port import Reply, Request
from agents.templates import Templates, load
from engine.core.policies import POLICIES
from engine.core.state import State
from engine.loop.run import RunLoop
from engine.loop.start import recover, resumed, run_started
from engine.loop.steering import Answer, apply_offline, listen, send_command
from engine.loop.steering_commands import SteeringCommand
from engine.loop.texts import Texts
from events.bodies import (
    AgentCalled,
    Body,
    HintGiven,
    HintWithdrawn,
    NodeBanned,
    NodePinned,
    NodeSelected,
    NodeUnbanned,
    NodeUnpinned,
    RunStopped,
    StopRequested,
)
from events.envelope import Event
from events.reader import LogReader
from events.writer import LogWriter
from projections.run.overview import overview_of
from replay.verify import replay
from tests.engine.outside import TASK, ScriptedClient, ScriptedEvaluator
from tests.engine.world import World, as_events, config_of, team_of
from tests.replayed import replayed
from tests.thorough import examples

configs = st.builds(
    config_of,
    attempts=st.integers(1, 30),
    workers=st.sampled_from([1, 2, 4]),
    policy=st.sampled_from(list(POLICIES)),
    team=st.sampled_from(["plan_code_debug", "single"]),
    population=st.integers(1, 4),
)
nodes = st.integers(0, 6)
steps = st.lists(
    st.tuples(
        st.integers(1, 8),
        st.one_of(
            st.builds(NodeBanned, node=nodes),
            st.builds(NodeUnbanned, node=nodes),
            st.builds(NodePinned, node=nodes),
            st.just(NodeUnpinned(node=0)),
            st.builds(HintGiven, hint=st.integers(1, 3), text_sha256=st.just("2" * 64)),
            st.builds(HintWithdrawn, hint=st.integers(1, 3)),
        ),
    ),
    max_size=12,
)


@given(configs, steps, st.integers(0, 2**31), st.sampled_from([0.0, 0.2]))
@settings(max_examples=examples(60), deadline=None)
def test_a_steered_run_keeps_to_it_ends_and_replays(
    config: Any, steps: list[tuple[int, Body]], chance: int, trouble: float
) -> None:
    world = World(config, chance, trouble=trouble)
    for wait, body in steps:
        for _ in range(wait):
            world.step()
        world.feed(body)
    world.run()
    assert world.state.stopped in ("finished", "exhausted")
    assert any(isinstance(body, RunStopped) for body in world.bodies)
    banned: set[int] = set()
    pinned, hints = None, set[int]()
    for body in world.bodies:
        match body:
            case NodeBanned():
                banned.add(body.node)
            case NodeUnbanned():
                banned.discard(body.node)
            case NodePinned():
                pinned = body.node
            case NodeUnpinned():
                pinned = None
            case HintGiven():
                hints.add(body.hint)
            case HintWithdrawn():
                hints.discard(body.hint)
            case NodeSelected():
                assert body.node not in banned
                assert (body.rule == "pinned") <= (body.node == pinned)
            case AgentCalled(try_=1, ask=0):
                shown = body.role in ("plan", "single") and sorted(hints)
                assert (body.hints or []) == (shown or [])
    assert replay(as_events(world.bodies), team_of).difference is None


def test_a_pinned_node_is_where_every_attempt_starts_while_it_is_eligible() -> None:
    world = World(config_of(attempts=12, root_throttle=None, dead_branch=None, epsilon=1.0), 4)
    while world.state.attempts_ended < 2:
        world.step()
    at = len(world.bodies)
    world.feed(NodePinned(node=1))
    world.run()
    selected = [b for b in world.bodies[at:] if isinstance(b, NodeSelected)]
    assert {(b.node, b.rule) for b in selected} == {(1, "pinned")}


def test_a_soft_end_finishes_what_is_in_flight_and_can_be_resumed() -> None:
    world = World(config_of(attempts=30, workers=3, root_throttle=None), 2)
    while world.state.attempts_ended < 4:
        world.step()
    flying = set(world.state.attempts)
    assert flying
    world.feed(StopRequested(source="engine steer", after_attempts=True))
    while not world.state.stopped:
        world.step()
    assert (world.state.stopped, world.state.stop_reason) == ("interrupted", "engine steer")
    assert not world.state.attempts
    assert world.state.attempts_started == max(flying)
    world.run()
    assert world.state.stopped == "finished"


# -- with a real log ------------------------------------------------------------------------


class Patient(ScriptedClient):
    """Does not let the run go on between what is ``due`` and its answer, however slow they are
    who ask."""

    def __init__(self, due: anyio.Event, answered: anyio.Event) -> None:
        super().__init__()
        self._due, self._answered = due, answered

    async def send(self, request: Request) -> Reply:
        if self._due.is_set():
            await self._answered.wait()
        return await super().send(request)


class Told:
    """Runs a search and has ``tell`` called, in a thread, once ``attempts`` have ended."""

    def __init__(
        self, attempts: int, tell: Callable[[], Answer | None], *, budget: int = 40
    ) -> None:
        self.attempts, self.tell, self.budget = attempts, tell, budget
        self.answer: Answer | None = None
        self._due = anyio.Event()
        self._answered = anyio.Event()
        self.client = Patient(self._due, self._answered)

    def observe(self, event: Event, state: State) -> None:
        if state.attempts_ended == self.attempts:
            self._due.set()

    async def _tell(self) -> None:
        await self._due.wait()
        self.answer = await anyio.to_thread.run_sync(self.tell)
        self._answered.set()

    async def run(self, path: Path) -> State:
        async with LogWriter(path) as log:
            again = log.epoch > 1
            run_id = 1 if again else log.create_run("feed")
            reader = LogReader(path) if again else None
            texts = Texts(reader.text if reader else _no_text)
            known = recover(reader, 1) if reader else None
            loop = RunLoop(
                log=log, run_id=run_id, uid="feed", state=known.state if known else State(team_of),
                texts=texts, templates=Templates(texts=known.templates) if known else load(),
                clients={"fake:m": self.client}, evaluator=ScriptedEvaluator(),
            )  # fmt: skip
            loop.observe(self.observe)
            first: tuple[Body, Any] = run_started(
                config=config_of(attempts=self.budget, root_throttle=None, dead_branch=None),
                task_name="double.py", task_source=TASK, device={}, canned=False, texts=texts,
            )  # fmt: skip
            async with anyio.create_task_group() as group:
                group.start_soon(listen, loop, "feed")
                group.start_soon(self._tell)
                state = await loop.run(*((resumed({}),) if again else first))
                group.cancel_scope.cancel()
            if reader:
                reader.connection.close()
        return state


def _no_text(sha256: str) -> str:
    raise AssertionError(f"{sha256} should still be in memory")


@pytest.mark.anyio
async def test_a_run_is_told_over_its_socket_then_at_rest_and_remembers(tmp_path: Path) -> None:
    # Longer than an address of a socket may be.
    path = tmp_path / ("d" * 60) / "log.db"
    path.parent.mkdir()
    command = SteeringCommand(
        run="feed", hints=["Use float4 loads."], ban=[1], stop_after_attempts=True
    )
    told = Told(3, lambda: send_command(path, command))
    state = await told.run(path)
    assert told.answer is not None
    assert (len(told.answer.events), told.answer.refused) == (3, None)
    assert (state.stopped, state.stop_reason) == ("interrupted", "engine steer")
    assert not path.with_name("log.db.sock").exists()

    at_rest = await apply_offline(
        path, SteeringCommand(run="feed", pin=2, unban=[1], hints=["And fuse."])
    )
    assert len(at_rest.events) == 3
    refused = await apply_offline(path, SteeringCommand(run="feed", ban=[0, 999]))
    assert refused.refused == f"no node 999: the run has 0 to {state.attempts_started}"
    assert send_command(path, command) is None

    command = SteeringCommand(run="feed", withdraw=[1], stop_after_attempts=True)
    told = Told(state.attempts_ended + 2, lambda: send_command(path, command))
    await told.run(path)
    whole = replayed(path)
    assert whole.check.problems == []
    assert (whole.report.difference, whole.prompts.different) == (None, [])
    planned = [
        [part.text for part in request.parts if part.name == "hint"]
        for request in told.client.sent
        if request.role == "plan"
    ]
    if state.tree[2].failed:
        assert planned == []
    else:
        assert planned[0][0].endswith("Use float4 loads.")
        assert planned[0][1].endswith("And fuse.")
    stands = overview_of(whole.events).steering.stands()
    assert (list(stands.hints), stands.banned, stands.pinned) == ([2], [], 2)
    resumed_at = next(e.run_seq for e in whole.events if e.type == "RunResumed")
    later = [e.body for e in whole.events if e.run_seq > resumed_at]
    assert {(b.node, b.rule) for b in later if isinstance(b, NodeSelected)} == {(2, "pinned")}


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("command", "said"),
    [
        (SteeringCommand(run="other", unpin=True), "another run of this log is going on"),
        (SteeringCommand(run="feed", unpin=True), "no node is pinned"),
        (SteeringCommand(run="feed", withdraw=[4]), "no hint 4 is in force (there are: none)"),
        (SteeringCommand(run="feed", hints=["good"], unban=[1]), "node 1 is not banned"),
        (SteeringCommand(run="feed", hints=[" "]), "the hint is empty"),
    ],
)
async def test_what_can_not_be_told_leaves_no_trace(
    tmp_path: Path, command: SteeringCommand, said: str
) -> None:
    path = tmp_path / "log.db"
    told = Told(2, lambda: send_command(path, command), budget=10)
    state = await told.run(path)
    assert told.answer is not None
    assert said in (told.answer.refused or "")
    assert state.stopped == "finished"
    with LogReader(path) as reader:
        types = {event.type for event in reader.events(1)}
    assert not types & {"HintGiven", "NodeUnbanned", "NodeUnpinned"}
