"""What an event changes of the attempts in flight: the part of ``evolve`` that is about one."""

from __future__ import annotations

from engine.core.outages import note_call, note_failure
from engine.core.state import Attempt, Call, State
from events.bodies import (
    AgentCalled,
    AgentFailed,
    AgentReplied,
    AttemptAbandoned,
    Body,
    EvaluationFaulted,
    EvaluationFinished,
    EvaluationRequested,
    NodeSelected,
    ReplyDeferred,
    ReplyParsed,
    ReplyRejected,
)
from projections.run.capabilities import Known
from projections.search.tree import ROOT

__all__ = ["fold_attempt", "visit_key"]


def fold_attempt(state: State, body: Body) -> None:
    """Fold what happened to an attempt that is worked on."""
    match body:
        case NodeSelected():
            _select(state, body)
        case AgentCalled():
            _call(state, body)
        case ReplyDeferred():
            _set_call(state, body.attempt, "deferred").deferred = body
        case AgentReplied():
            call = _set_call(state, body.attempt, "replied")
            call.reply = body
            state.outages.pop(call.body.model, None)
        case AgentFailed():
            call = _set_call(state, body.attempt, "failed")
            call.failure = body
            # A refused parameter is no failure of the provider: it is left out from now on.
            call.failures += body.error != "capability"
            note_failure(state, call, body)
        case ReplyRejected():
            _set_call(state, body.attempt, "rejected")
            state.attempts[body.attempt].rejection = body.reason
        case ReplyParsed():
            _set_call(state, body.attempt, "parsed")
            attempt = state.attempts[body.attempt]
            attempt.step += 1
            attempt.rejection = None
            attempt.source_sha256 = body.source_sha256 or attempt.source_sha256
        case EvaluationRequested():
            attempt = state.attempts[body.attempt]
            attempt.evaluation, attempt.evaluation_faulted = body, False
            key = state.tree[body.attempt].source_key
            if key and state.config.search.deduplicate:
                state.first_with.setdefault(key, body.attempt)
        case EvaluationFaulted() if body.attempt:  # 0 is a baseline's
            attempt = state.attempts[body.attempt]
            attempt.evaluation_faulted, attempt.faults = True, attempt.faults + 1
            attempt.hopeless = "" if body.retryable else body.message
        case EvaluationFinished() | AttemptAbandoned():
            ended = state.tree[body.attempt]
            if ended.parent == ROOT and ended.failed:
                state.unrepaired.put(ended.id, True)
            if isinstance(body, EvaluationFinished) and body.attempt == state.first_with.get(
                ended.source_key or ""
            ):
                state.verdicts[body.attempt] = body
            del state.attempts[body.attempt]
            state.attempts_ended += 1


def _select(state: State, body: NodeSelected) -> None:
    state.attempts_started += 1
    given = body.rule == "given"
    if not given:
        key = visit_key(state, body.node, repair=body.repair)
        state.visits[key] = body.visit + 1
    if body.repair:
        state.unrepaired.put(body.node, False)
    state.attempts[body.attempt] = Attempt(
        id=body.attempt,
        node=body.node,
        repair=body.repair,
        visit=body.visit,
        roles=() if given else tuple(state.team.roles(repair=body.repair)),
        source_sha256=state.tree[body.attempt].source_sha256,
    )


def _call(state: State, body: AgentCalled) -> None:
    state.calls = max(state.calls, body.call)
    attempt = state.attempts[body.attempt]
    failures = 0
    if attempt.call is not None and attempt.call.body.call == body.call:
        failures = attempt.call.failures
    known = state.known.get(body.model, Known())
    attempt.call = Call(body, failures=failures, known=known)
    note_call(state, body)


def _set_call(state: State, attempt: int, status: str) -> Call:
    call = state.attempts[attempt].call
    assert call is not None, f"attempt {attempt} has no call"
    call.status = status  # type: ignore[assignment]
    return call


def visit_key(state: State, node: int, *, repair: bool) -> tuple[bool, str]:
    """Nodes with the same source share their visits."""
    selected = state.tree[node]
    return repair, selected.source_key or selected.source_sha256 or ""
