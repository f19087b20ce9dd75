"""Keys, kept out of what servers say: an echo of a request must not reach log or terminal."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote

import msgspec

from agents.clients.port import Reply

__all__ = ["reply_without", "without"]

_SHORTEST = 12
"""A server of one's own may want ``none`` or ``local`` for a key. That is no secret, and taken
out of a reply it would take words out of the code."""


def without(text: str, key: str) -> str:
    """``text`` with "…" for the key, also as a URL and JSON would write it."""
    forms = {key, quote(key, safe=""), json.dumps(key)[1:-1]} - {""}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "…")
    return text


def reply_without(reply: Reply, key: str) -> Reply:
    """The reply without the key, whatever part of it a server echoed it in."""
    if len(key) < _SHORTEST:
        return reply
    return msgspec.structs.replace(
        reply,
        text=without(reply.text, key),
        tool_input=_cleaned(reply.tool_input, key),
        stop_reason=without(reply.stop_reason, key),
        served_by=without(reply.served_by, key),
    )


def _cleaned(value: Any, key: str) -> Any:
    match value:
        case str():
            return without(value, key)
        case dict():
            return {without(name, key): _cleaned(each, key) for name, each in value.items()}
        case list():
            return [_cleaned(each, key) for each in value]
    return value
