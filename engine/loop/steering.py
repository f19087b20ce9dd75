"""Steering commands from another process to a run, while it goes on or without a process.

The process that writes the log listens on a socket beside it (docs/adr/0010-steering.md).
A command goes the way of every other fact: appended, folded, decided upon, and on disk
before the answer is given.
"""

from __future__ import annotations

import contextlib
import os
import socket
from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path

import anyio
import anyio.abc
import msgspec

from engine.loop.feed import Feed
from engine.loop.run import RunLoop
from engine.loop.start import recover
from engine.loop.steering_commands import Refused, SteeringCommand, steering_events
from engine.loop.texts import Texts
from events.errors import LogError
from events.reader import LogReader
from events.writer import LogWriter

__all__ = ["Answer", "apply_offline", "listen", "send_command"]

_MOST_BYTES = 1 << 20
_LONGEST_NAME = 60


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """``events`` are the command's, by ``run_seq``; or ``refused`` says why there are none.
    ``over``: the run has not begun or has ended, send it again."""

    events: list[int] = []
    refused: str | None = None
    over: bool = False


async def listen(loop: RunLoop, run: str) -> None:
    """Take commands for the run ``run`` (a uid) until cancelled.

    On a file system without sockets a run can't be steered, but it can be run.
    """
    with _beside(loop.log_path) as name:
        try:
            # A socket that a killed writer left is replaced: this process holds the lock.
            listener = await anyio.create_unix_listener(name, mode=0o600)
        except OSError:
            return
        try:
            async with listener:
                await listener.serve(lambda stream: _serve(stream, loop, run))
        finally:
            _remove(name)


def _remove(name: str) -> None:
    with contextlib.suppress(OSError):
        os.unlink(name)


async def _serve(stream: anyio.abc.ByteStream, loop: RunLoop, run: str) -> None:
    gone = (anyio.BrokenResourceError, anyio.EndOfStream, anyio.ClosedResourceError)
    with contextlib.suppress(*gone):
        async with stream:
            line = b""
            while not line.endswith(b"\n") and len(line) < _MOST_BYTES:
                line += await stream.receive()
            try:
                answer = await _answer(msgspec.json.decode(line, type=SteeringCommand), loop, run)
            except msgspec.MsgspecError as error:
                answer = Answer(refused=f"not understood: {error}")
            await stream.send(msgspec.json.encode(answer))


async def _answer(command: SteeringCommand, loop: RunLoop, run: str) -> Answer:
    if command.run != run:
        return Answer(
            refused="another run of this log is going on: steer this one when that is over"
        )
    if not loop.going:
        return Answer(over=True)
    try:
        return Answer(events=await loop.steer(command))
    except Refused as refused:
        return Answer(refused=str(refused))
    except LogError as error:
        return Answer(refused=f"the log can't be written: {error}")


def send_command(log: Path, command: SteeringCommand) -> Answer | None:
    """Tell it to the process that writes ``log``; None without an answer."""
    said = b""
    with _beside(log) as name, socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(name)
            connection.sendall(msgspec.json.encode(command) + b"\n")
            while chunk := connection.recv(65536):
                said += chunk
        except OSError:
            return None
    return msgspec.json.decode(said, type=Answer) if said else None


async def apply_offline(log: Path, command: SteeringCommand) -> Answer:
    """Tell it to a run without a process. Raises ``LogInUse``, ``OlderFormat`` and
    their kin.

    What a killed process left due is decided first, as on a resume; it is performed then.
    """
    if command.stop_after_attempts:
        return Answer(refused="nothing is going on that could stop")
    with LogReader(log) as reader:  # a run that is refused is not opened for writing
        recover(reader, reader.find_run(command.run).run_id)
    async with LogWriter(log) as writer:
        with LogReader(log) as reader:
            run_id = reader.find_run(command.run).run_id
            state, texts = recover(reader, run_id).state, Texts(reader.text)
            if state.started is None:
                return Answer(refused="the run ended before its first event")
            feed = Feed(writer, run_id, state, lambda _: None)
            feed.complete_decisions(perform=False)
            try:
                made = steering_events(command, state, texts)
                events = [feed(body, blobs).run_seq for body, blobs in made]
            except Refused as refused:
                return Answer(refused=str(refused))
            await feed.durable()
            return Answer(events=events)


@contextlib.contextmanager
def _beside(log: Path) -> Iterator[str]:
    """The socket's name. By way of its folder's descriptor, since an address holds 107 bytes."""
    log = log.resolve()
    name = f"{log.name}.sock"
    if len(name) > _LONGEST_NAME:
        name = f".{sha256(name.encode()).hexdigest()[:16]}.sock"
    folder = os.open(log.parent, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{folder}/{name}"
    finally:
        os.close(folder)
