"""Structured answers as models write them: JSON, or what they take for it. Pure."""

from __future__ import annotations

import json
from typing import Any

__all__ = ["json_object", "storable_json"]


def json_object(written: str) -> dict[str, Any] | None:
    """The JSON object that ``written`` is; None if it is none.

    Line ends inside strings are let pass: models forget to escape them in source code.
    """
    try:
        value = json.loads(written, strict=False)
    except (ValueError, RecursionError):
        return None
    return storable_json(value) if isinstance(value, dict) else None


def storable_json(value: Any) -> Any:
    """The value with its surrogate pairs joined and lone halves, which no log can hold,
    replaced."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {storable_json(name): storable_json(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [storable_json(entry) for entry in value]
    return value
