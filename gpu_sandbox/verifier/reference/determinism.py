"""How far is the reference from itself, on the same inputs and under the same seed?

Atomics add in another order each time, and two right outputs differ. By how much is measured
on the first inputs, before there is a candidate that could disturb it; so much more, and a
margin, may lie between a candidate's output and a reference that was run in its own precision.
Never more than one that has no float64 reference is granted: who computes with less precision
than was declared is further off. A reference whose own runs are further apart is no task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.tensors.chunked import as_real, distance
from gpu_sandbox.tensors.memory_layout import is_among
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENT
from gpu_sandbox.verifier.numerics.tolerances import DtypeRule, Margin

__all__ = ["Repeats", "apart", "told"]

_MARGIN = 3.0
"""The furthest that some runs were apart is less than what others will be."""


class Repeats(msgspec.Struct, frozen=True):
    """Of one output, which ``rule`` holds for. ``relative``: L2 distance of two runs, as a
    share of the norm; ``worst``: of an element, in RMS of the tensor. ``far``: in which respect
    that is more than can be allowed for; ``unlike``: why they can't be compared at all; ``kept``:
    both runs returned the same memory, or any draw gives the same."""

    rule: DtypeRule | None = None
    relative: float = 0.0
    worst: float = 0.0
    far: str = ""
    unlike: str = ""
    kept: bool = False

    def further(self, other: Repeats) -> Repeats:
        """The worse of each."""
        return Repeats(
            self.rule,
            max(self.relative, other.relative),
            max(self.worst, other.worst),
            self.far or other.far,
            self.unlike or other.unlike,
            self.kept or other.kept,
        )

    @property
    def allowed(self) -> float:
        """What a tolerance is raised by, in relative L2."""
        return 0.0 if self.rule is None else min(_MARGIN * self.relative, self.rule.blind)

    def allow(self, expected: Expected) -> None:
        """Let an output of a call be as far from the reference's."""
        if self.rule is None or self.relative == 0.0:
            return
        worst = min(_MARGIN * self.worst, ELEMENT * self.rule.blind)
        rest, _ = expected.beside_fill(expected.native)
        expected.vary(Margin(self.allowed, worst * _rms(rest.native)))


def apart(expected: Sequence[Expected], again: Sequence[torch.Tensor]) -> list[Repeats]:
    """Of each output, how far another run on the same inputs is from the first."""
    if len(expected) != len(again):
        return [Repeats(unlike="another number of outputs")] * len(expected)
    ways = list(zip(expected, again, strict=True))
    kept = [is_among(tensor, [one.native]) for one, tensor in ways]
    found = [_apart(one, tensor) for one, tensor in ways]
    return [msgspec.structs.replace(a, kept=b) for a, b in zip(found, kept, strict=True)]


def _apart(expected: Expected, again: torch.Tensor) -> Repeats:
    """By the rule, with the most that is ever allowed for."""
    first, rule = expected.native, expected.rule
    if first.shape != again.shape or first.dtype != again.dtype:
        return Repeats(rule, unlike="another shape or dtype")
    if torch.equal(first, again):
        return Repeats(rule)
    expected, again = expected.beside_fill(again)
    first = expected.native
    rms = 0.0 if rule is None else _rms(first)
    blind = 0.0 if rule is None else rule.blind
    most = Margin(blind, ELEMENT * blind * rms)
    difference = compare(Expected.within(first, most), again, PROTOCOLS["strict"])
    why = difference.reason
    if rule is None:
        return Repeats(unlike=why)
    relative, worst = distance(again, first)
    return Repeats(rule, relative, worst / rms if rms else math.inf, far=why)


def _rms(tensor: torch.Tensor) -> float:
    """Of what is finite in it."""
    finite = as_real(tensor).nan_to_num(0.0, 0.0, 0.0)
    return float(torch.linalg.vector_norm(finite, dtype=torch.float64)) / math.sqrt(
        max(1, tensor.numel())
    )


def told(repeats: Sequence[Repeats]) -> list[str]:
    """What the reader of a verdict should know; what rounding explains is not worth a word."""
    said = []
    for number, one in enumerate(repeats):
        if one.rule is None or one.allowed <= one.rule.floor:
            continue
        far = f"output {number} of two runs differs by {one.relative:.1e} (relative L2)"
        more = f"a candidate's may by {one.allowed:.1e} more than otherwise"
        said.append(f"the reference does not repeat itself: {far}, and {more}")
    return said
