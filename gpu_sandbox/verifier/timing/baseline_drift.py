"""Drift of the baseline: its time without the candidate, which must not gain by slowing it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from gpu_sandbox.api.statistics import middle_of_orders, quantile
from gpu_sandbox.verifier.timing.baseline import Baseline
from gpu_sandbox.verifier.timing.pairs import Pair

DISTURBED = 1.15
"""Times its time alone that the baseline takes beside a candidate that is charged with it."""
_MAX_GROWTH = 2.0  # of overhead beside a candidate; a worker that makes it longer gains nothing
_MAX_GROWTH_LATER = 1.25
_BATCHES, _BATCHES_AGAIN, _MIN_BATCHES = 5, 15, 3  # of a median; slow models: one
_BUSY, _STANDSTILL_S = 4.0, 2.0  # a machine may be so much slower, and stand still so long
_MAX_SLOWER, _MAX_LATE_ROUNDS = 4.0, 3
_MIN_ROUNDS = 4  # before a candidate is cleared


class BaselineDrift:
    """Measured as it is made, before there is a candidate. ``reported_ns`` and ``overhead_ns`` are
    medians of a batch."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        began = time.monotonic()
        self.reported_ns, self.overhead_ns = self._measured("alone", _BATCHES)
        self._batch_s = (time.monotonic() - began) / self._affordable(_BATCHES)
        self._slower, self._late_rounds = 1.0, 0

    def cover_longer(self, longer_ns: float) -> None:
        """Each batch of either side takes so much longer from now on."""
        self.overhead_ns += longer_ns
        self._batch_s += longer_ns / 1e9

    @property
    def max_overhead_ns(self) -> float:
        """Overhead that counts of a batch beside a candidate."""
        return _MAX_GROWTH * self.overhead_ns

    def measure_again(self, suspect: Callable[[], bool], within_s: float) -> None:
        """When the candidate is gone: what is slow then, too, is the machine.

        A machine is slow by turns, for seconds, so rounds follow until the median of them leaves
        nothing to ``suspect``, or time is up; then their upper quartile does, not a single one: of
        many rounds on a busy machine one is always slow. Never fewer than ``_MIN_ROUNDS``."""
        began = time.monotonic()
        affordable = int(within_s * 1e9 / (_MIN_ROUNDS * self.reported_ns))
        batches = max(_MIN_BATCHES, min(_BATCHES_AGAIN, affordable))
        before, rounds = (self.reported_ns, self.overhead_ns), list[tuple[float, float]]()
        while True:
            rounds.append(self._measured(f"after/{len(rounds)}", batches))
            spent_s = time.monotonic() - began
            if len(rounds) < _MIN_ROUNDS:
                if spent_s * _MIN_ROUNDS > within_s * len(rounds):  # drawing takes time, too
                    batches = max(_MIN_BATCHES, batches // 2)
                continue
            over = spent_s > within_s
            reported_ns, overhead_ns = (
                quantile(each, 0.75 if over else 0.5) for each in zip(*rounds, strict=True)
            )
            self.reported_ns = max(before[0], reported_ns)
            # A false time hides in overhead, so that may not grow much.
            self.overhead_ns = max(before[1], min(overhead_ns, before[1] * _MAX_GROWTH_LATER))
            if over or not suspect():
                return

    def disturbance(self, pairs: Sequence[Pair]) -> float:
        """How many times as long the baseline takes beside the candidate as without it; of each
        order of pairs, as the ratio is estimated, or slowing it in one order would go unseen."""
        slower = [math.log(p.baseline.reported_ns / self.reported_ns) for p in pairs]
        return math.exp(middle_of_orders(slower, [p.first for p in pairs]))

    def due_s(self, pairs: Sequence[Pair], made: int) -> float:
        """How long so many pairs, of which these are some, ought to take."""
        reported_ns = [float(pair.candidate.reported_ns) for pair in pairs] or [0.0]
        longer_s = max(0.0, quantile(reported_ns, 0.5) - self.reported_ns) / 1e9
        return made * (2 * self._batch_s + longer_s)

    def late(self, pairs: Sequence[Pair], spent_s: float) -> str:
        """Why these pairs took too long, or empty. Drawing, checks and stops are in what the
        baseline's batches took alone."""
        due_s = self._slower * self.due_s(pairs, len(pairs))
        if spent_s <= _BUSY * due_s + _STANDSTILL_S:
            return ""
        return f"{len(pairs)} pairs took {spent_s:.3g} s, where {due_s:.2g} s would have done"

    def measure_slowdown(self) -> bool:
        """Measure the baseline while the candidate is frozen: that the machine has become slower is
        not its doing. False after enough rounds."""
        if self._late_rounds == _MAX_LATE_ROUNDS:
            return False
        self._late_rounds += 1
        began = time.monotonic()
        self._measured(f"late/{self._late_rounds}", _BATCHES)
        batch_s = (time.monotonic() - began) / self._affordable(_BATCHES)
        self._slower = max(self._slower, min(batch_s / self._batch_s, _MAX_SLOWER))
        return True

    def overhead_grew(self, pairs: Sequence[Pair]) -> bool:
        """Whether overhead grew beyond what counts, by the candidate or a busier machine."""
        overheads = [float(p.baseline.overhead_ns) for p in pairs]
        return quantile(overheads, 0.5) > self.max_overhead_ns

    def _affordable(self, batches: int) -> int:
        return 1 if self._baseline.slow else batches

    def _measured(self, purpose: str, batches: int) -> tuple[float, float]:
        """Medians of a batch's reported time and overhead, in nanoseconds."""
        seen = self._baseline.alone(self._affordable(batches), purpose)
        reported = quantile([float(b.reported_ns) for b in seen], 0.5)
        return reported, quantile([float(b.overhead_ns) for b in seen], 0.5)
