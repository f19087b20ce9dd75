"""The Messages API's words: events, whole messages, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from .model_server import Script, response, stream

__all__ = ["error", "events", "message"]


def events(*bodies: dict[str, Any], end: bool = True) -> Script:
    """A 200 with these events."""
    lines = (f"event: {body['type']}\ndata: {json.dumps(body)}\n\n" for body in bodies)
    return stream(*(line.encode() for line in lines), end=end)


def message(
    *blocks: str | dict[str, Any],
    stop: str = "end_turn",
    model: str = "claude-test-1",
    piece: int = 7,
) -> list[dict[str, Any]]:
    """The events of a whole message: texts, tool uses as {name, json}, and {thinking}."""
    start = {
        "id": "msg_1", "type": "message", "role": "assistant", "model": model, "content": [],
        "stop_reason": None, "stop_sequence": None,
        "usage": {
            "input_tokens": 11, "output_tokens": 1,
            "cache_read_input_tokens": 300, "cache_creation_input_tokens": 20,
        },
    }  # fmt: skip
    found: list[dict[str, Any]] = [
        {"type": "message_start", "message": start},
        {"type": "ping"},
    ]
    for index, block in enumerate(blocks):
        found += _block(index, block, piece)
    delta = {"stop_reason": stop, "stop_sequence": None}
    found.append({"type": "message_delta", "delta": delta, "usage": {"output_tokens": 42}})
    return [*found, {"type": "message_stop"}]


def _block(index: int, block: str | dict[str, Any], piece: int) -> list[dict[str, Any]]:
    opening: dict[str, Any]
    if isinstance(block, str):
        opening, text = {"type": "text", "text": ""}, block
        delta: Callable[[str], dict[str, Any]] = lambda part: {"type": "text_delta", "text": part}  # noqa: E731
    elif "thinking" in block:
        opening, text = {"type": "thinking", "thinking": "", "signature": "c2ln"}, block["thinking"]
        delta = lambda part: {"type": "thinking_delta", "thinking": part}  # noqa: E731
    else:
        opening = {"type": "tool_use", "id": "toolu_1", "name": block["name"], "input": {}}
        text = block["json"]
        delta = lambda part: {"type": "input_json_delta", "partial_json": part}  # noqa: E731
    pieces = [text[at : at + piece] for at in range(0, len(text), piece)]
    return [
        {"type": "content_block_start", "index": index, "content_block": opening},
        *({"type": "content_block_delta", "index": index, "delta": delta(part)} for part in pieces),
        {"type": "content_block_stop", "index": index},
    ]


def error(status: int, kind: str, text: str, **headers: str) -> Script:
    """An error response as the API words it."""
    body = {"type": "error", "error": {"type": kind, "message": text}}
    return response(status, json.dumps(body).encode(), **headers)
