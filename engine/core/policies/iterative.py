"""Iterative refinement: each attempt starts from the one before, whatever became of it.

With k workers these are k chains side by side, all from the root: a worker that comes back
goes on with what it just made.
"""

from __future__ import annotations

from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws
from projections.search.tree import ROOT

__all__ = ["iterative"]


def iterative(state: State, attempt: int) -> Selection | None:
    """The newest evaluated attempt that nothing was made from yet, else the root."""
    if not state.tree.root.evaluated:
        return None
    ends = state.frontier.leaves
    if not ends and ROOT in state.steering.banned:
        return None
    node = ends.nth(len(ends) - 1) if ends else ROOT
    return Selection(node=node, rule="latest", draws=Draws(), eligible=max(len(ends), 1))
