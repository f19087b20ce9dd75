"""Looks at one candidate, each by workers of its own, and which of them counts."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable

import msgspec

from events.outcomes import ScoredBy
from gpu_sandbox.devices.device_session import Concluded
from gpu_sandbox.ipc.verifier_messages import Agreed, Job


class Looks(msgspec.Struct, frozen=True):
    """What each look found, and how the verifier broke down meanwhile. Two breakdowns that
    are the candidate's doing leave no look."""

    concluded: list[Concluded]
    breakdowns: list[str]


async def undoubted(look: Callable[..., Awaitable[Concluded]], job: Job) -> Concluded:
    """A claim that is not borne out gets one more chance, with fresh workers: a machine that
    slows down in the wrong moment looks like a lie, but seldom does so twice."""
    first = await look(job)
    if not doubts(first):
        return first
    again = msgspec.structs.replace(job, observe=[])
    return the_deciding(first, await look(again, afresh=True))


def beats(concluded: Concluded, to_beat: ToBeat) -> bool:
    """Whether its ratio to the root would be better, by what this look saw."""
    finding = concluded.report.finding
    return isinstance(finding, Agreed) and ratio_by(finding, to_beat.score) < to_beat.ratio


def doubts(concluded: Concluded) -> bool:
    """Whether it was scored by the verifier's clock, and not as it claims."""
    finding = concluded.report.finding
    return isinstance(finding, Agreed) and finding.doubted


def the_deciding(first: Concluded, again: Concluded) -> Concluded:
    """Of a look that doubted, and another by fresh processes: the one that counts, with the
    seconds of both. The second, whatever it says: a machine that was slow in the wrong moment is
    none twice. Unless it doubts as well: then the worse of both, or a doubt would be worth a
    second draw to who is doubted for a reason. Who fails in the second look fails."""
    before, after = first.report.finding, again.report.finding
    counts, told = again, ""
    if isinstance(before, Agreed) and isinstance(after, Agreed):
        counts = first if after.doubted and before.ratio > after.ratio else again
        told = f"doubted at first: {1 / before.ratio:.2f}x, then {1 / after.ratio:.2f}x"
    report = msgspec.structs.replace(
        counts.report,
        timings_s=seconds_of([first, again]),
        observations=first.report.observations,
        notes=[*counts.report.notes, *([told] if told else [])],
    )
    return msgspec.structs.replace(counts, report=report)


def slowness(concluded: Concluded) -> float:
    finding = concluded.report.finding
    return finding.ratio if isinstance(finding, Agreed) else math.inf


def seconds_of(looks: list[Concluded]) -> dict[str, float]:
    """Of each stage, all looks together."""
    total: dict[str, float] = {}
    for look in looks:
        for name, seconds in look.report.timings_s.items():
            total[name] = total.get(name, 0.0) + seconds
    return total


class ToBeat(msgspec.Struct, frozen=True):
    """The best ratio to the root's runtime so far, and by which score."""

    ratio: float
    score: ScoredBy = "device"


def ratio_by(found: Agreed, score: ScoredBy) -> float:
    """The ratio of device times where no other was measured."""
    return found.looped.ratio if score == "eager" and found.looped else found.ratio
