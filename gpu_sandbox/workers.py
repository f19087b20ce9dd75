"""A device's workers: each holds one candidate, is used once, and is surely ended.

On a GPU the next worker is made ahead of time: the spare has its context already, and no
candidate yet. It is made while the verifier checks, so that nothing is timed beside it.
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path

import anyio
import anyio.to_thread
from anyio.abc import TaskGroup

from gpu_sandbox.confine import Policy
from gpu_sandbox.confinement import policy_for
from gpu_sandbox.devices import Device
from gpu_sandbox.frames import BadFrame, Line, PeerGone
from gpu_sandbox.hub import hub_readable, hub_variables
from gpu_sandbox.limits import Limits
from gpu_sandbox.messages import Reply
from gpu_sandbox.port import SandboxFault
from gpu_sandbox.process import child_environment
from gpu_sandbox.workdir import RunDirectory, remove
from gpu_sandbox.zygote import Ward, Zygote

__all__ = ["DeviceNotReady", "Worker", "Workers", "child_variables"]


class DeviceNotReady(SandboxFault):
    """A fresh process can't use the device."""


class Worker:
    """``peer`` is the verifier's end of its socket. ``died``: before it was ended."""

    def __init__(self, ward: Ward, peer: socket.socket, home: Path) -> None:
        self.ward = ward
        self.peer = peer
        self.home = home
        self.died = False

    async def end(self) -> None:
        self.peer.close()
        await self.ward.end()
        await _removed(self.home)


async def _removed(home: Path) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(remove, home)


class Workers:
    """Makes one device's. ``spare_ready`` is set whenever no spare is being made."""

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
        self._spare: Worker | None = None
        self._homes = 0
        self.spare_ready = anyio.Event()
        self.spare_ready.set()

    async def take(self) -> Worker:
        """The spare if it lives still, else a new one. Raises ``SandboxFault``."""
        await self.spare_ready.wait()
        spare, self._spare = self._spare, None
        if spare is not None and not spare.ward.ended.is_set():
            return spare
        if spare is not None:
            await spare.end()
        return await self.new()

    def prepare_spare(self) -> None:
        """Have the next one made in the background; on the CPU that is not worth it."""
        if self._device.is_cuda:
            self.spare_ready = anyio.Event()
            self._group.start_soon(self._make_spare)

    async def new(self, name: str = "worker") -> Worker:
        """On a GPU its context is made. Raises ``SandboxFault``."""
        self._homes += 1
        home = self._run.home(f"{name}-{self._device.name}-{self._homes}")
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                ward = await self._zygote.spawn(
                    "worker",
                    {"device": self._device.inside},
                    {"peer": theirs},
                    environment=child_environment(home, **child_variables(self._device)),
                    directory=home,
                    policy=self._policy(home),
                )
        except BaseException:
            ours.close()
            await _removed(home)
            raise
        worker = Worker(ward, ours, home)
        try:
            if self._device.is_cuda:
                await self._context_made(worker)
        except BaseException:
            await worker.end()
            raise
        return worker

    async def close(self) -> None:
        if self._spare is not None:
            await self._spare.end()

    async def _make_spare(self) -> None:
        """A failure here is the next evaluation's: it tries again, and then says so."""
        try:
            with suppress(SandboxFault):
                self._spare = await self.new()
        finally:
            self.spare_ready.set()

    async def _context_made(self, worker: Worker) -> None:
        line: Line[Reply] = Line(worker.peer, Reply)
        try:
            with anyio.fail_after(self._limits.start_s):
                await line.receive()
        except (PeerGone, BadFrame, TimeoutError) as error:
            said = worker.ward.output()[-2000:]
            raise DeviceNotReady(f"a worker found no device: {error!r}\n{said}") from None
        worker.peer.setblocking(True)

    def _policy(self, home: Path) -> Policy:
        return policy_for(
            self._limits, home, self._cores, self._device.nodes(), readable=hub_readable()
        )


def child_variables(device: Device) -> dict[str, str]:
    """What a worker or verifier of ``device`` has in its environment beside the usual."""
    return {
        **hub_variables(),
        "CUDA_VISIBLE_DEVICES": device.visible,
        "MAX_JOBS": str(max(1, (os.cpu_count() or 1) // 2)),
    }
