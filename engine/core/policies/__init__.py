"""Search policies: each picks the node that the next attempt starts from."""

from __future__ import annotations

from engine.core.policies.best_of_k import best_of_k
from engine.core.policies.port import Policy, Selection
from engine.core.policies.stark import stark

__all__ = ["POLICIES", "Policy", "Selection"]

POLICIES: dict[str, Policy] = {"stark": stark, "best_of_k": best_of_k}
