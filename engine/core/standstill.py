"""What keeps a run from going on: attempts that are blocked, replies that come later. Pure."""

from __future__ import annotations

from collections.abc import Collection

from engine.core.state import Attempt, State

__all__ = ["is_blocked", "only_replies_awaited", "waiting_words"]

_LONGEST_RETRY_AFTER_MS = 900_000
"""A provider that wants to be left alone for longer pauses the run instead."""


def waiting_words(state: State) -> str:
    """Why a run pauses that waits for replies, and what else keeps it from going on."""
    calls = [attempt.call for attempt in state.attempts.values() if attempt.call is not None]
    count = sum(call.status == "deferred" for call in calls)
    reasons = [f"waiting for {count} {'reply' if count == 1 else 'replies'}"]
    if state.wait_ended is not None and state.wait_ended.trouble:
        reasons.append(state.wait_ended.trouble)
    for attempt in state.attempts.values():
        if is_blocked(state, attempt):
            failed = attempt.call.failure if attempt.call is not None else None
            reasons.append(attempt.hopeless or (failed.message if failed else "the sandbox fails"))
    return "; ".join(dict.fromkeys(reasons))


def is_blocked(state: State, attempt: Attempt) -> bool:
    search, call = state.config.search, attempt.call
    if attempt.step == len(attempt.roles) and attempt.evaluation is None:
        # It may wait for the verdict on the attempt whose source it repeats.
        original = state.attempts.get(state.original(attempt.id) or 0)
        return original is not None and is_blocked(state, original)
    if attempt.evaluation_faulted and (
        attempt.hopeless or attempt.faults >= search.evaluation_tries
    ):
        return True
    if call is None or call.status != "failed" or call.failure is None:
        return False
    if call.failure.error == "capability":
        return False
    if (call.failure.retry_after_ms or 0) > _LONGEST_RETRY_AFTER_MS:
        return True
    return not call.failure.retryable or call.failures >= search.call_tries


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
        elif not is_blocked(state, attempt):
            return False
    return waits
