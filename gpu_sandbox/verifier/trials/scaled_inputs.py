"""Trials on whole inputs times a factor, as KernelBench-Verified has them.

Every floating point input is multiplied, whatever its form: a mask of zeros and ones becomes one of
zeros and threes. A candidate that is right for the distribution that ``get_inputs()`` draws from,
and for no other, fails here: it clamps at a threshold, say, or takes inputs to be positive.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.inputs.altered import Altered
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.rounding_recheck import Rounding

__all__ = ["scaled_cases", "scaled_draw", "scaled_ways"]

_NOT_FINITE = "the reference fails on them, or is not finite there"
_OTHER = "the reference is something else in float64 there"


def scaled_ways(protocol: Protocol) -> list[Altered]:
    """In which whole inputs are multiplied under this protocol."""
    return [
        Altered(f"inputs times {factor:g}", partial(_times, factor), [], formed=False)
        for factor in protocol.scaled
    ]


def scaled_cases(task: Task, first: Case, protocol: Protocol, notes: list[str]) -> Iterator[Case]:
    """One solved case for each factor. Those that the reference says nothing about are left out,
    and ``notes`` names them."""
    ways = scaled_ways(protocol)
    if ways and not any(t.is_floating_point() or t.is_complex() for t in first.tensors):
        notes.append("inputs are not multiplied: none is of floating point numbers")
        return
    for way in ways:
        if way.told in task.leave_out:
            continue  # which a note says (rehearsal.py)
        case, why = scaled_draw(task, way), _NOT_FINITE
        if case is not None and task.takes(case, exact=protocol.allclose is None):
            why = _OTHER if _is_other(task, case) else ""
        if not why:
            assert case is not None
            yield case
        else:
            notes.append(f"skipped {way.told}: {why}")
        del case  # or it would be held while the next is drawn


def scaled_draw(task: Task, way: Altered) -> Case | None:
    """Inputs that are multiplied so; None if the task can't draw them."""
    try:
        return task.draw(way.told, 0, way)
    except Broken:
        return None


def _is_other(task: Task, case: Case) -> bool:
    """Whether its own precision makes something else of these inputs than float64 does, though not
    of all: then there is nothing to hold a candidate to."""
    if any(one.unsound for one in case.expected):
        return True
    return any(Rounding(task).lost(case, case.expected))


def _times(factor: float, tensor: torch.Tensor) -> torch.Tensor:
    return tensor * factor
