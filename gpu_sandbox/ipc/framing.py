"""Frames over a local socket: four bytes of big-endian length, and that many bytes of msgpack.

The reader names the type that it expects, the most bytes and the most descriptors. Anything else
is ``BadFrame``; surplus descriptors are closed by the kernel. Nothing is ever unpickled from a
frame of an untrusted peer. While the CPU's clock runs a few bare bytes take the place of frames.
"""

from __future__ import annotations

import os
import select
import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Generic, TypeVar

import anyio
import anyio.lowlevel
import msgspec

MAX_FDS = 200  # of one frame; the kernel takes 253
_MAX_BYTES = 16 << 20
_HEADER = struct.Struct("!I")
T = TypeVar("T")


class BadFrame(Exception):
    """What the peer sent is no frame of the expected type."""


class PeerGone(Exception):
    """The peer closed its end; as a rule, it died."""


class PeerSilent(Exception):
    """No complete frame came, or none was taken, within the limit."""


class TooLong(Exception):
    """Too long for any peer. Nothing was sent."""


class _Reading(Generic[T]):
    """Common parts of both ends: decoding, and descriptors that came along."""

    def __init__(self, sock: socket.socket, expected: Any, fds: int, most_bytes: int) -> None:
        self._sock = sock
        self._most_bytes = most_bytes
        self._decoder: msgspec.msgpack.Decoder[T] = msgspec.msgpack.Decoder(expected)
        self._most_fds = fds
        self._most_held = fds or MAX_FDS  # a frame may come in pieces, with as many each
        self._fds: list[int] = []

    def take_fds(self) -> list[int]:
        """Descriptors that came with frames read so far; the caller owns them."""
        taken, self._fds = self._fds, []
        return taken

    def _length(self, header: bytes) -> int:
        (length,) = _HEADER.unpack(header)
        if length > self._most_bytes:
            raise BadFrame(f"a frame of {length} bytes")
        return int(length)

    def _decoded(self, body: bytes) -> T:
        try:
            return self._decoder.decode(body)
        except (msgspec.MsgspecError, UnicodeError, RecursionError) as error:
            raise BadFrame(str(error)) from error

    def _chunk(self, count: int) -> bytes:
        """One to ``count`` bytes. Raises what the socket raises."""
        flags = socket.MSG_CMSG_CLOEXEC
        try:
            chunk, fds, _, _ = socket.recv_fds(self._sock, count, self._most_fds, flags)
        except ConnectionResetError as error:
            raise PeerGone from error
        self._fds += fds
        if len(self._fds) > self._most_held:
            raise BadFrame("too many descriptors")
        if not chunk:
            raise PeerGone
        return chunk


class Channel(_Reading[T]):
    """The children's blocking end. Accepts ``expected``, in frames of ``most_bytes``."""

    def __init__(
        self, sock: socket.socket, expected: Any, *, fds: int = 0, most_bytes: int = _MAX_BYTES
    ) -> None:
        super().__init__(sock, expected, fds, most_bytes)

    def send(self, message: msgspec.Struct, *fds: int, limit_s: float | None = None) -> None:
        """Send a frame; descriptors travel with its first byte. Raises ``TooLong``.

        ``limit_s`` is for a peer that may not read. After ``PeerSilent`` a part of the frame is
        sent, and there can't be another."""
        data = _encoded(message)
        if len(data) > _HEADER.size + _MAX_BYTES:
            raise TooLong(f"a frame of {len(data)} bytes")
        self._sock.settimeout(limit_s)
        try:
            sent = socket.send_fds(self._sock, [data], list(fds)) if fds else 0
            self._sock.sendall(data[sent:])  # the limit is that of all its pieces together
        except TimeoutError as error:
            raise PeerSilent from error
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerGone from error

    def signals(self) -> tuple[Callable[[int], bytes], Callable[[bytes], None]]:
        """The socket's bare ``recv`` and ``sendall``, which wait for ever."""
        self._sock.settimeout(None)
        return self._sock.recv, self._sock.sendall

    def send_bytes(self, data: bytes) -> None:
        """A few bytes without a frame, where microseconds count. The peer knows how many."""
        try:
            self._sock.sendall(data)
        except TimeoutError as error:
            raise PeerSilent from error
        except (BrokenPipeError, ConnectionResetError) as error:
            raise PeerGone from error

    def receive_bytes(self, count: int, limit_s: float) -> bytes:
        """So many bytes without a frame. ``limit_s`` is that of all pieces together."""
        return self._exactly(count, time.monotonic() + limit_s)

    @contextmanager
    def taking_fds(self, count: int) -> Iterator[None]:
        """Accept so many with each frame that is received meanwhile."""
        before, self._most_fds = self._most_fds, count
        try:
            yield
        finally:
            self._most_fds = before

    def pending(self) -> bool:
        """Whether there is data to receive, not only the end."""
        return self.readable() and not self._gone()

    def readable(self, within_s: float = 0.0) -> bool:
        """Whether ``receive`` would return or raise within the time."""
        return bool(select.select([self._sock], [], [], within_s)[0])

    def _gone(self) -> bool:
        try:
            return self._sock.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT) == b""
        except BlockingIOError:  # urgent data, say
            return False
        except OSError:
            return True

    def receive(self, limit_s: float | None = None) -> T:
        """The next frame. ``limit_s`` covers the whole frame, however it trickles in."""
        deadline = None if limit_s is None else time.monotonic() + limit_s
        return self._decoded(
            self._exactly(self._length(self._exactly(_HEADER.size, deadline)), deadline)
        )

    def _exactly(self, count: int, deadline: float | None) -> bytes:
        data = bytearray()
        while len(data) < count:
            if deadline is not None:
                left = deadline - time.monotonic()
                if left <= 0:
                    raise PeerSilent
                self._sock.settimeout(left)
            try:
                data += self._chunk(count - len(data))
            except TimeoutError as error:
                raise PeerSilent from error
        return bytes(data)


class Line(_Reading[T]):
    """The engine's end, non-blocking. Not for two readers, or two writers, at once."""

    def __init__(self, sock: socket.socket, expected: Any, *, fds: int = 0) -> None:
        super().__init__(sock, expected, fds, _MAX_BYTES)
        sock.setblocking(False)

    async def send(self, message: msgspec.Struct, *fds: int) -> None:
        """Descriptors travel with the first byte; the caller keeps its own. Raises ``PeerGone``."""
        data = _encoded(message)
        left = list(fds)
        while data:
            try:
                sent = socket.send_fds(self._sock, [data], left) if left else self._sock.send(data)
            except BlockingIOError:
                await anyio.wait_writable(self._sock)
            except (BrokenPipeError, ConnectionResetError) as error:
                raise PeerGone from error
            else:
                left = []
                data = data[sent:]

    async def receive(self) -> T:
        """Raises ``PeerGone`` and ``BadFrame``. Other tasks run first: a peer that sends without
        end would keep any deadline from coming."""
        await anyio.lowlevel.checkpoint()
        return self._decoded(await self._exactly(self._length(await self._exactly(_HEADER.size))))

    def close(self) -> None:
        for fd in self.take_fds():
            os.close(fd)
        self._sock.close()

    async def _exactly(self, count: int) -> bytes:
        data = bytearray()
        while len(data) < count:
            try:
                data += self._chunk(count - len(data))
            except BlockingIOError:
                await anyio.wait_readable(self._sock)
        return bytes(data)


def _encoded(message: msgspec.Struct) -> memoryview:
    body = msgspec.msgpack.encode(message)
    return memoryview(_HEADER.pack(len(body)) + body)
