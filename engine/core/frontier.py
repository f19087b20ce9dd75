"""Which nodes may be expanded, kept up to date node by node.

A decision costs the logarithm of the tree, not the tree: membership changes only for
the nodes that an event touches, and draws index into ordered sets.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Collection, Sequence
from heapq import heappop, heappush

from engine.config import Search
from projections.search.tree import ROOT, Node

__all__ = ["Frontier", "OrderedIds"]


class OrderedIds:
    """A set of non-negative integers that finds its k-th smallest in O(log n).

    A Fenwick tree of membership counts, doubled when an id does not fit.
    """

    def __init__(self) -> None:
        self._counts = [0] * 65
        self._members: set[int] = set()

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, member: int) -> bool:
        return member in self._members

    def put(self, member: int, present: bool) -> None:
        """Make ``member`` present or absent; no effect if it is so already."""
        if present == (member in self._members):
            return
        while member + 1 >= len(self._counts):
            self._double()
        if present:
            self._members.add(member)
        else:
            self._members.remove(member)
        self._add(member, 1 if present else -1)

    def nth(self, index: int) -> int:
        """The member with ``index`` smaller ones. Raises ``IndexError``."""
        if not 0 <= index < len(self._members):
            raise IndexError(index)
        position, step, rest = 0, (len(self._counts) - 1), index + 1
        while step:
            if position + step < len(self._counts) and self._counts[position + step] < rest:
                position += step
                rest -= self._counts[position]
            step //= 2
        return position

    def _add(self, member: int, change: int) -> None:
        at = member + 1
        while at < len(self._counts):
            self._counts[at] += change
            at += at & -at

    def _double(self) -> None:
        size = (len(self._counts) - 1) * 2
        self._counts = [0] * (size + 1)
        for member in self._members:
            self._add(member, 1)


class Frontier:
    """Eligible nodes, the leaves among them, and the best of them.

    Eligible: the root while it has fewer than ``root_throttle`` children, in flight ones
    counted; and any evaluated node, the root too, unless it has more than ``dead_branch``
    evaluated direct children and all of them failed. None switches a rule off. Never one of
    ``banned``, which is the user's to change.
    """

    def __init__(
        self,
        *,
        root_throttle: int | None,
        dead_branch: int | None,
        banned: Collection[int] = (),
    ) -> None:
        self.banned = banned
        self._root_throttle = root_throttle
        self._dead_branch = dead_branch
        self.eligible = OrderedIds()
        self.leaves = OrderedIds()
        # The nodes at each score, ascending, and the scores in a heap; a score whose nodes
        # have all moved on stays in the heap until it comes to the top.
        self._at_score: dict[float, list[int]] = {}
        self._scores: list[float] = []
        self._score_of: dict[int, float] = {}

    @classmethod
    def of(cls, search: Search, banned: Collection[int]) -> Frontier:
        """The frontier of a policy: throttle and pruning are adaptations of ``stark`` alone."""
        adapted = search.policy == "stark"
        return cls(
            root_throttle=search.root_throttle if adapted else None,
            dead_branch=search.dead_branch if adapted else None,
            banned=banned,
        )

    def update(self, node: Node) -> None:
        """Call after every event that changed the node, its children, or whether it is banned."""
        eligible = self._is_eligible(node)
        self.eligible.put(node.id, eligible)
        self.leaves.put(node.id, eligible and not node.children)
        self._place(node.id, self.score(node) if eligible else None)

    def _place(self, node: int, score: float | None) -> None:
        """Move the node to its score; None takes it out."""
        before = self._score_of.get(node)
        if score == before:
            return
        if before is not None:
            nodes = self._at_score[before]
            del nodes[bisect_left(nodes, node)]
            del self._score_of[node]
        if score is not None:
            if score not in self._at_score:
                self._at_score[score] = []
                heappush(self._scores, score)
            insort(self._at_score[score], node)
            self._score_of[node] = score

    def score(self, node: Node) -> float | None:
        """Score × (1 + expansions in flight), so that workers spread; None if it failed."""
        return None if node.score_ms is None else node.score_ms * (1 + node.expansions)

    def best(self) -> Sequence[int]:
        """The eligible correct nodes that share the best score, ascending; often one."""
        while self._scores:
            nodes = self._at_score[self._scores[0]]
            if nodes:
                return nodes
            del self._at_score[heappop(self._scores)]
        return ()

    def _is_eligible(self, node: Node) -> bool:
        if not node.evaluated or node.id in self.banned:
            return False
        if (
            node.id == ROOT
            and self._root_throttle is not None
            and len(node.children) >= self._root_throttle
        ):
            return False
        return self._dead_branch is None or not node.is_dead(self._dead_branch)
