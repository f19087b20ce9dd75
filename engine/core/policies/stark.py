"""The paper's adapted epsilon-greedy rule (arXiv 2510.16996, section 4.2).

Root throttling and dead-branch pruning decide who is eligible (``core.frontier``); with
probability epsilon a uniform draw from the eligible leaves, else the best score.
"""

from __future__ import annotations

from engine.core.draws import COIN, draw
from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws

__all__ = ["stark"]


def stark(state: State, attempt: int) -> Selection | None:
    """See the module; implements ``Policy``."""
    frontier, search = state.frontier, state.config.search
    if not frontier.eligible:
        return None
    coin = draw(search.seed, "coin", attempt, COIN)
    # Without leaf bias this is the canonical rule, which explores all that is eligible.
    explorable = frontier.leaves if search.leaf_bias else frontier.eligible
    if coin < round(search.epsilon * COIN) and explorable:
        leaf = draw(search.seed, "leaf", attempt, len(explorable))
        return Selection(
            node=explorable.nth(leaf),
            rule="explore",
            draws=Draws(coin=coin, leaf=leaf),
            eligible=len(frontier.eligible),
        )
    tied = frontier.best()
    among = len(tied) or len(frontier.eligible)
    tie = draw(search.seed, "tie", attempt, among) if among > 1 else None
    node = tied[tie or 0] if tied else frontier.eligible.nth(tie or 0)
    return Selection(
        node=node,
        rule="exploit",
        draws=Draws(coin=coin, tie=tie),
        eligible=len(frontier.eligible),
    )
