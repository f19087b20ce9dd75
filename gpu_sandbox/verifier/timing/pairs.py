"""Pairs of batches, one of each side on the same inputs, and the ratios that they give."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.api.statistics import Estimate, estimate_bound, estimate_mean, estimate_median
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.sm_clocks import Reading, Side

_DESCRIBING = 0.8  # of the baseline's time to describe outputs: two processes differ by so much


class Pair(msgspec.Struct, frozen=True):
    """One batch of each side, on the same inputs. ``first``: the candidate's came first.

    ``counts``: the inputs are the task's own; ``changed``: those of some calls are hidden cases.
    ``readings`` are of the SM clock at the end of the candidate's and of the baseline's batch;
    ``slowed`` is the side that ran at a lower clock.
    """

    candidate: TimedBatch
    baseline: TimedBatch
    first: bool
    counts: bool = True
    changed: bool = False
    readings: tuple[Reading | None, Reading | None] = (None, None)
    slowed: Side | None = None

    def wall_bound_ns(self, max_overhead_ns: float) -> float:
        """Upper bound of the candidate's time: its wall time less the baseline's overhead.

        Of that overhead at most ``max_overhead_ns`` counts, and nothing that the candidate's own
        processes used of the baseline's time. The bound is not less than describing as many
        outputs takes: a worker faster than this skipped that, and may be hiding work.
        """
        overhead_ns = self.baseline.overhead_ns - self.baseline.other_side_ns
        bound_ns = self.candidate.wall_ns - min(overhead_ns, max_overhead_ns)
        return max(bound_ns, _DESCRIBING * self.baseline.describing_ns)

    def cpu_bound_ns(self, max_overhead_ns: float) -> float:
        """The same bound of processor time. Less than the truth for calls that wait, but a busy
        machine adds nothing. For workers of one thread: idle threads of a pool spin."""
        baseline = self.baseline
        overhead_ns = baseline.cpu_ns - baseline.reported_ns - baseline.output_ns
        return float(self.candidate.cpu_ns - max(min(overhead_ns, max_overhead_ns), 0))


def reported_ratio(pairs: Sequence[Pair], *, mean: bool) -> Estimate:
    """Candidate over baseline, as both report."""
    candidate, baseline = [float(p.candidate.reported_ns) for p in pairs], _baseline_ns(pairs)
    if mean:
        return estimate_mean(candidate, baseline)
    return estimate_median(candidate, baseline, _orders(pairs))


def whole_wall_ratio(pairs: Sequence[Pair]) -> Estimate:
    """The candidate's whole wall time over the baseline's reported time.

    Only giving inputs and taking outputs is left out, and of that no more than the baseline took:
    a worker that answers too early has the verifier wait for its device then.
    """
    sides = [(p.candidate, min(p.candidate.transfer_ns, p.baseline.transfer_ns)) for p in pairs]
    walls = [float(batch.wall_ns - transfer_ns) for batch, transfer_ns in sides]
    return estimate_bound(walls, _baseline_ns(pairs), _orders(pairs))


def bound_ratio(pairs: Sequence[Pair], device: torch.device, max_overhead_ns: float) -> Estimate:
    """The candidate's upper bound over the baseline's time; on one core by the greater of wall and
    processor time."""
    baseline = [float(p.baseline.reported_ns + p.baseline.output_ns) for p in pairs]
    orders = _orders(pairs)
    wall = estimate_bound([p.wall_bound_ns(max_overhead_ns) for p in pairs], baseline, orders)
    if not backend_of(device).on_host or torch.get_num_threads() > 1:
        return wall
    cpu = estimate_bound([p.cpu_bound_ns(max_overhead_ns) for p in pairs], baseline, orders)
    return max(wall, cpu, key=lambda estimate: estimate.ratio)


def _baseline_ns(pairs: Sequence[Pair]) -> list[float]:
    return [float(p.baseline.reported_ns) for p in pairs]


def _orders(pairs: Sequence[Pair]) -> list[bool]:
    return [p.first for p in pairs]
