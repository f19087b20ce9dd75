"""Server-sent events by their standard (https://html.spec.whatwg.org, section 9.2), and what
clients of HTTP APIs find instead of them.

Read by hand: an SDK's iterator builds a model for every few characters.
"""

from __future__ import annotations

import html
import json
import re
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import anyio

__all__ = ["ErrorEvent", "EventLines", "HtmlPage", "Nonsense", "event_object", "html_title",
           "read_events"]  # fmt: skip

_LINE_END = re.compile(rb"\r\n|\n|\r")
_MAX_PAGE = 2**16  # bytes of a page in which its title is looked for
_PAGE = re.compile(rb"\s*<(?:!doctype html|html|head)\b", re.IGNORECASE)
_TITLE = re.compile(r"<title[^>]*>([^<]*)", re.IGNORECASE)


class ErrorEvent(Exception):
    """The API's own error, after the response had begun."""

    def __init__(self, kind: str, text: str) -> None:
        super().__init__()
        self.kind = kind
        self.text = text or kind or "an error in mid-stream"


class Nonsense(Exception):
    """An event that is none of the API's: a broken connection, or an odd proxy."""


class HtmlPage(Exception):
    """What came is a page for people."""

    def __init__(self, title: str) -> None:
        super().__init__(f"an HTML page titled {title!r}" if title else "an HTML page")


def html_title(body: bytes) -> str | None:
    """The title of an HTML page; None where ``body`` is none."""
    if not _PAGE.match(body.removeprefix(b"\xef\xbb\xbf")):
        return None
    found = _TITLE.search(body[:_MAX_PAGE].decode("utf-8", "replace"))
    return " ".join(html.unescape(found[1]).split())[:100] if found else ""


def event_object(data: str) -> dict[str, Any] | None:
    """The object that an event's data is; None for what stands between events of an API, such as
    ``ping``, an empty line or a list. Raises ``ValueError`` for half an object."""
    return json.loads(data) if data.lstrip().startswith("{") else None


class EventLines:
    """Bytes to lines, which LF, CR or both end. What Unicode calls a line's end is none: JSON may
    hold it as it is."""

    def __init__(self) -> None:
        self._pending: list[bytes] = []
        self._first = True

    def feed(self, chunk: bytes) -> list[bytes]:
        if self._pending and self._pending[-1].endswith(b"\r"):
            chunk = self._pending.pop() + chunk  # maybe the first half of a CRLF
        held = chunk[-1:] if chunk.endswith(b"\r") else b""
        first, *more = _LINE_END.split(chunk.removesuffix(b"\r"))
        self._pending.append(first)
        lines: list[bytes] = []
        if more:
            lines = [b"".join(self._pending), *more]
            self._pending = [lines.pop()]
        if held:
            self._pending.append(held)
        if lines and self._first:
            lines[0], self._first = lines[0].removeprefix(b"\xef\xbb\xbf"), False
        return lines

    def rest(self) -> list[bytes]:
        """The last line, where nothing ended it."""
        return self.feed(b"\n") if self._pending else []


class _Events:
    """Lines to events' data: an empty line ends an event."""

    def __init__(self) -> None:
        self._data: list[str] = []
        self._kind = ""

    def feed(self, line: bytes) -> Iterator[str]:
        if not line:
            yield from self.rest()
            return
        name, _, value = line.decode("utf-8", "replace").partition(":")
        value = value.removeprefix(" ")
        if name == "data":
            self._data.append(value)
        elif name == "event":
            self._kind = value

    def rest(self) -> Iterator[str]:
        lines, kind = self._data, self._kind
        self._data, self._kind = [], ""
        if kind == "error" and lines and not lines[0].lstrip().startswith("{"):
            raise ErrorEvent("error", "\n".join(lines))
        # Some servers forget the empty line: then each line is an event.
        whole = len(lines) == 1 or _is_json("\n".join(lines))
        yield from ["\n".join(lines)] if lines and whole else lines


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True


async def read_events(chunks: AsyncIterator[bytes], take: Callable[[str], None]) -> None:
    """Hand the data of each event to ``take``, until the stream ends or ``take`` fails.

    Raises ``ErrorEvent`` as ``take`` did, ``HtmlPage``, and ``Nonsense`` for whatever else it could
    not read. Bytes that are not UTF-8 are replaced: a server that cuts a character in two has
    still sent a reply, which is judged like any other.
    """
    problem: Exception | None = None
    lines, events = EventLines(), _Events()
    head = b""
    with anyio.CancelScope() as scope:
        async for chunk in chunks:
            head = head + chunk if len(head) < _MAX_PAGE else head
            problem = problem or _taken(lines.feed(chunk), events, take)
            if problem is not None:
                # Not raised here: the generators below would be left suspended, about
                # which trio complains. Cancelled, they end from the inside.
                scope.cancel()
    if problem is None and (title := html_title(head)) is not None:
        problem = HtmlPage(title)
    # The standard drops an event that no empty line ends; not all servers know.
    problem = problem or _taken([*lines.rest(), b""], events, take)
    if problem is not None:
        raise problem


def _taken(lines: list[bytes], events: _Events, take: Callable[[str], None]) -> Exception | None:
    """What went wrong when these lines were taken in."""
    try:
        for line in lines:
            for data in events.feed(line):
                take(data.strip())
    except (ErrorEvent, Nonsense) as error:
        return error
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError) as error:
        return Nonsense(type(error).__name__)
    return None
