"""What lies in the local sockets of a network namespace, sent and not received.

It is the kernel's memory, and in no process's account: two hundred kilobytes of each of a thousand
pairs, in each process of a jail. The kernel tells of it by its socket diagnostics (sock_diag(7)),
to anybody in the namespace.
"""

from __future__ import annotations

import socket
import struct
from collections.abc import Iterator

__all__ = ["bytes_in_sockets"]

_SOCK_DIAG = 4
_BY_FAMILY, _DONE, _ERROR = 20, 3, 2
_REQUEST, _DUMP = 0x1, 0x300
_QUEUES, _MEMORY = 0x10, 0x20
"""What to show of each."""
_OF_QUEUES, _OF_MEMORY = 4, 5
_WAITS_S = 1.0
_HEADER = struct.Struct("=IHHII")
_ASKED = struct.Struct("=BBHIIIII")
_FOUND_BYTES = 16
_ATTRIBUTE = struct.Struct("=HH")


def bytes_in_sockets(most: int) -> int:
    """Of all of the namespace that the caller is in; no further than ``most``. By what receivers
    have before them, or by what senders account for, whichever is more: of a sender that is closed
    there is no account. Raises ``OSError`` where the kernel does not tell."""
    received = sent = 0
    with socket.socket(
        socket.AF_NETLINK, socket.SOCK_RAW | socket.SOCK_CLOEXEC, _SOCK_DIAG
    ) as sock:
        sock.settimeout(_WAITS_S)
        asked = _ASKED.pack(socket.AF_UNIX, 0, 0, 0xFFFFFFFF, 0, _QUEUES | _MEMORY, 0, 0)
        size = _HEADER.size + len(asked)
        sock.send(_HEADER.pack(size, _BY_FAMILY, _REQUEST | _DUMP, 1, 0) + asked)
        while True:
            for kind, body in _messages(sock.recv(1 << 16)):
                if kind == _DONE:
                    return max(received, sent)
                if kind == _ERROR:
                    raise OSError(-struct.unpack_from("=i", body)[0], "the kernel does not tell")
                attributes = dict(_attributes(body[_FOUND_BYTES:]))
                received += _word(attributes.get(_OF_QUEUES, b""), 0)
                sent += _word(attributes.get(_OF_MEMORY, b""), 2)
            if max(received, sent) > most:
                return max(received, sent)


def _messages(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _HEADER.size:
        size, kind, *_ = _HEADER.unpack_from(data)
        yield kind, data[_HEADER.size : size]
        data = data[_aligned(max(size, _HEADER.size)) :]


def _attributes(data: bytes) -> Iterator[tuple[int, bytes]]:
    while len(data) >= _ATTRIBUTE.size:
        size, kind = _ATTRIBUTE.unpack_from(data)
        yield kind, data[_ATTRIBUTE.size : size]
        data = data[_aligned(max(size, _ATTRIBUTE.size)) :]


def _word(data: bytes, index: int) -> int:
    return int(struct.unpack_from("=I", data, 4 * index)[0]) if len(data) >= 4 * index + 4 else 0


def _aligned(size: int) -> int:
    return (size + 3) & ~3
