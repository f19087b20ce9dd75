"""A device's workers: each holds one candidate, or the reference, and is surely ended.

The next ones are made ahead of time: a spare has no candidate yet, and on a GPU its context
already. They are made while nothing is timed beside it (``station.py``).
"""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from pathlib import Path
from typing import Literal, TypeAlias

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

__all__ = ["DeviceNotReady", "Side", "Worker", "Workers", "child_variables"]

Side: TypeAlias = Literal["worker", "reference"]
"""What it holds: a candidate, or the reference."""


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
    """Makes one device's. ``spare_ready`` is set whenever no spare is being made.

    On the CPU the reference has a new one for each candidate: a process that has judged a
    hundred runs a percent faster than a fresh one. On a GPU, where the device does the work and
    another context would cost 0.2 s, it keeps the one that it has.
    """

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
        self._spares: dict[Side, Worker] = {}
        self._homes = 0
        self.renews_reference = not device.is_cuda
        self._making = anyio.CancelScope()
        self.spare_ready = anyio.Event()
        self.spare_ready.set()

    async def take(self, side: Side) -> Worker:
        """The spare if it lives still, else a new one. Raises ``SandboxFault``."""
        await self.spare_ready.wait()
        spare = self._spares.pop(side, None)
        if spare is not None and not spare.ward.ended.is_set():
            return spare
        if spare is not None:
            await spare.end()
        return await self._new(side)

    def prepare_spares(self) -> None:
        """Have what the next candidate needs made in the background."""
        self.spare_ready = anyio.Event()
        self._making = anyio.CancelScope()
        self._group.start_soon(self._make_spares, self._making)

    async def _new(self, side: Side) -> Worker:
        """On a GPU its context is made. Raises ``SandboxFault``."""
        try:
            worker = await self._begun(side)
        except OSError as error:  # candidates fill disks, and use up descriptors
            raise SandboxFault(f"no {side} can be started: {error}") from error
        try:
            if self._device.is_cuda:
                await self._context_made(worker)
        except BaseException:
            await worker.end()
            raise
        return worker

    async def _begun(self, side: Side) -> Worker:
        self._homes += 1
        name = f"{side}-{self._device.name}-{self._homes}"
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                home = self._run.home(name)
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
            await _removed(self._run.path / name)
            raise
        return Worker(ward, ours, home)

    async def close(self) -> None:
        """Nothing is left of the spares, and none is made any more."""
        self._making.cancel()
        await self.spare_ready.wait()
        while self._spares:
            await self._spares.popitem()[1].end()

    async def _make_spares(self, making: anyio.CancelScope) -> None:
        """A failure here is the next evaluation's: it tries again, and then says so."""
        sides: tuple[Side, ...] = ("worker", "reference") if self.renews_reference else ("worker",)
        try:
            with making, suppress(SandboxFault):
                for side in sides:
                    if side not in self._spares:
                        self._spares[side] = await self._new(side)
        finally:
            self.spare_ready.set()

    async def _context_made(self, worker: Worker) -> None:
        line: Line[Reply] = Line(worker.peer, Reply)
        try:
            with anyio.fail_after(self._limits.start_s):
                await line.receive()
        except (PeerGone, BadFrame, TimeoutError):
            why = await worker.ward.last_words()
            raise DeviceNotReady(f"a worker can't use {self._device.name} ({why})") from None
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
