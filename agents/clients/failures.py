"""What HTTP APIs answer instead of a reply, in the port's words, and without what is secret."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping

import anyio

from agents.clients.event_stream import HtmlPage
from agents.clients.keys import without
from agents.clients.pace import allowance_of
from agents.clients.port import CallFailed, CapabilityMissing
from events.bodies import Usage

__all__ = [
    "CONNECT_S", "Progress", "about_output_limit", "bad_proxy", "by_status", "limit_named",
    "not_a_reply", "one_try", "shown", "status_failure", "timeout_words",
]  # fmt: skip

CONNECT_S = 30.0
"""How long to wait for a connection."""
_BY_STATUS = {
    401: ("unauthorized", False),
    402: ("unauthorized", False),
    403: ("unauthorized", False),
    408: ("timed_out", True),
    409: ("server_error", True),
    413: ("too_large", False),
    424: ("server_error", True),
    429: ("rate_limited", True),
    529: ("overloaded", True),
}
_TOO_LONG = re.compile(
    r"(prompt|input) is too long|exceeds? the ([a-z]+ )?(maximum|context)|(maximum|max) context"
    r"|context_length_exceeded",
    re.IGNORECASE,
)

_OUTPUT_LIMIT = re.compile(r"max_(completion_)?tokens|output tokens|completion tokens")
_LIMITS = (
    # Anthropic
    r"max_tokens: \d+ > (?P<most>\d+)",
    r"exceed context limit: (?P<input>\d+) \+ \d+ > (?P<context>\d+)",
    # OpenAI; vLLM of now and of before; Groq; DeepSeek
    r"at most (?P<most>\d+) (completion|output) tokens",
    r"maximum context length is (?P<context>\d+) tokens and your request has (?P<input>\d+)",
    r"maximum context length is (?P<context>\d+) tokens\. However, you requested \d+ tokens"
    r" \((?P<input>\d+) in the messages",
    r"max_(completion_)?tokens\W+must be less than or equal to \W?(?P<most>\d+)",
    r"range of max_(completion_)?tokens is \[\d+, ?(?P<most>\d+)\]",
)
_LEAST_TOKENS = 1024
"""Of a context: where a prompt leaves less, it is the prompt that is too long."""


def limit_named(text: str) -> CapabilityMissing | None:
    """What a 400 that complains of the output limit says is the most; None where it names none,
    or complains of something else."""
    if not _OUTPUT_LIMIT.search(text) and "context length" not in text:
        return None
    for pattern in _LIMITS:
        found = re.search(pattern, text)
        named = {} if found is None else {k: int(v) for k, v in found.groupdict().items()}
        if named.get("most"):
            return CapabilityMissing("max_tokens", text, limit=named["most"])
        if named and "context" in named and named["context"] - named["input"] >= _LEAST_TOKENS:
            return CapabilityMissing("context", text, limit=named["context"])
    return None


def about_output_limit(text: str) -> bool:
    """Whether a failure's message is about how long a reply may be."""
    return _OUTPUT_LIMIT.search(text) is not None


class Progress:
    """How far an exchange has come, for what is said of one that took too long."""

    def __init__(self) -> None:
        self._chunks = 0
        self._since = time.monotonic()
        self._answered = False

    def answered(self) -> None:
        """The response has begun."""
        self._answered, self._since = True, time.monotonic()

    async def heard(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """The chunks, counted."""
        async for chunk in chunks:
            self._chunks += 1
            self._since = time.monotonic()
            yield chunk

    def words(self) -> str:
        """What had come, and how long nothing more did."""
        silent = time.monotonic() - self._since
        if not self._answered:
            return "the server had not begun to answer (no first byte)"
        if not self._chunks:
            return f"the server had begun to answer, and sent nothing for {silent:.0f} s"
        return f"{self._chunks} chunks had come, the last one {silent:.0f} s before (total time)"


async def one_try(
    work: Awaitable[CallFailed | CapabilityMissing | None],
    told: Callable[[Exception], CallFailed | CapabilityMissing | None],
    *,
    used: Callable[[], Usage | None] = lambda: None,
    progress: Progress | None = None,
    timeout_s: float,
) -> None:
    """Do ``work``, which may return what a server answered instead. ``told`` puts an
    exception in the port's words, or says by None that it is a bug, which goes on as it is.
    ``used`` is what the server has said of its use by the time of a failure, ``progress`` what
    had come of the reply.

    Raises ``CallFailed`` or ``CapabilityMissing``.
    """
    failure: CallFailed | CapabilityMissing | None = None
    with anyio.move_on_after(timeout_s) as scope:
        try:
            failure = await work
        except Exception as error:
            failure = told(error)
            if failure is None:
                raise
    # Raised out here, so that the library's exception, whose request carries the key, does
    # not travel along as the context.
    if scope.cancelled_caught:
        how_far = f": {progress.words()}" if progress else ""
        message = f"no complete reply within {timeout_s:g} s{how_far}"
        failure = CallFailed("timed_out", message, retryable=True)
    if isinstance(failure, CallFailed):
        failure.usage = used()
    if failure is not None:
        raise failure


def timeout_words(error: BaseException, place: str) -> str:
    """Which limit an HTTP library's time-out was; its class says so."""
    match type(error).__name__:
        case "ConnectTimeout":
            return f"no connection to {place} within {CONNECT_S:g} s (time-out of connecting)"
        case "ReadTimeout":
            return f"{place} sent nothing more in time (time-out between chunks)"
        case "WriteTimeout":
            return f"{place} did not take the request in time (time-out of sending)"
    return f"{place} did not answer in time"


def bad_proxy(error: Exception) -> CallFailed:
    """The library can't use the proxy that the environment names; its URL may hold a password."""
    why = str(error) if isinstance(error, ImportError) else "it is no URL of a proxy"
    message = f"the proxy that the environment names (HTTPS_PROXY or the like) is no use: {why}"
    return CallFailed("connection", message, retryable=False)


def not_a_reply(page: HtmlPage, place: str) -> CallFailed:
    """A page for people came, with a status that says that all is well."""
    return CallFailed(
        "connection",
        f"{place} answered with {page}, not with a reply: check its URL, and what is between",
        retryable=True,
    )


def by_status(status: int) -> tuple[str, bool]:
    """(error, retryable) for an HTTP status."""
    if status in _BY_STATUS:
        return _BY_STATUS[status]
    return ("server_error", True) if status >= 500 else ("bad_request", False)


def status_failure(
    status: int,
    text: str,
    headers: Mapping[str, str],
    *,
    key_hint: str,
    known: tuple[str, bool] | None = None,
) -> CallFailed:
    """The failure that a response with ``status`` stands for.

    ``known`` is what the body said it is, for statuses that say little. ``key_hint`` is what to do
    about a key that was not accepted.
    """
    word, retryable = known or by_status(status)
    if word == "bad_request" and _TOO_LONG.search(text):
        word = "too_large"
    if word == "unauthorized" and status in (401, 403):
        text += f" ({key_hint})"
    wait_s = _retry_after_s(headers)
    return CallFailed(
        word,
        f"{status}: {text}",
        retryable=retryable,
        retry_after_s=wait_s,
        allowance=allowance_of(headers, time.time()),
    )


def _retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait, out of ``retry-after-ms`` or ``retry-after`` (seconds or a date)."""
    milliseconds, value = headers.get("retry-after-ms"), headers.get("retry-after")
    try:
        if milliseconds is not None:
            return max(0.0, float(milliseconds) / 1000)
        if value is None:
            return None
        if re.fullmatch(r"\s*\d+(\.\d+)?\s*", value):
            return float(value)
        return max(0.0, email.utils.parsedate_to_datetime(value).timestamp() - time.time())
    except (ValueError, TypeError):
        return None


def shown(text: str, secrets: tuple[str, ...]) -> str:
    """One line for people, without what is secret."""
    line = " ".join(without(text, secrets).split())
    return line if len(line) <= 500 else line[:499] + "…"
