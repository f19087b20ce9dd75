"""Claims that the verifier's clock does not bear out: looked at by two pairs of processes."""

from __future__ import annotations

import pytest

from events.outcomes import Correct
from gpu_sandbox.devices.device_session import JobResult
from gpu_sandbox.devices.recheck import deciding, is_disputed
from gpu_sandbox.evaluate.outcomes import ended_as
from gpu_sandbox.ipc.verifier_messages import Agreed, Differs, Finding, Report


def look(finding: Finding, *notes: str) -> JobResult:
    timings = {"check": 0.5, "bench": 1.0}
    return JobResult(report=Report(finding=finding, timings_s=timings, notes=list(notes)))


def agreed(ratio: float, *, doubted: bool) -> Agreed:
    return Agreed(
        ratio=ratio,
        ratio_low=ratio,
        ratio_high=ratio,
        bounded_ratio=ratio,
        pairs=20,
        candidate_ms=ratio,
        baseline_ms=1.0,
        candidate_spread=0.01,
        max_abs_error=0.0,
        doubted=doubted,
    )


@pytest.mark.parametrize("doubted_at", [3.0, 0.5])
def test_a_doubt_that_does_not_come_again_is_dropped(doubted_at: float) -> None:
    """And what was seen then, for better or worse."""
    first = look(agreed(doubted_at, doubted=True), "timing disputed")
    counts = deciding(first, look(agreed(1.0, doubted=False)))
    assert not is_disputed(counts)
    assert counts.report.finding == agreed(1.0, doubted=False)
    assert counts.report.notes == [f"doubted at first: {1 / doubted_at:.2f}x, then 1.00x"]
    assert counts.report.timings_s == {"check": 1.0, "bench": 2.0}


@pytest.mark.parametrize("again", [2.5, 4.0])
def test_of_two_doubts_the_lower_speed_counts(again: float) -> None:
    counts = deciding(
        look(agreed(3.0, doubted=True), "first"), look(agreed(again, doubted=True), "second")
    )
    assert is_disputed(counts)
    assert counts.report.finding == agreed(max(3.0, again), doubted=True)
    assert counts.report.notes[0] == ("second" if again > 3.0 else "first")


def test_who_fails_in_the_second_look_fails() -> None:
    failed = Differs(reason="relative L2 error 1")
    counts = deciding(look(agreed(3.0, doubted=True)), look(failed, "its own"))
    assert counts.report.finding == failed
    assert counts.report.notes == ["its own"]


def test_of_two_looks_the_slower_counts_and_an_interval_of_both() -> None:
    looks = [look(agreed(0.50, doubted=False)), look(agreed(0.52, doubted=False))]
    for order in (looks, looks[::-1]):
        outcome, _, notes = ended_as(order, [], 10.0)
        assert isinstance(outcome, Correct)
        assert (outcome.ratio, outcome.runtime_ms) == (0.52, 5.2)
        assert (outcome.ratio_low, outcome.ratio_high) == (0.50, 0.52)
        assert notes[-1].startswith("judged twice: ")
