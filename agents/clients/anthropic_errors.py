"""What the Anthropic SDK raises, in the port's words, and without what is secret."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

from agents.clients.event_stream import ErrorEvent, HtmlPage, Nonsense
from agents.clients.failures import (
    by_status,
    limit_named,
    not_a_reply,
    shown,
    status_failure,
    timeout_words,
)
from agents.clients.port import CallFailed, CapabilityMissing

if TYPE_CHECKING:
    import anthropic

__all__ = ["KEY_NAME", "error_in_batch", "failure"]

KEY_NAME = "ANTHROPIC_API_KEY"

# The words of a 400 that complains about a value, not about the parameter as such.
_BAD_VALUE = re.compile(r"input should be|range: |must be (greater|less)", re.IGNORECASE)
# In this order: what is said of thinking names effort, as what to use instead.
_PARAMETERS = {
    "thinking": re.compile(r"\bthinking\b", re.IGNORECASE),
    "temperature": re.compile(r"\btemperature\b"),
    "effort": re.compile(r"\beffort\b|\boutput_config\b"),
    "tool_choice": re.compile(r"\btool_choice\b"),
}

# (error, retryable) by the body's error type, which is all that an error in mid-stream has.
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
    # Bedrock's, in mid-stream
    "throttlingException": ("rate_limited", True),
    "serviceUnavailableException": ("overloaded", True),
    "internalServerException": ("server_error", True),
    "modelStreamErrorException": ("server_error", True),
    "modelTimeoutException": ("server_error", True),
}


def failure(
    error: Exception, body: dict[str, Any], secrets: tuple[str, ...], hint: str
) -> CallFailed | CapabilityMissing | None:
    """The port's word for what the SDK raised; None for what is not the SDK's. ``hint`` is
    what to do where the server does not let us in."""
    import anthropic
    import httpx2

    if isinstance(error, anthropic.APITimeoutError | httpx2.TimeoutException):
        why = timeout_words(error.__cause__ or error, "the server")
        return CallFailed("timed_out", why, retryable=True)
    if isinstance(error, anthropic.APIConnectionError | httpx2.TransportError):
        cause = shown(str(error.__cause__ or error), secrets)
        return CallFailed("connection", f"the connection failed: {cause}", retryable=True)
    if isinstance(error, ErrorEvent):
        word, retryable = _BY_TYPE.get(error.kind, ("unknown", True))
        return CallFailed(word, shown(error.text, secrets), retryable=retryable)
    if isinstance(error, HtmlPage):
        return not_a_reply(error, "the server")
    if isinstance(error, Nonsense):
        return CallFailed("connection", f"the stream makes no sense: {error}", retryable=True)
    if isinstance(error, anthropic.APIStatusError):
        return _status_failure(error, body, secrets, hint)
    if isinstance(error, anthropic.AnthropicError | httpx2.HTTPError):
        return CallFailed("unknown", shown(str(error), secrets), retryable=False)
    return None


def error_in_batch(
    error: dict[str, Any], body: dict[str, Any], secrets: tuple[str, ...]
) -> CallFailed | CapabilityMissing:
    """What the request ``body`` of a batch was answered, instead of a message."""
    kind, text = str(error.get("type", "")), shown(str(error.get("message", "")), secrets)
    word, retryable = _BY_TYPE.get(kind, ("unknown", True))
    if word == "bad_request" and (lesson := _lesson(text, body)):
        return lesson
    return CallFailed(word, text or kind or "an error without words", retryable=retryable)


def _status_failure(
    error: anthropic.APIStatusError, body: dict[str, Any], secrets: tuple[str, ...], hint: str
) -> CallFailed | CapabilityMissing:
    status = error.status_code
    text = shown(error.api_message or _clouds_message(error.body) or error.message, secrets)
    known = by_status(status)
    if known[0] in ("bad_request", "server_error"):
        known = _BY_TYPE.get(error.type or "", known)
    if known[0] == "bad_request" and (lesson := _lesson(text, body)):
        return lesson
    return status_failure(status, text, error.response.headers, key_hint=hint, known=known)


def _clouds_message(body: object) -> str:
    """Of an error that is worded as AWS or Google do, or nothing."""
    first = body[0] if isinstance(body, list) and body else body
    if isinstance(first, dict) and isinstance(first.get("error"), dict):
        first = first["error"]
    return str(first.get("message") or "") if isinstance(first, dict) else ""


def _lesson(message: str, body: dict[str, Any]) -> CapabilityMissing | None:
    """What a 400 teaches of the model, if anything."""
    parameter = _refused(message, body)
    return CapabilityMissing(parameter, message) if parameter else limit_named(message)


def _refused(message: str, body: dict[str, Any]) -> str | None:
    """The optional parameter that a 400 says this model does not take."""
    if _BAD_VALUE.search(message):
        return None
    for name, pattern in _PARAMETERS.items():
        if pattern.search(message) and ("output_config" if name == "effort" else name) in body:
            return _of_thinking(message, body) if name == "thinking" else name
    return None


def _of_thinking(message: str, body: dict[str, Any]) -> str:
    """A model that is told to think its own way, instead of with a budget, can do that."""
    told = body["thinking"]["type"] == "enabled" and "adaptive" in message
    return "budget_tokens" if told else "thinking"
