"""What the state's digest covers beside the tree. Digests are in logs: what is mixed in never
changes, and a new fact needs a new flag."""

from __future__ import annotations

from engine.core.flags import (
    BUDGET_BEFORE_EACH_CALL,
    BUDGET_ESTIMATES_2,
    OUTAGE_PAUSES,
    PLANNERS_LEFT_OUT,
)
from engine.core.state import State

__all__ = ["mix_course"]


def mix_course(state: State, number: int | None) -> None:
    """Mix in what steers a search, and where attempt ``number`` is."""
    attempt = None if number is None else state.attempts.get(number)
    if attempt is not None:
        call = attempt.call
        state.mix(
            attempt.step,
            None if call is None else (call.body.call, call.body.try_, call.status, call.failures),
            attempt.source_sha256,
            attempt.faults,
            bool(attempt.hopeless),
        )
    state.mix(
        state.spend.total.usd_micros,
        (state.baseline, state.baseline_faults),
        (state.stop_requested, state.deadline, state.exhausted),
        (state.extra_attempts, state.extra_usd_micros, state.last_improvement),
    )
    if BUDGET_BEFORE_EACH_CALL in state.flags:
        state.mix(
            state.spend.total.tokens,
            (state.spend.device_ms, state.spend.evaluations, state.spend.evaluations_ms),
            (state.extra_tokens, state.extra_device_ms, state.extra_wall_ms, state.worked_ms),
            sorted(state.used_up),
        )
    if BUDGET_ESTIMATES_2 in state.flags:
        state.mix(sorted(state.doubted_tries.items()))
    if OUTAGE_PAUSES in state.flags:
        state.mix([(model, state.outages[model].failures) for model in sorted(state.outages)])
    if PLANNERS_LEFT_OUT in state.flags:
        outages = sorted(state.outages.items())
        state.mix([(m, o.given_up, o.closed, o.asked_after) for m, o in outages])
