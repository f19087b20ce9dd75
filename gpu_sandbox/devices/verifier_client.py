"""The engine's side of a verifier, and of the worker that holds its reference."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Awaitable, Callable

import anyio
import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.known import failure_words
from gpu_sandbox.devices.worker_pool import DeviceNotReady, Worker, child_variables
from gpu_sandbox.ipc.framing import BadFrame, Line, PeerGone
from gpu_sandbox.ipc.verifier_messages import TRYING, FromVerifier, Go, Job, Ready, Report, Stage
from gpu_sandbox.supervise.zygote_client import DEATH_S, ForkedProcess, Zygote
from gpu_sandbox.toolchain.environment import child_environment

_SAID_LINES = 5
_SAID_CHARS = 300
_EXCEPTION = re.compile(r"[A-Za-z_][\w.]*(?:Error|Exception|Interrupt)\b")
_OF_DEVICE = re.compile("|".join((*failure_words(), "accelerator", "memory")), re.IGNORECASE)


class VerifierDied(Exception):
    """The verifier ended without a report: ``stage`` says where, ``signal`` what killed it."""

    def __init__(self, stage: str, killed_by: int | None, output: str) -> None:
        how = "it exited" if killed_by is None else f"signal {killed_by}"
        said = "\n".join(output.strip().splitlines()[-_SAID_LINES:])
        super().__init__(f"{how} in stage {stage!r}\n{said}".strip())
        self.stage = stage
        self.signal = killed_by
        self.output = output

    @property
    def mistake(self) -> str:
        """The exception that ended it, in a line; empty if that may be its device's fault."""
        last = (self.output.strip().splitlines() or [""])[-1]
        if self.signal is not None or self.stage == "start" or _OF_DEVICE.search(last):
            return ""
        return last[:_SAID_CHARS] if _EXCEPTION.match(last) else "the verifier exited"

    @property
    def trying(self) -> str:
        """The transformed inputs that it did not survive; empty if it was killed, which may have
        another cause."""
        return "" if self.signal == signal.SIGKILL else _trying(self.stage)


class VerifierSilent(Exception):
    """No report within the limit. ``trying``: the transformed inputs that did not end, if any."""

    def __init__(self, stage: str, limit_s: float) -> None:
        super().__init__(f"nothing within {limit_s:g} s, in stage {stage!r}")
        self.trying = _trying(stage)


class Verifier:
    """Does one job at a time; after a failure it is of no further use."""

    def __init__(self, device: Device, process: ForkedProcess, line: Line[FromVerifier]) -> None:
        self._device = device
        self._line = line
        self.introduced = self._is_ready = False
        """``introduced``: whether its reference worker has had a part in a job."""
        self._call_s = 0.0
        self.preparing: Callable[[], int] = lambda: 0
        """Counts our processes that are frozen on the device while it is timed."""
        self.process = process
        self.reference: Worker | None = None

    def hold(self, reference: Worker) -> None:
        """Use this worker from the next job on."""
        self.reference, self.introduced = reference, False

    def release(self) -> Worker | None:
        """Its reference worker, if it has one: it is the caller's to end."""
        released, self.reference = self.reference, None
        return released

    async def ready(self, within_s: float) -> None:
        """Wait until it has found that its device works. Raises ``DeviceNotReady``."""
        if self._is_ready:
            return
        try:
            with anyio.fail_after(within_s):
                frame = await self._line.receive()
        except (PeerGone, BadFrame, TimeoutError):
            why = await self.process.last_words()
            raise DeviceNotReady(f"{self._device.name} is not ready ({why})") from None
        if not isinstance(frame, Ready):
            raise DeviceNotReady("the verifier is out of step")
        self._is_ready = True

    async def give(self, job: Job, *fds: int) -> None:
        """Send a job. It has a reference worker already. Raises ``VerifierDied``."""
        assert self.reference is not None
        self._call_s, self._is_ready = job.call_s, False
        if not self.introduced:
            job = msgspec.structs.replace(job, reference_pid=self.reference.process.pid)
            fds = (self.reference.peer.fileno(), *fds)
        try:
            await self._line.send(job, *fds)
        except PeerGone:
            raise VerifierDied("start", None, self.process.output()) from None
        if not self.introduced:
            self.reference.peer.close()
            self.introduced = True

    async def report(self, limit_s: float, reached: Callable[[str], Awaitable[None]]) -> Report:
        """Its report. ``reached`` is awaited at every stage; a verifier that waits goes on when it
        returns. Transformed inputs (``TRYING``) may take one call's time.

        Raises ``VerifierDied``, ``VerifierSilent``, ``SandboxFault``.
        """
        stage = "start"
        try:
            with anyio.fail_after(limit_s):
                while True:
                    with anyio.fail_after(self._call_s if _trying(stage) else None):
                        frame = await self._line.receive()
                    match frame:
                        case Stage(name=name, waits=waits):
                            stage = name
                            await reached(name)
                            if waits:
                                await self._line.send(Go(preparing=self.preparing()))
                        case Report() as report:
                            return report
                        case Ready():
                            raise SandboxFault("the verifier said ready twice")
        except BadFrame as error:
            raise SandboxFault(f"the verifier sent a malformed frame: {error}") from None
        except PeerGone:
            await self.process.ended_within(DEATH_S)
            await self.process.end()
            raise VerifierDied(stage, self.process.signal, self.process.output()) from None
        except TimeoutError:
            raise VerifierSilent(stage, self._call_s if _trying(stage) else limit_s) from None

    @property
    def stuck(self) -> bool:
        """Whether the kernel still holds a killed process of it."""
        return self.process.stuck or (self.reference is not None and self.reference.process.stuck)

    async def end(self) -> None:
        with anyio.CancelScope(shield=True):
            self._line.close()
            await self.process.end()
            if self.reference is not None:
                await self.reference.end()


async def start_verifier(device: Device, zygote: Zygote, cores: tuple[int, ...]) -> Verifier:
    """A verifier that is not ready yet. Raises ``SandboxFault``."""
    ours, theirs = socket.socketpair()
    home = zygote.run.home(f"verifier-{device.name}")
    line: Line[FromVerifier] = Line(ours, FromVerifier)
    try:
        with theirs:
            process = await zygote.spawn(
                "verifier",
                {"device": device.inside, "cores": list(cores)},
                {"control": theirs},
                environment=child_environment(home, **child_variables(device)),
                directory=home,
                policy=None,
            )
    except BaseException:
        line.close()
        raise
    return Verifier(device, process, line)


def _trying(stage: str) -> str:
    return stage.removeprefix(TRYING) if stage.startswith(TRYING) else ""
