"""What servers of chat completions answer instead of a reply, in the port's words.

The API has no owner: each server words its errors, and picks their status, as it likes. The
wordings are OpenAI's, vLLM's, llama.cpp's, Ollama's, OpenRouter's and FastAPI's.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from agents.clients.event_stream import ErrorEvent, HtmlPage, Nonsense, html_title
from agents.clients.failures import (
    by_status,
    limit_named,
    not_a_reply,
    shown,
    status_failure,
    timeout_words,
)
from agents.clients.port import CallFailed, CapabilityMissing

__all__ = ["failure", "refusal", "words_of"]

# Parameters that can be left out: the name that is learned, its key in the request, and the
# words for it. The more special ones come first.
_OPTIONAL = (
    ("stream_options", "stream_options", r"stream_options|include_usage"),
    ("tool_choice", "tool_choice", r"tool[_ ]choice"),
    ("response_format", "response_format", r"response_format|json_schema|structured output"),
    ("tools", "tools", r"\btools?\b|\bfunction call"),
    ("effort", "reasoning_effort", r"\breasoning|\beffort\b"),
    ("temperature", "temperature", r"\btemperature\b"),
    ("max_completion_tokens", "max_completion_tokens", r"\bmax_completion_tokens\b"),
    ("max_tokens", "max_tokens", r"\bmax_tokens\b"),
)
_UNSUPPORTED = re.compile(
    r"unsupported|not (currently |yet |fully )*support|only support|support only|deprecated"
    r"|n[o']t (permitted|allowed|recogni[sz]ed|available|accept)|unrecogni[sz]ed|unavailable"
    r"|unknown (parameter|field|argument|name)|extra (inputs|fields)|unexpected|requires? -"
    r"|no endpoints found|invalid tool_choice|supported (string )?values",
    re.IGNORECASE,
)
# The words of a complaint about a value, not about the parameter as such.
_BAD_VALUE = re.compile(
    r"too (large|long|small|high|low)|at (most|least)|m(ax|in)imum|between|(greater|less) than"
    r"|out of range",
    re.IGNORECASE,
)
_REFUSING = (400, 404, 422, 500, 501)
"""llama.cpp says 500 where it was started without tools, OpenRouter 404."""

_BY_CODE = {
    "insufficient_quota": ("unauthorized", False),
    "context_length_exceeded": ("too_large", False),
    "exceed_context_size_error": ("too_large", False),
}


def failure(error: Exception, api_key: str, base_url: str) -> CallFailed | None:
    """The port's word for what broke the exchange off; None for what is none of httpx's."""
    import httpx

    if isinstance(error, httpx.TimeoutException):
        return CallFailed("timed_out", timeout_words(error, base_url), retryable=True)
    if isinstance(error, HtmlPage):
        return not_a_reply(error, base_url)
    if isinstance(error, httpx.HTTPError):
        cause = shown(str(error) or type(error).__name__, (api_key,))
        return CallFailed(
            "connection", f"the connection to {base_url} failed: {cause}", retryable=True
        )
    if isinstance(error, ErrorEvent):
        word, retryable = _in_mid_stream(error.kind)
        return CallFailed(word, shown(error.text, (api_key,)), retryable=retryable)
    nonsense = (Nonsense, ValueError, LookupError, TypeError, AttributeError, RecursionError)
    if isinstance(error, nonsense):
        cause = str(error) if isinstance(error, Nonsense) else type(error).__name__
        return CallFailed("connection", f"the reply makes no sense: {cause}", retryable=True)
    return None


def _in_mid_stream(kind: str) -> tuple[str, bool]:
    if kind.isdigit() and int(kind) >= 400:
        return by_status(int(kind))
    if kind in _BY_CODE:
        return _BY_CODE[kind]
    if "rate_limit" in kind:
        return "rate_limited", True
    if "overloaded" in kind:
        return "overloaded", True
    if re.search(r"invalid|bad_?request", kind, re.IGNORECASE):
        return "bad_request", False
    return "server_error", True


def refusal(
    status: int,
    raw: bytes,
    headers: Mapping[str, str],
    body: Mapping[str, Any],
    *,
    api_key: str,
    key_name: str,
) -> CallFailed | CapabilityMissing:
    """What a response with a status other than 200 to the request ``body`` stands for."""
    try:
        code, said = words_of(json.loads(raw))
    except (ValueError, RecursionError):
        title = html_title(raw)
        code, said = "", str(HtmlPage(title)) if title else raw.decode("utf-8", "replace")
    text = shown(said, (api_key,)) or "the server gave no reason"
    if status in _REFUSING and (lesson := limit_named(text)):
        return lesson
    if status in _REFUSING and (parameter := _refused(text, body)):
        return CapabilityMissing(parameter, text)
    hint = f"check {key_name}" if api_key else f"no key was sent: set {key_name}"
    return status_failure(status, text, headers, key_hint=hint, known=_BY_CODE.get(code))


def _refused(message: str, body: Mapping[str, Any]) -> str | None:
    """The optional parameter that this server or model says it does not take."""
    if _BAD_VALUE.search(message) or not _UNSUPPORTED.search(message):
        return None
    for name, key, words in _OPTIONAL:
        if key in body and re.search(words, message, re.IGNORECASE):
            return name
    return None


def words_of(answer: Any) -> tuple[str, str]:
    """(code or type, message) of an error as this or that server writes it."""
    error = answer.get("error") or answer if isinstance(answer, dict) else answer
    if not isinstance(error, dict):
        return "", str(error)
    said = error.get("message") or error.get("detail") or error.get("error") or ""
    if isinstance(said, list):  # FastAPI: what is wrong, and where
        said = "; ".join(
            f"{'.'.join(map(str, e.get('loc', ())))}: {e.get('msg')}" if isinstance(e, dict) else e
            for e in said
        )
    metadata = error.get("metadata")
    if isinstance(metadata, dict) and isinstance(metadata.get("raw"), str):
        said = f"{said}: {metadata['raw']}"  # OpenRouter: what the model's provider said
    return str(error.get("code") or error.get("type") or ""), str(said)
