"""Models that are down, as far as the log shows it, and which models may be asked. Pure.

A model that is alone for its role is asked no more; the run pauses. One of several planners is
left out while another is up, and what it was asked is asked of that one. It is tried again when
as many attempts have ended as tries of it had failed: by events, as a decision sees no clock. A
``retry-after`` that is too long to wait for leaves it out until the run is resumed.
"""

from __future__ import annotations

from engine.core.state import Call, Outage, State
from events.bodies import AgentCalled, AgentFailed

__all__ = ["gave_up", "has_stand_in", "models_to_ask", "note_call", "note_failure", "outage_words"]

_OUTAGE = ("overloaded", "server_error", "connection", "timed_out")
"""Failures that may be everybody's; a 429 says that others are served."""

_LONGEST_RETRY_AFTER_MS = 900_000
"""A provider that wants to be left alone for longer is not waited for."""


def note_call(state: State, body: AgentCalled) -> None:
    """One that is down is tried again: by this call alone, until it has failed."""
    outage = state.outages.get(body.model)
    if outage is not None:
        outage.asked_after = state.attempts_ended


def note_failure(state: State, call: Call, body: AgentFailed) -> None:
    """``call`` has failed so, which is counted in it already. (A reply ends any outage.)"""
    model, choice = call.body.model, _has_choice(state, call.body.role)
    if body.error in _OUTAGE:
        outage = state.outages.setdefault(model, Outage())
        outage.failures, outage.message = outage.failures + 1, body.message
    if choice and body.retryable and body.error != "capability" and gave_up(state, call):
        outage = state.outages.setdefault(model, Outage())
        outage.given_up, outage.message = max(outage.given_up, call.failures), body.message
        outage.closed = outage.closed or _is_long(body)
    if model in state.outages:
        state.outages[model].asked_after = state.attempts_ended


def gave_up(state: State, call: Call) -> bool:
    """Whether the call, which has failed, is not tried again in this process."""
    failure = call.failure
    assert failure is not None
    if failure.error == "capability":
        return False
    tries = state.config.search.call_tries
    return not failure.retryable or _is_long(failure) or call.failures >= tries


def models_to_ask(state: State, role: str) -> list[str]:
    """Those of the role's models that may be asked now, in the order of the list."""
    models = state.config.models(role)
    if not _has_choice(state, role):
        return models
    return [model for model in models if not _left_out(state, model)]


def has_stand_in(state: State, call: Call) -> bool:
    """Whether the call is to be asked of another planner, rather than tried again."""
    role, failure = call.body.role, call.failure
    if not _has_choice(state, role) or call.status not in ("failed", "rejected"):
        return False
    others = models_to_ask(state, role)
    if call.status == "rejected":
        return bool(others) and call.body.model not in others
    if failure is None or not failure.retryable:
        return False  # a key that is not accepted is for the user to mend
    return bool(others) and (call.body.model not in others or gave_up(state, call))


def outage_words(state: State, role: str, model: str | None) -> str | None:
    """Why no model can be asked for the role; None if one can. ``model`` is the one that was
    asked before, None where that is still to be chosen."""
    models = state.config.models(role)
    if _has_choice(state, role):
        if models_to_ask(state, role):
            return None
        down = [f"{model} ({state.outages[model].message})" for model in models]
        return f"every planner is down: {', '.join(down)}"
    model = model or models[0]
    outage = state.outages.get(model)
    if outage is None or outage.failures < state.config.search.outage_failures:
        return None
    return f"{model} is down: {outage.failures} tries in a row failed, the last: {outage.message}"


def _is_long(failure: AgentFailed) -> bool:
    return (failure.retry_after_ms or 0) > _LONGEST_RETRY_AFTER_MS


def _has_choice(state: State, role: str) -> bool:
    """Whether the role has several models to choose from."""
    return len(state.config.models(role)) > 1


def _left_out(state: State, model: str) -> bool:
    outage = state.outages.get(model)
    if outage is None:
        return False
    if not outage.given_up and outage.failures < state.config.search.outage_failures:
        return False
    tries = max(outage.given_up, outage.failures)
    return outage.closed or state.attempts_ended - outage.asked_after < tries
