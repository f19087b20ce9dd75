"""What many searches come to, with 95 % bands (normal: mean ± 1.96 standard errors).

The figure that variants are compared by is the *delivered* speedup: the best kernel's, or 1
where that is slower than the reference or where there is none, since nobody would use it.
Its mean is geometric. Two variants are compared seed by seed: the same seed is the same
task, and its own draws are keyed by the attempt.
"""

from __future__ import annotations

from math import exp

import msgspec
import numpy as np
import numpy.typing as npt

from benchmarks.landscape.rates import compiled_and_correct
from benchmarks.landscape.runs import Runs, level_of

__all__ = ["Band", "Level", "Outcome", "compared", "delivered", "measured"]

_Z = 1.96
Floats = npt.NDArray[np.float64]


class Band(msgspec.Struct, frozen=True):
    """A figure and its 95 % band."""

    value: float
    low: float
    high: float

    def excludes(self, value: float) -> bool:
        return value < self.low or value > self.high


class Level(msgspec.Struct, frozen=True, kw_only=True):
    """The paper's metrics at the end of the budget. ``speed`` is the arithmetic mean of the
    best speedups, over the tasks that have a correct kernel; None if none has. ``first`` is
    the share of correct first attempts, which is a budget of B = 1."""

    compiled: float
    correct: float
    success: Band
    fast_1: Band
    speed: Band | None
    first: Band


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """A variant in a world. ``curve`` is the delivered speedup after each attempt,
    ``success`` the share of tasks with a correct kernel by then; ``from_root`` is the share
    of attempts that started from the root."""

    seeds: int
    attempts: int
    delivered: Band
    curve: list[Band]
    success: list[Band]
    from_root: float
    levels: dict[int, Level]


def measured(runs: Runs) -> Outcome:
    """Sum up the searches of one variant."""
    best, logs = _best(runs), delivered(runs)
    shares = compiled_and_correct(runs)
    levels = np.array([level_of(seed) for seed in range(len(runs))])
    parents = [parent for course in runs for parent in course.parents]
    return Outcome(
        seeds=len(runs),
        attempts=best.shape[1],
        delivered=_speedup(logs[:, -1]),
        curve=[_speedup(column) for column in logs.T],
        success=[_mean(column > 0) for column in best.T],
        from_root=round(parents.count(0) / len(parents), 4),
        levels={level: _level(best[levels == level], *shares[level]) for level in (1, 2, 3)},
    )


def delivered(runs: Runs) -> Floats:
    """Log delivered speedups, by seed and attempt."""
    return np.log(np.maximum(_best(runs), 1.0))


def compared(runs: Runs, to: Runs) -> Band:
    """The ratio of delivered speedups at the end, ``runs`` over ``to``, seed by seed."""
    return _speedup(delivered(runs)[:, -1] - delivered(to)[:, -1])


def _best(runs: Runs) -> Floats:
    return np.array([course.best for course in runs])


def _level(best: Floats, compiled: float, correct: float) -> Level:
    last = best[:, -1]
    return Level(
        compiled=round(compiled, 4),
        correct=round(correct, 4),
        success=_mean(last > 0),
        fast_1=_mean(last >= 1),
        speed=_mean(last[last > 0]) if (last > 0).any() else None,
        first=_mean(best[:, 0] > 0),
    )


def _speedup(logs: Floats) -> Band:
    band = _mean(logs)
    return Band(*(round(exp(log), 4) for log in (band.value, band.low, band.high)))


def _mean(values: npt.NDArray[np.generic]) -> Band:
    floats = values.astype(float)
    mean = float(floats.mean())
    error = _Z * float(floats.std(ddof=1)) / len(floats) ** 0.5 if len(floats) > 1 else 0.0
    return Band(round(mean, 4), round(mean - error, 4), round(mean + error, 4))
