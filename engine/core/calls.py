"""What a role is asked next: at first, once more after a failure, again after a bad reply. Pure."""

from __future__ import annotations

import msgspec

from engine.core.draws import draw, sample
from engine.core.outages import has_stand_in, models_to_ask
from engine.core.planners import pick_planner
from engine.core.state import Attempt, Call, State
from events.bodies import AgentCalled, AttemptAbandoned, Body, Pick
from projections.search.tree import ROOT

__all__ = ["ask_again", "first_call", "retry"]

_SYSTEM_MESSAGES = ("main", "alternate_1", "alternate_2")
_PLANNERS = ("plan", "single")
"""Roles that see the user's hints: those that say what to try next."""
_LONGEST_WAIT_MS = 60_000


def first_call(state: State, attempt: Attempt, role: str) -> AgentCalled:
    search, config = state.config.search, state.config.role(role)
    pool = state.team.pool(role, state.tree, attempt.node)
    draws = _window_draws(state, attempt, role, len(pool))
    system = state.config.prompts.system
    model, pick = _model_for(state, attempt, role)
    return AgentCalled(
        attempt=attempt.id,
        role=role,
        call=state.calls + 1,
        try_=1,
        window=[pool[index] for index in draws] if draws else pool[: search.window_nodes],
        pool=pool,
        draws=draws,
        model=model,
        params=config.params,
        template=_SYSTEM_MESSAGES[attempt.id % 3] if system == "rotate" else system,
        hints=_hints(state, role),
        pick=pick,
        reply=state.reply_form(attempt.id, role),
    )


def _hints(state: State, role: str) -> list[int]:
    return list(state.steering.hints) if role in _PLANNERS else []


def _model_for(state: State, attempt: Attempt, role: str) -> tuple[str, Pick | None]:
    models = state.config.models(role)
    if len(models) == 1:
        return models[0], None
    return pick_planner(state, attempt.id, models_to_ask(state, role))


def _window_draws(state: State, attempt: Attempt, role: str, size: int) -> list[int]:
    """Indices of the pool that the window keeps; empty when the whole pool fits."""
    search = state.config.search
    if size <= search.window_nodes:
        return []
    purpose = f"window/{role}"
    if search.window_sampling == "literal":
        return sample(state.draw_key, purpose, attempt.id, size, search.window_nodes)
    # The selected node and the root (one and the same at the root) always stay.
    kept = min(1 if attempt.node == ROOT else 2, search.window_nodes)
    chosen = search.window_nodes - kept
    rest = sample(state.draw_key, purpose, attempt.id, size - kept, chosen)
    return [*range(kept), *(index + kept for index in rest)]


def retry(state: State, attempt: Attempt, call: Call) -> Body:
    """The call once more; or its like, of another planner."""
    if has_stand_in(state, call):
        return _ask_anew(state, attempt, call, ask=call.body.ask)
    failure = call.failure if call.status == "failed" else None
    search = state.config.search
    wait_ms = 0
    if failure is not None and failure.error != "capability":
        wait_ms = min(search.retry_wait_ms * 2 ** (call.failures - 1), _LONGEST_WAIT_MS)
        jitter_ms = wait_ms // 2 + 1
        wait_ms += draw(state.draw_key, f"retry/{call.body.call}", call.body.try_, jitter_ms)
        wait_ms = max(wait_ms, failure.retry_after_ms or 0)
    return _repeat(call.body, try_=call.body.try_ + 1, wait_ms=wait_ms)


def ask_again(state: State, attempt: Attempt, call: Call) -> Body:
    if call.body.ask >= state.config.search.reasks:
        return AttemptAbandoned(
            attempt=attempt.id, reason=f"the {call.body.role} reply stayed unusable"
        )
    return _ask_anew(state, attempt, call, ask=call.body.ask + 1)


def _ask_anew(state: State, attempt: Attempt, call: Call, *, ask: int) -> AgentCalled:
    again = _repeat(call.body, call=state.calls + 1, try_=1, ask=ask, wait_ms=0)
    # A new call, so to the model that the role has now: since a fork, or as the one that was
    # asked is down, that may be another.
    role = call.body.role
    again = msgspec.structs.replace(
        again, params=state.config.role(role).params, reply=state.reply_form(attempt.id, role)
    )
    if call.body.model in state.config.models(role) and not has_stand_in(state, call):
        return again
    model, pick = _model_for(state, attempt, role)
    return msgspec.structs.replace(again, model=model, pick=pick)


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
        hints=body.hints,
        reply=body.reply,
    )
