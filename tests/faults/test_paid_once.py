"""No reply that was acknowledged is ever paid for twice, however often the search is killed."""

from __future__ import annotations

import hashlib
import json
import random
import time
from collections import Counter
from collections.abc import Callable, Iterable
from multiprocessing.context import ForkServerContext
from pathlib import Path
from typing import Any

import anyio
import pytest

from events.bodies import AgentReplied, PromptRendered, ReplyParsed
from events.reader import LogReader
from tests.agents.messages_api import events, message
from tests.agents.model_server import Got, ModelServer, Script, running
from tests.faults.searching import Killed, search
from tests.replayed import replayed
from tests.thorough import THOROUGH

pytestmark = [pytest.mark.anyio, pytest.mark.process]

KILLS = 100 if THOROUGH else 3
ATTEMPTS = 400 if THOROUGH else 30
WORKERS = 3

FRAGMENT = """        # <<<IMPROVE BEGIN>>>
        return x + x
        # <<<IMPROVE END>>>
"""
CANDIDATE = """" {kind} {number} "
import torch


class ModelNew(torch.nn.Module):
    def forward(self, x):
        return x + x
"""


def key_of(tool: str, texts: Iterable[str]) -> str:
    """A request by its content, as the wire and the log both have it."""
    return hashlib.sha256(json.dumps([tool, *(t for t in texts if t.strip())]).encode()).hexdigest()


class Till(ModelServer):
    """Answers every request, and counts what would have to be paid for by key."""

    def __init__(self) -> None:
        super().__init__([])
        self.received: Counter[str] = Counter()

    def script_for(self, got: Got) -> Script:
        (tool,) = got.body["tools"]
        blocks = [*got.body["system"], *got.body["messages"][0]["content"]]
        self.received[key_of(tool["name"], (block["text"] for block in blocks))] += 1
        return events(
            *message(
                {"name": tool["name"], "json": self._answer(tool["name"])},
                stop="tool_use",
                piece=500,
            )
        )

    def _answer(self, role: str) -> str:
        number = len(self.got)
        kind = "ok" if role == "debug" else ("ok", "broken", "wrong")[number % 3]
        answer: dict[str, Any] = {
            "explanation": "Done.", "source": CANDIDATE.format(kind=kind, number=number)
        }  # fmt: skip
        if role == "plan":
            answer = {"advice": "Go faster.", "annotated_source": FRAGMENT}
        return json.dumps(answer)


def check(path: Path, till: Till, kills: int) -> None:
    """Each committed request went out at most once, and none after it was answered."""
    rendered: Counter[str] = Counter()
    replied: Counter[str] = Counter()
    keys: dict[tuple[int, str, int], str] = {}
    answered: set[tuple[int, str, int]] = set()
    with LogReader(path) as reader:
        for event in reader.events(1):
            body = event.body
            if isinstance(body, PromptRendered):
                call = (body.attempt, body.role, body.call)
                assert call not in answered, f"{call} was asked again after its reply"
                keys[call] = key_of(body.role, (reader.text(sha) for sha in event.blobs))
                rendered[keys[call]] += 1
            elif isinstance(body, AgentReplied):
                call = (body.attempt, body.role, body.call)
                answered.add(call)
                replied[keys[call]] += 1
    for key, received in till.received.items():
        assert replied[key] <= received <= rendered[key]
    assert rendered.total() - replied.total() <= kills * WORKERS


async def test_no_acknowledged_reply_is_paid_for_twice(
    tmp_path: Path, processes: ForkServerContext, anyio_backend: str, tell: Callable[[str], None]
) -> None:
    path, chance = tmp_path / "log.db", random.Random(8)
    killed: Counter[str] = Counter()
    async with running(Till()) as till:

        async def run(kill: Killed | None, after_s: float | None = None) -> int | None:
            process = processes.Process(
                target=search, args=(path, till.url, anyio_backend, ATTEMPTS, kill)
            )
            process.start()
            if after_s is not None:
                await anyio.sleep(after_s)
                process.kill()
            await anyio.to_thread.run_sync(process.join)
            return process.exitcode

        while killed.total() < KILLS:
            point = ("request committed", "reply arrived", "random")[killed.total() % 3]
            if point == "random":
                code = await run(None, chance.uniform(0.03, 0.3))
            else:
                code = await run(Killed(point=point, count=chance.randint(1, 6)))
            assert code == -9, point
            killed[point] += 1
            check(path, till, killed.total())
        began = time.monotonic()
        assert await run(None) == 0
    check(path, till, killed.total())
    whole = replayed(path)
    assert (whole.check.problems, whole.report.difference) == ([], None)
    bodies = [event.body for event in whole.events]
    replies = sum(isinstance(body, AgentReplied) for body in bodies)
    assert sum(isinstance(body, ReplyParsed) for body in bodies) == replies
    tell(
        f"paid once ({anyio_backend}): {dict(killed)} kills, {replies} replies,"
        f" {till.received.total()} requests, last process {time.monotonic() - began:.1f} s"
    )
