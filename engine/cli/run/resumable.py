"""Whether there is anything to go on with in a run, and what would have to be added."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path

from agents.clients.failures import about_output_limit
from engine.cli.exits import Failure
from engine.core.decide import decide
from engine.core.evolve import evolve
from engine.core.state import State
from engine.loop.start import Recovered, resumed
from events.bodies import DeadlineReached

__all__ = ["check_goes_on", "check_resumable", "shorter_lines"]

_OPTIONS = {
    "usd": ("usd_micros", "--budget-usd"),
    "tokens": ("tokens", "--budget-tokens"),
    "device": ("device_ms", "--budget-device-s"),
    "wall": ("wall_ms", "--budget-wall-s"),
}
"""Budget → its name in ``BudgetGrant`` and in ``extra``, and the option that adds to it."""
_ENDED = {
    "attempts": "the run is finished; add attempts with --attempts +N",
    "target_speedup": "the target speedup is reached; nothing is left to do",
    "nothing_eligible": "no node may have another child, so nothing is left to do; go on from an"
    " earlier event, or with other settings: engine fork",
    **{
        budget: f"the {budget} budget is used up; add to it with {flag} +N"
        for budget, (_, flag) in _OPTIONS.items()
    },
}


def check_resumable(state: State, path: Path, extra: Mapping[str, int]) -> None:
    """Raises ``Failure``. ``extra`` is what the user adds to the budgets."""
    if state.started is None:
        raise Failure(f"{path}: the run ended before its first event; start it anew")
    for more, flag in _OPTIONS.values():
        if extra[more] and getattr(state.granted, more) is None:
            raise Failure(f"{path}: {flag}: the run has no such budget to add to")


def check_goes_on(
    recovered: Recovered, path: Path, extra: Mapping[str, int], worked_ms: int
) -> None:
    """Raises ``Failure`` where a resumed run would end again at once, which is tried out on
    ``recovered``: it is of no further use. ``worked_ms``: by all processes so far."""
    first = resumed({}, extra=extra, worked_ms=worked_ms, unsent=recovered.unsent)
    state = evolve(recovered.state, first)
    wall_ms = state.granted.wall_ms
    if wall_ms is not None and worked_ms >= wall_ms:
        state = evolve(state, DeadlineReached(budget="wall"))
    while (decision := decide(state)) is not None:
        state = evolve(state, decision)
    if state.stopped:
        raise Failure(f"{path}: {_ENDED.get(state.stop_reason, state.stop_reason)}")


def shorter_lines(state: State, name: str, at: int) -> Iterator[str]:
    """How to ask for shorter replies, where a provider refused the length of one and named no
    limit that could be kept. ``at`` is the run's last event, ``name`` the run's."""
    for attempt in state.attempts.values():
        call = attempt.call
        if call is None or call.status != "failed" or call.failure is None:
            continue
        failure, setting = call.failure, f"roles.{call.body.role}.max_tokens"
        if failure.error in ("bad_request", "too_large") and about_output_limit(failure.message):
            fork = f"engine fork {shlex.quote(name)} --at {at} --set {setting}=N"
            yield f"{setting} is {call.body.params.max_tokens}. To ask for less: {fork}"
