"""Behaviour flags: what a log was searched by is what it is resumed and replayed by."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest

from engine.config import Budget, PlannerConfig, RoleConfig, Roles
from engine.core.evolve import evolve
from engine.core.flags import (
    BUDGET_BEFORE_EACH_CALL,
    BUDGET_ESTIMATES_2,
    FLAGS,
    OUTAGE_PAUSES,
    PATIENCE_FROM_THE_START,
    PAUSE_WORDS_2,
    PLANNERS_LEFT_OUT,
    STATE_DIGEST_2,
)
from engine.core.state import State
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    NodeSelected,
    ReplyDeferred,
    RunStarted,
    WaitEnded,
)
from events.codec import decode_body, encode_body
from events.errors import NewerFormat
from replay.verify import replay
from tests.engine.world import World, as_events, config_of, started, team_of

GOLDEN_DIGESTS = {
    (): "v1:14f5206f2e28a52a47b30ff8d06fa039",
    (STATE_DIGEST_2,): "v2:3ac7df6448e2037ffffce51e6e84ee2c",
}


def flagged(world: World, flags: list[str]) -> list[Any]:
    """The same log with other flags in its first event."""
    first = world.bodies[0]
    assert isinstance(first, RunStarted)
    return as_events([msgspec.structs.replace(first, flags=flags), *world.bodies[1:]])


def hopeless(
    *flags: str,
    usd: float | None = None,
    trouble: float = 0.0,
    killed: bool = False,
    planners: Sequence[str] = (),
) -> World:
    """A run with patience for three, in which nothing is ever correct. ``killed``: during its
    first call."""
    plan = PlannerConfig(temperature=0.8, models=[*planners], reward_per="token")
    config = msgspec.structs.replace(
        config_of(outage_failures=2),
        budget=Budget(attempts=20, patience=3, usd=usd),
        roles=Roles(plan=plan),
    )
    world = World(config, 1, failing=1.0, flags=flags, trouble=trouble)
    if killed:
        world.run(1).resume()
    return world.run()


def test_patience_without_a_correct_kernel_is_the_flags_to_decide() -> None:
    old, new = hopeless(), hopeless(PATIENCE_FROM_THE_START)
    assert (old.state.stop_reason, old.state.attempts_ended) == ("attempts", 20)
    assert (new.state.stop_reason, new.state.attempts_ended) == ("patience", 3)


def waiting(*flags: str) -> World:
    """Three attempts, paused: the coder is down, which the first has found out, the second has its
    plan and was not asked for code, and the third one's plan comes later."""
    roles = Roles(code=RoleConfig(model="fake:down"))
    config = msgspec.structs.replace(config_of(workers=3, outage_failures=1), roles=roles)
    world = World(config, 1, flags=[OUTAGE_PAUSES, *flags])
    world.step()
    first, second, third = (body for body in world.pending if isinstance(body, AgentCalled))
    world._read(replied(world, first))
    world.feed(AgentFailed(attempt=1, role="code", call=4, try_=1, error="connection",
                           message="nobody listens", retryable=True))  # fmt: skip
    world._read(replied(world, second))
    world.feed(ReplyDeferred(attempt=3, role="plan", call=third.call, try_=1, name="n",
                             place="box"))  # fmt: skip
    world.feed(WaitEnded())
    return world


def replied(world: World, called: AgentCalled) -> AgentCalled:
    world.feed(
        AgentReplied(
            attempt=called.attempt, role=called.role, call=called.call, try_=1, usage=None,
            latency_ms=1, stop_reason="end_turn", served_by="m", sent={}, reply_sha256="1" * 64,
        )
    )  # fmt: skip
    return called


def test_a_pause_for_replies_says_what_else_is_amiss() -> None:
    assert waiting().state.paused == "waiting for 1 reply; nobody listens; the sandbox fails"
    assert waiting(PAUSE_WORDS_2).state.paused == (
        "waiting for 1 reply; fake:down is down: 1 tries in a row failed, the last: nobody listens"
    )


@pytest.mark.parametrize("flag", sorted(FLAGS))
def test_a_log_replays_by_its_own_flags_and_by_no_others(flag: str) -> None:
    trouble = 0.5 if flag in (OUTAGE_PAUSES, PLANNERS_LEFT_OUT) else 0.0
    planners = ["fake:m", "fake:other"] if flag == PLANNERS_LEFT_OUT else []
    # What this one counts is looked at by the rules of these.
    estimated = flag == BUDGET_ESTIMATES_2
    base = [BUDGET_BEFORE_EACH_CALL, STATE_DIGEST_2] if estimated else []
    old, new = (
        hopeless(*flags, usd=0.05, trouble=trouble, killed=estimated, planners=planners)
        for flags in (base, [*base, flag])
    )
    if flag == PAUSE_WORDS_2:
        base = [OUTAGE_PAUSES]
        old, new = waiting(), waiting(flag)
    for world in (old, new):
        assert replay(as_events(world.bodies), team_of).difference is None
    assert replay(flagged(old, [*base, flag]), team_of).difference is not None
    assert replay(flagged(new, base), team_of).difference is not None


@pytest.mark.parametrize("flags", [(), (PATIENCE_FROM_THE_START,), tuple(FLAGS)])
def test_a_fork_goes_on_by_its_parents_flags(flags: tuple[str, ...]) -> None:
    config = config_of()
    config = msgspec.structs.replace(config, budget=Budget(attempts=20, patience=4))
    parent = World(config, 1, failing=1.0, flags=flags).run(12)
    fork = parent.fork(len(parent.bodies), config)
    fork.failing = 1.0
    fork.run()
    assert fork.state.flags == frozenset(flags)
    assert fork.state.digest.startswith("v2:" if STATE_DIGEST_2 in flags else "v1:")
    ended = "patience" if PATIENCE_FROM_THE_START in flags else "attempts"
    assert fork.state.stop_reason == ended
    assert replay(as_events(fork.bodies), team_of).difference is None


@pytest.mark.parametrize("flags", GOLDEN_DIGESTS)
def test_digests_are_fixed_for_ever(flags: tuple[str, ...]) -> None:
    world = World(config_of(attempts=5, seed=1), 1, flags=flags).run()
    first, *rest = world.bodies
    assert isinstance(first, RunStarted)
    state = State(team_of)
    for body in (msgspec.structs.replace(first, config=_as_it_was(first.config)), *rest):
        state = evolve(state, body)
    assert state.digest == GOLDEN_DIGESTS[flags]


def _as_it_was(config: dict[str, Any]) -> dict[str, Any]:
    """The configuration is in the digest: without the keys that are younger than these, and with
    the defaults of then."""
    younger = {
        "search": {
            "start",
            "team",
            "repairs",
            "anchors",
            "uct_c",
            "population",
            "tournament",
            "outage_failures",
            "deduplicate",
            "score",
        },
        "roles": {"single"},
        "budget": {"tokens", "device_s"},
        "prompts": {"accuracy"},
        "sandbox": {
            "observe_share",
            "counters_timeout_s",
            "cache_verdicts",
            "refuse",
            "threads",
            "bench_s",
        },
    }
    sections = {
        name: {key: config[name][key] for key in config[name].keys() - keys}
        for name, keys in younger.items()
    }
    sections["roles"] = {
        role: {
            key: 16_000 if key == "max_tokens" else value
            for key, value in settings.items()
            if key not in ("observations", "models", "reward_per", "reply", "thinking")
        }
        for role, settings in sections["roles"].items()
    }
    whole = {"temperature", "clients", "limits", "prices"}
    return {key: value for key, value in (config | sections).items() if key not in whole}


def test_the_second_digest_sees_what_a_reply_cost() -> None:
    """The first one does not: what steers a budget could be altered behind its back."""
    for flags, seen in ((), False), ((STATE_DIGEST_2,), True):
        world = World(config_of(attempts=3), 1, flags=flags).run()
        bodies = list(world.bodies)
        at = next(i for i, body in enumerate(bodies) if isinstance(body, AgentReplied))
        reply = bodies[at]
        assert isinstance(reply, AgentReplied)
        usage = msgspec.structs.replace(reply.usage, output_tokens=999)
        bodies[at] = msgspec.structs.replace(reply, usage=usage)
        difference = replay(as_events(bodies), team_of).difference
        assert (difference is not None) == seen
        if difference is not None:
            later = [i for i, b in enumerate(bodies, 1) if isinstance(b, NodeSelected) and i > at]
            assert difference.run_seq == later[0]


def test_an_unknown_flag_is_a_newer_engines() -> None:
    with pytest.raises(NewerFormat, match=r"\(better-windows\): a newer engine wrote it"):
        evolve(State(team_of), started(config_of(), ["better-windows"]))


def test_the_flag_of_the_first_version_chose_nothing() -> None:
    raw = msgspec.json.decode(encode_body(started(config_of())))
    raw["flags"] = ["abandoned-leaves-no-child"]
    old = decode_body("RunStarted", 1, msgspec.json.encode(raw))
    assert isinstance(old, RunStarted)
    assert old.flags == []
