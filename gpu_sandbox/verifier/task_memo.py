"""What a verifier's process has found out about a task: none but the first verdict pays for it, and
none draws anew what it allows."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpu_sandbox.ipc.verifier_messages import Job
from gpu_sandbox.verifier.inputs.invariants import Forms
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.determinism import Repeats
from gpu_sandbox.verifier.reference.determinism_runs import repeated
from gpu_sandbox.verifier.reference.output_scale import Typical, Usual
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.reference.ulp_perturbation import Nudged
from gpu_sandbox.verifier.trials.dry_run import Rehearsal
from gpu_sandbox.verifier.trials.task_audit import audit
from gpu_sandbox.verifier.trials.task_checks import check_repeats, check_shapes

__all__ = ["Known", "known"]

_known: dict[tuple[str, str, str], Known] = {}
"""By task, protocol and device."""
_LOOKS = 3
"""At how a reference repeats itself that was within bounds before."""


class Known:
    """Of one task, under one protocol."""

    def __init__(self) -> None:
        self._typical, self._usual = Typical(), Usual()
        self._forms = Forms()
        self._repeats: list[Repeats] | None = None
        self._nudged: list[Nudged] | None = None
        self._audit: list[str] | None = None

    def introduce(self, task: Task) -> None:
        """Before its first forward."""
        task.typical, task.usual, task.forms = self._typical, self._usual, self._forms

    def repeats(self, task: Task, first: Case, job: Job) -> list[Repeats]:
        """Before there is a candidate. Raises ``Broken`` for what is no task: where it was one
        before, because its runs were nearer to each other by chance, after some more looks."""
        if self._repeats is None:
            task.time_again(first)
            check_shapes(task, first)
            for _ in range(1 if job.mode == "baseline" else _LOOKS):
                task.repeats = repeated(task, first)
                if not any(one.far for one in task.repeats):
                    break
            check_repeats(task, first)
            self._repeats = task.repeats
        return self._repeats

    def nudged(
        self, task: Task, first: Case, job: Job, tries: Callable[[str], None]
    ) -> list[Nudged]:
        """Before there is a candidate, who may be in the way of what ``tries`` tells of."""
        if self._nudged is None:
            rehearsal = Rehearsal(task, torch.device(job.device), tries)
            found = rehearsal.nudged(first)
            if job.protocol.structured:
                rehearsal.changed(first)
            rehearsal.scaled(job.protocol)
            self._nudged = found
        return self._nudged

    def audit(self, task: Task, first: Case, job: Job) -> list[str]:
        """That costs as much as the trials."""
        if self._audit is None:
            self._audit = audit(task, first, job.protocol)
        return self._audit


def known(job: Job) -> Known:
    """The same for all jobs on a task."""
    return _known.setdefault((job.task_source, job.protocol.name, job.device), Known())
