"""Stages of one job: what the engine learns of it, and what each takes and needs."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from gpu_sandbox.contention.watch import Watch
from gpu_sandbox.ipc.framing import Channel
from gpu_sandbox.ipc.verifier_messages import TRYING, Go, Job, Stage, ToVerifier
from gpu_sandbox.verifier.backends.backend import Backend
from gpu_sandbox.verifier.worker_link.client import Peer


class Stopwatch:
    """Seconds by name, without those of parts inside."""

    def __init__(self) -> None:
        self.timings: dict[str, float] = {}
        self._names: list[str] = []
        self._since = 0.0

    @contextmanager
    def on(self, name: str) -> Iterator[None]:
        """Charge what passes meanwhile to ``name``, also if it raises."""
        self._charge()
        self._names.append(name)
        try:
            yield
        finally:
            self._charge()
            self._names.pop()

    def _charge(self) -> None:
        now = time.perf_counter()
        if self._names:
            name = self._names[-1]
            self.timings[name] = self.timings.get(name, 0.0) + now - self._since
        self._since = now


class Stages:
    """Stages of a job, its ``notes``, and reasons why the machine was ``busy``."""

    def __init__(
        self, job: Job, engine: Channel[ToVerifier], reference: Peer, backend: Backend
    ) -> None:
        self.notes: list[str] = []
        self.busy: list[str] = []
        self.stopwatch = Stopwatch()
        self._job = job
        self._engine = engine
        self._reference = reference
        self._backend = backend
        self._preparing = 0

    def enter(
        self,
        name: str,
        *,
        waits: bool = False,
        meanwhile: Callable[[], bool] = lambda: False,
        charged_to: str = "check",
    ) -> None:
        """Announce a stage. One that ``waits`` begins when the engine gives leave; until then
        ``meanwhile`` does a piece of work, and says whether there is more: an earlier process takes
        a while to end, and the next to begin."""
        self._engine.send(Stage(name=name, waits=waits))
        if not waits:
            return
        try:
            with self.stopwatch.on(charged_to):
                while not self._engine.readable() and meanwhile():
                    pass
        finally:  # the answer is on its way, also to a task that turns out to be broken
            with self.stopwatch.on("handover"):
                answer = self._engine.receive()
        if not isinstance(answer, Go):
            raise RuntimeError("protocol error: job received while waiting for leave to go on")
        self._preparing = answer.preparing

    def announce(self, name: str) -> None:
        """Say what is tried that the verifier may not survive; an empty text says that it did."""
        self.enter(TRYING + name if name else "tried")

    @contextmanager
    def watched(self, *, rests: bool = False) -> Iterator[Watch]:
        """Note other processes on the device before and after what is timed, and whether the
        machine was busy. For a baseline the device rests a moment: before it is warmed up
        (``rests``), or afterwards."""
        measuring = [os.getpid(), self._reference.pid, self._job.worker_pid]
        cores = os.sched_getaffinity(0)
        nvml, preparing = self._backend.driver_account(), self._preparing
        watch = Watch(nvml, cores, lambda: [pid for pid in measuring if pid], preparing)
        watch.begin(at_rest=rests)
        yield watch
        watch.end(at_rest=self._job.conditions)
        self.notes += watch.notes()
        self.busy += watch.reasons()
