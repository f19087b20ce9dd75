"""Monte-Carlo tree search: UCT (Kocsis and Szepesvári, ECML 2006) with virtual loss.

From the root down: a node with room for a child is taken; else the walk goes on with the
evaluated child of the greatest mean reward + c · sqrt(ln N / n). Edits are endless, so a
node that was visited N times has room for ceil(sqrt(N)) children (progressive widening;
Couetoux et al., LION 2011). Rewards and virtual loss are ``core.returns``'s.
"""

from __future__ import annotations

from math import isqrt

from engine.core.bounds import ln, upper_bound
from engine.core.policies.port import Selection
from engine.core.state import State
from events.bodies import Draws
from projections.search.reward import UNIT
from projections.search.tree import ROOT

__all__ = ["mcts"]


def mcts(state: State, attempt: int) -> Selection | None:
    """See the module; implements ``Policy``. Of equal children the oldest is taken."""
    if not state.tree.root.evaluated:
        return None
    node = ROOT
    banned = state.steering.banned
    while node in banned or not _has_room(state, node):
        # With several workers, all that was made of a node may be in flight still.
        children = [
            child
            for child in state.tree.evaluated_children(node)
            if child not in banned or state.tree.evaluated_children(child)
        ]
        if not children:
            break
        log_visits = ln(state.returns.visits(node))
        node = max(children, key=lambda child: _upper_bound(state, child, log_visits))
    if node in banned:
        return None
    return Selection(node=node, rule="uct", draws=Draws(), eligible=len(state.frontier.eligible))


def _has_room(state: State, node: int) -> bool:
    visits = state.returns.visits(node)
    return len(state.tree[node].children) < isqrt(visits - 1) + 1


def _upper_bound(state: State, child: int, log_visits: float) -> float:
    visits = state.returns.visits(child)
    mean = state.returns.rewards(child) / (visits * UNIT)
    return upper_bound(mean, weight=state.config.search.uct_c, log_all=log_visits, tried=visits)
