"""Score of a candidate's time: the reported ratio, the verifier's bound, and corrections."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.api.statistics import Estimate, has_both_orders, mean_over_median, quantile
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.timing.baseline_drift import DISTURBED, BaselineDrift
from gpu_sandbox.verifier.timing.claim_rules import (
    RESOLUTION_NS,
    WRITING,
    agrees,
    decide,
    disputed_note,
    is_corroborated,
)
from gpu_sandbox.verifier.timing.pairs import Pair, bound_ratio, reported_ratio

_ENOUGH = 2  # times the least number of pairs
_MAX_RESOLUTION = 0.1  # relative; above this, more pairs do not help
_GPU_UNCERTAINTY = 0.05  # of a batch's wall time: seen between processes of the same code
_CPU_UNCERTAINTY = 0.02  # of a batch's overhead
_LONG_NS = 1e6  # of a call: host work beside it is little then
_BIMODAL = 1.15  # mean over median of call times


class Score:
    """Of batches of ``calls`` calls each. ``least`` measures what no call can do without, in ns.
    Adds to ``notes`` why a score is not the reported ratio."""

    def __init__(
        self,
        protocol: Protocol,
        device: torch.device,
        calls: int,
        drift: BaselineDrift,
        least: Callable[[], float],
        notes: list[str],
    ) -> None:
        self._protocol = protocol
        self._on_cpu = backend_of(device).on_host
        self._device = device
        self._calls = calls
        self._drift = drift
        self._least, self._least_ns = least, least()
        self._notes = notes
        self.gates_decide = False
        """Whether gates tell calls as short as the baseline's from none (``gate_benchmark.py``)."""

    def reported(self, pairs: Sequence[Pair]) -> Estimate:
        return reported_ratio(pairs, mean=self._protocol.mean)

    def settled(self, pairs: Sequence[Pair]) -> bool:
        """Whether the reported ratio's interval is narrow, and the verifier's clock agrees or can't
        tell: it has a resolution, which more pairs do not improve for long."""
        if not has_both_orders([p.first for p in pairs]):
            return False
        claim = self.reported(pairs)
        each_ns = self.baseline_ns(pairs) * min(claim.ratio, 1.0)
        resolution = 0.0 if self._on_cpu else min(RESOLUTION_NS / each_ns, _MAX_RESOLUTION)
        if claim.half_width >= max(self._protocol.half_width, resolution):
            return False
        if len(pairs) >= _ENOUGH * self._protocol.min_pairs or not self._walls_count(pairs):
            return True
        return agrees(claim, self._bound(pairs), self.uncertainty(pairs))

    def is_corroborated(self, pairs: Sequence[Pair]) -> bool:
        if not self._walls_count(pairs):
            return True
        return is_corroborated(self.reported(pairs), self._bound(pairs), self.uncertainty(pairs))

    def scored(self, pairs: Sequence[Pair]) -> Estimate:
        found, why = self._decided(pairs)
        if why == WRITING:  # it was measured once, perhaps when the device was slow
            self._least_ns = min(self._least_ns, self._least())
            found, why = self._decided(pairs)
        if why:
            claim = self.reported(pairs)
            self._notes.append(disputed_note(found.ratio, why, claim.ratio))
        return found

    def _decided(self, pairs: Sequence[Pair]) -> tuple[Estimate, str]:
        least = min(1.0, self._least_ns / self.baseline_ns(pairs))
        claim = bound = self.reported(pairs)
        if self._walls_count(pairs):
            bound = self._bound(pairs)
        uncertainty, gated = self.uncertainty(pairs), not self._on_cpu
        return decide(claim, bound, uncertainty, gated=gated, least=least)

    def _walls_count(self, pairs: Sequence[Pair]) -> bool:
        """Whether walls of pairs bound the reported ratio. For short calls gates do that better:
        such a batch is many times as long as its calls."""
        return not self.gates_decide or self.baseline_ns(pairs) >= _LONG_NS

    def uncertainty(self, pairs: Sequence[Pair]) -> float:
        """Error of the bound that no worker causes, as a ratio. Taken from what overhead is without
        a candidate, which could stretch it."""
        reported_ns = quantile([float(p.baseline.reported_ns) for p in pairs], 0.5)
        overhead_ns = quantile([float(p.baseline.overhead_ns) for p in pairs], 0.5)
        if self._on_cpu:
            return _CPU_UNCERTAINTY * min(overhead_ns, self._drift.overhead_ns) / reported_ns
        wall_ns = reported_ns + min(overhead_ns, self._drift.max_overhead_ns)
        return _GPU_UNCERTAINTY * wall_ns / reported_ns

    def candidate_ms(self, pairs: Sequence[Pair]) -> float:
        """Of one call, as the candidate reports."""
        return self._typical([p.candidate.reported_ns for p in pairs]) / self._calls / 1e6

    def baseline_ns(self, pairs: Sequence[Pair]) -> float:
        """Of one call."""
        return self._typical([p.baseline.reported_ns for p in pairs]) / self._calls

    # --- corrections

    def allowance(self, pairs: Sequence[Pair], scored: float) -> float:
        """The factor to multiply a ``scored`` ratio with."""
        return self._disturbance(pairs) * self.bimodality(pairs, scored)

    def bimodality(self, pairs: Sequence[Pair], scored: float) -> float:
        """The factor for bimodal call times: the median would show the better of two behaviours, so
        the mean of most pairs is scored, if it is slower."""
        if self._protocol.mean:
            return 1.0
        times = mean_over_median(
            [float(p.candidate.reported_ns) for p in pairs],
            [float(p.baseline.reported_ns) for p in pairs],
            [p.first for p in pairs],
        )
        mean = times * self.reported(pairs).ratio
        if times < _BIMODAL or mean <= scored:
            return 1.0
        note = "bimodal call times: scored by the trimmed mean"
        self._notes.append(f"{note} ({times:.2f}x the median)")
        return mean / scored

    def _disturbance(self, pairs: Sequence[Pair]) -> float:
        """The factor for a slowed baseline. Asked when the candidate is gone: what is slow then,
        too, is the machine."""
        times = self._drift.disturbance(pairs)
        if times < DISTURBED:
            return 1.0
        note = f"the baseline takes {times:.2f} times as long while the candidate's process lives"
        self._notes.append(f"{note}: scored against its time without")
        return times

    def _bound(self, pairs: Sequence[Pair]) -> Estimate:
        return bound_ratio(pairs, self._device, self._drift.max_overhead_ns)

    def _typical(self, values: list[int]) -> float:
        if self._protocol.mean:
            return sum(values) / len(values)
        return quantile([float(v) for v in values], 0.5)
