"""Anthropic's Message Batches: half the price, and replies that come within a day.

All requests that wait when nothing else can go on are one batch. Its id is in the log with
each of them, so any process can ask for the results; what had none (expired, cancelled, an
error) is a failed try like any other.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from agents.clients.anthropic import AnthropicClient, request_body, sent_of
from agents.clients.anthropic_errors import error_in_batch
from agents.clients.anthropic_errors import failure as as_failure
from agents.clients.anthropic_reply import Message
from agents.clients.failures import one_try
from agents.clients.keys import reply_without
from agents.clients.port import (
    CallFailed,
    CapabilityMissing,
    Deferred,
    Look,
    NotTaken,
    Reply,
    Request,
)
from events.bodies import ReplyFile

if TYPE_CHECKING:
    from anthropic import AsyncAnthropic

__all__ = ["AnthropicBatchClient"]

_TIMEOUT_S = 120.0


class AnthropicBatchClient(AnthropicClient):
    """Calls the Message Batches API at ``base_url`` with ``api_key``."""

    place = "Anthropic's batches"

    def __init__(
        self, *, api_key: str | None = None, base_url: str | None = None, poll_s: float = 20.0
    ) -> None:
        super().__init__(api_key=api_key, base_url=base_url)
        self.poll_s = poll_s

    async def send(self, request: Request) -> Reply:
        """Raises ``Deferred``."""
        raise Deferred(self, posted=request.batch is not None)

    async def post(self, requests: Sequence[Request]) -> str:
        """Submit these as one batch and return its id. Raises ``CallFailed``."""
        sdk = await self._connected()
        items = [{"custom_id": each.name, "params": request_body(each)} for each in requests]
        found: list[str] = []

        async def create() -> None:
            batch = await sdk.messages.batches.create(requests=items, timeout=_TIMEOUT_S)  # type: ignore[arg-type]
            found.append(batch.id)

        await one_try(create(), self._told, timeout_s=_TIMEOUT_S)
        return found[0]

    async def look(self, requests: Sequence[Request]) -> Look:
        """The results of those batches that have ended."""
        sdk = await self._connected()
        arrived: dict[str, Reply | CallFailed | CapabilityMissing] = {}
        troubles: list[str] = []
        for batch in {each.batch: None for each in requests if each.batch}:
            asked = {each.name: each for each in requests if each.batch == batch}
            work = _collect(sdk, str(batch), asked, arrived, self._secrets)
            try:
                await one_try(work, self._told, timeout_s=_TIMEOUT_S)
            except CallFailed as failed:
                troubles.append(f"batch {batch} can't be asked for: {failed.message}")
        return Look(arrived=arrived, trouble="; ".join(troubles) or None)

    async def strays(self, taken: Mapping[str, ReplyFile]) -> Sequence[NotTaken]:
        """None: a batch answers each request once."""
        return ()

    def _told(self, error: Exception) -> CallFailed | CapabilityMissing | None:
        if isinstance(error, _SENSELESS):
            name = type(error).__name__
            return CallFailed("connection", f"the results make no sense: {name}", retryable=True)
        return as_failure(error, {}, self._secrets, self.hint)


_SENSELESS = (ValueError, LookupError, TypeError, AttributeError, RecursionError)


async def _collect(
    sdk: AsyncAnthropic,
    batch: str,
    asked: Mapping[str, Request],
    arrived: dict[str, Reply | CallFailed | CapabilityMissing],
    secrets: tuple[str, ...],
) -> None:
    """Put what became of each request into ``arrived``, if the batch has ended."""
    status = await sdk.messages.batches.retrieve(batch, timeout=_TIMEOUT_S)
    if status.processing_status != "ended":
        return
    results: dict[str, dict[str, Any]] = {}
    if status.results_url:
        # The lines as they are: the SDK's models are only as new as the SDK.
        raw = sdk.messages.batches.with_streaming_response
        async with raw.results(batch, timeout=_TIMEOUT_S) as response:
            async for line in response.iter_lines():
                if line.strip():
                    entry = json.loads(line)
                    results[entry["custom_id"]] = entry["result"]
    for name, each in asked.items():
        arrived[name] = _outcome(each, results.get(name), secrets)


def _outcome(
    request: Request, result: dict[str, Any] | None, secrets: tuple[str, ...]
) -> Reply | CallFailed | CapabilityMissing:
    body = request_body(request)
    match None if result is None else (result["type"], result):
        case ("succeeded", {"message": dict(message)}):
            reply = Message(request.tool.name)
            reply.add_whole(message)
            sent = {name: value for name, value in sent_of(body).items() if name != "stream"}
            return reply_without(reply.reply({**sent, "batch": request.batch}), secrets)
        case ("errored", {"error": dict(error)}):
            # An error is wrapped as in a response: {"type": "error", "error": {…}}.
            return error_in_batch(error.get("error") or error, body, secrets)
        case ("expired", _):
            return CallFailed("timed_out", "the batch expired before its turn", retryable=True)
        case ("canceled", _):
            return CallFailed("server_error", "it was cancelled in the batch", retryable=True)
        case _:
            return CallFailed("server_error", "the batch has no result for it", retryable=True)
