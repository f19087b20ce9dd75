"""Dynamic context windows: which attempts a role sees (paper, section 4.4). Pure.

Each rule returns the whole pool in order: the selected node, the root, then the rest;
only evaluated nodes, each once. Capping the pool is the core's job, with logged draws.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from projections.search.tree import ROOT, Tree

__all__ = [
    "RULES",
    "Rule",
    "code_window",
    "debug_window",
    "leaders",
    "minimal_window",
    "plan_window",
]

Rule = Callable[[Tree, int, int], list[int]]
"""(tree, selected node, leaderboard size r) → node ids."""


def plan_window(tree: Tree, node: int, top: int) -> list[int]:
    """{i, root} ∪ children(i) ∪ Top-r of the leaderboard."""
    return _window(node, tree.evaluated_children(node), leaders(tree, node, top))


def code_window(tree: Tree, node: int, top: int) -> list[int]:
    """{i, root} ∪ children(i) ∪ children of i's siblings."""
    cousins = [
        child for sibling in tree.siblings(node) for child in tree.evaluated_children(sibling)
    ]
    return _window(node, tree.evaluated_children(node), cousins)


def debug_window(tree: Tree, node: int, top: int) -> list[int]:
    """{i, root} ∪ siblings(i)."""
    return _window(node, tree.siblings(node))


def minimal_window(tree: Tree, node: int, top: int) -> list[int]:
    """{i, root}: the search without dynamic context windows."""
    return _window(node)


def leaders(tree: Tree, node: int, top: int) -> list[int]:
    """The ``top`` fastest correct nodes outside ``node``'s subtree, distinct in source.

    The subtree, the root and duplicates (of each other, and of ``node``) are dropped
    first, so that fewer than ``top`` come back only when there are no more.
    """
    found: list[int] = []
    if node == ROOT:
        return found  # everything is in the root's subtree
    seen = {tree[node].source_key}
    for leader in tree.leaderboard():
        if len(found) >= top:
            break
        if leader.source_key in seen or tree.is_within(leader.id, node):
            continue
        seen.add(leader.source_key)
        found.append(leader.id)
    return found


def _window(node: int, *groups: Iterable[int]) -> list[int]:
    # A dict keeps the first place of each and drops the repeats.
    return list(dict.fromkeys([node, ROOT, *(other for group in groups for other in group)]))


RULES: dict[str, Rule] = {
    "plan": plan_window,
    "code": code_window,
    "debug": debug_window,
    # The paper's single agents have none; one that is given a window decides as a planner.
    "single": plan_window,
}
