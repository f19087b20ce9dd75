"""How busy a run kept its devices and compilers, and where its evaluations' time went."""

from __future__ import annotations

from bisect import insort

import msgspec

from events.bodies import EvaluationFinished
from events.envelope import Event
from events.outcomes import PoolUsage

__all__ = ["Pool", "PoolSummary", "Queue"]

_PARTS = ("compile", "prepare", "queue", "lease", "autopsy")
"""What an evaluation's time is made of; ``check`` and ``bench`` lie within ``lease``."""


class Queue(msgspec.Struct, frozen=True, kw_only=True):
    """Evaluations that waited, as seen at each verdict."""

    now: int
    mean: float
    most: int


class PoolSummary(msgspec.Struct, frozen=True, kw_only=True):
    """Shares are between 0 and 1; null where the log does not say.

    ``device_busy`` and ``compile_busy`` are of all devices and of all places to compile, for
    as long as the sandbox was open. ``seconds`` sums up each stage over all evaluations
    and ``shares`` relates it to their whole time: ``compile`` + ``prepare`` +
    ``queue`` + ``lease`` + ``autopsy``.
    """

    evaluations: int
    evaluations_per_hour: float | None
    device_busy: float | None
    compile_busy: float | None
    device_queue: Queue | None
    compile_queue: Queue | None
    seconds: dict[str, float]
    shares: dict[str, float]
    median_lease_s: float | None


class Pool:
    """A fold that owns mutable state."""

    def __init__(self) -> None:
        self._evaluations = 0
        self._last: dict[int, PoolUsage] = {}
        """The newest of each process: what it sums up begins with its sandbox."""
        self._queues: dict[str, _Lengths] = {"device": _Lengths(), "compile": _Lengths()}
        self._seconds = dict.fromkeys((*_PARTS, "check", "bench"), 0.0)
        self._leases_s: list[float] = []

    def apply(self, event: Event) -> None:
        """Fold one event."""
        body = event.body
        if not isinstance(body, EvaluationFinished) or not body.is_new:
            return  # a verdict that was taken over kept nothing busy
        self._evaluations += 1
        for stage, seconds in {**body.timings_s, "queue": body.queue_s}.items():
            if stage in self._seconds:
                self._seconds[stage] += seconds
        if "lease" in body.timings_s:
            insort(self._leases_s, body.timings_s["lease"])
        if body.usage is not None:
            self._last[event.epoch] = body.usage
            self._queues["device"].add(body.usage.device_queue)
            self._queues["compile"].add(body.usage.compile_queue)

    def summary(self, wall_s: float) -> PoolSummary | None:
        """``wall_s`` is how long the run's processes ran. None before the first verdict."""
        if not self._evaluations:
            return None
        usages = self._last.values()
        whole_s = sum(self._seconds[part] for part in _PARTS)
        return PoolSummary(
            evaluations=self._evaluations,
            evaluations_per_hour=self._evaluations * 3600 / wall_s if wall_s else None,
            device_busy=_share(
                sum(usage.device_busy_s for usage in usages),
                sum(usage.up_s * usage.devices for usage in usages),
            ),
            compile_busy=_share(
                sum(usage.compile_busy_s for usage in usages),
                sum(usage.up_s * usage.compile_places for usage in usages),
            ),
            device_queue=self._queues["device"].summary(),
            compile_queue=self._queues["compile"].summary(),
            seconds=dict(self._seconds),
            shares={stage: s / whole_s for stage, s in self._seconds.items()} if whole_s else {},
            median_lease_s=_median(self._leases_s),
        )


class _Lengths:
    def __init__(self) -> None:
        self._count = self._sum = self._most = self._now = 0

    def add(self, length: int) -> None:
        self._count += 1
        self._sum += length
        self._most = max(self._most, length)
        self._now = length

    def summary(self) -> Queue | None:
        if not self._count:
            return None
        return Queue(now=self._now, mean=self._sum / self._count, most=self._most)


def _share(busy_s: float, there_s: float) -> float | None:
    return min(busy_s / there_s, 1.0) if there_s else None


def _median(ascending: list[float]) -> float | None:
    if not ascending:
        return None
    middle = len(ascending) // 2
    if len(ascending) % 2:
        return ascending[middle]
    return (ascending[middle - 1] + ascending[middle]) / 2
