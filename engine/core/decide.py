"""``decide``: the one next decision that the state calls for, None when it has to wait.

The caller appends the decision, folds it, and asks again, until None: so a run that was
killed between two decisions completes them when it is resumed. The body that is
returned is the whole decision; the shell adds nothing to it.
"""

from __future__ import annotations

import msgspec

from engine.core.draws import draw, sample
from engine.core.evolve import visit_key
from engine.core.flags import PATIENCE_FROM_THE_START
from engine.core.policies import POLICIES
from engine.core.standstill import is_blocked, only_replies_awaited, waiting_words
from engine.core.state import Attempt, Call, State
from events.bodies import (
    AgentCalled,
    AttemptAbandoned,
    BaselineRequested,
    Body,
    BudgetExhausted,
    EvaluationRequested,
    NodeSelected,
    RunPaused,
    RunStopped,
)
from projections.tree import ROOT

__all__ = ["decide"]

SYSTEM_MESSAGES = ("main", "alternate_1", "alternate_2")
_LONGEST_WAIT_MS = 60_000


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
    decision = _next_attempt(state)
    if decision is None and state.wait_ended is not None and only_replies_awaited(state):
        return RunPaused(reason=waiting_words(state))
    return decision


# -- an attempt in flight ---------------------------------------------------------------


def _advance(state: State, attempt: Attempt) -> Body | None:
    call = attempt.call
    if call is not None:
        match call.status:
            case "failed" | "in_doubt":
                return _retry(state, attempt, call)
            case "rejected":
                return _ask_again(state, attempt, call)
            case "sent" | "deferred" | "replied":
                return None
            case "parsed":
                pass
    if attempt.step < len(attempt.roles):
        return _call(state, attempt, attempt.roles[attempt.step])
    if attempt.evaluation is None or attempt.evaluation_faulted:
        return _evaluate(state, attempt)
    return None


def _call(state: State, attempt: Attempt, role: str) -> AgentCalled:
    search, config = state.config.search, state.config.role(role)
    pool = state.team.pool(role, state.tree, attempt.node)
    draws = _window_draws(state, attempt, role, len(pool))
    system = state.config.prompts.system
    return AgentCalled(
        attempt=attempt.id,
        role=role,
        call=state.calls + 1,
        try_=1,
        window=[pool[index] for index in draws] if draws else pool[: search.window_nodes],
        pool=pool,
        draws=draws,
        model=config.model,
        params=config.params,
        template=SYSTEM_MESSAGES[attempt.id % 3] if system == "rotate" else system,
        reply=state.reply_form(attempt.id, role),
    )


def _window_draws(state: State, attempt: Attempt, role: str, size: int) -> list[int]:
    """Indices of the pool that the window keeps; empty when the whole pool fits."""
    search = state.config.search
    if size <= search.window_nodes:
        return []
    purpose = f"window/{role}"
    if search.window_sampling == "literal":
        return sample(search.seed, purpose, attempt.id, size, search.window_nodes)
    # The selected node and the root (one and the same at the root) always stay.
    kept = min(1 if attempt.node == ROOT else 2, search.window_nodes)
    rest = sample(search.seed, purpose, attempt.id, size - kept, search.window_nodes - kept)
    return [*range(kept), *(index + kept for index in rest)]


def _retry(state: State, attempt: Attempt, call: Call) -> Body | None:
    failure = call.failure if call.status == "failed" else None
    search = state.config.search
    wait_ms = 0
    if failure is not None and failure.error != "capability":
        if is_blocked(state, attempt):
            attempt_blocked = f"{call.body.role} call {call.body.call}: {failure.message}"
            return _pause_when_alone(state, attempt, attempt_blocked)
        wait_ms = min(search.retry_wait_ms * 2 ** (call.failures - 1), _LONGEST_WAIT_MS)
        wait_ms += draw(search.seed, f"retry/{call.body.call}", call.body.try_, wait_ms // 2 + 1)
        wait_ms = max(wait_ms, failure.retry_after_ms or 0)
    return _repeat(call.body, try_=call.body.try_ + 1, wait_ms=wait_ms)


def _ask_again(state: State, attempt: Attempt, call: Call) -> Body:
    if call.body.ask >= state.config.search.reasks:
        return AttemptAbandoned(
            attempt=attempt.id, reason=f"the {call.body.role} reply stayed unusable"
        )
    again = _repeat(call.body, call=state.calls + 1, try_=1, ask=call.body.ask + 1, wait_ms=0)
    # A new call, so of whom the role asks now: since a fork that may be another model.
    role = state.config.role(call.body.role)
    form = state.reply_form(attempt.id, call.body.role)
    return msgspec.structs.replace(again, model=role.model, params=role.params, reply=form)


def _repeat(
    body: AgentCalled,
    *,
    try_: int,
    wait_ms: int,
    call: int | None = None,
    ask: int | None = None,
) -> AgentCalled:
    return AgentCalled(
        attempt=body.attempt,
        role=body.role,
        call=body.call if call is None else call,
        try_=try_,
        ask=body.ask if ask is None else ask,
        window=body.window,
        pool=body.pool,
        draws=body.draws,
        model=body.model,
        params=body.params,
        template=body.template,
        wait_ms=wait_ms,
        reply=body.reply,
    )


def _evaluate(state: State, attempt: Attempt) -> Body | None:
    tries = 1 if attempt.evaluation is None else attempt.evaluation.try_ + 1
    if attempt.hopeless:
        return _pause_when_alone(state, attempt, attempt.hopeless)
    if attempt.faults >= state.config.search.evaluation_tries:
        return _pause_when_alone(state, attempt, "the sandbox fails again and again")
    assert attempt.source_sha256 is not None
    original = state.original(attempt.id)
    if original in state.attempts:
        return None  # its verdict will be this one's
    best = state.tree.best
    return EvaluationRequested(
        attempt=attempt.id,
        source_sha256=attempt.source_sha256,
        incumbent=None if best is None else best.id,
        seed=draw(state.seed, "evaluation", attempt.id, 2**31),
        try_=tries,
        same_as=original,
    )


def _pause_when_alone(state: State, attempt: Attempt, reason: str) -> Body | None:
    """Attempts that still can go on are finished first: what is paid for is used."""
    for other in state.attempts.values():
        if other.id != attempt.id and not is_blocked(state, other):
            return None
    return RunPaused(reason=reason)


# -- the next attempt, or the end -------------------------------------------------------


def _next_attempt(state: State) -> Body | None:
    if any(is_blocked(state, attempt) for attempt in state.attempts.values()):
        return None
    if state.exhausted is not None:
        if state.attempts or "requested" in state.compiled_baselines.values():
            return None
        finished = state.exhausted in _FINISHED
        return _stop(state, "finished" if finished else "exhausted", state.exhausted)
    ended = _budget_reached(state)
    if ended is not None:
        return BudgetExhausted(budget=ended)
    if len(state.attempts) >= state.config.search.workers:
        return None
    attempt = state.attempts_started + 1
    selection = POLICIES[state.config.search.policy](state, attempt)
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


_FINISHED = ("attempts", "target_speedup", "patience")


def _budget_reached(state: State) -> str | None:
    budget, best = state.config.budget, state.tree.best
    if state.deadline is not None:
        return state.deadline
    allowed = state.usd_micros_allowed
    if allowed is not None and state.spend.total.usd_micros >= allowed:
        return "usd"
    if budget.target_speedup is not None and best is not None and best.runtime_ms is not None:
        root_ms = state.tree.root.runtime_ms or 0.0
        if root_ms / best.runtime_ms >= budget.target_speedup:
            return "target_speedup"
    if (
        budget.patience is not None
        and (best is not None or PATIENCE_FROM_THE_START in state.flags)
        and state.attempts_ended - state.last_improvement >= budget.patience
    ):
        return "patience"
    return "attempts" if state.attempts_started >= state.attempts_allowed else None


def _stop(state: State, status: str, reason: str) -> RunStopped:
    best = state.tree.best
    return RunStopped(
        status=status,  # type: ignore[arg-type]
        reason=reason,
        best=None if best is None else best.id,
    )
