"""The log's format: one set of rules and draws, which a run names in its first event."""

from __future__ import annotations

import msgspec
import pytest

from engine.config import Budget, RoleConfig, Roles
from engine.core.evolve import evolve
from engine.core.state import State
from events.bodies import (
    FORMAT,
    AgentCalled,
    AgentFailed,
    AgentReplied,
    NodeSelected,
    ReplyDeferred,
    RunStarted,
    WaitEnded,
)
from events.codec import decode_body, encode_body
from events.errors import NewerFormat, OlderFormat
from replay.verify import replay
from tests.engine.world import World, as_events, config_of, started, team_of

GOLDEN_DIGEST = "v3:2ce5331ad92828019b5762dae39161e3"


def test_a_run_of_another_format_is_not_gone_on_with() -> None:
    first = msgspec.structs.replace(started(config_of()), versions={"engine": "0.1.7"})
    assert first.format == FORMAT
    older = msgspec.structs.replace(first, format="0.1")
    with pytest.raises(OlderFormat, match=r"engine 0\.1\.7.*not replayed.*use engine 0\.1\.x"):
        evolve(State(team_of), older)
    newer = msgspec.structs.replace(first, format="0.9")
    with pytest.raises(NewerFormat, match=r"format 0\.9.*update engine"):
        evolve(State(team_of), newer)


@pytest.mark.parametrize("version", [1, 2])
def test_the_first_event_of_0_1_is_read_as_one_of_that_format(version: int) -> None:
    raw = msgspec.json.decode(encode_body(started(config_of())))
    del raw["format"]
    raw["flags"] = ["state-digest-2"]
    old = decode_body("RunStarted", version, msgspec.json.encode(raw))
    assert isinstance(old, RunStarted)
    assert old.format == "0.1"


def test_digests_are_fixed_for_ever() -> None:
    first, *rest = World(config_of(attempts=5, seed=1), 1).run().bodies
    assert isinstance(first, RunStarted)
    state = State(team_of)
    # The configuration is in the digest: only what is set here, as its defaults may change.
    given = {"model": "fake:m", "search": {"seed": 1}, "budget": {"attempts": 5},
             "prompts": {"system": "rotate", "language": "cpp"},
             "sandbox": {"baselines": ["eager"]}}  # fmt: skip
    for body in (msgspec.structs.replace(first, config=given), *rest):
        state = evolve(state, body)
    assert state.digest == GOLDEN_DIGEST


def test_the_digest_sees_what_a_reply_cost() -> None:
    bodies = list(World(config_of(attempts=3), 1).run().bodies)
    at = next(i for i, body in enumerate(bodies) if isinstance(body, AgentReplied))
    reply = bodies[at]
    assert isinstance(reply, AgentReplied)
    assert reply.usage is not None
    usage = msgspec.structs.replace(reply.usage, output_tokens=999)
    bodies[at] = msgspec.structs.replace(reply, usage=usage)
    difference = replay(as_events(bodies), team_of).difference
    assert difference is not None
    later = [i for i, b in enumerate(bodies, 1) if isinstance(b, NodeSelected) and i > at]
    assert difference.run_seq == later[0]


def test_patience_ends_a_run_without_a_correct_kernel() -> None:
    config = msgspec.structs.replace(config_of(), budget=Budget(attempts=20, patience=3))
    world = World(config, 1, failing=1.0).run()
    assert (world.state.stop_reason, world.state.attempts_ended) == ("patience", 3)


def test_a_pause_for_replies_says_what_else_is_amiss() -> None:
    """Three attempts: the coder is down, which the first has found out, the second has its plan
    and was not asked for code, and the third one's plan comes later."""
    roles = Roles(code=RoleConfig(model="fake:down"))
    config = msgspec.structs.replace(config_of(workers=3, outage_failures=1), roles=roles)
    world = World(config, 1)
    world.step()
    first, second, third = (body for body in world.pending if isinstance(body, AgentCalled))
    world._read(replied(world, first))
    world.feed(AgentFailed(attempt=1, role="code", call=4, try_=1, error="connection",
                           message="no answer", retryable=True))  # fmt: skip
    world._read(replied(world, second))
    world.feed(ReplyDeferred(attempt=3, role="plan", call=third.call, try_=1, name="n",
                             place="box"))  # fmt: skip
    world.feed(WaitEnded())
    assert world.state.paused == (
        "waiting for 1 reply; fake:down is down: 1 tries in a row failed, the last: no answer"
    )


def replied(world: World, called: AgentCalled) -> AgentCalled:
    world.feed(
        AgentReplied(
            attempt=called.attempt, role=called.role, call=called.call, try_=1, usage=None,
            latency_ms=1, stop_reason="end_turn", served_by="m", sent={}, reply_sha256="1" * 64,
        )
    )  # fmt: skip
    return called
