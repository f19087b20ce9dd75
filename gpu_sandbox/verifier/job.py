"""One job of the verifier's: trials, then timing, and what else was asked for.

While an earlier candidate's process ends, and the next one's begins, nothing is timed: what
is not timed is done then, where it needs neither.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import msgspec
import torch

from events.observations import Observations
from events.outcomes import Label
from gpu_sandbox.contention.thresholds import busy_by_itself
from gpu_sandbox.contention.watch import Watch
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.verifier_messages import (
    TRYING,
    Finding,
    Go,
    Job,
    Measured,
    Report,
    Stage,
    TaskBroken,
    ToVerifier,
    WorkerFailed,
)
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.conditions import conditions
from gpu_sandbox.verifier.observations import observe
from gpu_sandbox.verifier.peak_memory import PeakMemory
from gpu_sandbox.verifier.reference import conditioning, determinism, module_state
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.degenerate_task import degenerate, labels_by
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.stopwatch import Spent
from gpu_sandbox.verifier.task_memo import known
from gpu_sandbox.verifier.timing.baseline import Baseline, measure_alone
from gpu_sandbox.verifier.timing.benchmark import Benchmark
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.trials import dry_run
from gpu_sandbox.verifier.trials.checks import Agreement
from gpu_sandbox.verifier.trials.first_call import with_first_call
from gpu_sandbox.verifier.trials.nan_propagation import propagation_note
from gpu_sandbox.verifier.trials.task_checks import check_values
from gpu_sandbox.verifier.trials.trained_trial import TrainedTrial
from gpu_sandbox.verifier.trials.trials import Trials
from gpu_sandbox.verifier.trials.weights_recheck import Retrial
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.input_placement import has_room_for_two
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

__all__ = ["Assignment"]

_CONSTANT: Label = "constant-parameters"
_TOLD_CHARS = 300
_SLOW_S = 2.0
"""A call of the reference: one more is too long for a note."""


class Assignment:
    """One job. ``notes`` are facts about this verdict that its reader should know."""

    def __init__(
        self, job: Job, engine: Channel[ToVerifier], reference: Peer, fds: list[int]
    ) -> None:
        self._job = job
        self._engine = engine
        self._reference = reference
        self._fds = fds
        self._device = torch.device(job.device)
        self._backend = backend_of(self._device)
        self._known = known(job)
        self._clocks = Clocks(self._backend.driver_account())
        self._memory = PeakMemory(job, self._device)
        self._spent = Spent()
        self._notes: list[str] = []
        self._busy: list[str] = []
        self._preparing = 0
        self._observations: Observations | None = None

    def report(self, task_path: str) -> Report:
        try:
            finding = self._find(task_path)
        except Broken as broken:
            finding = TaskBroken(reason=broken.reason, detail=broken.detail)
        except ReferenceEnded as ended:
            if not isinstance(ended.finding, WorkerFailed):
                raise  # its worker is lost, and we are of no use without
            # It works unconfined: it misses a file, or memory.
            reason = f"the reference fails where it is confined: {ended.finding.message}"
            finding = TaskBroken(reason=reason, detail=ended.finding.traceback)
        except Ended as ended:
            finding = ended.finding
        except torch.OutOfMemoryError as error:  # of the task's doing, or of a candidate's
            told = str(error).splitlines()[0][:_TOLD_CHARS]
            finding = TaskBroken(reason=f"there is not enough memory to judge it: {told}")
        return Report(
            finding=finding,
            timings_s=self._spent.timings,
            notes=self._notes,
            observations=self._observations,
            conditions=self._conditions(),
            busy=self._busy,
        )

    def _conditions(self) -> dict[str, Any]:
        """As they are when all is measured, if they are wanted."""
        if not self._job.conditions:
            return {}
        found = conditions(self._device, self._job.protocol.precision)
        return {**found, **self._clocks.conditions()}

    def _find(self, task_path: str) -> Finding:
        self._stage("reference", waits=self._backend.is_crowded())
        with self._spent.on("check"):
            seeds, precision = Seeds(self._job.seed), self._job.protocol.precision
            task = Task(task_path, self._device, seeds, precision)
            self._known.introduce(task)
            task.leave_out = self._job.leave_out
            first = task.draw("trial", 0)
            task.solve(first, exact=self._job.protocol.allclose is None)
            check_values(first)
            task.has_second_place = has_room_for_two(first, task.peak_bytes, self._device)
            task.repeats = self._known.repeats(task, first, self._job)
            task.own(first)
            task.nudged = self._known.nudged(task, first, self._job, self._tries)
            task.allow(first.expected)
        self._load_reference(task)
        if self._job.mode == "baseline":
            return self._baseline(task, first)
        peer_fd, *libraries = self._fds
        with socket.socket(fileno=os.dup(peer_fd)) as sock:
            peer = Peer(sock, self._job.worker_pid, self._device, self._job.call_s)
            try:
                return self._evaluate(task, first, peer, libraries)
            finally:
                peer.close()

    def _tries(self, told: str) -> None:
        self._stage(TRYING + told if told else "tried")

    def _load_reference(self, task: Task) -> None:
        """Into its worker, which times it."""
        with self._spent.on("check"):
            if self._job.reference_pid is not None:
                self._memory.begin_reference(self._reference)
            self._reference.start_loading(task, self._job.task_source, "Model", [], [])
            self._reference.finish_loading(self._job.load_s)

    def _baseline(self, task: Task, first: Case) -> Measured:
        self._stage("bench", waits=True)
        with self._spent.on("bench"), self._watched(rests=True):
            measured = measure_alone(
                task, self._reference, self._job, self._device, first, self._clocks
            )
        self._busy += busy_by_itself(measured.apart, measured.spread, measured.runtime_ms)
        found = [*self._audited(task, first), *_told(task, first)]
        return msgspec.structs.replace(measured, audit=found)

    def _audited(self, task: Task, first: Case) -> list[str]:
        with self._spent.on("audit"):
            return self._known.audit(task, first, self._job)

    def _evaluate(self, task: Task, first: Case, peer: Peer, libraries: list[int]) -> Finding:
        job = self._job
        self._memory.begin_candidate(peer)
        trials = Trials(task, peer, job, first, self._notes)
        baseline = Baseline(task, self._reference, job, self._device, first)
        ahead = _in_turn(
            lambda: not self._backend.is_crowded() and baseline.work_ahead(), trials.work_ahead
        )
        self._stage("baseline", waits=True, meanwhile=ahead)
        self._backend.leave_half()
        with self._spent.on("check"):
            bench = Benchmark(
                task,
                baseline,
                self._reference,
                peer,
                job,
                self._device,
                first,
                self._notes,
                self._clocks,
            )
            self._backend.leave_half()
            self._stage("load")
            began = time.monotonic()
            peer.start_loading(task, job.candidate_source, "ModelNew", job.libraries, libraries)
            loaded = peer.finish_loading(job.load_s)
            loaded_s = (
                0.0 if loaded.built_late else time.monotonic() - began
            )  # nothing is built twice
            if loaded.built_late:
                self._notes.append(f"{loaded.built_late} extensions were built under the lease")
            self._stage("check")
            told = _told(task, first)
            self._notes += told
            agreement, labels = self._try(task, first, peer, trials, loaded_s)
        faults = [*told, *map(degenerate, self._audited(task, first))]
        self._notes += faults[len(told) :]
        if job.protocol.allclose is None and not task.exact.used:
            self._notes.append("no float64 reference: compared with its own dtype")
        self._backend.leave_half()
        ahead = partial(bench.work_ahead, peer)
        self._stage("bench", waits=True, meanwhile=ahead, spent_on="bench")
        lives = True

        def look(candidate_ms: float) -> None:
            nonlocal lives
            lives = False  # what comes last may end it
            with self._spent.on("check"):
                self._memory.measure_candidate(task, first, peer, candidate_ms)
            if self._memory.lost:
                self._notes.append("its peak memory is not known: it failed in the calls for that")
            self._observe(task, first, peer, candidate_ms)
            self._notes.extend(self._propagates(task, peer))

        def end_candidate(candidate_ms: float) -> None:
            look(candidate_ms)  # or never
            watch.sample()
            self._stage("alone", waits=True)

        with self._spent.on("bench"), self._watched() as watch:
            agreed = bench.run(peer, agreement, end_candidate=end_candidate)
        if task.altered and not task.surprised:
            self._notes.append("no call that was timed had changed inputs")
        if lives:
            look(agreed.candidate_ms)
        prepared_ms = self._job.prepared_call_ms
        agreed = with_first_call(agreed, trials.first_call, prepared_ms, self._notes)
        with self._spent.on("check"):
            self._memory.measure_reference(task, first, self._reference, agreed.baseline_ms)
        agreed = self._memory.added_to(agreed)
        return msgspec.structs.replace(agreed, labels=[*labels_by(faults), *agreed.labels, *labels])

    def _try(
        self, task: Task, first: Case, peer: Peer, trials: Trials, loaded_s: float
    ) -> tuple[Agreement, list[Label]]:
        """How far outputs are off in all trials, and labels of what could not be tried."""
        job, retrial = self._job, Retrial(task, peer, self._job, first, self._notes)
        agreement = retrial.run(trials)
        if job.protocol.allclose is not None:
            return agreement, []
        trained = TrainedTrial(task, peer, job, first, self._notes)
        as_trained = trained.run(retrial.done + 1, loaded_s, retrial.loaded)
        if not trained.missing:
            return agreement.and_also(as_trained), []
        self._notes.append(f"{_CONSTANT}: {trained.missing}")
        return agreement, [_CONSTANT]

    def _propagates(self, task: Task, peer: Peer) -> list[str]:
        if not self._job.protocol.structured or task.forward_s > _SLOW_S:
            return []
        profile_failed = self._observations and "profile" in self._observations.missing
        if self._memory.lost or profile_failed:
            return []  # it may have died of that, or be at it still
        with self._spent.on("check"):
            note = propagation_note(task, peer)
        return [note] if note else []

    def _observe(self, task: Task, first: Case, peer: Peer, candidate_ms: float) -> None:
        if not self._job.observe:
            return
        with self._spent.on("observe"):
            spent_s = sum(self._spent.timings.values()) - self._spent.timings["handover"]
            self._observations = observe(task, first, peer, self._job, candidate_ms, spent_s)

    @contextmanager
    def _watched(self, *, rests: bool = False) -> Iterator[Watch]:
        """Processes that are on the device before and after what is timed, and none of ours, are
        noted; and whether the machine was busy. Of a baseline, eager or compiled, that is worth
        a moment in which the device rests: before it is warmed up (``rests``), or afterwards."""
        measuring = [os.getpid(), self._reference.pid, self._job.worker_pid]
        cores = os.sched_getaffinity(0)
        nvml, preparing = self._backend.driver_account(), self._preparing
        watch = Watch(nvml, cores, lambda: [pid for pid in measuring if pid], preparing)
        watch.begin(at_rest=rests)
        yield watch
        watch.end(at_rest=self._job.conditions)
        self._notes += watch.notes()
        self._busy += watch.reasons()

    def _stage(
        self,
        name: str,
        *,
        waits: bool = False,
        meanwhile: Callable[[], bool] = lambda: False,
        spent_on: str = "check",
    ) -> None:
        """``meanwhile`` does a piece of the work while the answer is awaited, and says whether
        there is more: an earlier process takes a while to end, and the next to begin."""
        self._engine.send(Stage(name=name, waits=waits))
        if not waits:
            return
        try:
            with self._spent.on(spent_on):
                while not self._engine.readable() and meanwhile():
                    pass
        finally:  # the answer is on its way, also to a task that turns out to be broken
            with self._spent.on("handover"):
                answer = self._engine.receive()
        if not isinstance(answer, Go):
            raise RuntimeError("the engine gave a job instead of leave to go on")
        self._preparing = answer.preparing


def _in_turn(*works: Callable[[], bool]) -> Callable[[], bool]:
    """Pieces of the first, until it says that there are no more, and then of the next."""
    left = list(works)

    def piece() -> bool:
        if left and not left[0]():
            left.pop(0)
        return bool(left)

    return piece


def _told(task: Task, first: Case) -> list[str]:
    """Facts about the reference that a reader of any verdict on it should know."""
    return [
        *determinism.told(task.repeats),
        *conditioning.told(task.nudged, first.expected),
        *module_state.told(task.updates),
        *dry_run.told(task),
    ]
