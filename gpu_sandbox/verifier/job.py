"""One job of the verifier's: prepare the task, then time the baseline or evaluate a candidate."""

from __future__ import annotations

import os
import socket
from typing import Any

import msgspec
import torch

from events.observations import Observations
from gpu_sandbox.contention.thresholds import busy_by_itself
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.verifier_messages import (
    Finding,
    Job,
    Measured,
    Report,
    TaskBroken,
    ToVerifier,
    WorkerFailed,
)
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.evaluation import Evaluation
from gpu_sandbox.verifier.peak_memory import PeakMemory
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.stages import Stages
from gpu_sandbox.verifier.task_memo import memo_of, task_notes
from gpu_sandbox.verifier.timing.baseline import measure_alone
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.trials.task_checks import check_values
from gpu_sandbox.verifier.trials.trial_calls import Candidate
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.input_placement import has_room_for_two
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

_ERROR_CHARS = 300


class Assignment:
    """One job. ``fds``: the candidate's socket, and its libraries."""

    def __init__(
        self, job: Job, engine: Channel[ToVerifier], reference: Peer, fds: list[int]
    ) -> None:
        self._job = job
        self._reference = reference
        self._fds = fds
        self._device = torch.device(job.device)
        self._backend = backend_of(self._device)
        self._memo = memo_of(job)
        self._clocks = Clocks(self._backend.driver_account())
        self._memory = PeakMemory(job, self._device)
        self._stages = Stages(job, engine, reference, self._backend)
        self._stopwatch = self._stages.stopwatch
        self._observations: Observations | None = None

    def report(self, task_path: str) -> Report:
        try:
            finding = self._find(task_path)
        except Broken as broken:
            finding = TaskBroken(reason=broken.reason, detail=broken.detail)
        except ReferenceEnded as ended:
            if not isinstance(ended.finding, WorkerFailed):
                raise  # its worker is lost, and this verifier is of no use without
            # It works unconfined: it misses a file, or memory.
            reason = f"the reference fails where it is confined: {ended.finding.message}"
            finding = TaskBroken(reason=reason, detail=ended.finding.traceback)
        except Ended as ended:
            finding = ended.finding
        except torch.OutOfMemoryError as error:  # of the task's doing, or of a candidate's
            message = str(error).splitlines()[0][:_ERROR_CHARS]
            finding = TaskBroken(reason=f"not enough memory to judge it: {message}")
        return Report(
            finding=finding,
            timings_s=self._stopwatch.timings,
            notes=self._stages.notes,
            observations=self._observations,
            conditions=self._conditions(),
            busy=self._stages.busy,
        )

    def _conditions(self) -> dict[str, Any]:
        """Versions, modes, threads and clocks, when all is measured, if they are wanted."""
        if not self._job.conditions:
            return {}
        return {
            "torch": str(torch.__version__),
            "precision": self._job.protocol.precision,
            "threads": torch.get_num_threads(),
            "matmul_precision": torch.get_float32_matmul_precision(),
            "deterministic": torch.are_deterministic_algorithms_enabled(),
            **self._backend.conditions(),
            **self._clocks.conditions(),
        }

    def _find(self, task_path: str) -> Finding:
        self._stages.enter("reference", waits=self._backend.is_crowded())
        with self._stopwatch.on("check"):
            task, first = self._prepared(task_path)
            if self._job.reference_pid is not None:
                self._memory.begin_reference(self._reference)
            self._reference.start_loading(task, self._job.task_source, "Model", [], [])
            self._reference.finish_loading(self._job.load_s)
        if self._job.mode == "baseline":
            return self._baseline(task, first)
        return self._evaluate(task, first)

    def _prepared(self, task_path: str) -> tuple[Task, Case]:
        """Load the task, and measure once what is allowed: before there is a candidate."""
        job = self._job
        task = Task(task_path, self._device, Seeds(job.seed), job.protocol.precision)
        self._memo.introduce(task)
        task.leave_out = job.leave_out
        first = task.draw("trial", 0)
        task.solve(first, exact=job.protocol.allclose is None)
        check_values(first)
        task.has_second_place = has_room_for_two(first, task.peak_bytes, self._device)
        task.repeatability = self._memo.repeatability(task, first, job)
        task.find_owned(first)
        task.sensitivity = self._memo.sensitivity(task, first, job, self._stages.announce)
        task.allow(first.expected)
        return task, first

    def _baseline(self, task: Task, first: Case) -> Measured:
        self._stages.enter("bench", waits=True)
        with self._stopwatch.on("bench"), self._stages.watched(rests=True):
            measured = measure_alone(
                task, self._reference, self._job, self._device, first, self._clocks
            )
        self._stages.busy += busy_by_itself(measured.apart, measured.spread, measured.runtime_ms)
        with self._stopwatch.on("audit"):
            audited = self._memo.audit(task, first, self._job)
        return msgspec.structs.replace(measured, audit=[*audited, *task_notes(task, first)])

    def _evaluate(self, task: Task, first: Case) -> Finding:
        peer_fd, *libraries = self._fds
        with socket.socket(fileno=os.dup(peer_fd)) as sock:
            peer = Peer(sock, self._job.worker_pid, self._device, self._job.call_s)
            candidate = Candidate(task, peer, self._job, first, self._stages.notes)
            evaluation = Evaluation(
                candidate, libraries, self._reference, self._stages, self._memory, self._clocks
            )
            try:
                return evaluation.run()
            finally:
                self._observations = evaluation.observations
                peer.close()
