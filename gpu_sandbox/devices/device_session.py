"""A device's verifier and workers, under the device's lease, one job at a time.

The verifier lives on between jobs, a candidate's worker is used once. The next worker is begun
while the one before it ends, and made while a candidate is loaded and tried, when nothing is
timed; after the job where the device was idle before it and nothing waits.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import suppress

import anyio
import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.devices.kernel_cleanup import settled
from gpu_sandbox.devices.timing_lock import TimingLock
from gpu_sandbox.devices.verifier_client import Verifier, start_verifier
from gpu_sandbox.devices.worker_pool import DeviceNotReady, Worker, Workers
from gpu_sandbox.ipc.verifier_messages import Agreed, Job, Report, WorkerDied
from gpu_sandbox.supervise.zygote_client import DEATH_S, Zygote

_MAX_FAILED_PROBES = 2  # in a row; then the device is unfit
_TIMED = ("baseline", "bench", "alone")
"""Stages in which no preparation runs on the device."""
_IDLE_S = 0.5  # a device that was idle for longer before a job is taken to be so after it
STUCK = "a process on it was killed, and the kernel does not let go of it"


class JobResult(msgspec.Struct, frozen=True, kw_only=True):
    """A report, and what the worker's process left: its output, and how it ended."""

    report: Report
    worker_output: str = ""
    worker_signal: int | None = None
    worker_code: int | None = None
    out_of_memory: bool = False


class DeviceSession:
    """``cores`` time the device. ``timing`` keeps preparations away, ``preparing`` counts them,
    ``others_wait`` says whether jobs wait for a device. ``condemn`` is called, once, with the
    reason why the device must not be used any more: its processes can't use it, or the kernel
    does not let go of them."""

    def __init__(
        self,
        device: Device,
        zygote: Zygote,
        cores: tuple[int, ...],
        timing: TimingLock,
        preparing: Callable[[], int],
        others_wait: Callable[[], bool],
        condemn: Callable[[str], None],
    ) -> None:
        self.device = device
        self._condemn = condemn
        self._timing = timing
        self._preparing = preparing
        self._others_wait = others_wait
        self._zygote = zygote
        threads = zygote.limits.threads
        if backend_of(device).computes_on_cores and threads:
            cores = cores[:threads]  # as many as compute, which are emptied of data
        self._cores = cores
        self._workers = Workers(device, zygote, cores)
        self._verifier: Verifier | None = None
        self._idle_since = -math.inf
        self._was_idle = True
        self._spares_due = False
        self.clear = anyio.Event()
        """Set while no worker is being ended, or made, after a job."""
        self.clear.set()
        self._failed_probes = 0
        self.unfit = ""
        """Why the device must not be used any more; empty while it may be."""

    async def get_ready(self) -> None:
        """Make what a first job needs. Raises ``SandboxFault``; then the job tries again."""
        await self._ready_verifier(with_candidate=True)
        await self._workers.still()

    async def run(
        self, job: Job, libraries: Sequence[int], limit_s: float, *, afresh: bool = False
    ) -> JobResult:
        """Do the job; ``afresh``: with new workers on both sides. May return before the device
        is ``clear``. Raises ``VerifierDied``, ``VerifierSilent``, or ``SandboxFault``."""
        self._was_idle = time.monotonic() - self._idle_since > _IDLE_S
        self._spares_due = False
        if job.mode == "evaluate" and not self._was_idle:
            self._workers.begin_spares()
        try:
            return await self._run(job, libraries, limit_s, afresh=afresh)
        finally:
            self._idle_since = time.monotonic()
            if self.clear.is_set():  # of a job that failed, what it had begun may go on
                self._clear_meanwhile([])

    async def _run(
        self, job: Job, libraries: Sequence[int], limit_s: float, *, afresh: bool
    ) -> JobResult:
        verifier = await self._ready_verifier(with_candidate=job.mode == "evaluate")
        worker = None
        try:
            if afresh and not self._workers.renews_reference:
                await self._renew_reference(verifier)
            if job.mode == "evaluate":
                worker = await self._workers.take("worker")
            report = await self._reported(verifier, worker, job, libraries, limit_s)
        except BaseException:  # in the middle of a job it is of no further use
            await self._drop(verifier)
            if worker is not None:
                await self._end(worker)
            raise
        finally:
            self._timing.release()
        agreed = isinstance(report.finding, Agreed)
        if worker is not None and not agreed:  # how it ended may say why
            await self._end(worker)
        reference = verifier.release() if self._workers.renews_reference else None
        if self._spares_due and not self.unfit:
            self._workers.prepare_spares()
        self._clear_meanwhile([w for w in (worker if agreed else None, reference) if w is not None])
        if worker is None:
            return JobResult(report=report)
        process, died = worker.process, worker.died
        return JobResult(
            report=report,
            worker_output=process.output(),
            worker_signal=process.signal if died else None,
            worker_code=process.code if died else None,
            out_of_memory=process.out_of_memory,
        )

    async def close(self) -> None:
        with anyio.CancelScope(shield=True):
            async with anyio.create_task_group() as ending:
                ending.start_soon(self._workers.close)
                if self._verifier is not None:
                    ending.start_soon(self._drop, self._verifier)
            await self.clear.wait()

    async def _reported(
        self,
        verifier: Verifier,
        worker: Worker | None,
        job: Job,
        libraries: Sequence[int],
        limit_s: float,
    ) -> Report:
        async def reached(stage: str) -> None:
            if stage in ("reference", "baseline", "bench"):
                await self.clear.wait()
            if stage in ("baseline", "bench", "alone"):
                await self._workers.still()
            if stage in _TIMED:
                await self._timing.acquire()
            if stage == "load":
                self._timing.release()
                self._spares_due = self._was_idle and not self._others_wait()
                if not self._spares_due:
                    self._workers.prepare_spares()
            if stage == "alone" and worker is not None:
                await worker.end()
                await settled()

        if worker is None:
            await verifier.give(job)
            return await verifier.report(limit_s, reached)
        job = msgspec.structs.replace(job, worker_pid=worker.process.pid)
        await verifier.give(job, worker.peer.fileno(), *libraries)
        worker.peer.close()
        report = await verifier.report(limit_s, reached)
        if isinstance(report.finding, WorkerDied):
            await worker.process.ended_within(DEATH_S)  # its signal is worth a moment
            worker.died = worker.process.ended.is_set()
        return report

    async def _ready_verifier(self, *, with_candidate: bool) -> Verifier:
        """The living one, or a new one, that has tried its device."""
        if self._verifier is not None:
            if not self._verifier.process.ended.is_set():
                with suppress(DeviceNotReady):
                    return await self._probed(self._verifier)
            else:
                await self._drop(self._verifier)
        try:
            verifier = await start_verifier(self.device, self._zygote, self._cores)
        except DeviceNotReady as failure:
            self._count_failure(failure)
            raise
        verifier.preparing = self._preparing
        self._verifier = verifier
        self._workers.prepare_first(with_candidate=with_candidate)
        return await self._probed(verifier)

    async def _probed(self, verifier: Verifier) -> Verifier:
        """With a worker for its reference. Drops one that can't use its device."""
        try:
            await verifier.ready(self._zygote.limits.start_s)
            if verifier.reference is None:
                verifier.hold(await self._workers.take("reference"))
        except BaseException as failure:  # it waits for a job now
            await self._drop(verifier)
            if isinstance(failure, DeviceNotReady):
                self._count_failure(failure)
            raise
        self._failed_probes = 0
        return verifier

    async def _renew_reference(self, verifier: Verifier) -> None:
        """The same calls take different times in different processes, by 5 % for short kernels
        (``benchmarks/placement.py``)."""
        if not verifier.introduced:
            return
        if released := verifier.release():
            await self._end(released)
        if self.unfit:
            raise SandboxFault(self.unfit)
        verifier.hold(await self._workers.take("reference"))

    async def _drop(self, verifier: Verifier) -> None:
        self._verifier = None
        await verifier.end()
        if verifier.stuck:
            self.find_unfit(STUCK)

    def _clear_meanwhile(self, workers: list[Worker]) -> None:
        """End these in the background, which takes a GPU's driver a while. The next job waits for
        it, and for spares that are being made, before it measures or takes memory."""
        if not workers and self._workers.are_still:
            return
        self.clear = clear = anyio.Event()

        async def end() -> None:
            try:
                async with anyio.create_task_group() as ending:
                    for worker in workers:
                        ending.start_soon(self._end, worker)
                await self._workers.still()
            finally:
                clear.set()

        self._zygote.group.start_soon(end)

    async def _end(self, worker: Worker) -> None:
        await worker.end()
        if worker.process.stuck:
            self.find_unfit(STUCK)

    def find_unfit(self, why: str) -> None:
        if not self.unfit:
            self.unfit = why
            self._condemn(why)

    def _count_failure(self, failure: DeviceNotReady) -> None:
        self._failed_probes += 1
        if self._failed_probes >= _MAX_FAILED_PROBES:
            last = str(failure).splitlines()[0]
            self.find_unfit(f"its probe failed {self._failed_probes} times in a row: {last}")
