"""What a decision costs in a tree of 100,000 nodes, beside one of 100.

Core only: folding what happened and deciding what is next, windows and draws included.
"""

from __future__ import annotations

from pathlib import Path
from statistics import median

from benchmarks.log_world import World
from benchmarks.table import Table
from engine.config import Search

__all__ = ["measure"]

_LARGE, _SMALL = 100_000, 100
_ATTEMPTS = 50
_ROUNDS = 21
_SEARCHES = {"stark": Search(), "best_of_k": Search(policy="best_of_k", windows=False)}


def measure(table: Table, scratch: Path) -> None:
    """Add a row for each policy."""
    for policy, search in _SEARCHES.items():
        table.progress(f"{policy}: growing a tree of {_LARGE} nodes")
        large = _grown(search, _LARGE)
        ratios, costs_us = [], []
        for _ in range(_ROUNDS):
            at_small, at_large = _cost_us(_grown(search, _SMALL)), _cost_us(large)
            ratios.append(at_large / at_small)
            costs_us.append(at_large)
        ratio = median(ratios)
        table.row(
            "one decision at 100,000 nodes / at 100 nodes", "≤ 1.5",
            f"{ratio:.2f} ({policy}, {median(costs_us):.0f} µs)", table.verdict(ratio <= 1.5),
        )  # fmt: skip


def _grown(search: Search, attempts: int) -> World:
    world = World(search, lambda body: None)
    world.grow(attempts)
    return world


def _cost_us(world: World) -> float:
    """Microseconds a decision over the next few attempts."""
    core_s, decisions = world.core_s, world.decisions
    world.grow(_ATTEMPTS)
    return (world.core_s - core_s) / (world.decisions - decisions) * 1e6
