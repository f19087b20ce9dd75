"""Whether there is anything to go on with in a run, and what would have to be added."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from engine.cli.exits import Failure
from engine.core.state import State

__all__ = ["check_resumable"]

_FLAGS = {
    "usd": ("usd_micros", "--budget-usd"),
    "tokens": ("tokens", "--budget-tokens"),
    "device": ("device_ms", "--budget-device-s"),
    "wall": ("wall_ms", "--budget-wall-s"),
}
"""Budget → what ``extra`` calls more of it, and how it is asked for."""


def check_resumable(state: State, path: Path, extra: Mapping[str, int]) -> None:
    """Raises ``Failure``. ``extra`` is what the user adds to the budgets."""
    if state.started is None:
        raise Failure(f"{path}: the run ended before its first event; start it anew")
    done = state.stopped == "finished" and state.exhausted == "attempts"
    if done and not extra["attempts"]:
        raise Failure(f"{path}: the run is finished; add attempts with --attempts +N")
    if state.stopped == "finished" and state.exhausted == "target_speedup":
        raise Failure(f"{path}: the target speedup is reached; nothing is left to do")
    limits = {
        "usd": state.usd_micros_allowed, "tokens": state.tokens_allowed,
        "device": state.device_ms_allowed, "wall": state.wall_ms_allowed,
    }  # fmt: skip
    for budget, (more, flag) in _FLAGS.items():
        if extra[more] and limits[budget] is None:
            raise Failure(f"{path}: {flag}: the run has no such budget to add to")
        if state.stopped == "exhausted" and state.exhausted == budget and not extra[more]:
            raise Failure(f"{path}: the {budget} budget is used up; add to it with {flag} +N")
