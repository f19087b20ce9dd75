"""Turns at providers: who may send a call, and when, of all runs that share them."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import anyio
import msgspec

from agents.clients.pace import Pace
from agents.clients.port import CallFailed, Reply

__all__ = ["Provider", "Turn", "Turns"]

_TOO_MUCH = ("rate_limited", "overloaded")


class Provider(msgspec.Struct, frozen=True, kw_only=True):
    """A model, ``client:model``, where it is asked: what a provider has a limit for.

    ``settings`` are its client's, such as the server's URL and the name of the key's variable.
    """

    model: str
    settings: tuple[tuple[str, object], ...] = ()


class Turn:
    """A call that is let go; tell it what came of it."""

    def __init__(self) -> None:
        self.outcome: Reply | CallFailed | None = None


class Turns:
    """One pace for each provider, whichever run asks it. Belongs to one event loop: a process
    makes one, and gives it to each run."""

    def __init__(self) -> None:
        self._paces: dict[Provider, Pace] = {}
        self._changed = anyio.Event()

    @asynccontextmanager
    async def turn(
        self,
        provider: Provider,
        tokens: int,
        *,
        calls: int | None = None,
        tokens_a_minute: int | None = None,
    ) -> AsyncIterator[Turn]:
        """Wait until a call of about so many tokens may go to ``provider``.

        ``calls`` in flight and ``tokens_a_minute`` are ceilings from now on. Where runs set
        different ones, the lowest goes for all of them.
        """
        pace, turn = self._paces.setdefault(provider, Pace()), Turn()
        pace.limit(calls=calls, tokens_a_minute=tokens_a_minute)
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
