"""Differences between runs of the reference on the same inputs, under the same seed.

Atomics add in another order each time. Before there is a candidate, runs are compared, and some
times their difference is allowed beside the reference's own run; never more than without a float64
reference. A reference whose runs are further apart is no task.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING

import msgspec
import torch

from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.tensors.chunked import as_real, distance
from gpu_sandbox.tensors.memory_layout import is_among
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENT
from gpu_sandbox.verifier.numerics.tolerances import DtypeTolerance, Margin, Nondeterminism
from gpu_sandbox.verifier.reference.cases import Case

if TYPE_CHECKING:
    from gpu_sandbox.verifier.reference.task import Task

_MARGIN = 3.0  # the largest distance of some runs is less than that of others
_MAX_REDRAWN_BYTES = 1 << 30
_REPEATS, _FEW_REPEATS = 3, 1
_SLOW_S = 0.1  # A slower reference is run once more only


class Repeatability(msgspec.Struct, frozen=True):
    """Differences of one output. ``relative``: L2 distance of two runs, as a share of the norm;
    ``worst``: of an element, in RMS of the tensor. ``far``: why that is more than can be allowed
    for; ``unlike``: why they can't be compared. ``kept``: both runs return the same memory, or any
    draw gives the same values."""

    by_dtype: DtypeTolerance | None = None
    relative: float = 0.0
    worst: float = 0.0
    far: str = ""
    unlike: str = ""
    kept: bool = False

    def worse(self, other: Repeatability) -> Repeatability:
        """Combine two comparisons."""
        return Repeatability(
            self.by_dtype,
            max(self.relative, other.relative),
            max(self.worst, other.worst),
            self.far or other.far,
            self.unlike or other.unlike,
            self.kept or other.kept,
        )

    @property
    def allowed(self) -> float:
        """Relative L2 distance that is allowed in addition."""
        by = self.by_dtype
        return 0.0 if by is None else min(_MARGIN * self.relative, by.without_float64)

    def allow(self, expected: Expected) -> None:
        """Let an output of a call be as far from the reference's."""
        if self.by_dtype is None or self.relative == 0.0:
            return
        worst = min(_MARGIN * self.worst, ELEMENT * self.by_dtype.without_float64)
        rest, _ = expected.without_fill(expected.native)
        by = Nondeterminism(self.allowed, worst * _rms(rest.native))
        expected.allow_nondeterminism(by)


def measure_repeatability(task: Task, case: Case) -> list[Repeatability]:
    """Compare each output of ``case`` with those of more runs."""
    found = [Repeatability(expected.by_dtype) for expected in case.expected]
    for _ in range(_FEW_REPEATS if task.forward_s > _SLOW_S else _REPEATS):
        again = compare_runs(case.expected, task.rerun(case))
        found = [a.worse(b) for a, b in zip(found, again, strict=True)]
    same = _are_independent_of_inputs(task, case)
    return [msgspec.structs.replace(a, kept=a.kept or b) for a, b in zip(found, same, strict=True)]


def compare_new_model(task: Task, case: Case) -> list[Repeatability]:
    """Compare with a model that has not been called yet."""
    return compare_runs(case.expected, task.rerun(case, new=True))


def compare_runs(
    expected: Sequence[Expected], again: Sequence[torch.Tensor]
) -> list[Repeatability]:
    """Compare each output with that of another run on the same inputs."""
    if len(expected) != len(again):
        return [Repeatability(unlike="another number of outputs")] * len(expected)
    return [_compared(*pair) for pair in zip(expected, again, strict=True)]


def _compared(expected: Expected, again: torch.Tensor) -> Repeatability:
    """By the rules, with the most that is ever allowed for."""
    first, by = expected.native, expected.by_dtype
    kept = is_among(again, [first])
    if first.shape != again.shape or first.dtype != again.dtype:
        return Repeatability(by, unlike="another shape or dtype", kept=kept)
    if torch.equal(first, again):
        return Repeatability(by, kept=kept)
    expected, again = expected.without_fill(again)
    most = Expected.within(expected.native, Margin(0.0 if by is None else by.without_float64))
    rms = 0.0 if by is None else _rms(most.native)
    most.allow_nondeterminism(Nondeterminism(max_error=ELEMENT * most.tolerance * rms))
    why = compare(most, again, PROTOCOLS["strict"]).reason
    if by is None:
        return Repeatability(unlike=why, kept=kept)
    relative, worst = distance(again, most.native)
    return Repeatability(by, relative, worst / rms if rms else math.inf, far=why, kept=kept)


def _are_independent_of_inputs(task: Task, case: Case) -> list[bool]:
    """Which outputs another draw gives as well: a model may keep what it folds once."""
    outputs = [one.native for one in case.expected]
    held = sum(t.nbytes for t in (*case.tensors, *outputs))
    none = [False] * len(outputs)
    if held > _MAX_REDRAWN_BYTES or task.forward_s > _SLOW_S:
        return none
    _, others = task.another()
    if len(others) != len(outputs):
        return none
    return [torch.equal(*both) for both in zip(outputs, others, strict=True)]


def _rms(tensor: torch.Tensor) -> float:
    """Of what is finite in it."""
    finite = as_real(tensor).nan_to_num(0.0, 0.0, 0.0)
    norm = float(torch.linalg.vector_norm(finite, dtype=torch.float64))
    return norm / math.sqrt(max(1, tensor.numel()))


def repeatability_notes(found: Sequence[Repeatability]) -> list[str]:
    """Note outputs whose runs differ by more than rounding explains."""
    notes = []
    for number, one in enumerate(found):
        if one.by_dtype is None or one.allowed <= one.by_dtype.floor:
            continue
        far = f"output {number} of two runs differs by {one.relative:.1e} (relative L2)"
        notes.append(
            f"the reference does not repeat itself: {far}; {one.allowed:.1e} more is allowed"
        )
    return notes
