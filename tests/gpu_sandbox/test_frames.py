"""What is too long for a frame: refused by its reader, not sent by its writer, and nothing
that a candidate has a part in."""

from __future__ import annotations

import os
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import suppress

import anyio
import msgspec
import pytest

from gpu_sandbox.ipc.framing import BadFrame, Channel, Line, PeerGone, PeerSilent, TooLong
from gpu_sandbox.ipc.verifier_messages import (
    Differs,
    Finding,
    Measured,
    Report,
    Stage,
    WorkerFailed,
)

LONG = "\0" * (17 << 20)
ENDS = tuple[socket.socket, socket.socket]


@pytest.fixture
def ends() -> Iterator[ENDS]:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        yield mine, theirs


def test_a_message_that_no_frame_holds_is_not_sent(ends: ENDS) -> None:
    ours, theirs = (Channel[Stage](end, Stage) for end in ends)
    with pytest.raises(TooLong):
        ours.send(Stage(name=LONG))
    assert not theirs.readable()
    ours.send(Stage(name="bench"))
    assert theirs.receive(1.0).name == "bench"


def test_a_reader_takes_no_more_than_it_said(ends: ENDS) -> None:
    ours, theirs = ends
    Channel[Stage](ours, Stage).send(Stage(name="x" * 100))
    with pytest.raises(BadFrame, match="bytes"):
        Channel[Stage](theirs, Stage, most_bytes=100).receive(1.0)


def test_a_text_that_is_none_is_no_frame(ends: ENDS) -> None:
    body = msgspec.msgpack.encode({"type": "Stage", "name": "abc"}).replace(b"abc", b"a\xff\xfe")
    ours, theirs = ends
    ours.sendall(struct.pack("!I", len(body)) + body)
    with pytest.raises(BadFrame, match="utf-8"):
        Channel[Stage](theirs, Stage).receive(1.0)


def test_a_peer_that_does_not_read_is_not_waited_for(ends: ENDS) -> None:
    ours, theirs = (Channel[Stage](end, Stage) for end in ends)
    ours.send(Stage(name="bench"), limit_s=0.1)  # the socket holds it
    with pytest.raises(PeerSilent):
        ours.send(Stage(name="x" * (8 << 20)), limit_s=0.1)
    assert theirs.receive(1.0).name == "bench"


@pytest.mark.parametrize(
    "finding",
    [
        Differs(reason=LONG, told=LONG, detail=LONG),
        WorkerFailed(stage=LONG, kind=LONG, message=LONG, traceback=LONG),
        Measured(runtime_ms=1.0, spread=0.0, repetitions=1, audit=[LONG] * 1000),
    ],
    ids=lambda finding: type(finding).__name__,
)
def test_whatever_is_found_fits_in_a_frame(finding: Finding) -> None:
    report = Report(finding=finding, timings_s={}, notes=[LONG] * 1000)
    assert len(msgspec.msgpack.encode(report)) < 1 << 20


def test_short_texts_stay_as_they_are() -> None:
    finding = Differs(reason="it changed its inputs", trial=3)
    report = Report(finding=finding, timings_s={"check": 1.0}, notes=["busy"])
    assert report.notes == ["busy"]
    assert finding.reason == "it changed its inputs"


def test_bare_bytes_come_whole_or_are_none(ends: ENDS) -> None:
    theirs, ours = ends
    channel: Channel[Finding] = Channel(ours, Finding)
    theirs.sendall(b"1234")
    theirs.sendall(b"5678")
    assert channel.receive_bytes(8, 5.0) == b"12345678"
    channel.send_bytes(b"9")
    assert theirs.recv(8) == b"9"
    theirs.sendall(b"123")
    with pytest.raises(PeerSilent):
        channel.receive_bytes(8, 0.05)
    theirs.close()
    with pytest.raises(PeerGone):
        channel.receive_bytes(8, 5.0)


def test_urgent_data_is_something_said_but_none_of_it(ends: ENDS) -> None:
    """A peer may make us readable by a byte that no read gives."""
    theirs, ours = ends
    try:
        theirs.send(b"x", socket.MSG_OOB)
    except OSError:
        pytest.skip("this kernel has none over local sockets")
    channel: Channel[Finding] = Channel(ours, Finding)
    assert channel.pending()
    with pytest.raises(PeerSilent):
        channel.receive_bytes(8, 0.05)


def test_descriptors_are_taken_only_while_they_are_expected(ends: ENDS) -> None:
    theirs, ours = ends
    channel: Channel[Finding] = Channel(ours, Finding)
    sender: Channel[Finding] = Channel(theirs, Finding)
    with open("/dev/null") as file:
        for _ in range(3):
            sender.send(Differs(reason="with a descriptor"), file.fileno())
    channel.receive(5.0)
    with channel.taking_fds(1):
        channel.receive(5.0)
    channel.receive(5.0)
    taken = channel.take_fds()
    for descriptor in taken:
        os.close(descriptor)
    assert len(taken) == 1


def _flood(sock: socket.socket) -> None:
    body = msgspec.msgpack.encode(Stage(name="x"))
    frames = (struct.pack("!I", len(body)) + body) * 2000
    with suppress(OSError):
        while True:
            sock.sendall(frames)


@pytest.mark.anyio
async def test_who_sends_without_end_is_heard_no_longer_than_the_deadline(ends: ENDS) -> None:
    ours, theirs = ends
    line: Line[Stage] = Line(ours, Stage)
    flood = threading.Thread(target=_flood, args=(theirs,), daemon=True)
    flood.start()
    frames = 0
    with anyio.move_on_after(0.2) as scope:
        while True:
            await line.receive()
            frames += 1
    ours.shutdown(socket.SHUT_RDWR)
    flood.join(10)
    assert scope.cancelled_caught
    assert frames > 100


def test_more_descriptors_than_a_reader_takes_never_arrive(ends: ENDS) -> None:
    ours, theirs = ends
    with open(os.devnull, "rb") as file:
        Channel[Stage](ours, Stage).send(Stage(name="x"), *[file.fileno()] * 5)
    reader: Channel[Stage] = Channel(theirs, Stage, fds=3)
    reader.receive(1.0)
    came = reader.take_fds()
    assert len(came) <= 3
    for fd in came:
        os.close(fd)
