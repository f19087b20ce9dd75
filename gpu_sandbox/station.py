"""A device's station: its verifier, its worker, and on a GPU the next worker, made ready.

Used under the device's lease, one job at a time. The verifier lives on between jobs, the
worker is used once. A GPU's spare worker has its context already and no candidate yet; it
is made while the verifier checks, and a verifier does not begin to time before it is ready.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from gpu_sandbox.confine import Policy
from gpu_sandbox.confinement import policy_for
from gpu_sandbox.devices import Device
from gpu_sandbox.frames import BadFrame, Line, PeerGone
from gpu_sandbox.hub import hub_readable, hub_variables
from gpu_sandbox.jobs import FromVerifier, Go, Job, Ready, Report, Stage, WorkerDied
from gpu_sandbox.limits import Limits
from gpu_sandbox.messages import Reply
from gpu_sandbox.port import SandboxFault
from gpu_sandbox.process import child_environment
from gpu_sandbox.workdir import RunDirectory, remove
from gpu_sandbox.zygote import Ward, Zygote

__all__ = ["Concluded", "Station", "VerifierDied", "VerifierSilent"]

_DEATH_S = 2.0
_SAID_LINES = 5


class VerifierDied(Exception):
    """It ended without a report. ``stage`` is where it was, ``signal`` what killed it."""

    def __init__(self, stage: str, signal: int | None, output: str) -> None:
        how = "it exited" if signal is None else f"signal {signal}"
        said = "\n".join(output.strip().splitlines()[-_SAID_LINES:])
        super().__init__(f"{how} in stage {stage!r}\n{said}".strip())
        self.stage = stage
        self.signal = signal
        self.output = output


class VerifierSilent(Exception):
    """No report within the limit: the reference hangs, or the trusted side does."""


class Concluded(msgspec.Struct, frozen=True, kw_only=True):
    """A report, and what the worker's process left: its output, and how it ended."""

    report: Report
    worker_output: str = ""
    worker_signal: int | None = None
    worker_code: int | None = None
    out_of_memory: bool = False


class _Worker:
    """``peer`` is the verifier's end of its socket. ``died``: before it was ended."""

    def __init__(self, ward: Ward, peer: socket.socket, home: Path) -> None:
        self.ward = ward
        self.peer = peer
        self.home = home
        self.died = False

    async def end(self) -> None:
        self.peer.close()
        await self.ward.end()
        with anyio.CancelScope(shield=True):
            await anyio.to_thread.run_sync(remove, self.home)


class _Verifier:
    """With the worker that holds the reference, which lives as long as it does."""

    def __init__(self, ward: Ward, line: Line[FromVerifier], reference: _Worker) -> None:
        self.ward = ward
        self.line = line
        self.reference = reference

    async def end(self) -> None:
        with anyio.CancelScope(shield=True):
            self.line.close()
            await self.ward.end()
            await self.reference.end()


class Station:
    """One device's. ``cores`` are the cores that time it."""

    def __init__(
        self,
        device: Device,
        zygote: Zygote,
        run: RunDirectory,
        group: TaskGroup,
        limits: Limits,
        cores: tuple[int, ...],
    ) -> None:
        self._device = device
        self._zygote = zygote
        self._run = run
        self._group = group
        self._limits = limits
        self._cores = cores
        self._verifier: _Verifier | None = None
        self._spare: _Worker | None = None
        self._spare_made = anyio.Event()
        self._homes = 0

    @property
    def threads(self) -> int:
        return min(len(self._cores), self._limits.threads or len(self._cores))

    async def conclude(self, job: Job, libraries: Sequence[int], limit_s: float) -> Concluded:
        """Do the job. Raises ``VerifierDied``, ``VerifierSilent``, or ``SandboxFault``."""
        verifier = await self._ready_verifier()
        worker = None
        try:
            if job.mode == "evaluate":
                worker = await self._take_worker()
            report = await self._reported(verifier, worker, job, libraries, limit_s)
        except BaseException:  # in the middle of a job it is of no further use
            await self._drop(verifier)
            raise
        finally:
            if worker is not None:
                await worker.end()
        if worker is None:
            return Concluded(report=report)
        return _concluded(report, worker)

    async def _reported(
        self,
        verifier: _Verifier,
        worker: _Worker | None,
        job: Job,
        libraries: Sequence[int],
        limit_s: float,
    ) -> Report:
        fds: list[int] = []
        if worker is not None:
            fds = [worker.peer.fileno(), *libraries]
            job = msgspec.structs.replace(job, worker_pid=worker.ward.pid)
        try:
            await verifier.line.send(job, *fds)
        except PeerGone:
            raise VerifierDied("start", None, verifier.ward.output()) from None
        if worker is not None:
            worker.peer.close()
            if self._device.is_cuda:
                self._spare_made = anyio.Event()
                self._group.start_soon(self._make_spare)
        report = await self._heard(verifier, worker, limit_s)
        if worker is not None and isinstance(report.finding, WorkerDied):
            await worker.ward.ended_within(_DEATH_S)  # its signal is worth a moment
            worker.died = worker.ward.ended.is_set()
        return report

    async def close(self) -> None:
        """Nothing is left of it."""
        with anyio.CancelScope(shield=True):
            if self._spare is not None:
                await self._spare.end()
            if self._verifier is not None:
                await self._drop(self._verifier)

    # --- the verifier

    async def _ready_verifier(self) -> _Verifier:
        """The living one, or a new one: it says when its device works."""
        if self._verifier is not None:
            if not self._verifier.ward.ended.is_set():
                with suppress(SandboxFault):
                    await self._said_ready(self._verifier)
                    return self._verifier
            await self._drop(self._verifier)
        self._verifier = verifier = await self._new_verifier()
        await self._said_ready(verifier)
        return verifier

    async def _said_ready(self, verifier: _Verifier) -> None:
        try:
            with anyio.fail_after(self._limits.start_s):
                frame = await verifier.line.receive()
        except (PeerGone, BadFrame, TimeoutError) as error:
            said = verifier.ward.output()[-2000:]
            await self._drop(verifier)
            raise SandboxFault(f"{self._device.name} is not ready: {error!r}\n{said}") from None
        if not isinstance(frame, Ready):
            await self._drop(verifier)
            raise SandboxFault("the verifier is out of step")

    async def _new_verifier(self) -> _Verifier:
        reference = await self._new_worker("reference")
        ours, theirs = socket.socketpair()
        home = self._run.home(f"verifier-{self._device.name}")
        line: Line[FromVerifier] = Line(ours, FromVerifier)
        try:
            with theirs:
                ward = await self._zygote.spawn(
                    "verifier",
                    {
                        "device": self._device.inside,
                        "cores": list(self._cores),
                        "pid": reference.ward.pid,
                    },
                    {"control": theirs, "reference": reference.peer},
                    environment=child_environment(home, **self._variables()),
                    directory=home,
                    policy=None,
                )
        except BaseException:
            line.close()
            await reference.end()
            raise
        reference.peer.close()
        return _Verifier(ward, line, reference)

    async def _drop(self, verifier: _Verifier) -> None:
        self._verifier = None
        await verifier.end()

    async def _heard(self, verifier: _Verifier, worker: _Worker | None, limit_s: float) -> Report:
        stage = "start"
        try:
            with anyio.fail_after(limit_s):
                while True:
                    match await verifier.line.receive():
                        case Stage(name=name, waits=waits):
                            stage = name
                            if waits:
                                await self._let_go(name, verifier, worker)
                        case Report() as report:
                            return report
                        case Ready():
                            raise SandboxFault("the verifier said ready twice")
        except BadFrame as error:
            raise SandboxFault(f"the verifier sent a malformed frame: {error}") from None
        except PeerGone:
            await verifier.ward.ended_within(_DEATH_S)
            await verifier.ward.end()
            raise VerifierDied(stage, verifier.ward.signal, verifier.ward.output()) from None
        except TimeoutError:
            raise VerifierSilent(f"nothing within {limit_s:g} s, in stage {stage!r}") from None

    async def _let_go(self, stage: str, verifier: _Verifier, worker: _Worker | None) -> None:
        if stage == "alone" and worker is not None:
            await worker.ward.end()
        if self._device.is_cuda and worker is not None:
            await self._spare_made.wait()
        await verifier.line.send(Go())

    # --- workers

    async def _take_worker(self) -> _Worker:
        spare, self._spare = self._spare, None
        if spare is not None and not spare.ward.ended.is_set():
            return spare
        if spare is not None:
            await spare.end()
        return await self._new_worker()

    async def _make_spare(self) -> None:
        """A failure here is the next evaluation's: it tries again, and then says so."""
        try:
            with suppress(SandboxFault):
                if self._spare is None:
                    self._spare = await self._new_worker()
        finally:
            self._spare_made.set()

    async def _new_worker(self, name: str = "worker") -> _Worker:
        self._homes += 1
        home = self._run.home(f"{name}-{self._device.name}-{self._homes}")
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                ward = await self._zygote.spawn(
                    "worker",
                    {"device": self._device.inside},
                    {"peer": theirs},
                    environment=child_environment(home, **self._variables()),
                    directory=home,
                    policy=self._policy(home),
                )
        except BaseException:
            ours.close()
            raise
        worker = _Worker(ward, ours, home)
        try:
            if self._device.is_cuda:
                await self._context_made(worker)
        except BaseException:
            await worker.end()
            raise
        return worker

    async def _context_made(self, worker: _Worker) -> None:
        line: Line[Reply] = Line(worker.peer, Reply)
        try:
            with anyio.fail_after(self._limits.start_s):
                await line.receive()
        except (PeerGone, BadFrame, TimeoutError) as error:
            said = worker.ward.output()[-2000:]
            raise SandboxFault(f"a worker found no device: {error!r}\n{said}") from None
        worker.peer.setblocking(True)

    def _policy(self, home: Path) -> Policy:
        return policy_for(
            self._limits, home, self._cores, self._device.nodes(), readable=hub_readable()
        )

    def _variables(self) -> dict[str, str]:
        return {
            **hub_variables(),
            "CUDA_VISIBLE_DEVICES": self._device.visible,
            "MAX_JOBS": str(max(1, (os.cpu_count() or 1) // 2)),
        }


def _concluded(report: Report, worker: _Worker) -> Concluded:
    ward = worker.ward
    return Concluded(
        report=report,
        worker_output=ward.output(),
        worker_signal=ward.signal if worker.died else None,
        worker_code=ward.code if worker.died else None,
        out_of_memory=ward.out_of_memory,
    )
