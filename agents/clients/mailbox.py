"""A client whose requests and replies are files: answered by people, scripts, other machines.

A request is ``NAME.json`` beside ``NAME.md``, a reply ``NAME.reply.json`` or
``NAME.reply.md`` (docs/mailbox.md). Nothing is ever changed or deleted here, so that a
directory can be copied back and forth, and several runs can share one. Each request file
comes into being whole. A JSON reply is whole when it parses, because no part of a JSON
object does. A Markdown reply is whole when it was last changed ``SETTLED_S`` ago by the
clock, or is the same at two looks that far apart, for clocks that disagree.
"""

from __future__ import annotations

import functools
import os
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TypeVar

import anyio.to_thread
import msgspec

from agents.clients.mail_text import Malformed, read_reply, request_json, request_markdown
from agents.clients.port import CallFailed, Deferred, Look, NotTaken, Reply, Request
from events.bodies import ReplyFile
from events.envelope import sha256_hex

__all__ = ["SETTLED_S", "MailboxClient"]

SETTLED_S = 2.0
_FORMS = (".reply.json", ".reply.md")
_LARGEST = 16 * 2**20
_T = TypeVar("_T")


class _Seen(msgspec.Struct, frozen=True):
    """A reply's file as it was found. ``text`` is None where it can't be a reply yet."""

    file: ReplyFile
    text: str | None
    why: str
    changing: bool


class MailboxClient:
    """Requests to, and replies from, ``directory``, which is made by the first request."""

    canned = False
    poll_s = 0.5

    def __init__(self, directory: str | Path, *, hangs_s: float = 60.0) -> None:
        """``hangs_s`` is how long a look into it may take; handing over has the call's deadline."""
        # No shell expands the tilde of mailbox:~/box.
        self.directory = Path(directory).expanduser()
        self.place = str(self.directory)
        self._hangs_s = hangs_s
        self._stamps: dict[str, tuple[tuple[int, int], float]] = {}
        """A file's size and time of change, and since when, by our clock, they are so."""

    def __repr__(self) -> str:
        return f"MailboxClient({self.place!r})"

    async def send(self, request: Request) -> Reply:
        """Raises ``CallFailed`` or ``Deferred``: where a reply is there, ``look`` finds it."""
        await self.post([request])
        raise Deferred(self, posted=True)

    async def post(self, requests: Sequence[Request]) -> None:
        """Write those that are not there yet."""
        for request in requests:
            await self._in_thread(functools.partial(self._write, request), request.timeout_s)

    async def look(self, requests: Sequence[Request]) -> Look:
        names = [request.name for request in requests]
        return await self._in_thread(functools.partial(self._look, names), self._hangs_s)

    async def strays(self, taken: Mapping[str, ReplyFile]) -> Sequence[NotTaken]:
        return await self._in_thread(functools.partial(self._strays, dict(taken)), self._hangs_s)

    async def aclose(self) -> None:
        """Nothing is held open."""

    async def _in_thread(self, work: Callable[[], _T], timeout_s: float) -> _T:
        """Raises ``CallFailed``, also where the directory's drive does not answer."""
        try:
            with anyio.fail_after(timeout_s):
                return await anyio.to_thread.run_sync(work, abandon_on_cancel=True)
        except TimeoutError:
            message = f"the mailbox {self.place} hangs: nothing came back within {timeout_s:g} s"
            raise CallFailed("timed_out", message, retryable=True) from None
        except OSError as error:
            raise CallFailed(
                "connection", f"the mailbox {self.place} can't be used: {error}", retryable=False
            ) from None

    def _write(self, request: Request) -> None:
        self.directory.mkdir(parents=True, exist_ok=True)
        # The readable form first: what waits for a .json to appear finds both.
        for ending, text in ((".md", request_markdown), (".json", request_json)):
            path = self.directory / f"{request.name}{ending}"
            if not path.exists():
                _write_whole(path, text(request))

    def _look(self, names: Sequence[str]) -> Look:
        arrived: dict[str, Reply] = {}
        not_taken: list[NotTaken] = []
        changing = False
        for name in names:
            for ending in _FORMS:
                seen = self._seen(f"{name}{ending}")
                if seen is None:
                    continue
                reply = self._read(seen) if name not in arrived else "the other form was taken"
                if isinstance(reply, Reply):
                    arrived[name] = reply
                elif seen.changing and name not in arrived:
                    changing = True
                else:
                    not_taken.append(NotTaken(name=name, file=seen.file, reason=reply))
        return Look(arrived=arrived, not_taken=tuple(not_taken), changing=changing)

    def _read(self, seen: _Seen) -> Reply | str:
        """The reply in a file, or why it is none."""
        if seen.text is None:
            return seen.why
        try:
            return read_reply(seen.file, seen.text)
        except Malformed as malformed:
            return str(malformed)

    def _seen(self, file: str) -> _Seen | None:
        """The file as it is now; None where there is none."""
        path = self.directory / file
        try:
            with path.open("rb") as opened:
                stat = os.fstat(opened.fileno())
                data = opened.read(_LARGEST + 1)
        except FileNotFoundError:
            return None
        stamp = (stat.st_size, stat.st_mtime_ns)
        known, since = self._stamps.get(file, (None, 0.0))
        if known != stamp:
            since = time.monotonic()
            self._stamps[file] = (stamp, since)
        aged = max(time.monotonic() - since, time.time() - stat.st_mtime)
        changing = aged < SETTLED_S
        text, why = _decoded(data)
        if text is not None and changing and file.endswith(".md"):
            text, why = None, "is being written"
        found = ReplyFile(name=file, sha256=sha256_hex(data))
        return _Seen(file=found, text=text, why=why, changing=changing)

    def _strays(self, taken: Mapping[str, ReplyFile]) -> list[NotTaken]:
        found: list[NotTaken] = []
        for name, file in taken.items():
            for ending in _FORMS:
                seen = self._seen(f"{name}{ending}")
                if seen is None or seen.file == file:
                    continue
                same = seen.file.name == file.name
                reason = (
                    "it was changed after it was taken: the reply stays what it was"
                    if same
                    else f"{file.name} was taken before"
                )
                found.append(NotTaken(name=name, file=seen.file, reason=reason))
        return found


def _decoded(data: bytes) -> tuple[str | None, str]:
    """The text, or why it is none."""
    if len(data) > _LARGEST:
        return None, f"it is larger than {_LARGEST >> 20} MiB"
    if not data.strip():
        return None, "it is empty"
    # What is cut off in the middle of a character is not whole, or no text at all.
    try:
        return data.decode("utf-8-sig"), ""
    except UnicodeDecodeError:
        return None, "it is not UTF-8"


def _write_whole(path: Path, text: str) -> None:
    """Nobody sees a part of it, and a kill leaves at most a hidden file."""
    hidden = path.with_name(f".{path.name}.{secrets.token_hex(4)}.tmp")
    with hidden.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    hidden.replace(path)
