"""The trusted side of the device stage: asks, checks, times, and has the last word.

It owns the inputs, the truth and the clock. The candidate lives in another process and
is reached through ``Peer`` only.
"""

from __future__ import annotations

import random
import socket
import time

import torch

from gpu_sandbox.child.bench import Bench, measure_alone
from gpu_sandbox.child.judge import check_output
from gpu_sandbox.child.loading import settle
from gpu_sandbox.child.peer import Ended, Peer
from gpu_sandbox.child.reference import Broken, Case, Task, derived_seed
from gpu_sandbox.frames import Channel
from gpu_sandbox.messages import (
    Differs,
    Finding,
    Job,
    Measured,
    Ran,
    Ready,
    Report,
    Run,
    Stage,
    TaskBroken,
)

__all__ = ["main"]

_SLOW_S = 2.0
_SLOW_TRIALS = 3


class Verifier:
    """One job. ``notes`` are facts about this verdict that its reader should know."""

    def __init__(self, job: Job, engine: Channel[Job], peer: socket.socket | None) -> None:
        self._job = job
        self._engine = engine
        self._peer_socket = peer
        self._device = torch.device(job.device)
        self._timings: dict[str, float] = {}
        self._notes: list[str] = []

    def report(self) -> Report:
        try:
            finding = self._baseline() if self._job.mode == "baseline" else self._evaluate()
        except Broken as broken:
            finding = TaskBroken(reason=broken.reason, detail=broken.detail)
        except Ended as ended:
            finding = ended.finding
        return Report(finding=finding, timings_s=self._timings, notes=self._notes)

    # --- the baseline

    def _baseline(self) -> Measured:
        with _Span(self._timings, "check"):
            self._stage("reference")
            task = Task(self._job.task_path, self._device, self._job.seed)
            case = task.draw("trial", 0)
            task.solve(case, exact=False)
            _refuse_unusable(task, case)
        with _Span(self._timings, "bench"):
            self._stage("bench")
            return measure_alone(task, self._job, self._device)

    # --- a candidate

    def _evaluate(self) -> Finding:
        assert self._peer_socket is not None
        job = self._job
        peer = Peer(self._peer_socket, self._device, job.call_s)
        with _Span(self._timings, "check"):
            self._stage("reference")
            task = Task(job.task_path, self._device, job.seed)
            peer.start_loading(job.candidate_path, task.init, task.weight_seed, job.threads)
            first = task.draw("trial", 0)
            task.solve(first, exact=job.protocol.allclose is None)
            loaded = peer.finish_loading(max(job.call_s, job.start_s))
            if loaded.built_late:
                self._notes.append(f"{loaded.built_late} extensions were built under the lease")
            self._stage("check")
            worst = self._trials(task, peer, first)
        if job.protocol.allclose is None and not task.exact_used:
            self._notes.append("no float64 reference: compared with its own dtype")
        with _Span(self._timings, "bench"):
            self._stage("bench")
            return Bench(task, peer, job, self._device, worst, self._notes).run()

    def _trials(self, task: Task, peer: Peer, first: Case) -> float | None:
        """Fresh inputs each time. The largest error seen; raises ``Ended`` on a difference."""
        worst = 0.0
        count = self._job.protocol.trials
        if task.forward_s > _SLOW_S and self._job.protocol.allclose is None:
            count = min(count, _SLOW_TRIALS)
            self._notes.append(f"{count} trials: the reference takes {task.forward_s:.1f} s")
        for trial in range(count):
            case = first if trial == 0 else task.draw("trial", trial)
            if trial:
                task.solve(case, exact=self._job.protocol.allclose is None)
            layout, outputs = peer.put([case])
            peer.poison(outputs)
            ran = peer.ask(Run(slot=0, seed=case.forward_seed, outputs=outputs), Ran, "run")
            error = check_output(peer, case, ran, outputs, self._job.protocol, trial + 1)
            if not task.mutates and not peer.inputs_intact(case, layout[0]):
                raise Ended(Differs(reason="it changed its inputs", trial=trial + 1))
            worst = max(worst, error)
        return worst

    def _stage(self, name: str) -> None:
        self._engine.send(Stage(name=name))


def _refuse_unusable(task: Task, case: Case) -> None:
    if not case.expected:
        raise Broken("the reference returns no tensor")
    for number, expected in enumerate(case.expected):
        native = expected.native
        if native.is_floating_point() and bool(torch.isnan(native).any()):
            raise Broken(f"the reference's output {number} holds NaN")
    unlike = task.again(case, other_seed=False)
    if unlike:
        raise Broken(f"the reference is not deterministic: {unlike}")


class _Span:
    """Adds the seconds spent inside to ``timings[name]``, however it is left."""

    def __init__(self, timings: dict[str, float], name: str) -> None:
        self._timings = timings
        self._name = name

    def __enter__(self) -> None:
        self._began = time.perf_counter()

    def __exit__(self, *_: object) -> None:
        spent = time.perf_counter() - self._began
        self._timings[self._name] = self._timings.get(self._name, 0.0) + spent


def main(*, control: int, peer: int | None) -> None:
    """Torch is imported by now: say so, wait for the job (the lease), do it, report."""
    with socket.socket(fileno=control) as sock:
        engine: Channel[Job] = Channel(sock, Job)
        engine.send(Ready())
        job = engine.receive()
        settle(job.threads)
        random.seed(derived_seed(job.seed, "order"))
        worker = None if peer is None else socket.socket(fileno=peer)
        engine.send(Verifier(job, engine, worker).report())
