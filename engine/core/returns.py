"""What came of each subtree: visits and summed rewards, for the tree search.

Kept up to date node by node, with integers, so that neither the order of events nor the
machine's arithmetic can change a sum.
"""

from __future__ import annotations

from projections.search.reward import reward
from projections.search.tree import Node, Tree

__all__ = ["Returns"]


class Returns:
    """Per node, over its subtree: attempts evaluated or in flight, and their rewards.

    An attempt in flight counts as a visit without a reward, which is its virtual loss; an
    abandoned one counts for nothing.
    """

    def __init__(self) -> None:
        self._visits: dict[int, int] = {}
        self._rewards: dict[int, int] = {}
        self._own: dict[int, tuple[int, int]] = {}

    def visits(self, node: int) -> int:
        return self._visits.get(node, 0)

    def rewards(self, node: int) -> int:
        """In ``projections.search.reward.UNIT``."""
        return self._rewards.get(node, 0)

    def update(self, tree: Tree, node: Node) -> None:
        """Call after every event that changed the node; costs its depth."""
        visits, rewards = 1, reward(node.score_ms, tree.root.score_ms)
        if node.status == "abandoned":
            visits = rewards = 0
        visits_before, rewards_before = self._own.get(node.id, (0, 0))
        self._own[node.id] = visits, rewards
        more_visits, more_rewards = visits - visits_before, rewards - rewards_before
        if not more_visits and not more_rewards:
            return
        at: int | None = node.id
        while at is not None:
            self._visits[at] = self.visits(at) + more_visits
            self._rewards[at] = self.rewards(at) + more_rewards
            at = tree[at].parent
