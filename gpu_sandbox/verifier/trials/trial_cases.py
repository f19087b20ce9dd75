"""Input sets of the trials: as the task draws them, transformed, and times a factor.

Factors are as KernelBench-Verified has them: every floating point input is multiplied, whatever its
invariants. A mask of zeros and ones becomes one of zeros and threes.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.inputs.transforms import MAKES_TIES, TIES, Transform, transforms_for
from gpu_sandbox.verifier.numerics.tolerances import FULL_PRECISION
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck

_SLOW_S = 2.0
_SLOW_TRIALS = 3
_TRIES = 4


def trial_cases(task: Task, first: Case, protocol: Protocol, notes: list[str]) -> Iterator[Case]:
    """Solve ``first``, and what else a candidate has to get right."""
    exact, count = protocol.allclose is None, protocol.trials
    slow = task.forward_s > _SLOW_S and exact
    if slow:
        count = min(count, _SLOW_TRIALS)
        notes.append(f"{count} trials: the reference takes {task.forward_s:.1f} s")
    yield first
    for number in range(1, count):
        yield _solved(task, task.draw("trial", number), exact)
    if protocol.structured and not slow and any(map(_is_inexact, first.tensors)):
        yield from _transformed_cases(task, first, exact, notes)
    yield from _scaled_cases(task, first, protocol, notes)


def _transformed_cases(task: Task, first: Case, exact: bool, notes: list[str]) -> Iterator[Case]:
    taken = 0
    discrete = not all(_is_inexact(one.native) for one in first.expected)
    for transform in transforms_for(first.tensors):
        if (discrete and transform.name == TIES) or transform.name in task.leave_out:
            continue
        case = transformed_case(task, transform, first, exact=exact)
        if case is not None:
            taken += 1
            yield case
        del case  # or it would be held while the next is drawn
    if not taken:
        notes.append("no transformed inputs: the reference fails on them, or is not finite there")


def transformed_case(task: Task, transform: Transform, first: Case, *, exact: bool) -> Case | None:
    """Solve one case, with some inputs changed alone if need be. None if the reference does not
    accept it: it raises, is not finite, sorts equals, or is ill conditioned there."""
    for attempt in range(_TRIES):
        way = transform.on_some_inputs(first.tensors) if attempt else transform
        if attempt and way.only is None:
            break
        try:
            case = task.draw(f"{way.name}/{way.part}", attempt, way)
        except Broken:
            continue
        recheck = RoundingRecheck(task)
        sound = task.accepts(case, exact=exact) and not is_degenerate(case, first)
        sound = sound and not (exact and any(recheck.ill_conditioned(case, case.expected)))
        if sound and not (way.name in MAKES_TIES and recheck.is_unstable(case)):
            return case
        del case
    return None


def is_degenerate(case: Case, first: Case) -> bool:
    """Whether an output is something else in float64. In full precision only if it was not before:
    one that never is the same there (it draws numbers) has the reference's own run."""
    pairs = zip(case.expected, first.expected, strict=False)
    return any(
        one.is_unsound and not (before.is_unsound and one.by_dtype in FULL_PRECISION)
        for one, before in pairs
    )


def _solved(task: Task, case: Case, exact: bool) -> Case:
    task.solve(case, exact=exact)
    return case


def _is_inexact(tensor: torch.Tensor) -> bool:
    return tensor.is_floating_point() or tensor.is_complex()


def scaled_transforms(protocol: Protocol) -> list[Transform]:
    return [
        Transform(
            f"inputs times {factor:g}", partial(torch.mul, other=factor), [], keeps_invariants=False
        )
        for factor in protocol.scaled
    ]


def _scaled_cases(task: Task, first: Case, protocol: Protocol, notes: list[str]) -> Iterator[Case]:
    """Solve a case for each factor; ``notes`` name those that the reference does not accept."""
    transforms = scaled_transforms(protocol)
    if transforms and not any(t.is_floating_point() or t.is_complex() for t in first.tensors):
        notes.append("inputs are not multiplied: none is of floating point numbers")
        return
    for transform in transforms:
        if transform.name in task.leave_out:
            continue  # noted by ``dry_run.py``
        case = scaled_draw(task, transform)
        if case is None or not task.accepts(case, exact=protocol.allclose is None):
            notes.append(
                f"skipped {transform.name}: the reference fails on them, or is not finite there"
            )
        elif _is_ill_conditioned(task, case):
            notes.append(
                f"skipped {transform.name}: the reference is something else in float64 there"
            )
        else:
            yield case
        del case  # or it would be held while the next is drawn


def scaled_draw(task: Task, transform: Transform) -> Case | None:
    """Draw such inputs; None if the task can't."""
    try:
        return task.draw(transform.name, 0, transform)
    except Broken:
        return None


def _is_ill_conditioned(task: Task, case: Case) -> bool:
    """Whether an output, maybe not all, is something else in float64: nothing is left to compare
    with."""
    if any(one.is_unsound for one in case.expected):
        return True
    return any(RoundingRecheck(task).ill_conditioned(case, case.expected))
