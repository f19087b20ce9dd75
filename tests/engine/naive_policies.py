"""Each policy written straight from its definition: (the tree so far, the selection that was
made) → what must have been selected. Every rule looks at all nodes, every time."""

from __future__ import annotations

import math
from collections.abc import Callable

from engine.config import Search
from engine.core.draws import COIN
from events.bodies import NodeSelected
from tests.engine.naive import N, best, eligible, leaves, subtree

Rule = Callable[[dict[int, N], NodeSelected, Search, set[int]], int]
"""``repaired``, last, are the nodes that were sent to a debug role before."""


def stark(nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]) -> int:
    among = eligible(nodes, search)
    return _epsilon(nodes, body, search, leaves(nodes, search) if search.leaf_bias else among)


def epsilon_greedy(
    nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]
) -> int:
    return _epsilon(nodes, body, search, evaluated(nodes))


def _epsilon(nodes: dict[int, N], body: NodeSelected, search: Search, explorable: list[int]) -> int:
    assert body.draws.coin is not None
    if body.draws.coin < search.epsilon * COIN and explorable:
        assert body.rule == "explore"
        assert body.draws.leaf is not None
        return explorable[body.draws.leaf]
    assert body.rule == "exploit"
    return _exploit(nodes, body, search)


def greedy(nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]) -> int:
    return _exploit(nodes, body, search)


def _exploit(nodes: dict[int, N], body: NodeSelected, search: Search) -> int:
    among = eligible(nodes, search)
    tied = best(nodes, search) or among
    assert body.eligible == len(among)
    assert (body.draws.tie is not None) == (len(tied) > 1)
    return tied[body.draws.tie or 0]


def random(nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]) -> int:
    assert body.draws.leaf is not None
    assert body.eligible == len(evaluated(nodes))
    return evaluated(nodes)[body.draws.leaf]


def iterative(nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]) -> int:
    if search.workers == 1:  # to the letter: the last attempt that was judged
        return max(evaluated(nodes))
    return max((node for node in evaluated(nodes) if not nodes[node].kids), default=0)


def evolution(nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]) -> int:
    if len(nodes[0].kids) < search.population:
        assert body.rule == "sample"
        return 0
    living = [node for node in evaluated(nodes) if node != 0][-search.population :]
    assert body.eligible == len(living)
    drawn = body.draws.tournament
    assert isinstance(drawn, list)
    assert len(drawn) == search.tournament
    fastest, parent = math.inf, living[drawn[0]]
    for index in drawn:
        runtime = nodes[living[index]].runtime
        if runtime is not None and runtime < fastest:
            fastest, parent = runtime, living[index]
    return parent


def best_of_k(nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]) -> int:
    if search.repairs and search.team == "plan_code_debug":
        for sample in nodes[0].kids:
            if nodes[sample].done and nodes[sample].runtime is None and sample not in repaired:
                return sample
    return 0


def mcts(nodes: dict[int, N], body: NodeSelected, search: Search, repaired: set[int]) -> int:
    root_ms = nodes[0].runtime
    assert root_ms is not None

    def rewards(node: int) -> list[float]:
        """Of each visit below; a failure's is 0, and so is that of one in flight."""
        speedups = [root_ms / (nodes[n].runtime or math.inf) for n in subtree(nodes, node)]
        return sorted(speedup / (1 + speedup) for speedup in speedups)

    def bound(child: int, parent: int) -> float:
        visits = len(rewards(child))
        explore = math.sqrt(math.log(len(rewards(parent))) / visits)
        return sum(rewards(child)) / visits + search.uct_c * explore

    at = 0
    while len(nodes[at].kids) >= math.ceil(math.sqrt(len(rewards(at)))):
        done = [kid for kid in nodes[at].kids if nodes[kid].done]
        if not done:
            break
        top = max(bound(kid, at) for kid in done)
        # This arithmetic is another one: equal is equal to nine digits, and of children
        # with the same rewards it has to be the oldest.
        tied = [kid for kid in done if bound(kid, at) > top - 1e-9]
        taken = next(kid for kid in tied if body.node in subtree(nodes, kid))
        assert taken == next(kid for kid in tied if rewards(kid) == rewards(taken))
        at = taken
    return at


def evaluated(nodes: dict[int, N]) -> list[int]:
    return sorted(node.id for node in nodes.values() if node.done)


NAIVE: dict[str, Rule] = {
    "stark": stark,
    "epsilon_greedy": epsilon_greedy,
    "greedy": greedy,
    "mcts": mcts,
    "evolution": evolution,
    "best_of_k": best_of_k,
    "iterative": iterative,
    "random": random,
}
