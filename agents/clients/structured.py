"""Structured answers as models write them: JSON, or what they take for it. Pure."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_object", "storable_json"]

_DEEPEST = 32
"""Levels of an answer: ours have four, and what is nested like a trap would end who reads it."""


def json_object(written: str) -> dict[str, Any] | None:
    """The JSON object that ``written`` is, encoded once or twice; None if it is none, or nested
    beyond all sense.

    Line ends inside strings are let pass: models forget to escape them in source code.
    """
    try:
        value = json.loads(written.lstrip("\ufeff"), strict=False)
        if isinstance(value, str):
            value = json.loads(value, strict=False)
        return storable_json(value) if isinstance(value, dict) else None
    except (ValueError, RecursionError):
        return None


def storable_json(value: Any, levels: int = _DEEPEST) -> Any:
    """The value with its surrogate pairs joined and lone halves, which no log can hold,
    replaced. Raises ``ValueError`` for what has more ``levels``."""
    if not levels:
        raise ValueError("nested too deep")
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {
            storable_json(name): storable_json(entry, levels - 1) for name, entry in value.items()
        }
    if isinstance(value, list):
        return [storable_json(entry, levels - 1) for entry in value]
    return value
