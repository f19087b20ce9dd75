"""Whether the machine was busy while something was measured. Pure.

Two signs: the measurement disagrees with itself (A/A), or others used the device or the timing
cores. A figure of a busy machine serves the run that measured it, labelled, and is not kept.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from gpu_sandbox.api.statistics import quantile

MAX_HALVES_APART = 0.05  # relative; two interleaved halves of one measurement differ by more: busy
MAX_SPREAD = 0.5  # (p95 - p5) / median of a baseline's samples; more: busy
MAX_INTERVAL = 0.1  # relative width of a compiled baseline's ratio at 95 %; more: busy
MAX_FOREIGN_SHARE = 0.05  # of the time of all cores that time; used by others, with the next: busy
MAX_FOREIGN_CORES = 0.1  # cores' worth of time; less than a tenth of one core disturbs nothing
MIN_FOREIGN_S = 0.05  # processor seconds; the kernel counts in ticks of 10 ms, several of them off
MAX_UTILIZATION = 5  # % of the time in which the device ran kernels while nothing of ours did
_RESOLUTION_MS = 0.0005  # what readings of a GPU differ by without any noise
_MIN_SAMPLES = 6  # of fewer, halves say nothing
_MANY = 10  # samples of a half; a tenth of them is one at least


class CoreTime(msgspec.Struct, frozen=True, kw_only=True):
    """Processor time of ``cores`` cores during ``elapsed_s``, in seconds: all of it, with what a
    hypervisor took, and that of the processes that measured."""

    cores: int
    elapsed_s: float
    used_s: float
    own_s: float

    @property
    def foreign_s(self) -> float:
        return max(0.0, self.used_s - self.own_s)


class DeviceUse(msgspec.Struct, frozen=True, kw_only=True):
    """``processes``: others on the device, as far as known. ``utilization``: percent of the time in
    which it worked while nothing of ours did; None where not reported."""

    processes: int = 0
    utilization: int | None = None


def medians_apart(samples: Sequence[float]) -> float:
    """By how much the medians of two interleaved halves of ``samples`` differ, relative to the
    smaller; less what a clock's resolution explains. In milliseconds."""
    if len(samples) < _MIN_SAMPLES:
        return 0.0
    low, high = sorted(quantile(half, 0.5) for half in (samples[::2], samples[1::2]))
    return _apart(low, high, _RESOLUTION_MS)


def bests_apart(samples: Sequence[float]) -> float:
    """The same of the shortest tenth of each half, for a measurement that takes the best: one of
    many may be short by chance."""
    if len(samples) < _MIN_SAMPLES:
        return 0.0
    low, high = sorted(_shortest(half) for half in (samples[::2], samples[1::2]))
    return _apart(low, high, 0.0)


def _shortest(samples: Sequence[float]) -> float:
    return quantile(samples, 0.1) if len(samples) >= _MANY else min(samples)


def _apart(low: float, high: float, resolution: float) -> float:
    return max(0.0, high - low - resolution) / low if low > 0 else 0.0


def busy_by_itself(apart: float, spread: float = 0.0, median_ms: float = 0.0) -> list[str]:
    """Why a measurement that differs so from itself shows a busy machine; empty if not."""
    reasons = []
    if apart > MAX_HALVES_APART:
        reasons.append(
            f"two interleaved halves of the measurement differ by {apart:.0%}"
            f" (allowed {MAX_HALVES_APART:.0%})"
        )
    resolved = median_ms <= 0 or spread * median_ms > 2 * _RESOLUTION_MS
    if spread > MAX_SPREAD and resolved:
        reasons.append(
            f"from the 5th to the 95th percentile its samples span {spread:.0%} of the median"
            f" (allowed {MAX_SPREAD:.0%})"
        )
    return reasons


def busy_pairs(ratio_low: float, ratio_high: float) -> list[str]:
    """The same of a ratio measured in pairs, by its interval."""
    width = ratio_high / ratio_low - 1 if ratio_low > 0 else 0.0
    if width <= MAX_INTERVAL:
        return []
    return [f"the interval of its ratio is {width:.0%} wide (allowed {MAX_INTERVAL:.0%})"]


def busy_cores(time: CoreTime | None) -> list[str]:
    """Why cores with this use were busy; empty where the kernel reports none."""
    if time is None or time.elapsed_s <= 0 or time.cores <= 0:
        return []
    foreign_cores = time.foreign_s / time.elapsed_s
    share = foreign_cores / time.cores
    above = share > MAX_FOREIGN_SHARE and foreign_cores > MAX_FOREIGN_CORES
    if not above or time.foreign_s < MIN_FOREIGN_S:
        return []
    bound = max(MAX_FOREIGN_SHARE, MAX_FOREIGN_CORES / time.cores)
    cores = "core that times" if time.cores == 1 else f"{time.cores} cores that time"
    return [f"others used {share:.0%} of the time of the {cores} (allowed {bound:.0%})"]


def busy_device(use: DeviceUse) -> list[str]:
    """Why a device with this use was busy. Idle processes, such as another engine's that waits for
    its turn, count only where utilization is unknown."""
    if use.utilization is not None:
        if use.utilization <= MAX_UTILIZATION:
            return []
        return [
            f"the device was at work for {use.utilization} % of the time while nothing of ours ran"
            f" (allowed {MAX_UTILIZATION} %)"
        ]
    if not use.processes:
        return []
    others = "another process" if use.processes == 1 else f"{use.processes} other processes"
    return [f"{others} on the device, and nothing tells how much of it is used"]
