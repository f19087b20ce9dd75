"""Differences by key path, of bodies of events or of settings of runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from engine.config import by_key_path

__all__ = ["differing"]


def differing(sides: Sequence[Mapping[str, Any]]) -> dict[str, list[Any]]:
    """Each key path, such as ``draws.coin``, at which not all sides have the same → their
    values in order; None for a side without it."""
    flat = [dict(by_key_path(side)) for side in sides]
    paths = dict.fromkeys(path for side in flat for path in side)
    values = {path: [side.get(path) for side in flat] for path in paths}
    return {path: each for path, each in values.items() if any(one != each[0] for one in each)}
