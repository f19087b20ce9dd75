"""The corpus: replies as servers and models really send them, and what is to be read of each."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import anyio
import msgspec

from agents.clients.anthropic_reply import Message
from agents.clients.event_stream import read_events
from agents.clients.mail_text import read_reply
from agents.clients.openai_reply import Completion
from agents.clients.port import Reply
from agents.replies.parse import Parsed, Rejected, parse
from events.bodies import ReplyFile

__all__ = ["SHAPES", "Shape", "check", "read_shape"]

CORPUS = Path(__file__).with_name("corpus")
TASK = (CORPUS / "task.py").read_text()


class Shape(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One file of the corpus. ``wire``: ``text`` is a message's text; ``stream`` and ``body`` are
    what goes over the wire, of ``api``; the others are a mailbox's file."""

    name: str = ""
    shape: str
    server: str
    model: str
    role: str
    wire: str
    raw: list[str]
    expect: dict[str, str]
    api: str = ""
    stop_reason: str = "end_turn"

    @property
    def text(self) -> str:
        return "\n".join(self.raw)


def _load(path: Path) -> Shape:
    found = msgspec.json.decode(path.read_bytes(), type=Shape)
    return msgspec.structs.replace(found, name=path.stem)


SHAPES = [_load(path) for path in sorted(CORPUS.glob("*.json"))]


def read_shape(shape: Shape, text: str, chunks: Sequence[int] = ()) -> Reply:
    """The reply, without a socket: ``chunks`` are where a stream is cut."""
    if shape.wire == "text":
        return Reply(
            text=text, tool_input=None, usage=None, stop_reason=shape.stop_reason,
            served_by=shape.model, sent={},
        )  # fmt: skip
    if shape.wire.startswith("reply."):
        return read_reply(ReplyFile(name=f"x.{shape.wire}", sha256=""), text)
    message: Any = Message(shape.role) if shape.api == "anthropic" else Completion(shape.role)
    if shape.wire == "body":
        message.add(text)
    else:
        data = text.encode()
        cuts = [0, *sorted(at % (len(data) + 1) for at in chunks), len(data)]
        pieces = [data[a:b] for a, b in pairwise(cuts)]
        anyio.run(_read, pieces, message)
    reply: Reply = message.reply({})
    return reply


async def _read(pieces: list[bytes], message: Any) -> None:
    async def stream() -> AsyncIterator[bytes]:
        for piece in pieces:
            yield piece

    await read_events(stream(), message.add)


def check(shape: Shape, reply: Reply) -> None:
    """That the reply is read as the corpus says."""
    read = parse(shape.role, reply, TASK)
    reason = shape.expect.get("reason")
    if reason is not None:
        assert isinstance(read, Rejected), read
        assert reason in read.reason
        return
    assert isinstance(read, Parsed), read.reason
    expected = (CORPUS / shape.expect["file"]).read_text()
    found = read.annotated if shape.role == "plan" else read.source
    assert found is not None
    # What a shape puts before the code within the block is the candidate's own text.
    assert found.rstrip("\n").endswith(expected.rstrip("\n"))
    assert "a draft" not in found
    assert read.via == shape.expect["via"]
    if shape.role == "plan":
        assert read.advice == "Use one product."


def as_stored(reply: Reply) -> str:
    """All that a log would hold of it."""
    return json.dumps([reply.text, reply.tool_input, reply.thoughts, reply.others])
