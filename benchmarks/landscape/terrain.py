"""The landscape: what kernels a task has, how fast each is, and where there is no way on.

A kernel is an approach (``family``), so many rungs up that approach's ladder (``depth``) and
a set of motifs (vectorised loads, unrolling, …; a bit mask), which are small and do not
depend on each other. Runtimes are relative to the reference, in natural logarithms.
"""

from __future__ import annotations

from itertools import accumulate
from math import exp, log

import msgspec

from benchmarks.landscape.chance import normal, uniform

__all__ = ["REFERENCE", "Kernel", "Landscape", "Task"]


class Landscape(msgspec.Struct, frozen=True, kw_only=True):
    """How tasks are drawn. Everything here is assumed; ``worlds`` varies it."""

    families: int = 6
    entry: tuple[float, float, float] = (0.35, 0.35, 0.45)
    """Mean log runtime of an approach's first kernel, by level. Above 0, the reference
    dominates: a first hop is slower more often than not."""
    entry_spread: float = 0.5
    promise: tuple[float, float, float] = (0.9, 0.9, 0.7)
    """Mean log gain of a whole ladder, by level."""
    promise_spread: float = 0.4
    deceit: float = 0.8
    """How much less a family promises for each unit that its entry is faster: children of
    the root that look better than what they lead to."""
    rungs: int = 3
    """Gains on a ladder. Each takes one step, or two where it lies behind a valley."""
    valley: float = 0.4
    """Probability that a gain lies behind a step that makes the kernel slower."""
    valley_cost: float = 0.25
    motifs: int = 6
    motif_gain: float = 0.12
    """Mean log gain of a motif that helps."""
    useless: float = 0.5
    """Probability that a motif does not help."""
    dead: float = 0.06
    """Probability that a correct kernel is a dead end: whatever is made of it fails."""
    hopeless: float = 0.06
    """Probability that a new bug can't be repaired."""
    task_spread: float = 1.5
    """Standard deviation, in logits, of how hard a task's kernels are to get right."""


class Kernel(msgspec.Struct, frozen=True, kw_only=True):
    """``bug``: whether it fails to compile, or is wrong; empty for a correct one."""

    family: int
    depth: int = 0
    motifs: int = 0
    bug: str = ""
    hopeless: bool = False

    @property
    def structure(self) -> tuple[int, int, int]:
        """What it is meant to be, its bugs aside."""
        return self.family, self.depth, self.motifs


REFERENCE = Kernel(family=-1)
"""The root: the reference module, whose relative runtime is 1."""


class Task:
    """One task, drawn from a landscape by its seed and level (1 to 3)."""

    def __init__(self, landscape: Landscape, *, seed: int, level: int) -> None:
        self.landscape = landscape
        self.level = level
        self._seed = seed
        self.hardness = landscape.task_spread * normal(seed, "hardness", level)
        self.entries: list[float] = []
        self.ladders: list[list[float]] = []
        """Log gains step by step; a negative one is a valley."""
        self._climbed: list[list[float]] = []
        for family in range(landscape.families):
            self._draw_family(family)
        self._motifs = [self._motif(motif) for motif in range(landscape.motifs)]

    def _draw_family(self, family: int) -> None:
        world, at = self.landscape, self.level - 1
        offset = world.entry_spread * normal(self._seed, f"entry/{self.level}", family)
        spread = world.promise_spread * normal(self._seed, f"promise/{self.level}", family)
        promise = max(0.05, world.promise[at] + world.deceit * offset + spread)
        ladder: list[float] = []
        for rung in range(world.rungs):
            gain = promise / world.rungs
            if uniform(self._seed, f"valley/{self.level}/{family}", rung) < world.valley:
                ladder += [-world.valley_cost, gain + world.valley_cost]
            else:
                ladder.append(gain)
        self.entries.append(world.entry[at] + offset)
        self.ladders.append(ladder)
        self._climbed.append([0.0, *accumulate(ladder)])

    def _motif(self, motif: int) -> float:
        size = uniform(self._seed, f"motif/{self.level}", motif)
        if uniform(self._seed, f"useless/{self.level}", motif) < self.landscape.useless:
            return -0.05 * size
        return -self.landscape.motif_gain * log(size)

    def runtime(self, kernel: Kernel) -> float:
        """Relative to the reference's; what the kernel would take without its bugs."""
        if kernel.family < 0:
            return 1.0
        gains = sum(gain for at, gain in enumerate(self._motifs) if kernel.motifs >> at & 1)
        climbed = self._climbed[kernel.family][kernel.depth]
        return exp(self.entries[kernel.family] - climbed - gains)

    def fastest(self) -> float:
        """The runtime of the best kernel there is."""
        gains = sum(gain for gain in self._motifs if gain > 0)
        ends = [
            entry - max(climbed) for entry, climbed in zip(self.entries, self._climbed, strict=True)
        ]
        return exp(min(ends) - gains)

    def is_dead(self, kernel: Kernel) -> bool:
        """Whether everything that is made of this kernel fails. The reference never is."""
        if kernel.family < 0:
            return False
        place = "/".join(map(str, kernel.structure))
        return uniform(self._seed, f"dead/{place}", self.level) < self.landscape.dead
