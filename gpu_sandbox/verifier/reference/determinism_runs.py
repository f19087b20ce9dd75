"""Runs the reference again, on the same inputs and on others, to see what of its outputs differs,
and what stays (``determinism.py``)."""

from __future__ import annotations

import msgspec
import torch

from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.determinism import Repeats, apart
from gpu_sandbox.verifier.reference.task import Task

__all__ = ["made_anew", "repeated"]

_MOST_DRAWN_AGAIN = 1 << 30
_REPEATS, _FEW_REPEATS = 3, 1
_SLOW_S = 0.1
"""Whoever takes longer is run once more only."""


def repeated(task: Task, case: Case) -> list[Repeats]:
    """By how much each output of ``case`` differs from itself."""
    times = _FEW_REPEATS if task.forward_s > _SLOW_S else _REPEATS
    found = [Repeats(rule=expected.rule) for expected in case.expected]
    for _ in range(times):
        again = apart(case.expected, task.again(case))
        found = [a.further(b) for a, b in zip(found, again, strict=True)]
    same = _same(task, case)
    return [msgspec.structs.replace(a, kept=a.kept or b) for a, b in zip(found, same, strict=True)]


def made_anew(task: Task, case: Case) -> list[Repeats]:
    """The same of a model that has seen nothing yet."""
    return apart(case.expected, task.again(case, anew=True))


def _same(task: Task, case: Case) -> list[bool]:
    """Which outputs another draw gives as well: who folds weights into one may keep it."""
    outputs = [one.native for one in case.expected]
    held = sum(t.nbytes for t in (*case.tensors, *outputs))
    if held > _MOST_DRAWN_AGAIN or task.forward_s > _SLOW_S:
        return [False] * len(outputs)
    others = task.another()
    if len(others) != len(outputs):
        return [False] * len(outputs)
    return [torch.equal(*both) for both in zip(outputs, others, strict=True)]
