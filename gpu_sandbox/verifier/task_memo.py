"""Measurements of a task that a verifier's process keeps: later verdicts allow the same."""

from __future__ import annotations

from collections.abc import Callable

import torch

from gpu_sandbox.ipc.verifier_messages import Job
from gpu_sandbox.verifier.inputs.invariants import InvariantsMemo
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.conditioning import conditioning_notes
from gpu_sandbox.verifier.reference.determinism import (
    Repeatability,
    measure_repeatability,
    repeatability_notes,
)
from gpu_sandbox.verifier.reference.module_state import state_notes
from gpu_sandbox.verifier.reference.output_scale import UsualNumbers, UsualRms
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity
from gpu_sandbox.verifier.trials.dry_run import DryRun, dry_run_notes
from gpu_sandbox.verifier.trials.task_audit import audit
from gpu_sandbox.verifier.trials.task_checks import check_repeatability, check_shapes

_ATTEMPTS = 3  # at measuring the repeatability of a reference that was within bounds before


class TaskMemo:
    """Measurements of one task, under one protocol."""

    def __init__(self) -> None:
        self._usual_rms, self._usual_numbers = UsualRms(), UsualNumbers()
        self._invariants = InvariantsMemo()
        self._repeatability: list[Repeatability] | None = None
        self._sensitivity: list[UlpSensitivity] | None = None
        self._audit: list[str] | None = None

    def introduce(self, task: Task) -> None:
        """Share what is measured on demand. Before the task's first forward."""
        task.usual_rms, task.usual_numbers = self._usual_rms, self._usual_numbers
        task.invariants = self._invariants

    def repeatability(self, task: Task, first: Case, job: Job) -> list[Repeatability]:
        """Raises ``Broken`` for what is no task: where it was one before, because its runs were
        nearer to each other by chance, after some more attempts."""
        if self._repeatability is None:
            task.time_again(first)
            check_shapes(task, first)
            for _ in range(1 if job.mode == "baseline" else _ATTEMPTS):
                task.repeatability = measure_repeatability(task, first)
                if not any(one.far for one in task.repeatability):
                    break
            check_repeatability(task, first)
            self._repeatability = task.repeatability
        return self._repeatability

    def sensitivity(
        self, task: Task, first: Case, job: Job, announce: Callable[[str], None]
    ) -> list[UlpSensitivity]:
        """``announce`` names to the engine what is tried (``DryRun``)."""
        if self._sensitivity is None:
            dry_run = DryRun(task, torch.device(job.device), announce)
            found = dry_run.perturbed(first)
            if job.protocol.structured:
                dry_run.transformed(first)
            dry_run.scaled(job.protocol)
            self._sensitivity = found
        return self._sensitivity

    def audit(self, task: Task, first: Case, job: Job) -> list[str]:
        """This costs as much as the trials."""
        if self._audit is None:
            self._audit = audit(task, first, job.protocol)
        return self._audit


_memos: dict[tuple[str, str, str], TaskMemo] = {}


def memo_of(job: Job) -> TaskMemo:
    """Look up the memo of a task, protocol and device."""
    return _memos.setdefault((job.task_source, job.protocol.name, job.device), TaskMemo())


def task_notes(task: Task, first: Case) -> list[str]:
    """Facts about the reference that qualify any verdict on it."""
    return [
        *repeatability_notes(task.repeatability),
        *conditioning_notes(task.sensitivity, first.expected),
        *state_notes(task.updates),
        *dry_run_notes(task),
    ]
