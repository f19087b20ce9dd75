"""What keeps a run from going on: attempts that are blocked, replies that come later. Pure."""

from __future__ import annotations

from collections.abc import Collection

from engine.core.outages import gave_up, has_stand_in, outage_words
from engine.core.state import Attempt, State

__all__ = [
    "is_blocked", "is_under_way", "only_replies_awaited", "waiting_words", "why_blocked",
]  # fmt: skip


def waiting_words(state: State) -> str:
    """Why a run pauses that waits for replies, and what else keeps it from going on."""
    calls = [attempt.call for attempt in state.attempts.values() if attempt.call is not None]
    count = sum(call.status == "deferred" for call in calls)
    reasons = [f"waiting for {count} {'reply' if count == 1 else 'replies'}"]
    if state.wait_ended is not None and state.wait_ended.trouble:
        reasons.append(state.wait_ended.trouble)
    blocked = [attempt for attempt in state.attempts.values() if is_blocked(state, attempt)]
    reasons += [why_blocked(state, attempt) for attempt in blocked]
    return "; ".join(dict.fromkeys(reasons))


def is_blocked(state: State, attempt: Attempt) -> bool:
    """Whether the attempt's next step is not worth trying in this process."""
    search, call = state.config.search, attempt.call
    if _outage(state, attempt) is not None:
        return True
    original = awaited_original(state, attempt)
    if original is not None:
        return is_blocked(state, original)
    if attempt.evaluation_faulted and (
        attempt.hopeless or attempt.faults >= search.evaluation_tries
    ):
        return True
    if call is None or call.status != "failed" or call.failure is None:
        return False
    return gave_up(state, call) and not has_stand_in(state, call)


def awaited_original(state: State, attempt: Attempt) -> Attempt | None:
    """The one in flight whose source the attempt repeats, and whose verdict it waits for."""
    if attempt.step < len(attempt.roles) or attempt.evaluation is not None:
        return None
    return state.attempts.get(state.original(attempt.id) or 0)


def _outage(state: State, attempt: Attempt) -> str | None:
    """That the model to be asked next is down, if so. A reply to a call that is still under way
    ends it."""
    call = attempt.call
    if is_under_way(attempt):
        return None
    if call is not None and call.status != "parsed":
        return outage_words(state, call.body.role, call.body.model)
    if attempt.step < len(attempt.roles):
        return outage_words(state, attempt.roles[attempt.step], None)
    return None


def why_blocked(state: State, attempt: Attempt) -> str:
    """Of one that is."""
    outage = _outage(state, attempt)
    if outage is not None:
        return outage
    if attempt.evaluation_faulted:
        return attempt.hopeless or "the sandbox fails again and again"
    original = awaited_original(state, attempt)
    if original is not None:
        return why_blocked(state, original)
    call = attempt.call
    assert call is not None
    assert call.failure is not None
    return f"{call.body.role} call {call.body.call}: {call.failure.message}"


def is_under_way(attempt: Attempt) -> bool:
    """Whether the attempt waits for a reply or a verdict that will come. One that does not,
    and has no next step, is blocked, or too much for a budget."""
    call = attempt.call
    if call is not None and call.status in ("sent", "deferred", "replied"):
        return True
    return attempt.evaluation is not None and not attempt.evaluation_faulted


def only_replies_awaited(state: State, *, calls: Collection[int] = ()) -> bool:
    """Whether nothing can go on before a deferred reply comes; those to ``calls`` count as
    deferred."""
    if state.baseline != "measured" or "requested" in state.compiled_baselines.values():
        return False
    waits = False
    for attempt in state.attempts.values():
        call = attempt.call
        if call is not None and (call.status == "deferred" or call.body.call in calls):
            waits = True
        elif is_under_way(attempt):
            return False
    return waits
