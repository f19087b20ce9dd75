"""What the Anthropic SDK raises, in the port's words, and without the key."""

from __future__ import annotations

import email.utils
import re
import time
from typing import TYPE_CHECKING, Any

from agents.clients.anthropic_reply import ErrorEvent, Nonsense
from agents.clients.port import CallFailed, CapabilityMissing

if TYPE_CHECKING:
    import anthropic

__all__ = ["failure"]

# The words of a 400 that complains about a value, not about the parameter as such.
_BAD_VALUE = re.compile(r"input should be|range: ", re.IGNORECASE)
_PARAMETERS = {
    "temperature": re.compile(r"\btemperature\b"),
    "effort": re.compile(r"\beffort\b|\boutput_config\b"),
    "tool_choice": re.compile(r"\btool_choice\b"),
}
_TOO_LONG = re.compile(r"prompt is too long|exceeds? the (maximum|context)", re.IGNORECASE)

# (error, retryable) by the body's error type, which is all that an error in mid-stream
# has, and by HTTP status.
_BY_TYPE = {
    "rate_limit_error": ("rate_limited", True),
    "overloaded_error": ("overloaded", True),
    "api_error": ("server_error", True),
    "timeout_error": ("server_error", True),
    "authentication_error": ("unauthorized", False),
    "permission_error": ("unauthorized", False),
    "billing_error": ("unauthorized", False),
    "request_too_large": ("too_large", False),
    "invalid_request_error": ("bad_request", False),
    "not_found_error": ("bad_request", False),
}
_BY_STATUS = {
    401: ("unauthorized", False),
    402: ("unauthorized", False),
    403: ("unauthorized", False),
    408: ("timed_out", True),
    409: ("server_error", True),
    413: ("too_large", False),
    429: ("rate_limited", True),
    529: ("overloaded", True),
}


def failure(
    error: Exception, body: dict[str, Any], api_key: str
) -> CallFailed | CapabilityMissing | None:
    """The port's word for what the SDK raised; None for what is not the SDK's."""
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APITimeoutError | httpx2.TimeoutException):
        return CallFailed("timed_out", "the server did not answer in time", retryable=True)
    if isinstance(error, anthropic.APIConnectionError | httpx2.TransportError):
        cause = _shown(str(error.__cause__ or error), api_key)
        return CallFailed("connection", f"the connection failed: {cause}", retryable=True)
    if isinstance(error, ErrorEvent):
        word, retryable = _BY_TYPE.get(error.kind, ("unknown", True))
        return CallFailed(word, _shown(error.text, api_key), retryable=retryable)
    if isinstance(error, Nonsense):
        return CallFailed("connection", f"the stream makes no sense: {error}", retryable=True)
    if isinstance(error, anthropic.APIStatusError):
        return _status_failure(error, body, api_key)
    if isinstance(error, anthropic.AnthropicError | httpx2.HTTPError):
        return CallFailed("unknown", _shown(str(error), api_key), retryable=False)
    return None


def _status_failure(
    error: anthropic.APIStatusError, body: dict[str, Any], api_key: str
) -> CallFailed | CapabilityMissing:
    status = error.status_code
    text = _shown(error.api_message or error.message, api_key)
    word, retryable = _BY_STATUS.get(status) or _BY_TYPE.get(error.type or "", ("", False))
    if not word:
        word, retryable = ("server_error", True) if status >= 500 else ("bad_request", False)
    if word == "bad_request" and _TOO_LONG.search(text):
        word = "too_large"
    if word == "bad_request" and (parameter := _refused(text, body)):
        return CapabilityMissing(parameter, text)
    wait_s = _retry_after_s(error.response.headers)
    return CallFailed(word, f"{status}: {text}", retryable=retryable, retry_after_s=wait_s)


def _refused(message: str, body: dict[str, Any]) -> str | None:
    """The optional parameter that a 400 says this model does not take."""
    if _BAD_VALUE.search(message):
        return None
    for name, pattern in _PARAMETERS.items():
        if pattern.search(message) and ("output_config" if name == "effort" else name) in body:
            return name
    return None


def _retry_after_s(headers: Any) -> float | None:
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


def _shown(text: str, api_key: str) -> str:
    """One line for people, without the key."""
    if api_key:
        text = text.replace(api_key, "…")
    line = " ".join(text.split())
    return line if len(line) <= 500 else line[:499] + "…"
