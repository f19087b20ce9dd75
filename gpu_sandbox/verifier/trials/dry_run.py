"""The reference on unusual inputs, before there is a candidate: it may not survive them.

On a GPU an assertion in a kernel (a probability that is none, an index made of a float) ends the
process's use of the device, and code of a task's own may crash, or never end. Whoever runs the
reference then is lost. So it says what it is about to try: the engine starts another verifier,
whose job leaves that out. All of it is tried once in each verifier's life, and later, beside a
candidate, nothing is that was not.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.inputs.altered import Altered
from gpu_sandbox.verifier.inputs.transforms import ways
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.reference.ulp_perturbation import Nudged
from gpu_sandbox.verifier.trials.nan_propagation import NON_FINITE, non_finite
from gpu_sandbox.verifier.trials.rounding_recheck import NUDGED_INPUTS, Rounding
from gpu_sandbox.verifier.trials.scaled_inputs import scaled_draw, scaled_ways
from gpu_sandbox.verifier.trials.trials import changed_case

__all__ = ["Rehearsal", "told"]

_SLOW_S, _SLOW_ON_CPU_S = 2.0, 0.2
"""A forward that takes longer is not made ten times more. No assertion ends a CPU's process."""


class Rehearsal:
    """Of one task. ``say`` tells the engine what is tried, and by an empty text that it was."""

    def __init__(self, task: Task, device: torch.device, say: Callable[[str], None]) -> None:
        self._task = task
        self._backend = backend_of(device)
        self._say = say
        slow_s = _SLOW_ON_CPU_S if self._backend.on_host else _SLOW_S
        self._slow = task.forward_s > slow_s

    def nudged(self, first: Case) -> list[Nudged]:
        """What nudges of the first inputs make of its outputs (``Rounding.measured``)."""
        with self._trying(NUDGED_INPUTS):
            rounding = Rounding(self._task)
            if not self._slow:
                rounding.rehearse(first)
            return rounding.measured(first)

    def changed(self, first: Case) -> None:
        """All that trials, and what comes last, change inputs by."""
        if self._slow:
            return
        for way in (*ways(first.tensors), Altered(NON_FINITE, non_finite, [])):
            if way.told not in self._task.leave_out:
                with self._trying(way.told), suppress(torch.OutOfMemoryError):
                    changed_case(self._task, way, first, exact=False)

    def scaled(self, protocol: Protocol) -> None:
        """All that trials multiply whole inputs by: slow references get these trials, too."""
        if self._slow and self._backend.on_host:
            return
        for way in scaled_ways(protocol):
            if way.told not in self._task.leave_out:
                with self._trying(way.told), suppress(torch.OutOfMemoryError):
                    case = scaled_draw(self._task, way)
                    if case is not None:
                        self._task.takes(case)

    @contextmanager
    def _trying(self, told: str) -> Iterator[None]:
        self._say(told)
        yield
        self._backend.synchronize()  # raises, and all is lost, if it has asserted
        self._say("")


def told(task: Task) -> list[str]:
    """For the reader of a verdict."""
    if not task.leave_out:
        return []
    names = ", ".join(task.leave_out)
    return [f"left out, since the process of the reference does not survive it: {names}"]
