"""A search to be killed: the real loop, log and client, against a server on this machine."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import anyio
import msgspec

from agents.clients.anthropic import AnthropicClient
from agents.clients.port import Reply, Request
from agents.templates import Templates, load
from engine.core.state import State
from engine.loop.methods import team_of
from engine.loop.run import RunLoop
from engine.loop.start import recover, resumed, run_started
from engine.loop.texts import Texts
from events.reader import LogReader
from events.writer import LogWriter
from tests.engine.outside import TASK, ScriptedEvaluator
from tests.engine.world import config_of

__all__ = ["Killed", "search"]


class Killed(msgspec.Struct, frozen=True, kw_only=True):
    """Where the process kills itself: at its ``count``-th call, before or after the answer."""

    point: str
    count: int


class _DyingClient(AnthropicClient):
    """Sends for real; kills its process around it where the test says so."""

    def __init__(self, url: str, killed: Killed | None) -> None:
        super().__init__(api_key="sk-test", base_url=url)
        self._killed, self._calls = killed, 0

    async def send(self, request: Request) -> Reply:
        self._calls += 1
        dies = self._killed if self._killed and self._killed.count == self._calls else None
        if dies and dies.point == "request committed":
            os.kill(os.getpid(), signal.SIGKILL)
        reply = await super().send(request)
        if dies and dies.point == "reply arrived":
            os.kill(os.getpid(), signal.SIGKILL)
        return reply


def search(path: Path, url: str, backend: str, attempts: int, killed: Killed | None) -> None:
    """Run as a process: begin the search, or go on with it, to its end or the kill."""
    anyio.run(_search, path, url, attempts, killed, backend=backend)


async def _search(path: Path, url: str, attempts: int, killed: Killed | None) -> None:
    client = _DyingClient(url, killed)
    async with LogWriter(path) as log:
        with LogReader(path) as reader:
            recovered = recover(reader, 1) if reader.runs() else None
            run_id = 1 if recovered else log.create_run("feed")
            texts = Texts(reader.text)
            loop = RunLoop(
                log=log, run_id=run_id, uid="feed", texts=texts, clients={"fake:m": client},
                state=recovered.state if recovered else State(team_of),
                templates=Templates(texts=recovered.templates) if recovered else load(),
                evaluator=ScriptedEvaluator(),
            )  # fmt: skip
            if recovered:
                await loop.run(resumed({}))
            else:
                first, blobs = run_started(
                    config=config_of(attempts=attempts, workers=3), task_name="double.py",
                    task_source=TASK, device={}, canned=False, texts=texts,
                )  # fmt: skip
                await loop.run(first, blobs)
    await client.aclose()
