"""Replies that come later: requests are handed over, looked after, and given up for now.

A run goes on while anything else can. Only when nothing but such replies is left to wait
for, and ``wait_s`` have passed, the log gets ``WaitEnded``, and the core pauses the run.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

import anyio
import msgspec

from agents.clients.port import (
    CallFailed,
    CapabilityMissing,
    Inbox,
    Look,
    NotTaken,
    Reply,
    Request,
)
from engine.core.standstill import only_replies_awaited
from engine.loop.feed import Feed
from engine.loop.texts import storable
from events.bodies import AgentCalled, ReplyDeferred, ReplyNotTaken, WaitEnded
from projections.run.mail import Mail

__all__ = ["DeferredReplies"]

Answered = Callable[[AgentCalled, Request, Reply | CallFailed | CapabilityMissing, int], None]


class _Awaited(msgspec.Struct, frozen=True, kw_only=True):
    called: AgentCalled
    request: Request
    inbox: Inbox
    since: float


class DeferredReplies:
    """Those of one run. ``answered`` logs what has come for a call, and the milliseconds that
    it was waited for; ``mail`` is what the log says of earlier files."""

    def __init__(self, feed: Feed, answered: Answered, mail: Mail, wait_s: float) -> None:
        self._feed = feed
        self._answered = answered
        self._mail = mail
        self._wait_s = wait_s
        self._queued: dict[int, _Awaited] = {}
        """By call: not handed over yet."""
        self._awaited: dict[int, _Awaited] = {}
        self._looked: dict[str, float] = {}
        """By place: when an inbox was last looked into."""
        self._changing: dict[str, bool] = {}
        """By place: whether a reply was being written there."""
        self._trouble: dict[str, str] = {}
        self._looking = False
        self._news = anyio.Event()
        self._idle_since: float | None = None

    def add(self, called: AgentCalled, request: Request, inbox: Inbox, *, posted: bool) -> None:
        """Look after a request from now on; one that isn't ``posted`` is handed over when
        nothing else can go on."""
        awaited = _Awaited(called=called, request=request, inbox=inbox, since=time.monotonic())
        if posted:
            self._handed_over(awaited, request.batch)
        else:
            self._queued[called.call] = awaited
        self._news.set()

    async def look_after(self) -> None:
        """Until nothing is awaited any more, or the wait ends; returns at once where another
        task does this already."""
        if self._looking:
            return
        self._looking = True
        try:
            while self._awaited or self._queued:
                if self._queued and self._idle:
                    await self._post()
                await self._look()
                left = self._left_s()
                if left is not None and left <= 0 and await self._looked_at_all():
                    self._feed(WaitEnded(trouble="; ".join(self._trouble.values()) or None))
                    return
                await self._pause(left)
        finally:
            self._looking = False

    def _left_s(self) -> float | None:
        """How much longer to wait; None while something else goes on."""
        now = time.monotonic()
        if not self._idle or self._queued or any(self._changing.values()):
            self._idle_since = None
            return None
        if self._idle_since is None:
            self._idle_since = now
        return self._idle_since + self._wait_s - now

    @property
    def _idle(self) -> bool:
        return only_replies_awaited(self._feed.state, calls=self._queued.keys())

    async def _pause(self, left: float | None) -> None:
        """Until an inbox is due, something new is to be awaited, or the wait ends."""
        due = [
            self._looked.get(inbox.place, 0.0) + inbox.poll_s - time.monotonic()
            for inbox in self._inboxes()
        ]
        # What else the run does ends without telling: so not longer than a moment.
        waits = [max(wait, 0.0) for wait in (*due, left, 0.25 if due or self._queued else None)
                 if wait is not None]  # fmt: skip
        with anyio.move_on_after(min(waits) if waits else float("inf")):
            await self._news.wait()
        self._news = anyio.Event()

    def _inboxes(self) -> Iterable[Inbox]:
        return {id(each.inbox): each.inbox for each in self._awaited.values()}.values()

    def _handed_over(self, awaited: _Awaited, batch: str | None) -> None:
        called, state = awaited.called, self._feed.state
        request = msgspec.structs.replace(awaited.request, batch=batch)
        self._awaited[called.call] = msgspec.structs.replace(awaited, request=request)
        self._looked.pop(awaited.inbox.place, None)
        call = state.attempts[called.attempt].call
        if call is None or call.status != "deferred":
            self._feed(
                ReplyDeferred(
                    attempt=called.attempt, role=called.role, call=called.call,
                    try_=called.try_, name=request.name, place=storable(awaited.inbox.place),
                    batch=batch,
                )
            )  # fmt: skip

    async def _post(self) -> None:
        """Hand over all that waits for it, each inbox's together."""
        queued, self._queued = list(self._queued.values()), {}
        for inbox in {id(each.inbox): each.inbox for each in queued}.values():
            together = [each for each in queued if each.inbox is inbox]
            try:
                batch = await inbox.post([each.request for each in together])
            except (CallFailed, CapabilityMissing) as failed:
                for each in together:
                    self._answered(each.called, each.request, failed, 0)
            else:
                for each in together:
                    self._handed_over(each, batch)
        await self._feed.durable()

    async def _look(self) -> None:
        """Look where it is due, and log what has come."""
        for inbox in list(self._inboxes()):
            if time.monotonic() - self._looked.get(inbox.place, -1e9) < inbox.poll_s:
                continue
            awaited = [each for each in self._awaited.values() if each.inbox is inbox]
            # Before, not after: what is added while it looks is to be looked for as well.
            self._looked[inbox.place] = time.monotonic()
            try:
                look = await inbox.look([each.request for each in awaited])
            except CallFailed as failed:
                look = Look(trouble=failed.message)
            if look.trouble:
                self._trouble[inbox.place] = look.trouble
            else:
                self._trouble.pop(inbox.place, None)
            self._changing[inbox.place] = look.changing
            self._note(look.not_taken)
            for each in awaited:
                outcome = look.arrived.get(each.request.name)
                if outcome is not None:
                    del self._awaited[each.called.call]
                    waited_ms = round((time.monotonic() - each.since) * 1000)
                    self._answered(each.called, each.request, outcome, waited_ms)

    async def _looked_at_all(self) -> bool:
        """Whether each inbox was looked into since the last request for it; strays, too."""
        if any(inbox.place not in self._looked for inbox in self._inboxes()):
            return False
        await self._note_strays()
        # Meanwhile a reply may have been logged, or more asked.
        return self._idle and not self._queued

    async def _note_strays(self) -> None:
        for inbox in list(self._inboxes()):
            try:
                self._note(await inbox.strays(self._mail.taken))
            except CallFailed as failed:
                self._trouble[inbox.place] = failed.message

    def _note(self, not_taken: Iterable[NotTaken]) -> None:
        for each in not_taken:
            call = self._mail.calls.get(each.name)
            if call is not None and each.file not in self._mail.not_taken:
                self._feed.note(ReplyNotTaken(call=call, file=each.file, reason=each.reason))
