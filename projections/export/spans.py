"""A run as spans, after OpenTelemetry's semantic conventions for generative AI (1.41).

The run is a workflow, its attempts lie within it, and in these the model calls, one span for
each try, and the evaluations. Identities are made of the run's uid: exported again, or by
somebody else, a span is the same. No texts: what was said stays in the log.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from hashlib import sha256
from typing import Any

import msgspec

from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    EvaluationFaulted,
    EvaluationFinished,
    EvaluationRequested,
    NodeSelected,
    PromptRendered,
    RunForked,
    RunStarted,
    RunStopped,
    Usage,
)
from events.envelope import Event
from projections.candidate.labels import labels_of

__all__ = ["Span", "Spans"]

_PROVIDERS = {
    "anthropic": "anthropic", "anthropic-batch": "anthropic", "bedrock": "aws.bedrock",
    "openai": "openai", "vertex": "gcp.vertex_ai",
}  # fmt: skip
"""Client → ``gen_ai.provider.name``; others are called as the client is."""


class Span(msgspec.Struct, frozen=True, kw_only=True):
    """``client`` is its kind: a call of another service, else internal work. ``error``
    is empty where there was none; ``trace`` has 128 bits, ``id`` and ``parent`` 64."""

    name: str
    trace: int
    id: int
    parent: int | None
    start_us: int
    end_us: int
    client: bool = False
    error: str = ""
    attributes: Mapping[str, Any]


class _Open(msgspec.Struct):
    name: str
    parent: str | None
    start_us: int
    attributes: dict[str, Any]
    client: bool = False


class Spans:
    """A fold over one run's events that owns mutable state; each returns the spans it ends."""

    def __init__(self, run: str) -> None:
        self._run = run
        self._open: dict[str, _Open] = {}
        """By a key that is unique in the run; parents before their children."""
        self._last_us = 0

    def apply(self, event: Event) -> Iterator[Span]:
        """Fold one event."""
        self._last_us = max(self._last_us, event.ts_us)
        body, at_us = event.body, event.ts_us
        match body:
            case RunStarted():
                self._begin("run", None, at_us, "invoke_workflow stark", _of_run(self._run, body))
            case RunForked():
                self._attributes(
                    "run", {"stark.fork.parent": body.parent, "stark.fork.at": body.at}
                )
            case NodeSelected():
                self._begin(
                    _attempt(body), "run", at_us, f"attempt {body.attempt}",
                    {"stark.attempt": body.attempt, "stark.node": body.node,
                     "stark.rule": body.rule, "stark.repair": body.repair},
                )  # fmt: skip
            case AgentCalled():
                self._call(body, at_us)
            case PromptRendered() if (key := _call(body)) in self._open:
                # The wait before a retry is over: here the call itself begins.
                self._open[key].start_us = at_us
            case AgentReplied():
                yield from self._end(_call(body), at_us, _of_reply(body))
            case AgentFailed():
                yield from self._end(_call(body), at_us, _of_usage(body.usage), error=body.error)
            case EvaluationRequested():
                key, name = f"evaluation/{body.attempt}/{body.try_}", f"evaluate {body.attempt}"
                self._begin(key, _attempt(body), at_us, name, {"stark.attempt": body.attempt})
            case EvaluationFinished() | EvaluationFaulted():
                yield from self._evaluated(body, at_us)
            case AttemptAbandoned():
                yield from self._end_attempt(_attempt(body), at_us, {}, error="abandoned")
            case RunStopped():
                self._attributes("run", {"stark.status": body.status, "stark.reason": body.reason})

    def rest(self) -> Iterator[Span]:
        """What has no end in the log, the run among it, as far as the newest event."""
        for key in reversed(self._open.copy()):
            yield from self._end(key, self._last_us, {}, error="" if key == "run" else "unanswered")

    def _call(self, body: AgentCalled, at_us: int) -> None:
        client, _, model = body.model.partition(":")
        self._begin(
            _call(body), _attempt(body), at_us, f"chat {model}",
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.provider.name": _PROVIDERS.get(client, client),
                "gen_ai.request.model": model,
                "gen_ai.conversation.id": self._run,
                "gen_ai.agent.name": body.role,
                "stark.attempt": body.attempt, "stark.call": body.call, "stark.try": body.try_,
                "stark.ask": body.ask,
            },
            client=True,
        )  # fmt: skip

    def _evaluated(
        self, body: EvaluationFinished | EvaluationFaulted, at_us: int
    ) -> Iterator[Span]:
        key = next((k for k in self._open if k.startswith(f"evaluation/{body.attempt}/")), "")
        if isinstance(body, EvaluationFaulted):
            yield from self._end(key, at_us, {}, error="sandbox_fault")
            return
        outcome: dict[str, Any] = {"stark.outcome": str(body.outcome.__struct_config__.tag)}
        for field in ("runtime_ms", "speedup", "eager_speedup"):
            value = getattr(body.outcome, field, None)
            if value is not None:
                outcome[f"stark.{field}"] = value
        if labels := labels_of(body.outcome, body.notes):
            outcome["stark.labels"] = ",".join(labels)
        times = {f"stark.timings.{stage}_s": s for stage, s in body.timings_s.items()}
        yield from self._end(key, at_us, {**outcome, **times, "stark.device": body.device})
        yield from self._end_attempt(_attempt(body), at_us, outcome)

    def _end_attempt(
        self, key: str, at_us: int, more: Mapping[str, Any], *, error: str = ""
    ) -> Iterator[Span]:
        """With the tries that a killed process left without an answer."""
        for child in [child for child, span in self._open.items() if span.parent == key]:
            yield from self._end(child, at_us, {}, error="unanswered")
        yield from self._end(key, at_us, more, error=error)

    def _begin(
        self, key: str, parent: str | None, at_us: int, name: str, attributes: dict[str, Any],
        *, client: bool = False,
    ) -> None:  # fmt: skip
        self._open[key] = _Open(name, parent, at_us, attributes, client)

    def _attributes(self, key: str, more: Mapping[str, Any]) -> None:
        if key in self._open:
            self._open[key].attributes.update(more)

    def _end(
        self, key: str, at_us: int, more: Mapping[str, Any], *, error: str = ""
    ) -> Iterator[Span]:
        span = self._open.pop(key, None)
        if span is None:
            return
        if error:
            more = {**more, "error.type": error}
        yield Span(
            name=span.name,
            trace=_number(f"{self._run}/trace", 16),
            id=_number(f"{self._run}/{key}", 8),
            parent=None if span.parent is None else _number(f"{self._run}/{span.parent}", 8),
            start_us=span.start_us,
            end_us=max(at_us, span.start_us),
            client=span.client,
            error=error,
            attributes={**span.attributes, **more},
        )


def _of_run(run: str, body: RunStarted) -> dict[str, Any]:
    search: Mapping[str, Any] = body.config.get("search", {})
    return {
        "gen_ai.operation.name": "invoke_workflow",
        "gen_ai.workflow.name": "stark",
        "stark.run": run,
        "stark.task": body.task_name,
        "stark.method": search.get("method", ""),
        "stark.policy": search.get("policy", ""),
        "stark.seed": body.seed,
        "stark.canned": body.canned,
    }


def _of_reply(body: AgentReplied) -> dict[str, Any]:
    attributes: dict[str, Any] = {
        "gen_ai.response.model": body.served_by,
        "gen_ai.response.finish_reasons": [body.stop_reason],
        "stark.canned": body.canned,
    }
    if body.reused is not None:
        attributes["stark.reused"] = body.reused
    # What was sent, not what was asked for: a model may have refused it.
    limit = body.sent.get("max_tokens", body.sent.get("max_completion_tokens"))
    sent = {"temperature": body.sent.get("temperature"), "max_tokens": limit}
    attributes |= {f"gen_ai.request.{name}": v for name, v in sent.items() if v is not None}
    return attributes | _of_usage(body.usage)


def _of_usage(usage: Usage | None) -> dict[str, Any]:
    if usage is None:
        return {}
    cached = usage.cache_read_tokens + usage.cache_write_tokens
    return {
        "gen_ai.usage.input_tokens": usage.input_tokens + cached,
        "gen_ai.usage.output_tokens": usage.output_tokens,
        "gen_ai.usage.cache_read.input_tokens": usage.cache_read_tokens,
        "gen_ai.usage.cache_creation.input_tokens": usage.cache_write_tokens,
    }


def _attempt(body: Any) -> str:
    return f"attempt/{body.attempt}"


def _call(body: Any) -> str:
    return f"call/{body.call}/{body.try_}"


def _number(text: str, size: int) -> int:
    return int.from_bytes(sha256(text.encode()).digest()[:size], "big")
