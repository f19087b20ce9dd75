"""What HTTP APIs answer instead of a reply, in the port's words, and without what is secret."""

from __future__ import annotations

import email.utils
import re
import time
from collections.abc import Awaitable, Callable, Mapping

import anyio

from agents.clients.keys import without
from agents.clients.pace import allowance_of
from agents.clients.port import CallFailed, CapabilityMissing
from events.bodies import Usage

__all__ = ["bad_proxy", "by_status", "one_try", "shown", "status_failure"]

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


async def one_try(
    work: Awaitable[CallFailed | CapabilityMissing | None],
    told: Callable[[Exception], CallFailed | CapabilityMissing | None],
    *,
    used: Callable[[], Usage | None] = lambda: None,
    timeout_s: float,
) -> None:
    """Do ``work``, which may return what a server answered instead. ``told`` puts an
    exception in the port's words, or says by None that it is a bug, which goes on as it is.
    ``used`` is what the server has said of its use by the time of a failure.

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
        message = f"no complete reply within {timeout_s:g} s"
        failure = CallFailed("timed_out", message, retryable=True)
    if isinstance(failure, CallFailed):
        failure.usage = used()
    if failure is not None:
        raise failure


def bad_proxy(error: Exception) -> CallFailed:
    """The library can't use the proxy that the environment names; its URL may hold a password."""
    why = str(error) if isinstance(error, ImportError) else "it is no URL of a proxy"
    message = f"the proxy that the environment names (HTTPS_PROXY or the like) is no use: {why}"
    return CallFailed("connection", message, retryable=False)


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
