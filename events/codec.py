"""Bodies to JSON and back, faithfully or not at all.

Encoding proves itself: the bytes must decode to an equal body. This catches NaN and
infinity (JSON has neither, msgspec writes ``null``), lone surrogates, and any value
whose type the schema does not hold.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import msgspec

from events.bodies import BODIES, Body
from events.errors import BodyInvalid, NewerFormat
from events.upcast import upcast

__all__ = ["as_stored", "decode_body", "encode_body"]

_encoder = msgspec.json.Encoder()


@cache
def _decoder(name: str) -> msgspec.json.Decoder[Body]:
    return msgspec.json.Decoder(BODIES[name], strict=True)


def encode_body(body: Body) -> bytes:
    """JSON bytes as they are stored and hashed. Raises ``BodyInvalid``."""
    return as_stored(body)[0]


def as_stored(body: Body) -> tuple[bytes, Body]:
    """JSON bytes, and the body that they decode to: an int in a float field is a float
    there. Raises ``BodyInvalid``."""
    try:
        data = _encoder.encode(body)
        back = _decoder(body.TYPE).decode(data)
    except (msgspec.MsgspecError, UnicodeError, KeyError, TypeError) as error:
        raise BodyInvalid(f"{body.TYPE or type(body).__name__}: {error}") from error
    if back != body:
        raise BodyInvalid(
            f"{body.TYPE}: the body does not survive JSON (NaN, infinity or a wrong type): {body!r}"
        )
    return data, back


def decode_body(type_: str, ver: int, data: bytes | str) -> Body:
    """The body of a stored row. Raises ``BodyInvalid`` or ``NewerFormat``."""
    known = BODIES.get(type_)
    if known is None or ver > known.VER:
        raise NewerFormat(
            f"event {type_} version {ver} is not known to this version of engine: update engine"
        )
    try:
        if ver < known.VER:
            raw: dict[str, Any] = msgspec.json.decode(data)
            return msgspec.convert(upcast(type_, ver, raw), known)
        return _decoder(type_).decode(data)
    except (msgspec.MsgspecError, UnicodeError) as error:
        raise BodyInvalid(f"{type_} version {ver}: {error}") from error
