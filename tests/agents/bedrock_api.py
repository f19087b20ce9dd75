"""Bedrock's framing of the Messages API's events: AWS's event streams."""

from __future__ import annotations

import base64
import json
import struct
import zlib
from typing import Any

from .model_server import Script, chunk, stream

__all__ = ["exception", "frames"]


def frames(*bodies: dict[str, Any], end: bool = True) -> Script:
    """A 200 with these events, a frame each."""
    found = [
        _frame(
            {"bytes": base64.b64encode(json.dumps(body).encode()).decode()},
            {":event-type": "chunk", ":message-type": "event"},
        )
        for body in bodies
    ]
    return stream(*found, end=end)


def exception(kind: str, text: str) -> bytes:
    """A piece of a body in which the service breaks off."""
    named = {":exception-type": kind, ":message-type": "exception"}
    return chunk(_frame({"message": text}, named))


def _frame(payload: dict[str, Any], named: dict[str, str]) -> bytes:
    headers = b"".join(
        struct.pack("!B", len(name)) + name.encode()
        + struct.pack("!BH", 7, len(value)) + value.encode()
        for name, value in {**named, ":content-type": "application/json"}.items()
    )  # fmt: skip
    body = json.dumps(payload).encode()
    prelude = struct.pack("!II", 16 + len(headers) + len(body), len(headers))
    begun = prelude + struct.pack("!I", zlib.crc32(prelude)) + headers + body
    return begun + struct.pack("!I", zlib.crc32(begun))
