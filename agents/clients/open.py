"""Clients by specification: ``anthropic:MODEL``, ``playbook:FILE``."""

from __future__ import annotations

import os
from typing import NamedTuple

from agents.clients.anthropic import AnthropicClient
from agents.clients.playbook import PlaybookClient
from agents.clients.port import Client

__all__ = ["PREFIXES", "KeyMissing", "Opened", "open_client"]

PREFIXES = ("anthropic", "playbook")


class KeyMissing(Exception):
    """A client needs a key that isn't there; the message says what to do."""


class Opened(NamedTuple):
    """A client, and the model's name without the client's prefix."""

    client: Client
    model: str


def open_client(spec: str, *, api_key: str | None = None, base_url: str | None = None) -> Opened:
    """Open the client that ``spec`` names. Nothing is sent before the first call.

    Raises ``ValueError`` for an unknown or incomplete specification (``PlaybookInvalid``
    for a playbook that doesn't hold together), and ``KeyMissing``.
    """
    prefix, _, name = spec.partition(":")
    known = " or ".join(f"{each}:{'FILE' if each == 'playbook' else 'MODEL'}" for each in PREFIXES)
    if prefix not in PREFIXES:
        raise ValueError(f"unknown model {spec!r}: expected {known}")
    if not name:
        raise ValueError(f"model {spec!r} names no model: expected {known}")
    if prefix == "playbook":
        return Opened(PlaybookClient(name), name)
    key = (api_key or os.environ.get("ANTHROPIC_API_KEY", "")).strip()
    if not key:
        raise KeyMissing(
            f"{spec} needs an API key: set ANTHROPIC_API_KEY (keys are made at "
            "https://platform.claude.com/settings/keys), or try a run without a model with "
            "--model playbook:FILE"
        )
    if not key.isascii() or not key.isprintable():
        raise KeyMissing("ANTHROPIC_API_KEY holds characters that no key has: set it again")
    return Opened(AnthropicClient(api_key=key, base_url=base_url), name)
