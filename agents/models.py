"""Known facts about Anthropic's models: retirement dates, and the parameters that they refuse."""

from __future__ import annotations

import tomllib
from datetime import date
from functools import cache
from importlib import resources
from typing import Any

from agents.prices import undated

__all__ = ["known_refusals", "retirement_date"]

_CLIENTS = ("anthropic", "anthropic-batch")
"""Clients of Anthropic's own API, whose retirement dates the table has."""


def retirement_date(spec: str) -> date | None:
    """The day on which ``CLIENT:MODEL`` is retired, if it is known. On the day after, requests
    fail."""
    client, _, name = spec.partition(":")
    if client not in _CLIENTS:
        return None
    found: date | None = _table()["retired"]["on"].get(undated(name))
    return found


def known_refusals(model: str) -> frozenset[str]:
    """The parameters that ``model``, without a client's prefix, answers with status 400."""
    return frozenset(_table()["refused"]["by"].get(undated(model), ()))


@cache
def _table() -> dict[str, Any]:
    text = resources.files("agents").joinpath("models.toml").read_text(encoding="utf-8")
    return tomllib.loads(text)
