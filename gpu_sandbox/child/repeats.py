"""How far is the reference from itself, on the same inputs and under the same seed?

Atomics add in another order each time, and two right outputs differ. By how much is measured
on the first inputs, before there is a candidate that could disturb it; so much more, and a
margin, may lie between a candidate's output and a reference that was run in its own precision.
An output whose runs have nothing in common can't be held against anything.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.child.compare import RULES, Expected, Margin, compare, distance
from gpu_sandbox.protocols import PROTOCOLS

__all__ = ["Repeats", "apart", "told"]

_MARGIN = 3.0
"""The furthest that some runs were apart is less than what others will be."""


class Repeats(msgspec.Struct, frozen=True):
    """Of one output. ``relative``: L2 distance of two runs, as a share of the norm; ``worst``:
    of an element, in RMS of the tensor. ``unlike``: why its runs can't be compared at all."""

    relative: float = 0.0
    worst: float = 0.0
    unlike: str = ""

    def further(self, other: Repeats) -> Repeats:
        """The worse of each."""
        return Repeats(
            max(self.relative, other.relative),
            max(self.worst, other.worst),
            self.unlike or other.unlike,
        )

    @property
    def allowed(self) -> float:
        """What a tolerance is raised by, in relative L2."""
        return _MARGIN * self.relative

    def allow(self, expected: Expected) -> None:
        if self.relative == 0.0 or self.unlike:
            return
        slack = _MARGIN * self.worst * _rms(expected.native)
        expected.vary(Margin(self.allowed, slack))


def apart(expected: Sequence[Expected], again: Sequence[torch.Tensor]) -> list[Repeats]:
    """Of each output, how far another run on the same inputs is from the first."""
    if len(expected) != len(again):
        return [Repeats(unlike="another number of outputs")] * len(expected)
    return [_apart(one.native, tensor) for one, tensor in zip(expected, again, strict=True)]


def _apart(first: torch.Tensor, again: torch.Tensor) -> Repeats:
    if first.shape != again.shape or first.dtype != again.dtype:
        return Repeats(unlike="another shape or dtype")
    if torch.equal(first, again):
        return Repeats()
    rule = RULES.get(first.dtype)
    most = Margin(0.0 if rule is None else rule.sane, math.inf)
    difference = compare(Expected.within(first, most), again, PROTOCOLS["strict"])
    if not difference.ok:
        return Repeats(unlike=difference.reason)
    rms = 0.0 if rule is None else _rms(first)
    if rms == 0.0:  # what differs is next to nothing, and no share of it
        return Repeats()
    relative, worst = distance(again, first)
    return Repeats(relative, worst / rms)


def _rms(tensor: torch.Tensor) -> float:
    """Of what is finite in it."""
    finite = tensor.nan_to_num(0.0, 0.0, 0.0)
    return float(torch.linalg.vector_norm(finite, dtype=torch.float64)) / math.sqrt(tensor.numel())


def told(repeats: Sequence[Repeats], expected: Sequence[Expected]) -> list[str]:
    """What the reader of a verdict should know; what rounding explains is not worth a word."""
    said = []
    for number, (one, output) in enumerate(zip(repeats, expected, strict=True)):
        rule = RULES.get(output.native.dtype)
        if one.unlike:
            what = f"output {number} of timed calls is not compared ({one.unlike})"
        elif rule is not None and one.allowed > rule.floor:
            far = f"output {number} of two runs differs by {one.relative:.1e} (relative L2)"
            what = f"{far}, and a candidate's may by {one.allowed:.1e} more than otherwise"
        else:
            continue
        said.append(f"the reference does not repeat itself: {what}")
    return said
