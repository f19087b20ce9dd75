"""Evaluation of a candidate: trials, then timing, and what else was asked for.

While an earlier candidate's process ends, and the next one's begins, nothing is timed: work that
needs neither is done then.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial

import msgspec
import torch

from events.observations import Observations
from events.outcomes import Label
from gpu_sandbox.ipc.verifier_messages import Agreed
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.observations import observe
from gpu_sandbox.verifier.peak_memory import PeakMemory
from gpu_sandbox.verifier.reference.conditioning import degenerate, labels_by
from gpu_sandbox.verifier.stages import Stages
from gpu_sandbox.verifier.task_memo import memo_of, task_notes
from gpu_sandbox.verifier.timing.baseline import Baseline
from gpu_sandbox.verifier.timing.benchmark import Benchmark
from gpu_sandbox.verifier.timing.sm_clocks import Clocks
from gpu_sandbox.verifier.trials.checks import Agreement
from gpu_sandbox.verifier.trials.nan_propagation import propagation_note
from gpu_sandbox.verifier.trials.trained_trial import TrainedTrial
from gpu_sandbox.verifier.trials.trial_calls import Candidate, with_first_call
from gpu_sandbox.verifier.trials.trials import Trials
from gpu_sandbox.verifier.trials.weights_recheck import WeightsRecheck
from gpu_sandbox.verifier.worker_link.client import Peer

_CONSTANT: Label = "constant-parameters"
_SLOW_S = 2.0  # A call of the reference: one more is too long for a note


class Evaluation:
    """Evaluation of one candidate. ``libraries`` are descriptors of its builds."""

    def __init__(
        self,
        candidate: Candidate,
        libraries: list[int],
        reference: Peer,
        stages: Stages,
        memory: PeakMemory,
        clocks: Clocks,
    ) -> None:
        self._candidate = candidate
        self._task, self._peer, self._job, self._first, self._notes = candidate
        self._libraries = libraries
        self._reference = reference
        self._stages = stages
        self._stopwatch = stages.stopwatch
        self._memory = memory
        self._clocks = clocks
        self._device = torch.device(self._job.device)
        self._backend = backend_of(self._device)
        self.observations: Observations | None = None

    def run(self) -> Agreed:
        """Evaluate it; raise ``Ended`` if it is wrong or fails."""
        task, first, job = self._task, self._first, self._job
        self._memory.begin_candidate(self._peer)
        trials = Trials(self._candidate)
        baseline = Baseline(task, self._reference, job, self._device, first)
        ahead = _in_turn(
            lambda: not self._backend.is_crowded() and baseline.work_ahead(), trials.work_ahead
        )
        self._stages.enter("baseline", waits=True, meanwhile=ahead)
        self._backend.leave_half()
        with self._stopwatch.on("check"):
            bench = Benchmark(
                task,
                baseline,
                self._reference,
                self._peer,
                job,
                self._device,
                first,
                self._notes,
                self._clocks,
            )
            self._backend.leave_half()
            loaded_s = self._load()
            self._stages.enter("check")
            faults = task_notes(task, first)
            self._notes += faults
            agreement, labels = self._try(trials, loaded_s)
        with self._stopwatch.on("audit"):
            audited = [degenerate(fault) for fault in memo_of(job).audit(task, first, job)]
        self._notes += audited
        if job.protocol.allclose is None and not task.float64.used:
            self._notes.append("no float64 reference: compared with its own dtype")
        agreed = self._time(bench, agreement)
        agreed = with_first_call(agreed, trials.first_call, job.prepared_call_ms, self._notes)
        with self._stopwatch.on("check"):
            self._memory.measure_reference(task, first, self._reference, agreed.baseline_ms)
        agreed = self._memory.added_to(agreed)
        labels = [*labels_by([*faults, *audited]), *agreed.labels, *labels]
        return msgspec.structs.replace(agreed, labels=labels)

    def _load(self) -> float:
        """Load the candidate; return how long it takes without builds, which are kept."""
        job = self._job
        self._stages.enter("load")
        began = time.monotonic()
        self._peer.start_loading(
            self._task, job.candidate_source, "ModelNew", job.libraries, self._libraries
        )
        loaded = self._peer.finish_loading(job.load_s)
        if loaded.built_late:
            self._notes.append(f"{loaded.built_late} extensions were built under the lease")
            return 0.0
        return time.monotonic() - began

    def _try(self, trials: Trials, loaded_s: float) -> tuple[Agreement, list[Label]]:
        """Run all trials; return errors, and labels of what could not be tried."""
        recheck = WeightsRecheck(self._candidate)
        agreement = recheck.run(trials)
        if self._job.protocol.allclose is not None:
            return agreement, []
        trained = TrainedTrial(self._candidate)
        as_trained = trained.run(recheck.done + 1, loaded_s, recheck.loaded)
        if not trained.missing:
            return agreement.and_also(as_trained), []
        self._notes.append(f"{_CONSTANT}: {trained.missing}")
        return agreement, [_CONSTANT]

    def _time(self, bench: Benchmark, agreement: Agreement) -> Agreed:
        self._backend.leave_half()
        ahead = partial(bench.work_ahead, self._peer)
        self._stages.enter("bench", waits=True, meanwhile=ahead, charged_to="bench")
        lives = True

        def end_candidate(candidate_ms: float) -> None:
            nonlocal lives
            lives = False  # what comes last may end it
            self._measure_untimed(candidate_ms)  # or never
            watch.sample()
            self._stages.enter("alone", waits=True)

        with self._stopwatch.on("bench"), self._stages.watched() as watch:
            agreed = bench.run(self._peer, agreement, end_candidate=end_candidate)
        if self._task.passed_transforms and not self._task.hidden_cases:
            self._notes.append("no timed call had transformed inputs")
        if lives:
            self._measure_untimed(agreed.candidate_ms)
        return agreed

    def _measure_untimed(self, candidate_ms: float) -> None:
        """Measure peak memory, observations and NaN, none of which changes the verdict."""
        task, first, peer, job = self._task, self._first, self._peer, self._job
        with self._stopwatch.on("check"):
            self._memory.measure_candidate(task, first, peer, candidate_ms)
        if self._memory.lost:
            self._notes.append("its peak memory is not known: it failed while that was measured")
        if job.observe:
            with self._stopwatch.on("observe"):
                timings = self._stopwatch.timings
                spent_s = sum(timings.values()) - timings["handover"]
                self.observations = observe(task, first, peer, job, candidate_ms, spent_s)
        profile_failed = self.observations and "profile" in self.observations.missing
        if not job.protocol.structured or task.forward_s > _SLOW_S:
            return
        if self._memory.lost or profile_failed:
            return  # it may have died of that, or be at it still
        with self._stopwatch.on("check"):
            if note := propagation_note(task, peer):
                self._notes.append(note)


def _in_turn(*works: Callable[[], bool]) -> Callable[[], bool]:
    """Do pieces of the first, until it says that there are no more, and then of the next."""
    left = list(works)

    def piece() -> bool:
        if left and not left[0]():
            left.pop(0)
        return bool(left)

    return piece
