"""Turns at providers, shared by all runs of a process: who may send a call, and when."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio

from agents.clients.pace import Pace
from agents.clients.port import CallFailed, Reply

__all__ = ["Turn", "Turns"]

_TOO_MUCH = ("rate_limited", "overloaded")


class Turn:
    """A call that is let go; tell it what came of it."""

    def __init__(self) -> None:
        self.outcome: Reply | CallFailed | None = None


class Turns:
    """One pace for each provider and model. Belongs to one event loop.

    ``calls`` and ``tokens_a_minute`` are ceilings for each of them.
    """

    def __init__(self, *, calls: int | None = None, tokens_a_minute: int | None = None) -> None:
        self._calls, self._tokens_a_minute = calls, tokens_a_minute
        self._paces: dict[str, Pace] = {}
        self._changed = anyio.Event()

    def pace(self, model: str) -> Pace:
        """Of ``client:model``."""
        if model not in self._paces:
            self._paces[model] = Pace(calls=self._calls, tokens_a_minute=self._tokens_a_minute)
        return self._paces[model]

    @asynccontextmanager
    async def turn(self, model: str, tokens: int) -> AsyncIterator[Turn]:
        """Wait until a call of about so many tokens may go to ``model``."""
        pace, turn = self.pace(model), Turn()
        while wait_s := pace.wait_s(time.monotonic()):
            with anyio.move_on_after(None if math.isinf(wait_s) else wait_s):
                await self._changed.wait()
        permit = pace.begin(time.monotonic(), tokens)
        try:
            yield turn
        finally:
            now_s, outcome = time.monotonic(), turn.outcome
            match outcome:
                case Reply():
                    usage = outcome.usage
                    used = None if usage is None else usage.input_tokens + usage.output_tokens
                    pace.replied(permit, now_s, tokens=used)
                case CallFailed() if outcome.error in _TOO_MUCH:
                    pace.refused(permit, now_s, retry_after_s=outcome.retry_after_s)
                case _:
                    pace.failed(permit)
            if outcome is not None and outcome.allowance is not None:
                pace.told(outcome.allowance, now_s)
            changed, self._changed = self._changed, anyio.Event()
            changed.set()
