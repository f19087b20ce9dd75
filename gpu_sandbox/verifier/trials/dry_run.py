"""Try unusual inputs on the reference before there is a candidate: it may not survive them.

On a GPU an assertion in a kernel ends the process's use of the device, and a task's own code may
crash or hang. So the engine learns what is tried next, and replaces a verifier that does not
survive it by one that leaves it out. Nothing is tried beside a candidate that was not tried before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.inputs.transforms import Transform, transforms_for
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity
from gpu_sandbox.verifier.trials.nan_propagation import NON_FINITE, non_finite
from gpu_sandbox.verifier.trials.rounding_recheck import PERTURBED_INPUTS, RoundingRecheck
from gpu_sandbox.verifier.trials.trial_cases import (
    scaled_draw,
    scaled_transforms,
    transformed_case,
)

_SLOW_S, _SLOW_ON_CPU_S = 2.0, 0.2  # a slower forward is not run ten times more


class DryRun:
    """Dry run of one task. ``announce`` names to the engine what is tried; an empty text says that
    it is over."""

    def __init__(self, task: Task, device: torch.device, announce: Callable[[str], None]) -> None:
        self._task = task
        self._backend = backend_of(device)
        self._announce = announce
        slow_s = _SLOW_ON_CPU_S if self._backend.on_host else _SLOW_S
        self._is_slow = task.forward_s > slow_s

    def perturbed(self, first: Case) -> list[UlpSensitivity]:
        """Try perturbed inputs; measure what outputs they make."""
        with self._trying(PERTURBED_INPUTS):
            recheck = RoundingRecheck(self._task)
            if not self._is_slow:
                recheck.dry_run(first)
            return recheck.sensitivity(first)

    def transformed(self, first: Case) -> None:
        """Try all transforms of the trials, and NaN."""
        if self._is_slow:
            return
        for transform in (*transforms_for(first.tensors), Transform(NON_FINITE, non_finite, [])):
            if transform.name not in self._task.leave_out:
                with self._trying(transform.name), suppress(torch.OutOfMemoryError):
                    transformed_case(self._task, transform, first, exact=False)

    def scaled(self, protocol: Protocol) -> None:
        """Try all factors of whole inputs: slow references have these trials, too."""
        if self._is_slow and self._backend.on_host:
            return
        for transform in scaled_transforms(protocol):
            if transform.name not in self._task.leave_out:
                with self._trying(transform.name), suppress(torch.OutOfMemoryError):
                    case = scaled_draw(self._task, transform)
                    if case is not None:
                        self._task.accepts(case)

    @contextmanager
    def _trying(self, name: str) -> Iterator[None]:
        self._announce(name)
        yield
        self._backend.synchronize()  # raises, and all is lost, if it has asserted
        self._announce("")


def dry_run_notes(task: Task) -> list[str]:
    if not task.leave_out:
        return []
    names = ", ".join(task.leave_out)
    return [f"left out, since the process of the reference does not survive it: {names}"]
