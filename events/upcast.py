"""Old bodies to new shapes, one version at a time, as raw dicts before they are decoded.

A body that changes keeps its old log readable by an entry here:
``UPCASTERS[("NodeSelected", 1)] = to_2`` where ``to_2`` takes a version 1 dict and
returns a version 2 dict. A released format also keeps a recorded log in
``tests/histories``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from events.bodies import BODIES
from events.errors import BodyInvalid

__all__ = ["UPCASTERS", "upcast"]

Upcaster = Callable[[dict[str, Any]], dict[str, Any]]


def _same(raw: dict[str, Any]) -> dict[str, Any]:
    """The version stood for other rules; the body itself did not change."""
    return raw


def _format_0_1(raw: dict[str, Any]) -> dict[str, Any]:
    """Up to version 2 a run listed the rules that it was searched by, as ``flags``."""
    return {name: value for name, value in raw.items() if name != "flags"} | {"format": "0.1"}


UPCASTERS: dict[tuple[str, int], Upcaster] = {
    ("RunStarted", 1): _same,
    ("RunStarted", 2): _format_0_1,
}


def upcast(type_: str, ver: int, raw: dict[str, Any]) -> dict[str, Any]:
    """Bring ``raw`` from ``ver`` to the present version. Raises ``BodyInvalid`` at a gap."""
    for step in range(ver, BODIES[type_].VER):
        if (type_, step) not in UPCASTERS:
            raise BodyInvalid(f"{type_} version {step} has no upcaster")
        raw = UPCASTERS[(type_, step)](raw)
    return raw
