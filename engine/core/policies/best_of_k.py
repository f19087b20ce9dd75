"""Independent samples of the root; with a debug role, one repair for each failed sample."""

from __future__ import annotations

from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws
from projections.search.tree import ROOT

__all__ = ["best_of_k"]


def best_of_k(state: State, attempt: int) -> Selection | None:
    """The oldest failed sample without a repair, else the root."""
    if not state.tree.root.evaluated:
        return None
    if state.team.repairs:
        samples = map(state.unrepaired.nth, range(len(state.unrepaired)))
        failed = next((node for node in samples if node not in state.steering.banned), None)
        if failed is not None:
            return Selection(node=failed, rule="repair", draws=Draws(), eligible=1)
    if ROOT in state.steering.banned:
        return None
    return Selection(node=ROOT, rule="sample", draws=Draws(), eligible=1)
