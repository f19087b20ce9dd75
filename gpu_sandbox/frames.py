"""Length-prefixed msgspec frames over a local socket: the only way processes talk.

A frame is four bytes of big-endian length and that many bytes of msgpack. The reader
names the type it expects and the most bytes it will take; anything else is
``BadFrame``. Nothing is ever unpickled from a frame of an untrusted peer.
"""

from __future__ import annotations

import os
import socket
import struct
import time
from typing import Any, Generic, TypeVar

import anyio
import msgspec

__all__ = ["MAX_FRAME_BYTES", "BadFrame", "Channel", "PeerGone", "PeerSilent", "read_frame"]

MAX_FRAME_BYTES = 4 << 20
_HEADER = struct.Struct("!I")
T = TypeVar("T")


class BadFrame(Exception):
    """The peer sent something that is no frame of the expected type."""


class PeerGone(Exception):
    """The peer closed its end (as a rule: it died)."""


class PeerSilent(Exception):
    """No complete frame came within the limit."""


def _length(header: bytes) -> int:
    (length,) = _HEADER.unpack(header)
    if length > MAX_FRAME_BYTES:
        raise BadFrame(f"a frame of {length} bytes")
    return int(length)


class Channel(Generic[T]):
    """The children's blocking end. ``reply`` is the type that ``receive`` accepts."""

    def __init__(self, sock: socket.socket, reply: Any) -> None:
        self._sock = sock
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(reply)
        self._fds: list[int] = []

    def send(self, message: msgspec.Struct, *fds: int) -> None:
        """Send a frame; descriptors travel with its first byte."""
        body = msgspec.msgpack.encode(message)
        data = memoryview(_HEADER.pack(len(body)) + body)
        self._sock.settimeout(None)
        try:
            sent = socket.send_fds(self._sock, [data], list(fds)) if fds else 0
            self._sock.sendall(data[sent:])
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerGone from error

    def receive(self, limit_s: float | None = None) -> T:
        """The next frame. ``limit_s`` covers the whole frame, however it trickles in."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        body = self._exactly(_length(self._exactly(_HEADER.size, deadline)), deadline)
        try:
            return self._decoder.decode(body)
        except msgspec.MsgspecError as error:
            raise BadFrame(str(error)) from error

    def take_fd(self) -> int:
        """A descriptor that came with a frame read so far; the caller owns it."""
        return self._fds.pop(0)

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < count:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PeerSilent
                self._sock.settimeout(left)
            try:
                chunk, fds, _, _ = socket.recv_fds(self._sock, count - len(data), 1)
            except TimeoutError as error:
                raise PeerSilent from error
            except ConnectionResetError as error:
                raise PeerGone from error
            self._fds += fds
            if not chunk:
                raise PeerGone
            data += chunk
        return bytes(data)


async def read_frame(sock: socket.socket, decoder: msgspec.msgpack.Decoder[T]) -> T:
    """The engine's end, for a non-blocking socket. Raises ``PeerGone`` and ``BadFrame``."""
    body = await _read(sock, _length(await _read(sock, _HEADER.size)))
    try:
        return decoder.decode(body)
    except msgspec.MsgspecError as error:
        raise BadFrame(str(error)) from error


async def _read(sock: socket.socket, count: int) -> bytes:
    data = bytearray()
    while len(data) < count:
        try:
            chunk = os.read(sock.fileno(), count - len(data))
        except BlockingIOError:
            await anyio.wait_readable(sock)
            continue
        except ConnectionResetError as error:
            raise PeerGone from error
        if not chunk:
            raise PeerGone
        data += chunk
    return bytes(data)
