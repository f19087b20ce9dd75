"""Judge null kernels on a task: what they pass says nothing about a candidate.

Zeros, the mean of the right answer everywhere, the right answer to another input, and the input
itself are compared in every trial. A task that one of them passes is degenerate.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.module_state import alike
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.trial_cases import trial_cases


def audit(task: Task, first: Case, protocol: Protocol) -> list[str]:
    """Name the null kernels that pass every trial; empty for a sound task."""
    if _same_inputs(task):
        return ["every input is the same: its answer can be remembered"]
    passing = dict(_NULL_KERNELS)
    before = task.draw("audit", 0)
    task.solve(before, exact=False)
    for case in trial_cases(task, first, protocol, []):
        passing = {
            name: kernel
            for name, kernel in passing.items()
            if _passes(case, kernel(case, before), protocol)
        }
        before = case
        if not passing:
            break
    return list(passing)


def _same_inputs(task: Task) -> bool:
    """Whether two draws under different seeds are the same, plain values too."""
    first, second = task.draw("audit", 1), task.draw("audit", 2)
    if not first.tensors or len(first.tensors) != len(second.tensors) or first.tree != second.tree:
        return False
    return all(map(alike, first.tensors, second.tensors))


def _passes(case: Case, outputs: list[torch.Tensor | None], protocol: Protocol) -> bool:
    for expected, output in zip(case.expected, outputs, strict=True):
        native = expected.native
        if output is None or output.shape != native.shape or output.dtype != native.dtype:
            return False
        if not compare(expected, output, protocol, brief=True).ok:
            return False
    return True


def _zeros(case: Case, _: Case) -> list[torch.Tensor | None]:
    return [torch.zeros_like(expected.native) for expected in case.expected]


def _constant(case: Case, _: Case) -> list[torch.Tensor | None]:
    return [_mean_everywhere(expected.native) for expected in case.expected]


def _mean_everywhere(native: torch.Tensor) -> torch.Tensor | None:
    """None of one element: its mean is the right answer, which a kernel has to compute."""
    if native.numel() == 1:
        return None
    if not native.is_floating_point() or native.numel() == 0:
        return torch.zeros_like(native)
    return torch.full_like(native, float(native.mean(dtype=torch.float64)))


def _stale(_: Case, before: Case) -> list[torch.Tensor | None]:
    return [expected.native for expected in before.expected]


def _input(case: Case, _: Case) -> list[torch.Tensor | None]:
    """None where the reference returns its input: that is the right answer."""
    return [
        None if aliasing else next((t for t in case.tensors if t.shape == e.native.shape), None)
        for e, aliasing in zip(case.expected, case.aliasing, strict=True)
    ]


_NULL_KERNELS: dict[str, Callable[[Case, Case], list[torch.Tensor | None]]] = {
    "zeros pass every trial": _zeros,
    "the mean of the right answer, everywhere, passes every trial": _constant,
    "the answer to another input passes every trial": _stale,
    "the input itself passes every trial": _input,
}
