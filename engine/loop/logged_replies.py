"""Replies as the log holds them: whole, in a blob for each of their parts."""

from __future__ import annotations

import json
from collections.abc import Callable

from agents.clients.port import Reply
from engine.loop.texts import Texts
from events.bodies import AgentReplied
from events.envelope import Blob

__all__ = ["logged_reply", "reply_blobs"]


def reply_blobs(reply: Reply, texts: Texts) -> dict[str, Blob]:
    """The reply's parts by the name of their blob; ``AgentReplied`` has ``NAME_sha256`` of each."""
    parts = {"reply": reply.text}
    # Not msgspec: it refuses the lone surrogates that a model can send.
    if reply.tool_input is not None:
        parts["tool_input"] = json.dumps(reply.tool_input)
    if reply.thoughts:
        parts["thoughts"] = reply.thoughts
    if reply.others:
        parts["others"] = json.dumps(reply.others)
    return {name: texts.put(name, text) for name, text in parts.items()}


def logged_reply(body: AgentReplied, text: Callable[[str | None], str]) -> Reply:
    """The reply that ``body`` stands for; ``text`` reads a blob, and nothing as nothing."""
    given, others = text(body.tool_input_sha256), text(body.others_sha256)
    return Reply(
        text=text(body.reply_sha256),
        tool_input=json.loads(given) if given else None,
        thoughts=text(body.thoughts_sha256),
        others=tuple(json.loads(others)) if others else (),
        usage=body.usage,
        stop_reason=body.stop_reason,
        served_by=body.served_by,
        sent=body.sent,
        canned=body.canned,
    )
