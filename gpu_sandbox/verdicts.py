"""From what the device stage found to an outcome and its log. Pure."""

from __future__ import annotations

import signal

from events.outcomes import (
    Cheated,
    CompileFailed,
    Correct,
    Crashed,
    Outcome,
    TimedOut,
    WrongResult,
)
from gpu_sandbox.device_stage import Concluded
from gpu_sandbox.messages import (
    Agreed,
    Differs,
    Forged,
    WorkerDied,
    WorkerFailed,
    WorkerSilent,
)
from gpu_sandbox.port import SandboxFault

__all__ = ["outcome_of", "run_log_of"]

_WHERE = {
    "load": "while loading",
    "import": "on import",
    "construct": "in ModelNew(...)",
    "run": "in forward",
    "warm-up": "in forward (warm-up)",
    "bench": "in forward (timed)",
    "share": "while taking its inputs",
}


def outcome_of(concluded: Concluded, root_ms: float | None) -> Outcome:
    """Raises ``SandboxFault`` for a finding that is about neither candidate nor task."""
    match concluded.report.finding:
        case Agreed() as agreed:
            return _correct(agreed, root_ms)
        case Differs() as differs:
            trial = f" (trial {differs.trial})" if differs.trial is not None else ""
            return WrongResult(
                reason=differs.reason + trial,
                trial=differs.trial,
                max_abs_error=differs.max_abs_error,
                max_rel_error=differs.max_rel_error,
            )
        case WorkerFailed(stage="import", message=message):
            return CompileFailed(reason=message)
        case WorkerFailed(stage=stage, message=message):
            return Crashed(reason=f"{_WHERE.get(stage, stage)}: {message}")
        case WorkerDied(stage=stage):
            return _death(concluded, stage)
        case WorkerSilent(stage=stage, limit_s=limit_s):
            reason = f"no answer {_WHERE.get(stage, stage)} within {limit_s:g} s"
            return TimedOut(reason=reason, stage=stage, limit_s=limit_s)
        case Forged(reason=reason):
            return Cheated(reason=reason)
        case other:
            raise SandboxFault(f"an evaluation ended as {type(other).__name__}")


def _correct(agreed: Agreed, root_ms: float | None) -> Correct:
    root = agreed.baseline_ms if root_ms is None else root_ms
    return Correct(
        runtime_ms=root * agreed.ratio,
        speedup=1 / agreed.ratio,
        ratio=agreed.ratio,
        ratio_low=agreed.ratio_low,
        ratio_high=agreed.ratio_high,
        pairs=agreed.pairs,
        candidate_ms=agreed.candidate_ms,
        baseline_ms=agreed.baseline_ms,
        max_abs_error=agreed.max_abs_error,
    )


def _death(concluded: Concluded, stage: str) -> Crashed:
    where = _WHERE.get(stage, stage)
    number = concluded.worker_signal
    if number is not None:
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        return Crashed(reason=f"killed by {name} {where}", signal=number)
    if concluded.worker_code is not None:
        return Crashed(reason=f"its process exited with {concluded.worker_code} {where}")
    return Crashed(reason=f"it closed its channel {where}")


def run_log_of(concluded: Concluded) -> str:
    """What differs or where it raised, then what it printed."""
    match concluded.report.finding:
        case Differs(detail=detail):
            found = detail
        case WorkerFailed(traceback=traceback):
            found = traceback
        case _:
            found = ""
    printed = concluded.worker_output.strip()
    return "\n".join(part for part in (found, printed) if part)
