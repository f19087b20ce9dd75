"""Messages between a zygote and a jail: one packet each, over a pair of sockets.

Invariant: the sender of a message is the kernel's word, not the sender's.
"""

from __future__ import annotations

import select
import socket
import struct
from contextlib import suppress

import msgspec

from gpu_sandbox.confine.policy import Status

_SO_PASSCRED, _SCM_CREDENTIALS = 16, 2
_CREDENTIALS = struct.Struct("=iII")
_FRAME = 1 << 16


class MapUser(msgspec.Struct, tag="map-user"):
    """Asks the zygote for the user namespace's maps; answered with any message."""


class Ready(msgspec.Struct, tag="ready"):
    """From the candidate's process, just before it runs the candidate."""

    held: tuple[str, ...]


class Failed(msgspec.Struct, tag="failed"):
    layer: str
    reason: str


class Ended(msgspec.Struct, tag="ended"):
    status: Status
    stuck: bool
    """Processes are left that SIGKILL did not end in time."""


class Stop(msgspec.Struct, tag="stop"):
    """From the zygote: SIGTERM for the candidate, and after ``grace_s`` SIGKILL for all."""

    grace_s: float


Message = MapUser | Ready | Failed | Ended | Stop


class Closed:
    """The other end is dead."""


def pair() -> tuple[socket.socket, socket.socket]:
    """The zygote's end, at which the kernel names the sender, and the jail's."""
    ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    ours.setsockopt(socket.SOL_SOCKET, _SO_PASSCRED, 1)
    return ours, theirs


def send(end: socket.socket, message: Message) -> None:
    """Send, even if the other end is dead by now."""
    with suppress(OSError):
        end.send(msgspec.msgpack.encode(message), socket.MSG_NOSIGNAL)


def receive(ours: socket.socket, timeout_s: float) -> tuple[Message | Closed | None, int]:
    """A message and its sender's pid; ``Closed`` at the end; None when time is up."""
    poller = select.poll()
    poller.register(ours, select.POLLIN)
    if not poller.poll(timeout_s * 1000):
        return None, 0
    try:
        frame, ancillary, _, _ = ours.recvmsg(_FRAME, socket.CMSG_SPACE(_CREDENTIALS.size))
    except OSError:
        return Closed(), 0
    if not frame:
        return Closed(), 0
    pid = 0
    for level, kind, data in ancillary:
        if level == socket.SOL_SOCKET and kind == _SCM_CREDENTIALS:
            pid = _CREDENTIALS.unpack(data[: _CREDENTIALS.size])[0]
    return msgspec.msgpack.decode(frame, type=Message), pid


def receive_stop(theirs: socket.socket) -> Stop | None:
    """None: the zygote is dead."""
    try:
        frame = theirs.recv(4096)
        return msgspec.msgpack.decode(frame, type=Stop) if frame else None
    except (OSError, msgspec.DecodeError):
        return None
