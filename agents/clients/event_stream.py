"""Server-sent events, as the clients of HTTP APIs read them.

Read by hand: an SDK's iterator builds a model for every few characters.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import anyio

__all__ = ["ErrorEvent", "EventLines", "Nonsense", "read_events"]


class ErrorEvent(Exception):
    """The API's own error, after the response had begun."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__()
        self.kind = kind
        self.text = text or kind or "an error in mid-stream"


class Nonsense(Exception):
    """An event that is none of the API's: a broken connection, or an odd proxy."""


class EventLines:
    """Bytes to lines. Only LF and CRLF end one: JSON may hold other separators as they are."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        first, *more = chunk.split(b"\n")
        self._pending.append(first)
        if not more:
            return []
        lines = [b"".join(self._pending), *more]
        self._pending = [lines.pop()]
        return [line.rstrip(b"\r") for line in lines]


async def read_events(chunks: AsyncIterator[bytes], take: Callable[[str], None]) -> None:
    """Hand the data of each event to ``take``, until the stream ends or ``take`` fails.

    Raises ``ErrorEvent`` as ``take`` did, and ``Nonsense`` for whatever else it could not
    read. Bytes that are not UTF-8 are replaced: a server that cuts a character in two has
    still sent a reply, which is judged like any other.
    """
    problem: Exception | None = None
    lines = EventLines()
    with anyio.CancelScope() as scope:
        async for chunk in chunks:
            try:
                for line in lines.feed(chunk) if problem is None else ():
                    if line.startswith(b"data:"):
                        take(line[5:].strip().decode("utf-8", "replace"))
            except ErrorEvent as error:
                problem = error
            except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
                problem = Nonsense(type(error).__name__)
            if problem is not None:
                # Not raised here: the generators below would be left suspended, about
                # which trio complains. Cancelled, they end from the inside.
                scope.cancel()
    if problem is not None:
        raise problem
