"""Search policies: each picks the node that the next attempt starts from."""

from __future__ import annotations

from engine.core.policies.best_of_k import best_of_k
from engine.core.policies.epsilon_greedy import epsilon_greedy
from engine.core.policies.evolution import evolution
from engine.core.policies.greedy import greedy
from engine.core.policies.iterative import iterative
from engine.core.policies.mcts import mcts
from engine.core.policies.port import Policy, Selection
from engine.core.policies.random import random
from engine.core.policies.stark import stark

__all__ = ["POLICIES", "Policy", "Selection"]

POLICIES: dict[str, Policy] = {
    "stark": stark,
    "epsilon_greedy": epsilon_greedy,
    "greedy": greedy,
    "mcts": mcts,
    "evolution": evolution,
    "best_of_k": best_of_k,
    "iterative": iterative,
    "random": random,
}
