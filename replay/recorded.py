"""Replies out of a parent's log, for a fork that sends the same requests again.

The request key is the digest of what is sent and an occurrence number: a model that was
asked the same thing three times gave three answers, and a fork gets them in that order,
those that it shares or has had already left out. What the log has no reply for is asked
of the live model.
"""

from __future__ import annotations

import json
from collections import defaultdict, deque
from collections.abc import Iterable, Mapping

import anyio.lowlevel

from agents.clients.port import Client, Reply, Request
from engine.loop.prompts import request_digest
from engine.loop.texts import Texts
from events.bodies import AgentReplied, PromptRendered, Usage
from events.envelope import Event

__all__ = ["RecordedClient", "RecordedReplies", "recorded_clients"]

_Given = tuple[int, AgentReplied]


class RecordedReplies:
    """What ``parent`` was answered and ``fork``, both from their first event, was not."""

    def __init__(self, parent: Iterable[Event], fork: Iterable[Event], texts: Texts) -> None:
        self._texts = texts
        self._left = {key: deque(given) for key, given in _replies(parent).items()}
        for key, given in _replies(fork).items():
            left = self._left.get(key, deque())
            for _ in range(min(len(given), len(left))):
                left.popleft()

    def take(self, key: str) -> Reply | None:
        """The next recorded reply to the request with this digest, if there is one."""
        left = self._left.get(key)
        if not left:
            return None
        run_seq, body = left.popleft()
        tool_input = None
        if body.tool_input_sha256 is not None:
            tool_input = json.loads(self._texts.get(body.tool_input_sha256))
        return Reply(
            text=self._texts.get(body.reply_sha256),
            tool_input=tool_input,
            usage=Usage(),  # nobody was asked: nothing was used
            stop_reason=body.stop_reason,
            served_by=body.served_by,
            sent=body.sent,
            canned=body.canned,
            reused=run_seq,
        )


def _replies(events: Iterable[Event]) -> Mapping[str, list[_Given]]:
    """Each request's replies, in order, by the digest of the request."""
    keys: dict[tuple[int, int], str] = {}
    found: dict[str, list[_Given]] = defaultdict(list)
    for event in events:
        match event.body:
            case PromptRendered() as body:
                keys[body.call, body.try_] = body.request_sha256
            case AgentReplied() as body if (body.call, body.try_) in keys:
                found[keys[body.call, body.try_]].append((event.run_seq, body))
    return found


class RecordedClient:
    """A client that looks into the log first."""

    def __init__(self, live: Client, replies: RecordedReplies) -> None:
        self._live = live
        self._replies = replies

    @property
    def canned(self) -> bool:
        return self._live.canned

    async def send(self, request: Request) -> Reply:
        """Raises what the live client raises."""
        await anyio.lowlevel.checkpoint()
        recorded = self._replies.take(request_digest(request))
        return recorded or await self._live.send(request)

    async def aclose(self) -> None:
        await self._live.aclose()


def recorded_clients(
    clients: Mapping[str, Client], parent: Iterable[Event], fork: Iterable[Event], texts: Texts
) -> dict[str, Client]:
    """``clients``, each looking into the log first; see ``RecordedReplies``."""
    replies = RecordedReplies(parent, fork, texts)
    return {spec: RecordedClient(client, replies) for spec, client in clients.items()}
