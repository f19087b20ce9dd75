"""Regularized evolution (Real et al., AAAI 2019, algorithm 1), steady state.

The first ``population`` attempts are samples of the root. Then each attempt mutates the
fastest of ``tournament`` members, drawn uniformly and with replacement; it joins, and the
oldest member leaves, however fast that is. The mutation is the agents' edit.
"""

from __future__ import annotations

from engine.core.draws import draw
from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws
from projections.search.tree import ROOT

__all__ = ["evolution"]


def evolution(state: State, attempt: int) -> Selection | None:
    """See the module; implements ``Policy``. None while the whole population is in flight."""
    search, root, evaluated = state.config.search, state.tree.root, state.frontier.eligible
    if not root.evaluated:
        return None
    if len(root.children) < search.population and ROOT in evaluated:
        return Selection(node=ROOT, rule="sample", draws=Draws(), eligible=1)
    # The newest evaluated attempts; the root, the smallest id, is no member.
    size = min(search.population, len(evaluated) - (ROOT in evaluated))
    if size == 0:
        return None
    drawn = [
        draw(state.draw_key, f"tournament/{place}", attempt, size)
        for place in range(search.tournament)
    ]
    oldest = len(evaluated) - size
    members = [evaluated.nth(oldest + index) for index in drawn]
    return Selection(
        # min keeps the first drawn of equals, and of failures.
        node=min(members, key=lambda member: _score_ms(state, member)),
        rule="tournament",
        draws=Draws(tournament=drawn),
        eligible=size,
    )


def _score_ms(state: State, node: int) -> float:
    score_ms = state.tree[node].score_ms
    return float("inf") if score_ms is None else score_ms
