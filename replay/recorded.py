"""Replies and verdicts out of a past log: for a fork that asks the same again, and for
``recorded:LOG``.

The request key is the digest of what is sent and an occurrence number: a model that was
asked the same thing three times gave three answers, and a fork gets them in that order,
those that it shares or has had already left out. What the log has no reply for is asked
of the live model. Verdicts are found the same way, by the source's sha256: task, device and
protocol are the parent's.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Collection, Iterable, Mapping
from typing import TypeVar

import anyio.lowlevel
import msgspec

from agents.clients.port import CallFailed, Client, Reply, Request
from engine.loop.logged_replies import logged_reply
from engine.loop.prompts import model_name, prompt_chars, request_digest
from engine.loop.texts import Texts
from events.bodies import (
    AgentCalled,
    AgentReplied,
    Body,
    CapabilityLearned,
    EvaluationFinished,
    EvaluationRequested,
    PromptRendered,
    RunForked,
    RunStarted,
    Usage,
)
from events.envelope import Event
from events.reader import LogReader
from projections.run.capabilities import Known

__all__ = [
    "RecordedClient", "RecordedLog", "RecordedReplies", "RecordedVerdicts", "out_of_log",
    "taken_from",
]  # fmt: skip

_T = TypeVar("_T")


class RecordedReplies:
    """What ``parent`` was answered and ``fork``, both from their first event, was not."""

    def __init__(
        self,
        parent: Iterable[Event],
        fork: Iterable[Event],
        texts: Texts,
        *,
        had: Collection[int] = (),
    ) -> None:
        """``had``: the ``run_seq`` of replies that were taken already."""
        self._texts = texts
        self._left = _left(_replies(parent, had), _replies(fork))

    def take(self, key: str) -> Reply | None:
        """The next recorded reply to the request with this digest, if there is one."""
        left = self._left.get(key)
        if not left:
            return None
        run_seq, body = left.popleft()
        reply = logged_reply(body, self._texts.get)
        # No model was asked: nothing was used.
        return msgspec.structs.replace(reply, usage=Usage(), reused=run_seq)


def _replies(
    events: Iterable[Event], had: Collection[int] = ()
) -> dict[str, list[tuple[int, AgentReplied]]]:
    """Each request's replies, in order, by the digest of the request."""
    keys: dict[tuple[int, int], str] = {}
    found: dict[str, list[tuple[int, AgentReplied]]] = defaultdict(list)
    for event in events:
        match event.body:
            case PromptRendered() as body:
                keys[body.call, body.try_] = body.request_sha256
            case AgentReplied() as body if (body.call, body.try_) in keys:
                if event.run_seq in had:
                    continue
                found[keys[body.call, body.try_]].append((event.run_seq, body))
    return found


class RecordedVerdicts:
    """What ``parent`` found of a source and ``fork`` did not, both from their first event."""

    def __init__(self, parent: Iterable[Event], fork: Iterable[Event]) -> None:
        self._left = _left(_verdicts(parent), _verdicts(fork))

    def __call__(self, source_sha256: str) -> EvaluationFinished | None:
        """The next recorded verdict on this source; the time it took was the parent's."""
        left = self._left.get(source_sha256)
        if not left:
            return None
        run_seq, body = left.popleft()
        return body.taken(reused=run_seq)


def _verdicts(events: Iterable[Event]) -> dict[str, list[tuple[int, EvaluationFinished]]]:
    sources: dict[int, str] = {}
    found: dict[str, list[tuple[int, EvaluationFinished]]] = defaultdict(list)
    for event in events:
        match event.body:
            case EvaluationRequested() as body:
                sources[body.attempt] = body.source_sha256
            case EvaluationFinished(same_as=None) as body:  # a duplicate's is another's
                found[sources[body.attempt]].append((event.run_seq, body))
    return found


def _left(parent: Mapping[str, list[_T]], fork: Mapping[str, list[_T]]) -> dict[str, deque[_T]]:
    """What the parent was given, without as much as the fork has had."""
    return {key: deque(given[len(fork.get(key, ())) :]) for key, given in parent.items()}


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


class RecordedLog:
    """``recorded:LOG``: a past run's replies answer identical requests.

    Identical but for the model: the one that the past run asked, with what was known of it
    then, answers here. ``had`` are the replies, by ``run_seq``, that were taken already.
    """

    def __init__(self, reader: LogReader, run: int, name: str, had: Collection[int]) -> None:
        self._reader = reader
        self._name = name
        events = list(reader.events(run))
        self._replies = RecordedReplies(events, (), Texts(reader.text), had=had)
        self._asked = _asked(event.body for event in events)
        self.canned = any(
            isinstance(event.body, RunStarted | RunForked) and event.body.canned for event in events
        )

    def __repr__(self) -> str:
        return f"RecordedLog({self._name!r})"

    async def send(self, request: Request) -> Reply:
        """Raises ``CallFailed`` where the log has no reply to this request."""
        await anyio.lowlevel.checkpoint()
        chars = prompt_chars(request.parts)
        for model, known in self._asked:
            params = known.fitted(request.params, chars)
            past = msgspec.structs.replace(
                request, model=model, refused=known.refused, params=params
            )
            reply = self._replies.take(request_digest(past))
            if reply is not None:
                return reply
        raise CallFailed(
            "no_reply",
            f"{self._name} has no reply to the {request.role} request {request.name} that is"
            " not taken yet: its text has to be the same, measured times in it included",
            retryable=False,
        )

    async def aclose(self) -> None:
        self._reader.connection.close()


def _asked(bodies: Iterable[Body]) -> list[tuple[str, Known]]:
    """Each model that was asked, with what was known of it when it was."""
    known: dict[str, Known] = defaultdict(Known)
    found: dict[tuple[str, Known], None] = {}
    for body in bodies:
        match body:
            case CapabilityLearned():
                known[body.model] = known[body.model].learned(body)
            case AgentCalled():
                found[model_name(body.model), known[body.model]] = None
    return list(found)


def taken_from(spec: str, bodies: Iterable[Body]) -> set[int]:
    """The recorded replies that calls of the model ``spec`` have had."""
    models: dict[int, str] = {}
    taken: set[int] = set()
    for body in bodies:
        match body:
            case AgentCalled():
                models[body.call] = body.model
            case AgentReplied() if body.reused is not None and models.get(body.call) == spec:
                taken.add(body.reused)
    return taken


def out_of_log(
    reader: LogReader,
    clients: Mapping[str, Client],
    *,
    parent: int,
    run: int,
    upto: int | None = None,
    replies: str,
    evaluations: str,
) -> tuple[Mapping[str, Client], RecordedVerdicts | None]:
    """What a fork asks and is judged by: ``clients`` that look into ``parent``'s log first,
    and its verdicts; where ``replies`` and ``evaluations`` are not ``recorded``, neither.

    ``run`` with its events up to ``upto`` is what the fork has had so far.
    """
    verdicts = None
    if replies == "recorded":
        given = RecordedReplies(
            reader.events(parent), reader.events(run, upto=upto), Texts(reader.text)
        )
        clients = {spec: RecordedClient(client, given) for spec, client in clients.items()}
    if evaluations == "recorded":
        verdicts = RecordedVerdicts(reader.events(parent), reader.events(run, upto=upto))
    return clients, verdicts
