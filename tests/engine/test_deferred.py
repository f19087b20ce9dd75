"""Runs that wait for replies: what is asked, when they pause, what a resume takes."""

from __future__ import annotations

import os
import shutil
from collections import Counter
from pathlib import Path
from typing import TypeVar

import anyio
import msgspec
import pytest

from agents.clients.mailbox import MailboxClient
from events.bodies import (
    AgentCalled,
    AgentReplied,
    Body,
    PromptRendered,
    ReplyDeferred,
    ReplyNotTaken,
    RunPaused,
    RunResumed,
    WaitEnded,
)
from events.reader import LogReader
from tests.engine.mail_runs import (
    MODEL,
    answer,
    answer_all,
    bodies_of,
    config,
    step,
    waiting,
)
from tests.engine.test_fork import fork
from tests.replayed import replayed

pytestmark = pytest.mark.anyio

_B = TypeVar("_B", bound=Body)


def of_type(bodies: list[Body], type_: type[_B]) -> list[_B]:
    return [body for body in bodies if isinstance(body, type_)]


def files(box: Path) -> dict[str, tuple[int, bytes]]:
    return {p.name: (p.stat().st_mtime_ns, p.read_bytes()) for p in box.iterdir()}


async def test_a_run_waits_and_is_resumed_until_it_is_done(tmp_path: Path) -> None:
    path, box = tmp_path / "log.db", tmp_path / "box"
    state = await step(path, MailboxClient(box), config(workers=2))
    assert state.paused == "waiting for 2 replies"
    asked = files(box)
    assert len(asked) == 4

    state = await step(path, MailboxClient(box), config())
    assert state.paused == "waiting for 2 replies"
    assert files(box) == asked, "nothing is written twice"

    answer(waiting(box)[0], markdown=True)
    state = await step(path, MailboxClient(box), config())
    assert state.paused == "waiting for 2 replies", "the other plan, and the code for the first"
    rounds = 0
    while state.paused:
        assert answer_all(box)
        state = await step(path, MailboxClient(box), config())
        rounds += 1
    assert (state.stopped, state.attempts_ended, rounds) == ("finished", 2, 2)

    bodies = bodies_of(path)
    replies = of_type(bodies, AgentReplied)
    assert Counter(reply.served_by for reply in replies) == {"Bob": 3, "Ada": 1}
    assert {reply.usage for reply in replies} == {None}
    assert state.spend.total.uncounted_calls == 4
    assert len(of_type(bodies, ReplyDeferred)) == len(of_type(bodies, PromptRendered)) == 4
    assert all(call.try_ == 1 for call in of_type(bodies, AgentCalled))
    pauses = len(of_type(bodies, RunPaused))
    assert pauses == len(of_type(bodies, WaitEnded)) == len(of_type(bodies, RunResumed)) == 4


async def test_a_reply_that_comes_while_the_process_waits(tmp_path: Path) -> None:
    path, box = tmp_path / "log.db", tmp_path / "box"

    async def answering() -> None:
        while True:
            if box.is_dir():
                answer_all(box)
            await anyio.sleep(0.02)

    async with anyio.create_task_group() as group:
        group.start_soon(answering)
        state = await step(path, MailboxClient(box), config(attempts=1), wait_s=60)
        group.cancel_scope.cancel()
    assert state.stopped == "finished"
    assert not of_type(bodies_of(path), RunPaused)


async def test_runs_share_a_mailbox_which_moves_to_another_machine(tmp_path: Path) -> None:
    box, logs = tmp_path / "box", [tmp_path / f"{n}.db" for n in range(3)]
    for number, path in enumerate(logs):
        await step(path, MailboxClient(box), config(attempts=1), uid=f"run{number}")
    assert len(waiting(box)) == 3
    answered = shutil.copytree(box, tmp_path / "elsewhere")
    assert answer_all(answered) == 3

    fresh = tmp_path / "fresh"
    for number, path in enumerate(logs):
        for reply in answered.glob(f"run{number}*.reply.json"):
            fresh.mkdir(exist_ok=True)
            shutil.copy2(reply, fresh)
        state = await step(path, MailboxClient(fresh), config(), uid=f"run{number}")
        assert state.paused == "waiting for 1 reply"
    assert answer_all(fresh) == 3
    for number, path in enumerate(logs):
        state = await step(path, MailboxClient(fresh), config(), uid=f"run{number}")
        assert (state.stopped, len(of_type(bodies_of(path), AgentReplied))) == ("finished", 2)


async def test_the_first_reply_counts_and_others_are_named_once(tmp_path: Path) -> None:
    path, box = tmp_path / "log.db", tmp_path / "box"
    await step(path, MailboxClient(box), config(attempts=1))
    (request,) = waiting(box)
    half = request.with_suffix(".reply.json")
    half.write_text('{"tool_input": {"advi')
    os.utime(half, (1_700_000_000, 1_700_000_000))
    for _ in range(2):
        state = await step(path, MailboxClient(box), config())
        assert state.paused == "waiting for 1 reply"
    (doubt,) = of_type(bodies_of(path), ReplyNotTaken)
    assert "not a whole one" in doubt.reason

    answer(request)
    await step(path, MailboxClient(box), config())
    answer(request, markdown=True)
    half.write_text('{"text": "Something else."}')
    os.utime(half, (1_700_000_000, 1_700_000_000))
    for _ in range(2):
        state = await step(path, MailboxClient(box), config())
        assert state.paused == "waiting for 1 reply"
    bodies = bodies_of(path)
    reasons = [body.reason for body in of_type(bodies, ReplyNotTaken)]
    assert len(reasons) == 3
    assert "changed after it was taken" in reasons[1]
    assert "was taken before" in reasons[2]
    (reply,) = of_type(bodies, AgentReplied)
    with LogReader(path) as reader:
        assert "Go faster." in reader.text(reply.tool_input_sha256)


async def test_an_unusable_reply_is_asked_again(tmp_path: Path) -> None:
    path, box = tmp_path / "log.db", tmp_path / "box"
    await step(path, MailboxClient(box), config(attempts=1))
    (request,) = waiting(box)
    request.with_suffix(".reply.json").write_text('{"text": "I would rather not."}')
    state = await step(path, MailboxClient(box), config())
    assert state.paused == "waiting for 1 reply"
    (again,) = waiting(box)
    assert again != request
    assert "could not be used" in again.with_suffix(".md").read_text()


async def test_a_fork_asks_for_itself(tmp_path: Path) -> None:
    path, box = tmp_path / "log.db", tmp_path / "box"
    await step(path, MailboxClient(box), config(attempts=1))
    with LogReader(path) as reader:
        at = reader.newest_run_seq(1)
    state = await fork(path, 1, at, {MODEL: MailboxClient(box)})
    assert state.paused == "waiting for 1 reply"
    assert len(waiting(box)) == 2
    forked = replayed(path, 2)
    assert (forked.check.problems, forked.report.difference) == ([], None)


async def test_a_wait_does_not_renew_patience(tmp_path: Path) -> None:
    path, box = tmp_path / "log.db", tmp_path / "box"
    impatient = config(attempts=9)
    budget = msgspec.structs.replace(impatient.budget, patience=2)
    impatient = msgspec.structs.replace(impatient, budget=budget)
    state = await step(path, MailboxClient(box), impatient)
    while state.paused:
        assert answer_all(box, kind="wrong")
        state = await step(path, MailboxClient(box), impatient)
    assert (state.stopped, state.stop_reason) == ("finished", "patience")
    assert state.attempts_ended == 2
