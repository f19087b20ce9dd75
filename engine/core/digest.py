"""What the state's digest covers beside the tree. Digests are in logs: a change of what is mixed in
is a change of the log's format."""

from __future__ import annotations

import msgspec

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
    spend, outages = state.spend, sorted(state.outages.items())
    state.mix(
        (spend.total.usd_micros, spend.total.tokens),
        (spend.device_ms, spend.evaluations, spend.evaluations_ms),
        (state.baseline, state.baseline_faults),
        (state.stop_requested, state.deadline, state.exhausted, sorted(state.used_up)),
        (*msgspec.structs.astuple(state.granted), state.worked_ms, state.last_improvement),
        sorted(state.doubted_tries.items()),
        [(m, o.failures, o.given_up, o.closed, o.asked_after) for m, o in outages],
    )
