"""Which of several measurements of one candidate counts. Each has workers of its own."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import msgspec

from events.outcomes import ScoredBy
from gpu_sandbox.devices.device_session import JobResult
from gpu_sandbox.ipc.verifier_messages import Agreed, Job


class ToBeat(msgspec.Struct, frozen=True):
    """The best ratio to the root's runtime so far, and by which score."""

    ratio: float
    score: ScoredBy = "device"


async def undisputed(measure: Callable[..., Awaitable[JobResult]], job: Job) -> JobResult:
    """The result of ``job``; measured once more by fresh workers if its time is disputed.

    A machine that slows down in the wrong moment looks like a forged time, but seldom twice.
    """
    first = await measure(job)
    if not is_disputed(first):
        return first
    again = msgspec.structs.replace(job, observe=[])
    return deciding(first, await measure(again, afresh=True))


def beats(result: JobResult, to_beat: ToBeat) -> bool:
    """Whether its ratio to the root is better."""
    finding = result.report.finding
    return isinstance(finding, Agreed) and ratio_by(finding, to_beat.score) < to_beat.ratio


def is_disputed(result: JobResult) -> bool:
    """Whether the verifier's clock contradicts the candidate's own events."""
    finding = result.report.finding
    return isinstance(finding, Agreed) and finding.doubted


def deciding(first: JobResult, again: JobResult) -> JobResult:
    """Of a disputed result and the one of fresh processes: the one that counts.

    The second, even where it is a failure. If it is disputed as well, the slower one: another
    draw must not pay. Its stage times are those of both.
    """
    before, after = first.report.finding, again.report.finding
    counts, notes = again, list[str]()
    if isinstance(before, Agreed) and isinstance(after, Agreed):
        counts = first if after.doubted and before.ratio > after.ratio else again
        notes = [f"doubted at first: {1 / before.ratio:.2f}x, then {1 / after.ratio:.2f}x"]
    report = msgspec.structs.replace(
        counts.report,
        timings_s=stage_seconds([first, again]),
        observations=first.report.observations,
        notes=[*counts.report.notes, *notes],
    )
    return msgspec.structs.replace(counts, report=report)


def slowness(result: JobResult) -> float:
    """Its ratio to the baseline; infinite for one that failed."""
    finding = result.report.finding
    return finding.ratio if isinstance(finding, Agreed) else math.inf


def stage_seconds(results: list[JobResult]) -> dict[str, float]:
    """Seconds by stage, of all results together."""
    total: dict[str, float] = {}
    for result in results:
        for name, seconds in result.report.timings_s.items():
            total[name] = total.get(name, 0.0) + seconds
    return total


def ratio_by(found: Agreed, score: ScoredBy) -> float:
    """The ratio of device times where no other was measured."""
    return found.looped.ratio if score == "eager" and found.looped else found.ratio
