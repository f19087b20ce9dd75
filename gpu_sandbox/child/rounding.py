"""What rounding decides of outputs: the reference is run on nudged inputs (``nudges.py``)."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

import torch

from gpu_sandbox.child.cases import Case
from gpu_sandbox.child.expected import Expected, expect
from gpu_sandbox.child.forms import Changed
from gpu_sandbox.child.nudges import (
    NUDGED,
    SLOWEST_S,
    Nudged,
    measured,
    mended,
    moved,
    nudge,
    undecided,
)
from gpu_sandbox.child.reference import Task
from gpu_sandbox.child.values import mapped

__all__ = ["Rounding"]

_MOST_BYTES = 1 << 30
"""Of inputs: copies of more take too much memory."""


class Rounding:
    """Of one task. Nothing of references that are slow, or change their inputs."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def measured(self, first: Case) -> list[Nudged]:
        """By how much each output differs where the inputs differ by rounding."""
        task = self._task
        rounds = any(t.dtype in NUDGED for t in first.tensors)
        if not _is_small(first):
            return [Nudged(rounds=rounds) for _ in first.expected]

        def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            case = task.draw("nudged", number) if number else first
            plain = task.results(task.model, _copied(case), case)
            other = mapped(_copied(case), Changed(nudge, task.forms_of(case.tensors)))
            return plain, task.results(task.model, other, case)

        return measured(len(first.expected), pair, task.forward_s, rounds=rounds)

    def mended(
        self, case: Case, expected: Sequence[Expected], got: list[torch.Tensor]
    ) -> list[torch.Tensor] | None:
        """``got``, but for what rounding decides on this case's inputs; None if that is nothing."""
        if not self._is_for(case):
            return None
        exact = partial(self._task.exact.outputs, case, self._task.results)
        return mended(expected, got, partial(self._nudged, case), lambda: exact()[0])

    def exactly(self, case: Case, expected: Sequence[Expected]) -> list[Expected] | None:
        """By float64 on this case's inputs, where ``expected`` goes by the errors of others, which
        may be easier. None where that can't be told."""
        task = self._task
        truth, rough = task.exactly(case)
        if truth is None:
            return None
        native = [one.native for one in expected]
        typical = [one.typical for one in expected]
        found = expect(native, truth, rough, task.precision, typical)
        task.allow(found)
        return found

    def undecided(self, case: Case) -> bool:
        """Whether rounding decides much of what its outputs are."""
        return self._is_for(case) and undecided(case.expected, partial(self._nudged, case))

    def _is_for(self, case: Case) -> bool:
        task = self._task
        return _is_small(case) and not task.mutates and task.forward_s <= SLOWEST_S

    def _nudged(self, case: Case, steps: int) -> list[torch.Tensor]:
        """Its outputs on inputs that are nudged by so many steps."""
        task, arguments = self._task, _copied(case)
        if steps:
            change = Changed(partial(moved, steps=steps), task.forms_of(case.tensors))
            arguments = mapped(arguments, change)
        return task.results(task.model, arguments, case)


def _is_small(case: Case) -> bool:
    return sum(t.nbytes for t in case.tensors) <= _MOST_BYTES


def _copied(case: Case) -> object:
    return mapped(case.arguments, torch.Tensor.clone)
