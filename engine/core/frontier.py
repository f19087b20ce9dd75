"""Which nodes may be expanded, kept up to date node by node.

A decision costs the logarithm of the tree, not the tree: membership changes only for
the nodes that an event touches, and draws index into ordered sets.
"""

from __future__ import annotations

from heapq import heappop, heappush

from projections.tree import ROOT, Node, Tree

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
    evaluated direct children and all of them failed. None switches a rule off.
    """

    def __init__(self, tree: Tree, *, root_throttle: int | None, dead_branch: int | None) -> None:
        self._tree = tree
        self._root_throttle = root_throttle
        self._dead_branch = dead_branch
        self.eligible = OrderedIds()
        self.leaves = OrderedIds()
        # (score, id) with stale entries left in place: one is valid while the node is
        # eligible and still has that score.
        self._heap: list[tuple[float, int]] = []

    def update(self, node: Node) -> None:
        """Call after every event that changed the node or its children."""
        eligible = self._is_eligible(node)
        self.eligible.put(node.id, eligible)
        self.leaves.put(node.id, eligible and not node.children)
        score = self.score(node)
        if eligible and score is not None:
            heappush(self._heap, (score, node.id))

    def score(self, node: Node) -> float | None:
        """Runtime × (1 + expansions in flight), so that workers spread; None if it failed."""
        return None if node.runtime_ms is None else node.runtime_ms * (1 + node.expansions)

    def best(self) -> list[int]:
        """The eligible correct nodes that share the best score, ascending; often one."""
        tied: list[tuple[float, int]] = []
        while self._heap:
            entry = self._heap[0]
            if tied and entry[0] > tied[0][0]:
                break
            heappop(self._heap)
            if self._is_current(entry) and entry not in tied:
                tied.append(entry)
        for entry in tied:
            heappush(self._heap, entry)
        return sorted(node for _, node in tied)

    def _is_current(self, entry: tuple[float, int]) -> bool:
        score, node = entry
        return node in self.eligible and self.score(self._tree[node]) == score

    def _is_eligible(self, node: Node) -> bool:
        if not node.evaluated:
            return False
        if (
            node.id == ROOT
            and self._root_throttle is not None
            and len(node.children) >= self._root_throttle
        ):
            return False
        return not (
            self._dead_branch is not None
            and node.evaluated_children > self._dead_branch
            and node.failed_children == node.evaluated_children
        )
