"""The ceilings of each device: probed once, under its lease, then kept on disk.

Kept for as long as torch, the driver, the machine's start and the cores stay what they were.
A probe that fails is a line that says why, and is tried again by the next sandbox.
"""

from __future__ import annotations

import socket
from pathlib import Path

import anyio
import anyio.to_thread
import msgspec

from events.observations import Ceilings
from gpu_sandbox.devices import Device, host_digest
from gpu_sandbox.frames import BadFrame, Line, PeerGone
from gpu_sandbox.jobs import Probed
from gpu_sandbox.keeping import Keeping
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import SandboxFault
from gpu_sandbox.process import child_environment
from gpu_sandbox.workdir import RunDirectory
from gpu_sandbox.zygote import Zygote

__all__ = ["KnownCeilings"]


class KnownCeilings:
    """``cache`` is shared between processes."""

    def __init__(
        self, cache: Path, limits: Limits, zygote: Zygote, run: RunDirectory, keeping: Keeping
    ) -> None:
        self._cache = cache
        self._keeping = keeping
        self._limits = limits
        self._zygote = zygote
        self._run = run
        self._known: dict[str, Ceilings | str] = {}

    def find(self, device: Device, cores: tuple[int, ...]) -> Ceilings | str | None:
        """Those of an earlier probe, or why it failed; None: there was none."""
        if device.name not in self._known:
            try:
                kept = self._path(device, cores).read_bytes()
                self._known[device.name] = msgspec.json.decode(kept, type=Ceilings)
            except (OSError, msgspec.MsgspecError):
                return None
        return self._known[device.name]

    async def probe(self, device: Device, cores: tuple[int, ...]) -> Ceilings | str:
        """The caller holds the device's lease. Never raises for a failed probe."""
        found = self.find(device, cores)
        if found is None:
            try:
                found = await self._ask(device, cores)
            except SandboxFault as fault:
                found = str(fault).splitlines()[0]
            self._known[device.name] = found
            if isinstance(found, Ceilings):
                path = self._path(device, cores)
                await anyio.to_thread.run_sync(self._keeping.file, path, msgspec.json.encode(found))
        return found

    def _path(self, device: Device, cores: tuple[int, ...]) -> Path:
        return self._cache / f"{host_digest(device, cores)}.json"

    async def _ask(self, device: Device, cores: tuple[int, ...]) -> Ceilings | str:
        ours, theirs = socket.socketpair()
        home = self._run.home("ceilings")
        threads = min(len(cores), self._limits.threads or len(cores))
        line: Line[Probed] = Line(ours, Probed)
        try:
            with theirs:
                ward = await self._zygote.spawn(
                    "ceilings",
                    {"device": device.inside, "cores": list(cores), "threads": threads},
                    {"control": theirs},
                    environment=child_environment(home, CUDA_VISIBLE_DEVICES=device.visible),
                    directory=home,
                    policy=None,
                )
            try:
                with anyio.fail_after(self._limits.call_s):
                    answer = await line.receive()
            except (PeerGone, BadFrame, TimeoutError):
                why = await ward.last_words()
                raise SandboxFault(f"the probe did not answer ({why})") from None
            finally:
                await ward.end()
        finally:
            line.close()
        return answer.ceilings or answer.missing
