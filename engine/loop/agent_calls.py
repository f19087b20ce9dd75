"""Model calls as effects: render, commit the request, send, log what came, read it."""

from __future__ import annotations

import math
import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import NamedTuple

import anyio
import msgspec

from agents.clients.port import CallFailed, CapabilityMissing, Client, Deferred, Reply, Request
from agents.clients.turns import Provider, Turn, Turns
from agents.replies.parse import Rejected, parse
from agents.templates import Templates
from engine.loop.deferred import DeferredReplies
from engine.loop.feed import Feed
from engine.loop.logged_replies import logged_reply, reply_blobs
from engine.loop.prompts import prompt_chars, request_digest, request_for, source_of
from engine.loop.texts import Texts, storable
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    CapabilityLearned,
    PromptRendered,
    ReplyParsed,
    ReplyRejected,
)
from events.envelope import Blob
from projections.run.capabilities import Known
from projections.run.mail import Mail

__all__ = ["AgentCalls"]

_PACED = ("anthropic:", "bedrock:", "openai:", "vertex:")
"""Clients without a rate to keep: a reply out of a file is there or not."""
_CHARS_A_TOKEN = 3


class _Tried(NamedTuple):
    """What came of one sending, and how long that took."""

    outcome: Reply | CallFailed | CapabilityMissing | Deferred
    latency_ms: int


class AgentCalls:
    """``clients`` maps ``client:model`` to its client. ``uid`` is the run's, by which what is
    asked of others is named; ``wait_s`` is how long deferred replies are waited for when there
    is nothing else to do. ``turns`` are those at providers that may be asked too much, shared
    with the process's other runs; None: no call waits for a turn."""

    def __init__(
        self,
        feed: Feed,
        texts: Texts,
        templates: Templates,
        clients: Mapping[str, Client],
        *,
        uid: str,
        mail: Mail,
        wait_s: float,
        turns: Turns | None = None,
    ) -> None:
        self._feed = feed
        self._turns = turns
        self._texts = texts
        self._templates = templates
        self._clients = clients
        self._uid = uid
        self._deferred = DeferredReplies(feed, self._answered, mail, wait_s)

    async def call(self, called: AgentCalled) -> None:
        await anyio.sleep(called.wait_ms / 1000)
        async with self._turn(called) as turn:
            request = await self._committed(called)
            tried = await self._try(called, request)
            turn.outcome = tried.outcome if isinstance(tried.outcome, Reply | CallFailed) else None
        await self._came(called, request, tried)

    @asynccontextmanager
    async def _turn(self, called: AgentCalled) -> AsyncIterator[Turn]:
        """The call's turn at its provider; its deadline begins then."""
        if self._turns is None or not called.model.startswith(_PACED):
            yield Turn()
            return
        config = self._feed.state.config
        settings = tuple(sorted(config.client(called.model).items()))
        provider, limits = Provider(model=called.model, settings=settings), config.limits
        async with self._turns.turn(
            provider,
            _tokens(self._request(called)),
            calls=limits.calls,
            tokens_a_minute=limits.tokens_a_minute,
        ) as turn:
            yield turn

    def _request(self, called: AgentCalled, known: Known | None = None) -> Request:
        return request_for(self._feed.state, called, self._texts, self._templates, known=known)

    async def _committed(self, called: AgentCalled) -> Request:
        """What is about to be sent, as the model is known by now. It is on disk before it costs
        anything, and what is not there was not sent."""
        request = self._request(called)
        digest = request_digest(request)
        blobs = [self._texts.put(part.name, part.text) for part in request.parts]
        rendered = self._feed.note(
            PromptRendered(
                attempt=called.attempt,
                role=called.role,
                call=called.call,
                try_=called.try_,
                request_sha256=digest,
                parts=[part.name for part in request.parts],
            ),
            blobs,
        )
        await self._feed.durable(rendered)
        name = f"{self._uid}-{called.call}-{called.role}-{digest[:8]}"
        return msgspec.structs.replace(request, name=name)

    async def await_again(self, called: AgentCalled) -> None:
        """An earlier process handed the request over: it is the same, and so is its name. What
        was learned since does not change what was sent."""
        call = self._feed.state.attempts[called.attempt].call
        assert call is not None
        assert call.deferred is not None
        request = self._request(called, call.known)
        name, batch = call.deferred.name, call.deferred.batch
        request = msgspec.structs.replace(request, name=name, batch=batch)
        await self._came(called, request, await self._try(called, request))

    async def _try(self, called: AgentCalled, request: Request) -> _Tried:
        began = time.monotonic()
        outcome: Reply | CallFailed | CapabilityMissing | Deferred
        try:
            outcome = await self._clients[called.model].send(request)
        except (CapabilityMissing, CallFailed, Deferred) as no_reply:
            outcome = no_reply
        return _Tried(outcome, round((time.monotonic() - began) * 1000))

    async def _came(self, called: AgentCalled, request: Request, tried: _Tried) -> None:
        outcome, latency_ms = tried
        if isinstance(outcome, Deferred):
            self._deferred.add(called, request, outcome.inbox, posted=outcome.posted)
            await self._deferred.look_after()
            return
        self._answered(called, request, outcome, latency_ms)

    def _answered(
        self,
        called: AgentCalled,
        request: Request,
        outcome: Reply | CallFailed | CapabilityMissing,
        latency_ms: int,
    ) -> None:
        match outcome:
            case Reply():
                self._replied(called, outcome, latency_ms)
                self._read(called, outcome)
            case CapabilityMissing():
                self._learned(called, request, outcome)
            case CallFailed():
                self._failed(called, outcome)

    def _failed(self, called: AgentCalled, failed: CallFailed) -> None:
        self._feed(
            AgentFailed(
                attempt=called.attempt,
                role=called.role,
                call=called.call,
                try_=called.try_,
                error=failed.error,
                message=storable(failed.message),
                retryable=failed.retryable,
                retry_after_ms=_retry_after_ms(failed.retry_after_s),
                usage=failed.usage,
            )
        )

    def _learned(self, called: AgentCalled, request: Request, missing: CapabilityMissing) -> None:
        lesson = CapabilityLearned(
            model=called.model,
            param=missing.param,
            message=storable(missing.message),
            limit=missing.limit,
        )
        if _heeded(request, lesson):
            # It was sent so already: to send it so again would go on for ever.
            self._failed(called, CallFailed("bad_request", missing.message, retryable=False))
            return
        known = self._feed.state.known.get(called.model, Known())
        if known.learned(lesson) != known:
            self._feed.note(lesson)
        self._failed(called, CallFailed("capability", missing.message, retryable=True))

    def _replied(self, called: AgentCalled, reply: Reply, latency_ms: int) -> None:
        blobs = reply_blobs(reply, self._texts)
        shas = {f"{name}_sha256": blob.sha256 for name, blob in blobs.items()}
        self._feed(
            AgentReplied(
                attempt=called.attempt,
                role=called.role,
                call=called.call,
                try_=called.try_,
                usage=reply.usage,
                latency_ms=latency_ms,
                stop_reason=storable(reply.stop_reason),
                served_by=storable(reply.served_by),
                sent=reply.sent,
                canned=reply.canned,
                reused=reply.reused,
                file=reply.file,
                **shas,
            ),
            blobs.values(),
        )

    def _read(self, called: AgentCalled, reply: Reply) -> None:
        """Parse a reply that the log holds, and feed what came of it."""
        attempt = self._feed.state.attempts[called.attempt]
        node_source = source_of(self._feed.state.tree[attempt.node], self._texts)
        plan = self._feed.state.tree[called.attempt].annotated_sha256
        marked = self._texts.get(plan) if called.reply == "spans" else None
        is_last = called.ask >= self._feed.state.config.search.reasks
        parsed = parse(called.role, reply, node_source, marked=marked, is_last=is_last)
        at = {"attempt": called.attempt, "role": called.role, "call": called.call}
        if isinstance(parsed, Rejected):
            self._feed(ReplyRejected(**at, reason=storable(parsed.reason)))  # type: ignore[arg-type]
            return
        blobs: dict[str, Blob] = {}
        for name in ("advice", "annotated", "source", "explanation"):
            text = getattr(parsed, name)
            if text is not None:
                blobs[name] = self._texts.put(name, text)
        shas = {f"{name}_sha256": blob.sha256 for name, blob in blobs.items()}
        self._feed(
            ReplyParsed(
                **at,  # type: ignore[arg-type]
                **shas,  # type: ignore[arg-type]
                via=parsed.via,
                source_key=parsed.source_key,
                anchors=parsed.anchors,
                spliced=parsed.spliced,
                kept_chars=parsed.kept_chars,
            ),
            blobs.values(),
        )

    async def read_again(self, called: AgentCalled) -> None:
        """The process was killed between a reply and its reading: the log has the reply."""
        replied = self._log_reply(called)
        self._read(called, replied)

    def _log_reply(self, called: AgentCalled) -> Reply:
        call = self._feed.state.attempts[called.attempt].call
        assert call is not None
        assert call.reply is not None
        return logged_reply(call.reply, self._texts.get)


def _heeded(request: Request, lesson: CapabilityLearned) -> bool:
    """Whether the request is what it would be after the lesson."""
    if lesson.limit is None:
        return lesson.param in request.refused
    fitted = Known().learned(lesson).fitted(request.params, prompt_chars(request.parts))
    return fitted == request.params


def _tokens(request: Request) -> int:
    """About how many go in."""
    return prompt_chars(request.parts) // _CHARS_A_TOKEN


def _retry_after_ms(seconds: float | None) -> int | None:
    """What a server said, as far as it makes sense: a year stands for anything longer."""
    if seconds is None or math.isnan(seconds):
        return None
    return round(min(max(seconds, 0.0), 365 * 86_400.0) * 1000)
