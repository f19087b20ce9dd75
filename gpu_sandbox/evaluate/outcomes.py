"""From what the device stage found to an outcome and its log. Pure."""

from __future__ import annotations

import signal
from collections.abc import Sequence
from typing import Any

import msgspec

from events.observations import Observations
from events.outcomes import (
    LABELS,
    Cheated,
    CompileFailed,
    Correct,
    Crashed,
    Label,
    Outcome,
    TimedOut,
    WrongResult,
)
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.devices.device_session import JobResult
from gpu_sandbox.devices.recheck import slowness
from gpu_sandbox.evaluate.labels import labelled
from gpu_sandbox.evaluate.speed_of_light import Load, rate_of
from gpu_sandbox.ipc.verifier_messages import (
    Agreed,
    Differs,
    Forged,
    WorkerDied,
    WorkerFailed,
    WorkerSilent,
)
from gpu_sandbox.toolchain.stack_traces import printed, without_places

_MAX_REASON = 500
_MOST_DIFFERENCE = 2000
_WHERE = {
    "load": "while loading",
    "import": "on import",
    "construct": "in ModelNew(...)",
    "run": "in forward",
    "warm-up": "in forward (warm-up)",
    "bench": "in forward (timed)",
    "share": "while taking its inputs",
}


def ended_as(
    results: list[JobResult], breakdowns: list[str], root_ms: float | None
) -> tuple[Outcome, str, list[str]]:
    """Outcome, run log and notes. Raises ``SandboxFault`` for a finding that is about neither
    candidate nor task."""
    if not results:
        return _breaks_verifiers(breakdowns), without_places(breakdowns[-1]), []
    deciding = _deciding(results)
    notes = [*deciding.report.notes, *_history(results, breakdowns)]
    outcome = _outcome_of(deciding, root_ms)
    if isinstance(outcome, Correct):
        agreed = [r.report.finding for r in results if isinstance(r.report.finding, Agreed)]
        outcome = msgspec.structs.replace(  # processes differ by more than their calls
            outcome,
            ratio_low=min(one.ratio_low for one in agreed),
            ratio_high=max(one.ratio_high for one in agreed),
        )
        outcome, loop_notes = in_loops(outcome, agreed)
        notes += loop_notes
    return outcome, _run_log_of(deciding), notes


def in_loops(outcome: Correct, found: Sequence[Agreed]) -> tuple[Correct, list[str]]:
    """The outcome with the worst of its times in plain loops, an interval of all of them, and
    the notes that go with it."""
    loops = [one.looped for one in found if one.looped is not None]
    if not loops:
        return outcome, []
    worst = max(loops, key=lambda each: each.ratio)
    outcome = msgspec.structs.replace(
        outcome,
        eager_speedup=1 / worst.ratio,
        eager_low=1 / max(each.high for each in loops),
        eager_high=1 / min(each.low for each in loops),
        eager_ms=worst.candidate_ms,
        eager_baseline_ms=worst.baseline_ms,
    )
    return labelled(outcome, _host_bound(outcome))


def _host_bound(outcome: Correct) -> dict[Label, str]:
    """Faster on the device and slower in a loop, and by more than either is uncertain."""
    if outcome.ratio_high >= 1 or outcome.eager_high is None or outcome.eager_high >= 1:
        return {}
    reason = (
        f"{outcome.speedup:.2f}x on the device, {outcome.eager_speedup:.2f}x in a plain loop, of"
        f" {outcome.eager_ms:.4g} ms a call against {outcome.eager_baseline_ms:.4g} ms: what the"
        " host does in a call costs more than the kernels save"
    )
    return {"host-bound": reason}


def observed_in(results: list[JobResult]) -> Observations | None:
    """Of a correct candidate, its first observations; of a wrong one, where it differs."""
    if not results:
        return None
    match _deciding(results).report.finding:
        case Agreed():
            return results[0].report.observations
        case Differs(detail=detail) if detail:
            return Observations(difference=without_places(detail)[:_MOST_DIFFERENCE])
        case _:
            return None


def conditions_of(results: list[JobResult]) -> dict[str, Any]:
    return _deciding(results).report.conditions if results else {}


def busy_in(results: list[JobResult]) -> list[str]:
    """Why the machine counts as busy in the first result of a busy machine; else empty."""
    return next((result.report.busy for result in results if result.report.busy), [])


def load_of(
    results: list[JobResult], seen: Observations | None, precision: Precision, *, has_tf32: bool
) -> Load:
    """What a call of the reference has to do, from a correct candidate's results."""
    finding = results[0].report.finding
    assert isinstance(finding, Agreed)
    work = seen.work if seen else None
    return Load(
        input_bytes=finding.input_bytes,
        output_bytes=finding.output_bytes,
        flops=work.flops if work else 0,
        rate=rate_of(work.dtype, precision, has_tf32=has_tf32) if work else "",
    )


def _deciding(results: list[JobResult]) -> JobResult:
    """A failure, else the slower one."""
    return max(results, key=slowness)


def _history(results: list[JobResult], breakdowns: list[str]) -> list[str]:
    """Notes on breakdowns of the verifier, and on a candidate that was judged again."""
    notes = [f"judged anew after the verifier broke down: {_first_line(b)}" for b in breakdowns]
    if len(results) < 2:
        return notes
    first, second = (result.report.finding for result in results)
    if isinstance(first, Agreed) and isinstance(second, Agreed):
        return [*notes, f"judged twice: {1 / first.ratio:.2f}x, then {1 / second.ratio:.2f}x"]
    return [*notes, "it agreed at first, and not when a fresh process judged it again"]


def _breaks_verifiers(breakdowns: list[str]) -> Crashed:
    """The outcome of a candidate that no verifier survives, though it survives others."""
    reason = f"the evaluator broke down while judging this candidate, {len(breakdowns)} times"
    return Crashed(reason=f"{reason}, and not over the reference: {_first_line(breakdowns[-1])}")


def _first_line(text: str) -> str:
    return text.split("\n", 1)[0]


def cleaned(outcome: Outcome) -> Outcome:
    """Its reason as one line of bounded length: a candidate may have written it."""
    reason = without_places(outcome.reason[: 4 * _MAX_REASON])
    text = "".join(c if c.isprintable() else " " for c in reason)
    return msgspec.structs.replace(outcome, reason=" ".join(text.split())[:_MAX_REASON])


def _where(differs: Differs) -> str:
    kind = f": {differs.told}" if differs.told else ""
    if differs.trial is not None:
        return f" (trial {differs.trial}{kind})"
    return f" (while it was timed{kind})" if kind else ""


def _outcome_of(result: JobResult, root_ms: float | None) -> Outcome:
    match result.report.finding:
        case Agreed() as agreed:
            return _correct(agreed, root_ms)
        case Differs() as differs:
            return WrongResult(
                reason=differs.reason + _where(differs),
                trial=differs.trial,
                max_abs_error=differs.max_abs_error,
                max_rel_error=differs.max_rel_error,
            )
        case WorkerFailed(stage="import", message=message):
            return CompileFailed(reason=message)
        case WorkerFailed(kind="BuildFailed", message=message):  # not before it was constructed
            return CompileFailed(reason=message.removeprefix("BuildFailed: "))
        case WorkerFailed(stage=stage, message=message):
            return Crashed(reason=f"{_WHERE.get(stage, stage)}: {message}")
        case WorkerDied(stage=stage, told=told):
            return _death(result, stage, f" ({told})" if told else "")
        case WorkerSilent(stage=stage, limit_s=limit_s, together=True):
            where = _WHERE.get(stage, stage)
            reason = f"its answers took more than {limit_s:g} s together, the last one {where}"
            return TimedOut(reason=reason, stage=stage, limit_s=limit_s)
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
        bounded_speedup=1 / agreed.bounded_ratio,
        pairs=agreed.pairs,
        candidate_ms=agreed.candidate_ms,
        candidate_spread=agreed.candidate_spread,
        baseline_ms=agreed.baseline_ms,
        max_abs_error=agreed.max_abs_error,
        error=agreed.error,
        error_bound=agreed.error_bound,
        trial=agreed.trial,
        labels=[label for label in LABELS if label in agreed.labels],
        first_call_ms=agreed.first_call_ms,
        peak_bytes=agreed.peak_bytes,
        reference_peak_bytes=agreed.reference_peak_bytes,
    )


def _death(result: JobResult, stage: str, detail: str) -> Crashed:
    where = _WHERE.get(stage, stage) + detail
    number = result.worker_signal
    if number is not None:
        name = signal.Signals(number).name if number in set(signal.Signals) else str(number)
        why = " (its memory limit)" if result.out_of_memory else ""
        return Crashed(reason=f"killed by {name}{why} {where}", signal=number)
    if result.worker_code is not None:
        return Crashed(reason=f"its process exited with {result.worker_code} {where}")
    return Crashed(reason=f"it closed its channel {where}")


def _run_log_of(result: JobResult) -> str:
    """Where it raised, then what it printed."""
    finding = result.report.finding
    traceback = finding.traceback if isinstance(finding, WorkerFailed) else ""
    output = printed(result.worker_output, stopped=isinstance(finding, WorkerSilent))
    return "\n".join(part for part in (without_places(traceback), output) if part)
