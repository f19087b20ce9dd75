"""Stopping rule: pairs are enough when their interval is narrow, or the time is up."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

from gpu_sandbox.ipc.verifier_messages import Job, WorkerSilent
from gpu_sandbox.verifier.timing import clock_filter
from gpu_sandbox.verifier.timing.baseline_drift import BaselineDrift
from gpu_sandbox.verifier.timing.batches import Batches
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.worker_link.requests import Ended

_PATIENCE = 3
_MIN_HIDDEN, _ENOUGH_HIDDEN = 3, 5  # batches with hidden cases: five have all kinds of them


class StoppingRule:
    """``settled`` says whether the least number of pairs is enough; ``late`` why so many pairs took
    too long, or nothing. Too few pairs are waited for, but slow models get fewer."""

    def __init__(
        self,
        job: Job,
        batches: Batches,
        drift: BaselineDrift,
        settled: Callable[[Sequence[Pair]], bool],
        late: Callable[[Sequence[Pair], float], str],
        notes: list[str],
    ) -> None:
        self._job = job
        self._batches = batches
        self._drift = drift
        self._settled = settled
        self._late = late
        self._notes = notes

    def counted(self, taken: list[Pair]) -> list[Pair]:
        return clock_filter.counted_pairs(taken) if self._job.protocol.sifts else taken

    def fewest_and_most(self) -> tuple[int, int]:
        protocol, calls = self._job.protocol, self._batches.calls
        most = math.ceil(protocol.max_pairs / (calls if protocol.mean else 1))
        return min(protocol.min_pairs, most), most

    def reached(self, made: list[Pair], spent_s: float) -> bool:
        """Raises ``Ended`` where time passes outside timed calls: a candidate could choose by that
        how few pairs, and how few hidden cases, there are."""
        patience_s = _PATIENCE * self._job.bench_s
        if spent_s > patience_s and (why := self._late(made, spent_s)):
            self._notes.append(f"spent too long outside timed regions: {why}")
            raise Ended(WorkerSilent(stage="bench", limit_s=patience_s))
        taken, (least, wanted) = [pair for pair in made if pair.counts], self.fewest_and_most()
        pairs = self.counted(taken)
        affordable = math.ceil(patience_s / self._drift.due_s(taken, 1))
        if not self._has_hidden_cases(made, affordable) and len(made) < 3 * min(least, affordable):
            return False
        if len(pairs) >= wanted:
            return True
        if len(pairs) >= least:
            return spent_s > self._job.bench_s or self._settled(pairs)
        if not pairs or len(taken) < affordable:  # lateness would leave fewer
            return False
        self._notes.append(f"only {len(pairs)} pairs: the time was up")
        return True

    def _has_hidden_cases(self, made: list[Pair], affordable: int) -> bool:
        """Whether these have enough, if they may have any."""
        wanted = min(max(_MIN_HIDDEN, affordable // 4), _ENOUGH_HIDDEN)
        return not self._batches.may_change or sum(p.changed for p in made) >= wanted
