"""``recorded:LOG``: a new run whose replies come out of a past run's log."""

from __future__ import annotations

import contextlib
from pathlib import Path

import msgspec
import pytest

from engine.core.state import State
from events.bodies import AgentReplied, Body, NodeSelected, ReplyParsed
from events.errors import LogError
from events.reader import LogReader
from replay.recorded import RecordedLog, taken_from
from tests.engine.mail_runs import MODEL, bodies_of, config, step
from tests.engine.outside import ScriptedClient

pytestmark = pytest.mark.anyio


async def again(past: Path, path: Path, *, attempts: int) -> tuple[State, list[Body]]:
    """One process's work on a run of replies out of ``past``."""
    earlier: list[Body] = []
    with contextlib.suppress(LogError):  # at first there is no log
        earlier = bodies_of(path)
    client = RecordedLog(LogReader(past), 1, past.name, taken_from(MODEL, earlier))
    state = await step(path, client, config(attempts=attempts))
    await client.aclose()
    return state, bodies_of(path)


def course(bodies: list[Body]) -> list[Body]:
    return [
        msgspec.structs.replace(body, state_digest="") if isinstance(body, NodeSelected) else body
        for body in bodies
        if isinstance(body, NodeSelected | ReplyParsed)
    ]


async def test_identical_requests_have_the_same_replies(tmp_path: Path) -> None:
    past, path = tmp_path / "past.db", tmp_path / "again.db"
    await step(past, ScriptedClient(), config(attempts=6))
    state, bodies = await again(past, path, attempts=6)
    assert state.stopped == "finished"
    assert course(bodies) == course(bodies_of(past))
    replies = [body for body in bodies if isinstance(body, AgentReplied)]
    with LogReader(past) as reader:
        theirs = [e.run_seq for e in reader.events(1) if isinstance(e.body, AgentReplied)]
    assert [reply.reused for reply in replies] == theirs
    assert state.spend.total.reused == len(replies)
    assert state.spend.total.input_tokens == 0


async def test_what_the_log_has_no_reply_to_is_named_and_nothing_is_given_twice(
    tmp_path: Path,
) -> None:
    past, path = tmp_path / "past.db", tmp_path / "again.db"
    await step(past, ScriptedClient(), config(attempts=2))
    for _ in range(2):
        state, bodies = await again(past, path, attempts=4)
        assert state.paused is not None
        assert "past.db has no reply to the plan request feed-5-plan-" in state.paused
    replies = [body.reused for body in bodies if isinstance(body, AgentReplied)]
    assert len(replies) == len(set(replies)) == 4
