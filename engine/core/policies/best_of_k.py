"""Independent samples of the root; with a debug role, one repair for each failed sample."""

from __future__ import annotations

from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws
from projections.tree import ROOT

__all__ = ["best_of_k"]


def best_of_k(state: State, attempt: int) -> Selection | None:
    """The oldest failed sample that nobody has repaired yet, else the root."""
    if not state.tree.root.evaluated:
        return None
    if state.team.repairs and state.unrepaired:
        return Selection(node=state.unrepaired.nth(0), rule="repair", draws=Draws(), eligible=1)
    return Selection(node=ROOT, rule="sample", draws=Draws(), eligible=1)
