"""What became of each planner model's plans, and what they cost: the arms of a bandit.

An attempt that asks a planner is a pull of its model, of the last where it asked several. Its
reward is ``reward`` of the candidate over the node that was planned for (over the root where that
node had failed), 0 for an attempt that was abandoned; what repairs make of it later is not
counted. Its cost is that of every answered call of the attempt, and of failed tries as far as it
is known: the coder's work on a plan is part of what the plan costs.
"""

from __future__ import annotations

import msgspec

from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    Body,
    EvaluationFinished,
)
from projections.run.spend import RoleSpend
from projections.search.reward import UNIT, reward
from projections.search.tree import Tree

__all__ = ["Arm", "PlannerSummary", "Planners"]


class Arm(msgspec.Struct, kw_only=True):
    """One model. ``pulls`` have ended; ``reward`` is their sum, in ``reward.UNIT``.

    ``usd_micros`` is over the ``priced`` pulls, ``tokens`` over the ``counted`` ones: those of
    which the whole cost is known, and something was really asked for.
    """

    pulls: int = 0
    in_flight: int = 0
    reward: int = 0
    usd_micros: int = 0
    priced: int = 0
    tokens: int = 0
    counted: int = 0

    def summary(self) -> PlannerSummary:
        """For people and other programs."""
        usd = self.usd_micros / 1_000_000 if self.priced == self.pulls else None
        tokens = self.tokens if self.counted == self.pulls else None
        reward = self.reward / UNIT
        return PlannerSummary(
            pulls=self.pulls,
            in_flight=self.in_flight,
            mean_reward=reward / self.pulls if self.pulls else None,
            cost_usd=usd,
            tokens=tokens,
            reward_per_usd=reward / usd if usd else None,
            reward_per_mtok=reward * 1_000_000 / tokens if tokens else None,
        )


class PlannerSummary(msgspec.Struct, frozen=True, kw_only=True):
    """``mean_reward`` is in 0..1; ½ is the speed of the node that was planned for. ``cost_usd``
    and ``tokens`` are null where they are not known of every pull."""

    pulls: int
    in_flight: int
    mean_reward: float | None
    cost_usd: float | None
    tokens: int | None
    reward_per_usd: float | None
    reward_per_mtok: float | None


class _Pull(msgspec.Struct):
    model: str
    spent: RoleSpend


class Planners:
    """A fold that owns mutable state: one arm for each model that planned."""

    def __init__(self) -> None:
        self.arms: dict[str, Arm] = {}
        self._pulls: dict[int, _Pull] = {}
        """By attempt in flight."""

    def apply(self, body: Body, tree: Tree, spent: RoleSpend | None) -> None:
        """Fold one event; ``tree`` has it already, ``spent`` is what it cost."""
        match body:
            case AgentCalled(role="plan"):
                self._ask(body)
            case AgentReplied() | AgentFailed() if spent and body.attempt in self._pulls:
                self._pulls[body.attempt].spent.add(spent)
            case EvaluationFinished() | AttemptAbandoned() if body.attempt in self._pulls:
                self._end(self._pulls.pop(body.attempt), _reward(tree, body.attempt))

    def _ask(self, body: AgentCalled) -> None:
        pull = self._pulls.setdefault(body.attempt, _Pull("", RoleSpend()))
        if pull.model == body.model:
            return
        if pull.model:  # another one is asked for this attempt: since a fork, or it was down
            self.arms[pull.model].in_flight -= 1
        pull.model = body.model
        self.arms.setdefault(body.model, Arm()).in_flight += 1

    def _end(self, pull: _Pull, reward: int) -> None:
        arm, spent = self.arms[pull.model], pull.spent
        arm.in_flight -= 1
        arm.pulls += 1
        arm.reward += reward
        if not spent.calls or spent.reused:
            return
        if not spent.unpriced_calls:
            arm.priced += 1
            arm.usd_micros += spent.usd_micros
        if not spent.uncounted_calls:
            arm.counted += 1
            arm.tokens += spent.input_tokens + spent.output_tokens


def _reward(tree: Tree, attempt: int) -> int:
    node = tree[attempt]
    base = tree.root if node.parent is None else tree[node.parent]
    return reward(node.score_ms, base.score_ms or tree.root.score_ms)
