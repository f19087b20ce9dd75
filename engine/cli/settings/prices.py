"""What is wrong with prices that somebody wrote down."""

from __future__ import annotations

import difflib
import math
from typing import Any

from engine.config import ModelPrice

__all__ = ["wrong_prices"]

_FIELDS = ModelPrice.__struct_fields__
_NEEDED = ("input", "output")
_MOST = 1_000_000
"""Dollars a million tokens: a dollar a token is a slip of the pen."""


def wrong_prices(prices: Any) -> str | None:
    """The first thing that is wrong in the section ``prices``, with its path, if there is one."""
    if not isinstance(prices, dict):
        return "prices is a section, not a value: one price by each CLIENT:MODEL"
    for model, price in prices.items():
        path = f'prices."{model}"'
        client, colon, name = model.partition(":")
        if not (client and colon and name):
            return f"{path}: name the model as it is asked for, CLIENT:MODEL"
        if not isinstance(price, dict):
            return f"{path} is a section, not a value: {{input = 0.15, output = 0.6}} for instance"
        if wrong := _wrong(price):
            return f"{path}{wrong}"
    return None


def _wrong(price: dict[str, Any]) -> str | None:
    for key, value in price.items():
        if key not in _FIELDS:
            close = difflib.get_close_matches(key, _FIELDS, n=1, cutoff=0.4)
            meant = f"did you mean {close[0]}?" if close else f"known: {', '.join(_FIELDS)}"
            return f": unknown key {key} ({meant})"
        if value is None and key not in _NEEDED:
            continue
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if not number or not math.isfinite(value) or not 0 <= value <= _MOST:
            return f".{key} must be a number of dollars a million tokens, from 0 to {_MOST:,}"
    missing = [key for key in _NEEDED if key not in price]
    return f" lacks {' and '.join(missing)}" if missing else None
