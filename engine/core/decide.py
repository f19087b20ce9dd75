"""``decide``: the one next decision that the state calls for, None when it has to wait.

The caller appends the decision, folds it, and asks again, until None: so a run that was
killed between two decisions completes them when it is resumed. The body that is
returned is the whole decision; the shell adds nothing to it.
"""

from __future__ import annotations

from engine.core.attempts import visit_key
from engine.core.budgets import RESOURCES, WAIT, budget_reached, short_for, short_for_attempt
from engine.core.calls import ask_again, first_call, retry
from engine.core.draws import draw
from engine.core.policies import POLICIES, Selection
from engine.core.standstill import (
    is_blocked,
    is_under_way,
    only_replies_awaited,
    waiting_words,
    why_blocked,
)
from engine.core.state import Attempt, State
from events.bodies import (
    AgentCalled,
    BaselineRequested,
    Body,
    BudgetExhausted,
    Draws,
    EvaluationRequested,
    NodeSelected,
    RunPaused,
    RunStopped,
)
from projections.search.tree import ROOT

__all__ = ["decide"]


def decide(state: State) -> Body | None:
    """The next decision. Pure."""
    if state.started is None or state.over:
        return None
    if state.baseline == "rejected":
        return RunStopped(status="failed", reason=state.baseline_reason)
    if state.stop_requested is not None:
        return _stop(state, "interrupted", state.stop_requested)
    match state.baseline:
        case "none":
            return BaselineRequested(try_=state.baseline_faults + 1)
        case "requested":
            return None
        case "faulted":
            if state.baseline_faults >= state.config.search.evaluation_tries:
                return RunPaused(reason=f"the baseline can't be measured: {state.baseline_reason}")
            return BaselineRequested(try_=state.baseline_faults + 1)
    for kind in state.config.sandbox.baselines:
        if kind != "eager" and kind not in state.compiled_baselines:
            return BaselineRequested(baseline=kind)
    for attempt in state.attempts.values():
        decision = _advance(state, attempt)
        if decision is not None:
            return decision
    blocked = any(is_blocked(state, attempt) for attempt in state.attempts.values())
    decision = _pause_when_nothing_moves(state) if blocked else _next_attempt(state)
    if decision is None and state.wait_ended is not None and only_replies_awaited(state):
        return RunPaused(reason=waiting_words(state))
    return decision


# -- an attempt in flight ---------------------------------------------------------------


def _advance(state: State, attempt: Attempt) -> Body | None:
    """The attempt's next step, where there is one that may be begun now."""
    if is_blocked(state, attempt):
        return None
    step = _next_step(state, attempt)
    if not isinstance(step, AgentCalled | EvaluationRequested):
        return step
    if isinstance(step, EvaluationRequested) and step.same_as is not None:
        return step  # it takes nothing
    short = short_for(state, step)
    if short is None:
        return step
    return None if short == WAIT or short in state.used_up else BudgetExhausted(budget=short)


def _next_step(state: State, attempt: Attempt) -> Body | None:
    call = attempt.call
    if call is not None:
        match call.status:
            case "failed" | "in_doubt":
                return retry(state, attempt, call)
            case "rejected":
                return ask_again(state, attempt, call)
            case "sent" | "deferred" | "replied":
                return None
            case "parsed":
                pass
    if attempt.step < len(attempt.roles):
        return first_call(state, attempt, attempt.roles[attempt.step])
    if attempt.evaluation is None or attempt.evaluation_faulted:
        return _evaluate(state, attempt)
    return None


def _evaluate(state: State, attempt: Attempt) -> Body | None:
    tries = 1 if attempt.evaluation is None else attempt.evaluation.try_ + 1
    assert attempt.source_sha256 is not None
    original = state.original(attempt.id)
    if original in state.attempts:
        return None  # its verdict will be this one's
    best = state.tree.best
    return EvaluationRequested(
        attempt=attempt.id,
        source_sha256=attempt.source_sha256,
        incumbent=None if best is None else best.id,
        seed=draw(state.draw_key, "evaluation", attempt.id, 2**31),
        try_=tries,
        same_as=original,
    )


def _pause_when_nothing_moves(state: State) -> Body | None:
    """Attempts that still can go on are finished first: what is paid for is used."""
    attempts = state.attempts.values()
    if any(is_under_way(attempt) for attempt in attempts):
        return None
    blocked = next(attempt for attempt in attempts if is_blocked(state, attempt))
    return RunPaused(reason=why_blocked(state, blocked))


# -- the next attempt, or the end -------------------------------------------------------


def _next_attempt(state: State) -> Body | None:
    if state.exhausted is not None:
        if _any_goes_on(state) or "requested" in state.compiled_baselines.values():
            return None
        finished = state.exhausted in _FINISHED
        return _stop(state, "finished" if finished else "exhausted", state.exhausted)
    if state.steering.stop_after is not None:
        stop_after = state.steering.stop_after
        return None if state.attempts else _stop(state, "interrupted", stop_after)
    ended = budget_reached(state)
    if ended is not None:
        return BudgetExhausted(budget=ended)
    if len(state.attempts) >= state.config.search.workers or short_for_attempt(state) == WAIT:
        return None
    attempt = state.attempts_started + 1
    selection = _selection(state, attempt)
    if selection is None:
        return None if state.attempts else BudgetExhausted(budget="nothing_eligible")
    node = state.tree[selection.node]
    repair = node.failed and state.team.repairs
    return NodeSelected(
        attempt=attempt,
        node=selection.node,
        rule=selection.rule,
        repair=repair,
        visit=state.visits.get(visit_key(state, selection.node, repair=repair), 0),
        draws=selection.draws,
        eligible=selection.eligible,
        state_digest=state.digest,
    )


def _selection(state: State, attempt: int) -> Selection | None:
    """The user's kernel before all, then what the user has pinned, then the policy's."""
    if state.given is not None:
        # Its verdict is waited for: the others start from a tree that has it.
        first = Selection(node=ROOT, rule="given", draws=Draws(), eligible=1)
        return None if state.attempts else first
    return _pinned(state) or POLICIES[state.config.search.policy](state, attempt)


def _pinned(state: State) -> Selection | None:
    node, eligible = state.steering.pinned, state.frontier.eligible
    if node is None or node not in eligible:
        return None
    return Selection(node=node, rule="pinned", draws=Draws(), eligible=len(eligible))


def _any_goes_on(state: State) -> bool:
    """Whether an attempt is in flight that is not held up for want of a budget."""
    held = not state.used_up.isdisjoint(RESOURCES)
    return any(is_under_way(a) or not held for a in state.attempts.values())


_FINISHED = ("attempts", "target_speedup", "patience")


def _stop(state: State, status: str, reason: str) -> RunStopped:
    best = state.tree.best
    return RunStopped(
        status=status,  # type: ignore[arg-type]
        reason=reason,
        best=None if best is None else best.id,
    )
