"""Telling a run something from another process, while it goes on or when nothing does.

The process that writes the log listens on a socket beside it (docs/adr/0010-steering.md).
What it is told goes the way of every other fact: appended, folded, decided upon, and on disk
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
from engine.loop.steering_commands import Refused, Wish, facts
from engine.loop.texts import Texts
from events.errors import LogError
from events.reader import LogReader
from events.writer import LogWriter

__all__ = ["Answer", "ask", "listen", "write"]

_MOST_BYTES = 1 << 20
_LONGEST_NAME = 60


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """``told`` are the events that say it; or why there are none. ``over``: the run has not begun
    or has ended, ask again."""

    told: list[int] = []
    refused: str | None = None
    over: bool = False


async def listen(loop: RunLoop, run: str) -> None:
    """Take wishes for the run ``run`` (a uid) until cancelled.

    Where a file system has no sockets nobody can ask, which is no reason not to run.
    """
    with _beside(loop.log_path) as name:
        try:
            # A socket that a killed writer left is replaced: who is here holds the lock.
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
                answer = await _told(msgspec.json.decode(line, type=Wish), loop, run)
            except msgspec.MsgspecError as error:
                answer = Answer(refused=f"not understood: {error}")
            await stream.send(msgspec.json.encode(answer))


async def _told(wish: Wish, loop: RunLoop, run: str) -> Answer:
    if wish.run != run:
        return Answer(refused="another run of this log is going on: tell this one when it is over")
    if not loop.going:
        return Answer(over=True)
    try:
        return Answer(told=await loop.steer(wish))
    except Refused as refused:
        return Answer(refused=str(refused))
    except LogError as error:
        return Answer(refused=f"the log can't be written: {error}")


def ask(log: Path, wish: Wish) -> Answer | None:
    """Tell it to the process that writes ``log``; None where nobody listens or answers."""
    said = b""
    with _beside(log) as name, socket.socket(socket.AF_UNIX) as connection:
        try:
            connection.connect(name)
            connection.sendall(msgspec.json.encode(wish) + b"\n")
            while chunk := connection.recv(65536):
                said += chunk
        except OSError:
            return None
    return msgspec.json.decode(said, type=Answer) if said else None


async def write(log: Path, wish: Wish) -> Answer:
    """Tell it to a run that nobody works on. Raises ``LogInUse`` and its kin.

    What a killed process left due is decided first, as on a resume; it is performed then.
    """
    if wish.stop_after_attempts:
        return Answer(refused="nothing is going on that could stop")
    async with LogWriter(log) as writer:
        with LogReader(log) as reader:
            run_id = reader.find_run(wish.run).run_id
            state, texts = recover(reader, run_id).state, Texts(reader.text)
            if state.started is None:
                return Answer(refused="the run ended before its first event")
            feed = Feed(writer, run_id, state, lambda _: None)
            feed.complete_decisions(perform=False)
            try:
                told = [feed(body, blobs).run_seq for body, blobs in facts(wish, state, texts)]
            except Refused as refused:
                return Answer(refused=str(refused))
            await feed.durable()
            return Answer(told=told)


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
