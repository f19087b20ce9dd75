"""What the baseline does without the candidate: a candidate must not gain by slowing it."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

from gpu_sandbox.api.statistics import middle_of_orders, quantile
from gpu_sandbox.verifier.timing.baseline import Baseline
from gpu_sandbox.verifier.timing.pairs import Pair

__all__ = ["DISTURBED", "BaselineDrift"]

DISTURBED = 1.15
"""As many times as long a release takes beside a candidate that is charged with it."""
_REST_GROWS = 2.0
"""What a release takes besides its calls may grow so much while a candidate is there: who
makes the baseline's grow further hides nothing in it."""
_REST_LATER = 1.25
_RELEASES, _RELEASES_AGAIN, _FEWEST = 5, 15, 3
"""Of which a median is taken. Slow models: one."""
_BUSY, _STANDSTILL_S = 4.0, 2.0
"""A machine may be so much slower for a while, and stand still so long."""
_MOST_SLOWER, _MOST_AGAIN = 4.0, 3
"""Times as slow as before there was a candidate, at so many looks, a machine may be found."""
_LOOKS = 4
"""At least, before a candidate is cleared."""


class BaselineDrift:
    """Made, and so measured, before there is a candidate."""

    def __init__(self, baseline: Baseline) -> None:
        self._baseline = baseline
        began = time.monotonic()
        self.reported_ns, self.overhead_ns = self._measured("alone", _RELEASES)
        """Of a release: what its calls take, and what it takes besides."""
        self._turn_s = (time.monotonic() - began) / self._affordable(_RELEASES)
        self._slower, self._again = 1.0, 0

    def cover_longer(self, longer_ns: float) -> None:
        """Each release takes so much longer from now on, whoever's it is."""
        self.overhead_ns += longer_ns
        self._turn_s += longer_ns / 1e9

    @property
    def max_overhead_ns(self) -> float:
        """That is believed of a release beside a candidate."""
        return _REST_GROWS * self.overhead_ns

    def measure_again(self, suspect: Callable[[], bool], within_s: float) -> None:
        """When the candidate is gone. What is slow then, too, is the machine, which is by turns,
        for seconds: so it is looked at again and again. Until half of the looks leave nothing to
        ``suspect``, or time is up; then a quarter of them will do, not a single one: of many looks
        at a busy machine one is always slow. Never by fewer than some, however long they take."""
        began = time.monotonic()
        affordable = int(within_s * 1e9 / (_LOOKS * self.reported_ns))
        releases = max(_FEWEST, min(_RELEASES_AGAIN, affordable))
        before, looks = (self.reported_ns, self.overhead_ns), list[tuple[float, float]]()
        while True:
            looks.append(self._measured(f"after/{len(looks)}", releases))
            spent_s = time.monotonic() - began
            if len(looks) < _LOOKS:
                if spent_s * _LOOKS > within_s * len(looks):  # to draw inputs takes time, too
                    releases = max(_FEWEST, releases // 2)
                continue
            over = spent_s > within_s
            self._take(before, looks, 0.75 if over else 0.5)
            if over or not suspect():
                return

    def _take(
        self, before: tuple[float, float], looks: list[tuple[float, float]], share: float
    ) -> None:
        """What is besides the calls may not grow much by it: a claim hides there."""
        reported_ns, overhead_ns = (quantile(each, share) for each in zip(*looks, strict=True))
        self.reported_ns = max(before[0], reported_ns)
        self.overhead_ns = max(before[1], min(overhead_ns, before[1] * _REST_LATER))

    def disturbance(self, pairs: Sequence[Pair]) -> float:
        """How many times as long the baseline takes beside the candidate as without it. As the
        ratio is estimated: of each order of the pairs, or who slows it in one would go unseen."""
        slower = [math.log(p.baseline.reported_ns / self.reported_ns) for p in pairs]
        return math.exp(middle_of_orders(slower, [p.first for p in pairs]))

    def due_s(self, pairs: Sequence[Pair], made: int) -> float:
        """How long so many pairs, of which these are some, ought to take."""
        claims_ns = [float(pair.candidate.reported_ns) for pair in pairs] or [0.0]
        longer_s = max(0.0, quantile(claims_ns, 0.5) - self.reported_ns) / 1e9
        return made * (2 * self._turn_s + longer_s)

    def late(self, pairs: Sequence[Pair], spent_s: float) -> str:
        """Why that is too long for these pairs, or empty. Drawing inputs, checks and stops are in
        what the baseline's releases took alone; whose calls take longer may take longer."""
        due_s = self._slower * self.due_s(pairs, len(pairs))
        if spent_s <= _BUSY * due_s + _STANDSTILL_S:
            return ""
        return f"{len(pairs)} pairs took {spent_s:.3g} s, where {due_s:.2g} s would have done"

    def look_again(self) -> bool:
        """How long the baseline's releases take now, while the candidate lies still: a machine that
        has become slower is not its doing. False when there were looks enough."""
        if self._again == _MOST_AGAIN:
            return False
        self._again += 1
        began = time.monotonic()
        self._measured(f"late/{self._again}", _RELEASES)
        turn_s = (time.monotonic() - began) / self._affordable(_RELEASES)
        self._slower = max(self._slower, min(turn_s / self._turn_s, _MOST_SLOWER))
        return True

    def rest_grew(self, pairs: Sequence[Pair]) -> bool:
        """Further than a candidate is to gain by: by its doing, or the machine is busier now."""
        return quantile([float(p.baseline.overhead_ns) for p in pairs], 0.5) > self.max_overhead_ns

    def _affordable(self, releases: int) -> int:
        return 1 if self._baseline.slow else releases

    def _measured(self, purpose: str, releases: int) -> tuple[float, float]:
        """Medians of what a release claims, and of what it takes besides, in nanoseconds."""
        seen = self._baseline.alone(self._affordable(releases), purpose)
        claims, rests = [float(r.reported_ns) for r in seen], [float(r.overhead_ns) for r in seen]
        return quantile(claims, 0.5), quantile(rests, 0.5)
