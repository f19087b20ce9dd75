"""What is compared: configurations, set as ``engine run --set`` would."""

from __future__ import annotations

from engine.cli.settings.layers import resolve
from engine.config import Config

__all__ = [
    "ABLATIONS", "EPSILONS", "METHODS", "POLICIES", "RANKED", "VARIANTS", "config_of",
]  # fmt: skip

METHODS = {
    name: [f"search.method={name}"]
    for name in ("stark", "search_agent", "ma_only", "reflexion", "sampling")
}

POLICIES = {
    name: [f"search.policy={name}"]
    for name in (
        "epsilon_greedy", "greedy", "mcts", "evolution", "best_of_k", "iterative", "random",
    )
}  # fmt: skip
"""The paper's team and windows under another policy; ``stark`` is the eighth."""

ABLATIONS = {
    "no root throttle": ["search.root_throttle=null"],
    "no dead-branch pruning": ["search.dead_branch=null"],
    "no leaf bias": ["search.leaf_bias=false"],
    "no windows": ["search.windows=false"],
    "no anchors": ["search.anchors=false"],
    "no debug role": ["search.repairs=false"],
    "one temperature (0.7)": ["temperature=0.7"],
    "windows sampled literally": ["search.window_sampling=literal"],
    "search agent with windows": ["search.method=search_agent", "search.windows=true"],
}
"""One switch each; the first three are STARK's adaptations of epsilon-greedy, which is all
three at once."""

EPSILONS = {
    f"epsilon {epsilon}": [f"search.epsilon={epsilon}"] for epsilon in (0.0, 0.1, 0.2, 0.4, 0.5)
}
"""0.3 is ``stark``."""

VARIANTS = METHODS | POLICIES | ABLATIONS | EPSILONS

RANKED = [
    *METHODS, "epsilon_greedy", "greedy", "mcts", "evolution", *list(ABLATIONS)[:4],
]  # fmt: skip
"""What is compared in every world."""


def config_of(assignments: list[str], *, attempts: int) -> Config:
    """The resolved configuration of a search."""
    return resolve(
        preset=None,
        file=None,
        environment={},
        assignments=[*assignments, f"budget.attempts={attempts}"],
        flags={},
    )
