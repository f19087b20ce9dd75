"""The device stage: a verifier and a worker under one lease, and what their end means.

Both are started here, as siblings, with a socket between them. The engine reads the
verifier's frames only; what the worker does is known from the verifier's report and
from how its process died.
"""

from __future__ import annotations

import os
import socket
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import anyio
import msgspec

from gpu_sandbox.devices import Device
from gpu_sandbox.frames import BadFrame, Channel, PeerGone, read_frame
from gpu_sandbox.limits import Limits
from gpu_sandbox.messages import FromVerifier, Job, Ready, Report, Stage
from gpu_sandbox.port import SandboxFault
from gpu_sandbox.process import Child, Spec, child, child_environment
from gpu_sandbox.workdir import RunDirectory

__all__ = ["Concluded", "Pair", "VerifierDied", "VerifierSilent", "pair_of_children"]

_DEATH_S = 2.0


class VerifierDied(Exception):
    """It ended without a report. ``stage`` is where it was, ``signal`` what killed it."""

    def __init__(self, stage: str, signal: int | None, output: str) -> None:
        how = "it exited" if signal is None else f"signal {signal}"
        super().__init__(f"{how} in stage {stage!r}")
        self.stage = stage
        self.signal = signal
        self.output = output


class VerifierSilent(Exception):
    """No report within the limit: the reference hangs, or the trusted side does."""


class Concluded(msgspec.Struct, frozen=True, kw_only=True):
    """A report, and what the worker's process left: its output, and the killing signal."""

    report: Report
    worker_output: str
    worker_signal: int | None
    worker_code: int | None


class Pair:
    """A verifier, and for an evaluation its worker, started and not yet given a job."""

    def __init__(self, control: socket.socket, verifier: Child, worker: Child | None) -> None:
        self._control = control
        self._verifier = verifier
        self._worker = worker
        self._decoder: msgspec.msgpack.Decoder[FromVerifier] = msgspec.msgpack.Decoder(FromVerifier)

    async def ready(self, limit_s: float) -> None:
        """Torch is imported on the trusted side. Raises ``SandboxFault``."""
        try:
            with anyio.fail_after(limit_s):
                frame = await read_frame(self._control, self._decoder)
        except (PeerGone, BadFrame, TimeoutError) as error:
            await self._verifier.end()
            said = self._verifier.output()[-2000:]
            raise SandboxFault(f"the verifier did not start: {error!r}\n{said}") from None
        if not isinstance(frame, Ready):
            raise SandboxFault("the verifier did not start as it should")

    async def conclude(self, job: Job, limit_s: float) -> Concluded:
        """Hand over the job, wait for the report.

        Raises ``VerifierDied``, ``VerifierSilent``, or ``SandboxFault`` for nonsense.
        """
        Channel[None](self._control, None).send(job)
        self._control.setblocking(False)
        stage = "start"
        try:
            with anyio.fail_after(limit_s):
                while True:
                    frame = await read_frame(self._control, self._decoder)
                    match frame:
                        case Stage(name=name):
                            stage = name
                        case Report():
                            return await self._concluded(frame)
                        case Ready():
                            raise SandboxFault("the verifier said ready twice")
        except BadFrame as error:
            raise SandboxFault(f"the verifier sent a malformed frame: {error}") from None
        except PeerGone:
            died = await self._verifier.exited_within(_DEATH_S)
            await self._verifier.end(politely=not died)
            raise VerifierDied(stage, self._verifier.signal, self._verifier.output()) from None
        except TimeoutError:
            raise VerifierSilent(f"nothing within {limit_s:g} s, in stage {stage!r}") from None

    async def _concluded(self, report: Report) -> Concluded:
        """The worker may be dying still: its signal is worth a moment."""
        worker = self._worker
        if worker is None:
            return Concluded(report=report, worker_output="", worker_signal=None, worker_code=None)
        died = await worker.exited_within(_DEATH_S if _tells_of_death(report) else 0)
        await worker.end(politely=not died)
        return Concluded(
            report=report,
            worker_output=worker.output(),
            worker_signal=worker.signal if died else None,
            worker_code=worker.returncode if died else None,
        )


# glibc gives large blocks back to the system when they are freed, or not, by how the heap
# happens to lie: each call then faults its output's pages in anew, in some processes and not
# in others, which made one kernel read 1.2 or 2.7 ms (measured: docs/sandbox.md). Keeping
# them is the steady state of a long-lived process, and the same for both sides.
_WARM_ALLOCATOR = {
    "MALLOC_MMAP_THRESHOLD_": str(1 << 30),
    "MALLOC_TRIM_THRESHOLD_": str(1 << 34),
}


def _tells_of_death(report: Report) -> bool:
    return type(report.finding).__name__ == "WorkerDied"


@asynccontextmanager
async def pair_of_children(
    run: RunDirectory,
    device: Device,
    limits: Limits,
    threads: int,
    extensions: Path | None,
    trusted_extra: dict[str, str],
) -> AsyncIterator[Pair]:
    """Start the verifier, and with ``extensions`` a worker that finds its builds there."""
    control, control_theirs = socket.socketpair()
    peer_verifier, peer_worker = socket.socketpair()
    ends = [control, control_theirs, peer_verifier, peer_worker]
    common = {
        "CUDA_VISIBLE_DEVICES": device.visible,
        "CUDA_DEVICE_ORDER": "PCI_BUS_ID",
        "OMP_NUM_THREADS": str(threads),
        "MKL_NUM_THREADS": str(threads),
        "OMP_WAIT_POLICY": "PASSIVE",
        "KMP_BLOCKTIME": "0",
        **_WARM_ALLOCATOR,
        **trusted_extra,
    }
    evaluating = extensions is not None
    try:
        async with AsyncExitStack() as stack:
            home = run.home("verifier")
            verifier = Spec(
                role="verifier",
                arguments={
                    "control": control_theirs.fileno(),
                    "peer": peer_verifier.fileno() if evaluating else None,
                },
                directory=home,
                environment=child_environment(home, **common),
                token=run.token,
                limits=limits,
                trusted=True,
            )
            fds = [control_theirs.fileno(), *([peer_verifier.fileno()] if evaluating else [])]
            started = await stack.enter_async_context(child(verifier, *fds))
            worker = None
            if extensions is not None:
                spec = _worker_spec(run, device, limits, common, extensions, peer_worker)
                worker = await stack.enter_async_context(child(spec, peer_worker.fileno()))
            for end in ends[1:]:
                end.close()
            control.setblocking(False)
            yield Pair(control, started, worker)
    finally:
        for end in ends:
            end.close()


def _worker_spec(
    run: RunDirectory,
    device: Device,
    limits: Limits,
    common: dict[str, str],
    extensions: Path,
    peer: socket.socket,
) -> Spec:
    home = run.home("worker")
    return Spec(
        role="worker",
        arguments={"peer": peer.fileno(), "device": device.inside},
        directory=home,
        environment=child_environment(
            home,
            GPU_SANDBOX_EXTENSIONS=str(extensions),
            MAX_JOBS=str(max(1, (os.cpu_count() or 1) // 2)),
            **common,
        ),
        token=run.token,
        limits=limits,
        trusted=False,
        address_space=not device.is_cuda,
    )
