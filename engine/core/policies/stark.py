"""The paper's adapted epsilon-greedy rule (arXiv 2510.16996, section 4.2).

Root throttling and dead-branch pruning decide which nodes are eligible (``core.frontier``); with
probability epsilon a uniform draw from the eligible leaves, else the best score.
"""

from __future__ import annotations

from engine.core.policies.epsilon_greedy import choose
from engine.core.policies.port import Selection
from engine.core.state import State

__all__ = ["stark"]


def stark(state: State, attempt: int) -> Selection | None:
    """See the module; implements ``Policy``."""
    frontier = state.frontier
    # Without leaf bias this is the canonical rule, which explores all that is eligible.
    explorable = frontier.leaves if state.config.search.leaf_bias else frontier.eligible
    return choose(state, attempt, explorable)
