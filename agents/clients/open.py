"""Clients by specification: ``anthropic:MODEL``, ``mailbox:DIR``, ``playbook:FILE``, …"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from typing import NamedTuple

from agents.clients.anthropic import AnthropicClient
from agents.clients.anthropic_batch import AnthropicBatchClient
from agents.clients.anthropic_errors import KEY_NAME
from agents.clients.known import FORMS, PREFIXES
from agents.clients.mailbox import MailboxClient
from agents.clients.openai import OPENAI, OpenAIClient
from agents.clients.playbook import PlaybookClient
from agents.clients.port import Client, KeyMissing

__all__ = ["KeyMissing", "Opened", "open_client", "server_of"]


class Opened(NamedTuple):
    """A client, and the model's name without the client's prefix."""

    client: Client
    model: str


def open_client(
    spec: str,
    *,
    api_key: str | None = None,
    base_url: str | None = None,
    key_name: str = "OPENAI_API_KEY",
    recorded: Callable[[str], Client] | None = None,
    **cloud: str | None,
) -> Opened:
    """Open the client that ``spec`` names. Nothing is sent before the first call. ``recorded``
    opens a log for ``recorded:LOG``, which is beyond this layer.

    ``key_name`` is the variable that an openai client's key is read from; ``cloud`` is what
    ``BedrockClient`` and ``VertexClient`` take. Raises
    ``ValueError`` for an unknown or incomplete specification or a URL that is none
    (``PlaybookInvalid`` for a playbook that doesn't hold together), and ``KeyMissing``.
    """
    prefix, _, name = spec.partition(":")
    if prefix not in PREFIXES:
        raise ValueError(f"unknown model {spec!r}: expected {FORMS}")
    if not name:
        raise ValueError(f"model {spec!r} names no model: expected {FORMS}")
    if prefix == "playbook":
        return Opened(PlaybookClient(name), name)
    if prefix == "mailbox":
        return Opened(MailboxClient(name), name)
    if prefix == "recorded":
        if recorded is None:
            raise ValueError(f"{spec} can't be asked here: nobody reads logs")
        return Opened(recorded(name), name)
    if prefix == "openai":
        return Opened(_openai(spec, api_key, base_url, key_name), name)
    if prefix in ("bedrock", "vertex"):
        return Opened(_in_cloud(prefix)(base_url=base_url, **cloud), name)
    key = _key(api_key, KEY_NAME)
    if not key:
        raise KeyMissing(
            f"{spec} needs an API key: set {KEY_NAME} (keys are made at "
            "https://platform.claude.com/settings/keys), or try a run without a model with "
            "--model playbook:FILE"
        )
    kind = AnthropicBatchClient if prefix == "anthropic-batch" else AnthropicClient
    return Opened(kind(api_key=key, base_url=base_url), name)


def _in_cloud(prefix: str) -> Callable[..., Client]:
    from agents.clients.clouds import BedrockClient, VertexClient

    return BedrockClient if prefix == "bedrock" else VertexClient


def server_of(spec: str, *, base_url: str | None = None, **_: str) -> str | None:
    """The URL of the server that an ``openai:`` model is asked of; None for the others."""
    if not spec.startswith("openai:"):
        return None
    return base_url or os.environ.get("OPENAI_BASE_URL") or OPENAI


def _openai(spec: str, api_key: str | None, base_url: str | None, key_name: str) -> OpenAIClient:
    if not re.fullmatch("[A-Z_][A-Z0-9_]*", key_name):
        raise ValueError(
            "the openai client's key_name must be the name of a variable, in capitals, such as"
            " OPENAI_API_KEY: it is written to the log, and the key itself must not be"
        )
    url, key = server_of(spec, base_url=base_url) or OPENAI, _key(api_key, key_name)
    # A server of one's own may want no key; if it does, its 401 says so.
    if not key and url.rstrip("/") == OPENAI:
        raise KeyMissing(
            f"{spec} needs an API key: set {key_name}; or name a server of your own, which may"
            " want none: --set clients.openai.base_url=http://127.0.0.1:8000/v1"
        )
    return OpenAIClient(base_url=url, api_key=key, key_name=key_name)


def _key(api_key: str | None, name: str) -> str:
    key = (api_key or os.environ.get(name, "")).strip()
    if not key.isascii() or (key and not key.isprintable()):
        raise KeyMissing(f"{name} holds characters that no key has: set it again")
    return key
