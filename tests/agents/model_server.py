"""A model provider's API on a real socket, which answers as a test scripts it.

HTTP/1.1 and server-sent events by hand over an anyio listener, on whichever backend the
test runs. Each connection serves one request; what came over the wire is kept.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import anyio
import anyio.abc
import msgspec

__all__ = [
    "Cut",
    "Got",
    "ModelServer",
    "Script",
    "Stall",
    "Step",
    "chunk",
    "response",
    "running",
    "serve",
    "stream",
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


class ModelServer:
    """Answers the n-th request with the n-th script; the last one serves all later ones."""

    def __init__(self, scripts: list[Script]) -> None:
        self._scripts = scripts
        self.got: list[Got] = []
        self.stalled = anyio.Event()
        self.hung_up = anyio.Event()
        """Set when a client closed a stalled connection."""
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
                        await self._wait_for_hanging_up(stream)
                    elif isinstance(step, Cut):
                        return
                    else:
                        await stream.send(step)
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            pass  # the client went away, which some tests want

    async def _wait_for_hanging_up(self, stream: anyio.abc.SocketStream) -> None:
        self.stalled.set()
        try:
            await stream.receive()
        except (anyio.BrokenResourceError, anyio.EndOfStream):
            self.hung_up.set()


async def _read(stream: anyio.abc.SocketStream) -> Got:
    data = b""
    while b"\r\n\r\n" not in data:
        data += await stream.receive()
    head, _, body = data.partition(b"\r\n\r\n")
    line, *fields = head.decode().split("\r\n")
    headers = {name.lower(): value.strip() for name, _, value in (f.partition(":") for f in fields)}
    while len(body) < int(headers.get("content-length", 0)):
        body += await stream.receive()
    return Got(line=line, headers=headers, body=json.loads(body) if body else {})


_Server = TypeVar("_Server", bound=ModelServer)


@asynccontextmanager
async def serve(*scripts: Script) -> AsyncIterator[ModelServer]:
    """Run a server of these scripts until the block is left."""
    async with running(ModelServer(list(scripts))) as server:
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


def chunk(data: bytes) -> bytes:
    """A piece of a body of unknown length."""
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def stream(*events: bytes, end: bool = True) -> list[Step]:
    """A 200 with these server-sent events; ``end`` closes the body as HTTP wants it."""
    head = (
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nrequest-id: req_1\r\n"
        "transfer-encoding: chunked\r\nconnection: close\r\n\r\n"
    )
    return [head.encode(), *map(chunk, events), *([b"0\r\n\r\n"] if end else [])]


def response(status: int, body: bytes, kind: str = "application/json", **headers: str) -> Script:
    """A whole response; ``_`` in a header's name stands for ``-``."""
    extra = "".join(f"{name.replace('_', '-')}: {value}\r\n" for name, value in headers.items())
    head = (
        f"HTTP/1.1 {status} Status\r\ncontent-type: {kind}\r\n{extra}"
        f"content-length: {len(body)}\r\nconnection: close\r\n\r\n"
    )
    return [head.encode() + body]
