"""When pairs are enough: their interval is narrow, or the time is up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpu_sandbox.ipc.verifier_messages import Job, WorkerSilent
from gpu_sandbox.verifier.timing import clock_filter
from gpu_sandbox.verifier.timing.baseline_drift import BaselineDrift
from gpu_sandbox.verifier.timing.batches import Batches
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.worker_link.requests import Ended

__all__ = ["StoppingRule"]

_PATIENCE = 3
_FEWEST_CHANGED, _ENOUGH_CHANGED = 3, 5
"""Batches that had changed inputs: five are all kinds of them
(``verifier/trials/hidden_cases.py``)."""


class StoppingRule:
    """Too few pairs are worth waiting for, but not for ever: slow models get fewer. Whether so many
    as are wanted at least say enough is for ``settled`` to tell, and for ``late`` why so many took
    too many seconds, or nothing."""

    def __init__(
        self,
        job: Job,
        releases: Batches,
        alone: BaselineDrift,
        settled: Callable[[Sequence[Pair]], bool],
        late: Callable[[Sequence[Pair], float], str],
        notes: list[str],
    ) -> None:
        self._job = job
        self._releases = releases
        self._alone = alone
        self._settled = settled
        self._late = late
        self._notes = notes

    def counted(self, taken: list[Pair]) -> list[Pair]:
        return clock_filter.sifted(taken) if self._job.protocol.sifts else taken

    def fewest_and_most(self) -> tuple[int, int]:
        protocol, calls = self._job.protocol, self._releases.calls
        most = math.ceil(protocol.max_pairs / (calls if protocol.mean else 1))
        return min(protocol.min_pairs, most), most

    def reached(self, made: list[Pair], spent_s: float) -> bool:
        """Raises ``Ended`` where time goes by and pairs are not for what their calls take: a
        candidate that is late where it is not timed could choose how few there are, so that its
        score were one lucky reading, and changed inputs hardly came
        (``verifier/trials/hidden_cases.py``)."""
        patience_s = _PATIENCE * self._job.bench_s
        if spent_s > patience_s and (why := self._late(made, spent_s)):
            self._notes.append(f"it was late where it is not timed: {why}")
            raise Ended(WorkerSilent(stage="bench", limit_s=patience_s))
        taken, (least, wanted) = [pair for pair in made if pair.counts], self.fewest_and_most()
        pairs = self.counted(taken)
        affordable = math.ceil(patience_s / self._alone.due_s(taken, 1))
        if not self._has_changed(made, affordable) and len(made) < 3 * min(least, affordable):
            return False
        if len(pairs) >= wanted:
            return True
        if len(pairs) >= least:
            return spent_s > self._job.bench_s or self._settled(pairs)
        if not pairs or len(taken) < affordable:  # who is late would have fewer than that
            return False
        self._notes.append(f"only {len(pairs)} pairs: the time was up")
        return True

    def _has_changed(self, made: list[Pair], affordable: int) -> bool:
        """Inputs among these, often enough, if any may be."""
        wanted = min(max(_FEWEST_CHANGED, affordable // 4), _ENOUGH_CHANGED)
        return not self._releases.may_change or sum(p.changed for p in made) >= wanted
