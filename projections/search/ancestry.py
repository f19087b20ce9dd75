"""Ancestry of nodes, found in the logarithm of the depth.

Each node knows its parent and one far ancestor (a jump pointer, after E. W. Myers, "An
applicative random-access stack", 1983): a chain of 50,000 improvements takes 30 steps.
"""

from __future__ import annotations

__all__ = ["Ancestry"]


class Ancestry:
    """Nodes are added below nodes that are there; an id is greater than its parent's."""

    def __init__(self) -> None:
        self._parent: dict[int, int] = {}
        self._depth: dict[int, int] = {}
        self._jump: dict[int, int] = {}

    def add(self, node: int, parent: int | None) -> None:
        """A root is its own parent and jumps to itself."""
        if parent is None:
            self._parent[node], self._depth[node], self._jump[node] = node, 0, node
            return
        far = self._jump[parent]
        further = self._jump[far]
        depth = self._depth
        # Two jumps of one length become one of twice the length.
        equal = depth[parent] - depth[far] == depth[far] - depth[further]
        self._parent[node] = parent
        self._jump[node] = further if equal else parent
        depth[node] = depth[parent] + 1

    def is_within(self, node: int, ancestor: int) -> bool:
        """Whether ``node`` is ``ancestor`` or below it."""
        # Ids fall on the way up: what jumps past the ancestor's id jumps past its place.
        while node > ancestor:
            far = self._jump[node]
            node = far if far >= ancestor else self._parent[node]
        return node == ancestor
