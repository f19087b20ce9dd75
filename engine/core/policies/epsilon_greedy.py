"""The canonical epsilon-greedy rule (Sutton and Barto, Reinforcement Learning, 2.2).

With probability epsilon a uniform draw from all evaluated nodes, else the best score.
``stark`` is this rule with the paper's adaptations, ``greedy`` is its second half.
"""

from __future__ import annotations

from engine.core.draws import COIN, draw
from engine.core.frontier import OrderedIds
from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws

__all__ = ["choose", "epsilon_greedy", "exploit"]


def epsilon_greedy(state: State, attempt: int) -> Selection | None:
    """See the module; implements ``Policy``."""
    return choose(state, attempt, state.frontier.eligible)


def choose(state: State, attempt: int, explorable: OrderedIds) -> Selection | None:
    """Explore among ``explorable`` with probability epsilon, else exploit."""
    frontier, search = state.frontier, state.config.search
    if not frontier.eligible:
        return None
    coin = draw(state.draw_key, "coin", attempt, COIN)
    if coin < round(search.epsilon * COIN) and explorable:
        leaf = draw(state.draw_key, "leaf", attempt, len(explorable))
        return Selection(
            node=explorable.nth(leaf),
            rule="explore",
            draws=Draws(coin=coin, leaf=leaf),
            eligible=len(frontier.eligible),
        )
    return exploit(state, attempt, coin=coin)


def exploit(state: State, attempt: int, *, coin: int | None = None) -> Selection:
    """The eligible node with the best score; of equals, or when all failed, a drawn one."""
    frontier = state.frontier
    tied = frontier.best()
    among = len(tied) or len(frontier.eligible)
    tie = draw(state.draw_key, "tie", attempt, among) if among > 1 else None
    node = tied[tie or 0] if tied else frontier.eligible.nth(tie or 0)
    return Selection(
        node=node,
        rule="exploit",
        draws=Draws(coin=coin, tie=tie),
        eligible=len(frontier.eligible),
    )
