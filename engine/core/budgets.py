"""What may still be begun: each budget against what is used and what the next step may take.

A step is begun only where what is used, what is under way and an estimate of the step fit
into the budget, so a budget is exceeded by what the calls in flight take beyond their
estimates, and by no more. Wall time is the one without an estimate: the shell feeds
``DeadlineReached`` when it is up.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

import msgspec

from engine.core.standstill import is_under_way
from engine.core.state import Attempt, State
from events.bodies import AgentCalled, EvaluationRequested
from projections.run.spend import cost_usd_micros

__all__ = ["RESOURCES", "WAIT", "Use", "budget_reached", "short_for", "short_for_attempt"]

RESOURCES = ("usd", "tokens", "device", "wall")
"""The budgets that are used up by working, by the names in ``BudgetExhausted``."""

WAIT: Literal["wait"] = "wait"
"""It would not fit if what is under way took what is expected: see what it takes."""


class Use(msgspec.Struct, frozen=True, kw_only=True):
    """An amount of each resource, used or expected. None: not drawn on at all."""

    usd: int | None = 0
    """In millionths of a dollar."""
    tokens: int | None = 0
    device: int | None = 0
    """In milliseconds."""

    def __add__(self, other: Use) -> Use:
        return Use(
            usd=(self.usd or 0) + (other.usd or 0),
            tokens=(self.tokens or 0) + (other.tokens or 0),
            device=(self.device or 0) + (other.device or 0),
        )

    def __mul__(self, times: int) -> Use:
        return Use(
            usd=(self.usd or 0) * times,
            tokens=(self.tokens or 0) * times,
            device=(self.device or 0) * times,
        )


def short_for(state: State, step: AgentCalled | EvaluationRequested) -> str | None:
    """The budget that has too little left for this step of an attempt, ``WAIT``, or None."""
    if _unlimited(state):
        return state.deadline
    ahead = _sum(_under_way(state, attempt) for attempt in state.attempts.values())
    if isinstance(step, EvaluationRequested):
        return _short(state, Use(usd=None, tokens=None, device=_lease_ms(state)), ahead)
    # Without device time for its verdict, a reply would be paid for in vain.
    return _short(state, _call(state, step.role) + Use(device=_lease_ms(state)), ahead)


def short_for_attempt(state: State) -> str | None:
    """The same for a whole attempt; what those in flight still need goes before it."""
    if _unlimited(state):
        return state.deadline
    roles = () if state.given is not None else state.team.roles(repair=False)
    needed = _calls(state, roles) + Use(device=_lease_ms(state))
    return _short(state, needed, _sum(_promised(state, a) for a in state.attempts.values()))


def budget_reached(state: State) -> str | None:
    """The budget for the sake of which no further attempt is started, if one is."""
    budget, best = state.config.budget, state.tree.best
    short = short_for_attempt(state)
    if short is not None and short != WAIT:
        return short
    if budget.target_speedup is not None and best is not None and best.score_ms is not None:
        root_ms = state.tree.root.score_ms or 0.0
        if root_ms / best.score_ms >= budget.target_speedup:
            return "target_speedup"
    if (
        budget.patience is not None
        and state.attempts_ended - state.last_improvement >= budget.patience
    ):
        return "patience"
    return "attempts" if state.attempts_started >= state.granted.attempts else None


def _unlimited(state: State) -> bool:
    """Then no estimate is worth its time: this is asked at every decision."""
    granted = state.granted
    return granted.usd_micros is granted.tokens is granted.device_ms is None


def _short(state: State, needed: Use, ahead: Use) -> str | None:
    if state.deadline is not None:
        return state.deadline
    used, granted, waits = _used(state), state.granted, False
    limits = {"usd": granted.usd_micros, "tokens": granted.tokens, "device": granted.device_ms}
    for name, limit in limits.items():
        need = getattr(needed, name)
        if limit is None or need is None:
            continue
        left = limit - getattr(used, name)
        if left <= 0 or need > left:
            return name
        waits = waits or need + getattr(ahead, name) > left
    return WAIT if waits else None


def _used(state: State) -> Use:
    """A call whose use was not reported counts as its estimate, and so does a try that may have
    been answered after its process ended."""
    spend = state.spend
    unknown = _sum(_call(state, name) * role.uncounted_calls for name, role in spend.roles.items())
    unknown += _sum(_call(state, name) * tries for name, tries in state.doubted_tries.items())
    total = spend.total
    return unknown + Use(usd=total.usd_micros, tokens=total.tokens, device=spend.device_ms)


# -- estimates ----------------------------------------------------------------------------


def _call(state: State, role: str) -> Use:
    """The mean of the role's calls; before there is one, what the run's start expects."""
    spent = state.spend.roles.get(role)
    if spent is not None and spent.counted:
        return Use(
            usd=-(-spent.usd_micros // spent.counted), tokens=-(-spent.tokens // spent.counted)
        )
    assert state.started is not None
    usage = state.started.estimates.get(role)
    if usage is None:
        return Use()
    costs = (
        cost_usd_micros(usage, state.started.prices[model])
        for model in state.config.models(role)
        if model in state.started.prices
    )
    return Use(usd=max(costs, default=0), tokens=usage.input_tokens + usage.output_tokens)


def _lease_ms(state: State) -> int:
    """The mean of the run's evaluations; nothing before the first."""
    spend = state.spend
    return -(-spend.evaluations_ms // spend.evaluations) if spend.evaluations else 0


def _calls(state: State, roles: Sequence[str]) -> Use:
    return _sum(_call(state, role) for role in roles)


def _under_way(state: State, attempt: Attempt) -> Use:
    call = attempt.call
    if call is not None and call.status in ("sent", "deferred"):
        return _call(state, call.body.role)
    return Use(device=_lease_ms(state)) if is_under_way(attempt) else Use()


def _promised(state: State, attempt: Attempt) -> Use:
    paid = attempt.call is not None and attempt.call.status == "replied"
    rest = attempt.roles[attempt.step + paid :]
    return _calls(state, rest) + Use(device=_lease_ms(state))


def _sum(uses: Iterable[Use]) -> Use:
    total = Use()
    for use in uses:
        total += use
    return total
