"""The tree's indexes against what they stand for: a sorted list, and a walk to the root."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from projections.search.ancestry import Ancestry
from projections.search.ranking import Ranking


@given(st.lists(st.sampled_from([1.0, 2.0, 2.5, 8.0, 9.0]), max_size=60), st.integers(1, 4))
def test_a_ranking_is_a_sorted_list(runtimes: list[float], block: int) -> None:
    ranked, naive = Ranking(block=block), list[tuple[float, int]]()
    assert ranked.first is None
    for node, runtime_ms in enumerate(runtimes, 1):
        ranked.add(runtime_ms, node)
        naive = sorted([*naive, (runtime_ms, node)])
        assert ranked.first == naive[0][1]
    assert list(ranked) == [node for _, node in naive]


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 10**6)), max_size=80))
def test_ancestry_is_a_walk_to_the_root(births: list[tuple[bool, int]]) -> None:
    ancestry, above = Ancestry(), {0: {0}}
    ancestry.add(0, None)
    for node, (chained, chance) in enumerate(births, 1):
        # Half of the nodes go on from the newest one, so that there are long chains.
        parent = node - 1 if chained else chance % node
        ancestry.add(node, parent)
        above[node] = above[parent] | {node}
    for node, ancestors in above.items():
        assert {other for other in above if ancestry.is_within(node, other)} == ancestors
