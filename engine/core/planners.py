"""Which of several planner models is asked next: reward per dollar, by upper confidence bounds.

Fractional KUBE (Tran-Thanh, Chapman, Rogers and Jennings, "Knapsack based optimal policies for
budget-limited multi-armed bandits", AAAI 2012): every model once, in the order of the list; then
the one with the greatest

    (mean reward + sqrt(2 ln N / n)) / cost of a pull

Costs are not known beforehand, as they are there: the mean of a model's pulls so far stands for
them. What a pull, its reward and its cost are, ``projections.search.planners`` says.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import sqrt

from engine.core.bounds import ln, upper_bound
from engine.core.draws import draw
from engine.core.state import State
from events.bodies import Pick
from projections.search.planners import Arm
from projections.search.reward import UNIT

__all__ = ["pick_planner"]

_WEIGHT = sqrt(2)
"""UCB1's, for rewards in 0..1."""


def pick_planner(state: State, attempt: int, models: Sequence[str]) -> tuple[str, Pick]:
    """One of ``models``, and how it was picked; the others of ``roles.plan.models`` are down. Of
    equals, one that is drawn."""
    plan = state.config.roles.plan
    down = [model for model in plan.models if model not in models]
    arms = [state.planners.arms.get(model, Arm()) for model in models]
    tried = [arm.pulls + arm.in_flight for arm in arms]
    if 0 in tried:
        return models[tried.index(0)], Pick(rule="untried", down=down)
    log_all, costs = ln(sum(tried)), _costs(arms, plan.reward_per)
    # A pull in flight counts with a reward of 0, so that several workers spread.
    bounds = [
        upper_bound(arm.reward / (n * UNIT), weight=_WEIGHT, log_all=log_all, tried=n) / cost
        for arm, n, cost in zip(arms, tried, costs, strict=True)
    ]
    tied = [at for at, bound in enumerate(bounds) if bound == max(bounds)]
    tie = draw(state.draw_key, "planner", attempt, len(tied)) if len(tied) > 1 else None
    return models[tied[tie or 0]], Pick(rule="bound", tie=tie, down=down)


def _costs(arms: list[Arm], per: str) -> list[float]:
    """Of a pull of each, in usd_micros or tokens: at least one, so that there is a ratio.

    A model of which no pull's cost is known is taken to cost what the others do.
    """
    sums = [
        (arm.usd_micros, arm.priced) if per == "dollar" else (arm.tokens, arm.counted)
        for arm in arms
    ]
    everything, known = (sum(column) for column in zip(*sums, strict=True))
    usual = everything / known if known else 1.0
    return [max(cost / n if n else usual, 1.0) for cost, n in sums]
