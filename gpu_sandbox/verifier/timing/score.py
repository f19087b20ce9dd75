"""What pairs say of a candidate's time: its claim, what the outer clock makes of it, and what a
ratio is multiplied with so that nobody gains by what is not its calls."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.api.statistics import Estimate, has_both_orders, mean_over_median, quantile
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.timing.baseline_drift import DISTURBED, BaselineDrift
from gpu_sandbox.verifier.timing.claim_rules import WRITING, agree, believed, is_corroborated
from gpu_sandbox.verifier.timing.labels import RESOLUTION_NS
from gpu_sandbox.verifier.timing.pairs import Pair, bounded, claimed

__all__ = ["Score"]

_ENOUGH = 2
_COARSEST = 0.1
_BLUR = 0.05
"""Of a GPU release's wall: by so much the same one was seen to differ between processes."""
_REST_BLUR = 0.02
"""The same on the CPU, of what a release takes besides its calls."""
_LONG_NS = 1e6
"""Of a call: what the host does beside it is little then."""
_BY_TURNS = 1.15
"""Times as long as in the median of pairs is what calls take in the mean of most."""


class Score:
    """Of releases of ``calls`` calls each. ``least``: measures what no call can do without,
    in ns. Why a score is another one than what was claimed is added to ``notes``."""

    def __init__(
        self,
        protocol: Protocol,
        device: torch.device,
        calls: int,
        alone: BaselineDrift,
        least: Callable[[], float],
        notes: list[str],
    ) -> None:
        self._protocol = protocol
        self._on_cpu = backend_of(device).on_host
        self._device = device
        self._calls = calls
        self._alone = alone
        self._least, self._least_ns = least, least()
        self._notes = notes
        self.gates_decide = False
        """Whether gates tell calls as short as the baseline's from none (``gate_benchmark.py``)."""

    def claimed(self, pairs: Sequence[Pair]) -> Estimate:
        return claimed(pairs, mean=self._protocol.mean)

    def settled(self, pairs: Sequence[Pair]) -> bool:
        """The claim's interval is narrow, and the outer clock bears it out, or can't: it
        has a resolution, and waiting does not give it a better one for long."""
        if not has_both_orders([p.first for p in pairs]):
            return False
        claim = self.claimed(pairs)
        each_ns = self.baseline_ns(pairs) * min(claim.ratio, 1.0)
        resolution = 0.0 if self._on_cpu else min(RESOLUTION_NS / each_ns, _COARSEST)
        if claim.half_width >= max(self._protocol.half_width, resolution):
            return False
        if len(pairs) >= _ENOUGH * self._protocol.min_pairs or not self._walls_count(pairs):
            return True
        return agree(claim, self._bounded(pairs), self.blur(pairs))

    def is_corroborated(self, pairs: Sequence[Pair]) -> bool:
        if not self._walls_count(pairs):
            return True
        return is_corroborated(self.claimed(pairs), self._bounded(pairs), self.blur(pairs))

    def believed(self, pairs: Sequence[Pair]) -> Estimate:
        found, why = self._held_against_all(pairs)
        if why == WRITING:  # it was measured once, perhaps when the device was slow
            self._least_ns = min(self._least_ns, self._least())
            found, why = self._held_against_all(pairs)
        if why:
            claim = self.claimed(pairs)
            told = f"{1 / found.ratio:.2f}x, not the {1 / claim.ratio:.2f}x"
            self._notes.append(f"scored by {why}: {told} that its own process claims")
        return found

    def _held_against_all(self, pairs: Sequence[Pair]) -> tuple[Estimate, str]:
        least = min(1.0, self._least_ns / self.baseline_ns(pairs))
        claim = bound = self.claimed(pairs)
        if self._walls_count(pairs):
            bound = self._bounded(pairs)
        blur, gated = self.blur(pairs), not self._on_cpu
        return believed(claim, bound, blur, gated=gated, least=least)

    def _walls_count(self, pairs: Sequence[Pair]) -> bool:
        """Whether walls of pairs bound a claim. Of short calls gates tell more: a wall is many
        times as long as they are, and as long as the host takes where that is slower."""
        return not self.gates_decide or self.baseline_ns(pairs) >= _LONG_NS

    def blur(self, pairs: Sequence[Pair]) -> float:
        """What the outer clock may be off by, as a ratio. On a GPU a release lasts many times
        as long as its calls, and the same one differs by some percent between processes; on the
        CPU what it takes besides its calls does. Held against what that is without a candidate,
        which could stretch it."""
        reported_ns = quantile([float(p.baseline.reported_ns) for p in pairs], 0.5)
        overhead_ns = quantile([float(p.baseline.overhead_ns) for p in pairs], 0.5)
        if self._on_cpu:
            return _REST_BLUR * min(overhead_ns, self._alone.overhead_ns) / reported_ns
        return _BLUR * (reported_ns + min(overhead_ns, self._alone.max_overhead_ns)) / reported_ns

    def candidate_ms(self, pairs: Sequence[Pair]) -> float:
        """Of one call, as it says."""
        return self._typical([p.candidate.reported_ns for p in pairs]) / self._calls / 1e6

    def baseline_ns(self, pairs: Sequence[Pair]) -> float:
        """Of one call."""
        return self._typical([p.baseline.reported_ns for p in pairs]) / self._calls

    def allowance(self, pairs: Sequence[Pair], scored: float) -> float:
        """What the ratio that is ``scored`` must be multiplied with in all."""
        return self._disturbance(pairs) * self.by_turns(pairs, scored)

    def by_turns(self, pairs: Sequence[Pair], scored: float) -> float:
        """The same where calls take this or that, so that the median is what they take at best: who
        is careful in some calls, lest their inputs be changed ones, is scored by the mean, if not
        by more already."""
        if self._protocol.mean:
            return 1.0
        times = mean_over_median(
            [float(p.candidate.reported_ns) for p in pairs],
            [float(p.baseline.reported_ns) for p in pairs],
            [p.first for p in pairs],
        )
        mean = times * self.claimed(pairs).ratio
        if times < _BY_TURNS or mean <= scored:
            return 1.0
        told = f"its calls take now less, now more: scored by their mean, {times:.2f} times"
        self._notes.append(f"{told} the median")
        return mean / scored

    def _disturbance(self, pairs: Sequence[Pair]) -> float:
        """So that slowing the baseline buys nothing. Asked when the candidate is gone, if it was
        seen several times: what is slow then, too, is the machine."""
        times = self._alone.disturbance(pairs)
        if times < DISTURBED:
            return 1.0
        told = f"the baseline takes {times:.2f} times as long while the candidate's process lives"
        self._notes.append(f"{told}: scored against its time without")
        return times

    def _bounded(self, pairs: Sequence[Pair]) -> Estimate:
        return bounded(pairs, self._device, self._alone.max_overhead_ns)

    def _typical(self, values: list[int]) -> float:
        if self._protocol.mean:
            return sum(values) / len(values)
        return quantile([float(v) for v in values], 0.5)
