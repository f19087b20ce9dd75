"""A Messages API on a real socket, which answers as a test scripts it.

HTTP/1.1 and server-sent events by hand over an anyio listener, on whichever backend the
test runs. Each connection serves one request; what came over the wire is kept.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import anyio.abc
import msgspec

__all__ = [
    "Cut",
    "Got",
    "MessagesServer",
    "Script",
    "Stall",
    "error",
    "events",
    "message",
    "running",
    "serve",
]


class Got(msgspec.Struct, frozen=True, kw_only=True):
    """A request as it came over the wire."""

    line: str
    headers: dict[str, str]
    body: dict[str, Any]


class Stall(msgspec.Struct, frozen=True):
    """Send nothing more, but keep the connection open."""


class Cut(msgspec.Struct, frozen=True):
    """Close the connection in the middle of the body."""


Step = bytes | Stall | Cut
Script = list[Step]


class MessagesServer:
    """Answers the n-th request with the n-th script; the last one serves all later ones."""

    def __init__(self, scripts: list[Script]) -> None:
        self._scripts = scripts
        self.got: list[Got] = []
        self.url = ""

    def script_for(self, got: Got) -> Script:
        """What the request just ``got`` is answered with."""
        return self._scripts[min(len(self.got), len(self._scripts)) - 1]

    async def handle(self, stream: anyio.abc.SocketStream) -> None:
        try:
            async with stream:
                got = await _read(stream)
                self.got.append(got)
                for step in self.script_for(got):
                    if isinstance(step, Stall):
                        await anyio.sleep_forever()
                    elif isinstance(step, Cut):
                        return
                    else:
                        await stream.send(step)
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            pass  # the client went away, which some tests want


async def _read(stream: anyio.abc.SocketStream) -> Got:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    while len(body) < int(headers["content-length"]):
        body += await stream.receive()
    return Got(line=line, headers=headers, body=json.loads(body))


_Server = TypeVar("_Server", bound=MessagesServer)


@asynccontextmanager
async def serve(*scripts: Script) -> AsyncIterator[MessagesServer]:
    """Run a server of these scripts until the block is left."""
    async with running(MessagesServer(list(scripts))) as server:
        yield server


@asynccontextmanager
async def running(server: _Server) -> AsyncIterator[_Server]:
    """Run ``server`` until the block is left."""
    listener = await anyio.create_tcp_listener(local_host="127.0.0.1")
    port = listener.extra(anyio.abc.SocketAttribute.local_port)
    server.url = f"http://127.0.0.1:{port}"
    async with listener, anyio.create_task_group() as group:
        group.start_soon(listener.serve, server.handle)
        yield server
        group.cancel_scope.cancel()


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def events(*bodies: dict[str, Any], end: bool = True) -> list[Step]:
    """A 200 with these server-sent events; ``end`` closes the body as HTTP wants it."""
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\n"
        "transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
    steps: list[Step] = [head.encode()]
    for body in bodies:
        event = f"event: {body['type']}\ndata: {json.dumps(body)}\n\n"
        steps.append(_chunk(event.encode()))
    return [*steps, b"0\r\n\r\n"] if end else steps


def message(
    *blocks: str | dict[str, Any],
    stop: str = "end_turn",
    model: str = "claude-test-1",
    piece: int = 7,
) -> list[dict[str, Any]]:
    """The events of a whole message: texts, and tool uses as {name, json}."""
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


def error(status: int, kind: str, text: str, **headers: str) -> list[Step]:
    """An error response as the API words it."""
    body = json.dumps({"type": "error", "error": {"type": kind, "message": text}}).encode()
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = (
        f"HTTP/1.1 {status} Status\r\ncontent-type: application/json\r\n{extra}"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return [head.encode() + body]
