"""Keys and other secrets that requests carry, kept out of what servers say: an echo of a
request must not reach log or terminal."""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import quote, unquote, urlsplit

import msgspec

from agents.clients.port import Reply

__all__ = ["header_secrets", "reply_without", "url_secrets", "without"]

_SHORTEST = 12
"""A server of one's own may want ``none`` or ``local`` for a key. That is no secret, and taken
out of a reply it would take words out of the code."""


def header_secrets(headers: str) -> tuple[str, ...]:
    """What may be secret of ``NAME: VALUE`` lines: each value, and its last word, which is what
    follows ``Bearer``. Short ones are none: they are switches."""
    values = [line.partition(":")[2].strip() for line in headers.splitlines()]
    words = [value.split()[-1] for value in values if value]
    return tuple(each for each in (*values, *words) if len(each) >= _SHORTEST)


def url_secrets(url: str | None) -> tuple[str, ...]:
    """The password in a URL, if there is one, as written and as meant."""
    password = _password(url or "")
    return (password, unquote(password)) if password else ()


def _password(url: str) -> str:
    try:
        return urlsplit(url).password or ""
    except ValueError:
        return ""  # no URL, and nothing is sent there


def without(text: str, secrets: tuple[str, ...]) -> str:
    """``text`` with "…" for each secret, also as a URL and JSON would write it."""
    forms = {
        form for each in secrets for form in (each, quote(each, safe=""), json.dumps(each)[1:-1])
    } - {""}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, "…")
    return text


def reply_without(reply: Reply, secrets: tuple[str, ...]) -> Reply:
    """The reply without the secrets, whatever part of it a server echoed them in."""
    secrets = tuple(each for each in secrets if len(each) >= _SHORTEST)
    if not secrets:
        return reply
    return msgspec.structs.replace(
        reply,
        text=without(reply.text, secrets),
        tool_input=_cleaned(reply.tool_input, secrets),
        thoughts=without(reply.thoughts, secrets),
        others=tuple(_cleaned(each, secrets) for each in reply.others),
        stop_reason=without(reply.stop_reason, secrets),
        served_by=without(reply.served_by, secrets),
    )


def _cleaned(value: Any, secrets: tuple[str, ...]) -> Any:
    match value:
        case str():
            return without(value, secrets)
        case dict():
            return {without(name, secrets): _cleaned(each, secrets) for name, each in value.items()}
        case list():
            return [_cleaned(each, secrets) for each in value]
    return value
