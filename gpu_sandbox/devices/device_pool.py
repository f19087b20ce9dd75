"""The devices of a sandbox: one job at a time on each, under its exclusive lease.

A device of no more use is quarantined for as long as the sandbox lives; the others go on.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, nullcontext, suppress
from functools import partial
from typing import Any

import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import NoDeviceLeft, PrerequisiteMissing, SandboxFault
from gpu_sandbox.backends.known import backend_of, device_named, devices_named
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.devices.cpu_affinity import cores_of, sharing
from gpu_sandbox.devices.device_facts import DeviceFacts
from gpu_sandbox.devices.device_session import STUCK, DeviceSession, JobResult
from gpu_sandbox.devices.judging import Judge
from gpu_sandbox.devices.lease import Leases
from gpu_sandbox.devices.recheck import ToBeat
from gpu_sandbox.devices.timing_lock import TimingLock, timing_file
from gpu_sandbox.ipc.verifier_messages import Agreed, Job
from gpu_sandbox.supervise.zygote_client import Zygote

_MAX_WAITING = 1  # when more wait for a device, optional work on it is left out


class Judged(msgspec.Struct, frozen=True):
    """What a device found of a job. ``identity`` is its lease's; ``breakdowns`` are the
    verifier's, of which two that are the candidate's doing leave no results."""

    device: Device
    identity: str
    results: list[JobResult]
    breakdowns: list[str]
    queue_s: float = 0.0
    lease_s: float = 0.0


class DevicePool:
    """The devices of one sandbox, named ``names``. Safe for concurrent calls of one loop."""

    def __init__(
        self,
        names: tuple[str, ...],
        facts: DeviceFacts,
        zygote: Zygote,
        preparing: Callable[[str], int],
    ) -> None:
        """``preparing``: how many candidates are prepared on the device of a lease's identity."""
        self._names = names
        self._preparing = preparing
        self._facts = facts
        self._limits = zygote.limits
        self._zygote = zygote
        self._judge = Judge(zygote.limits)
        self._sessions: dict[str, DeviceSession] = {}
        self._requested: set[str] = set()
        self.leases = Leases(zygote.group)
        self.quarantined: dict[str, str] = {}
        """Device → reason."""

    def __len__(self) -> int:
        """How many were ever requested, quarantined ones included."""
        return len(self._requested)

    def of(self, names: str) -> list[Device]:
        """The devices of a request: one, or several that it may run on.

        Raises ``PrerequisiteMissing`` for one that is not this sandbox's.
        """
        devices = [device_named(name) for name in names.split(",")]
        ours = [name for listed in self._names for name in devices_named(listed)]
        for device in devices:
            if device.name not in ours:
                listed = ", ".join(ours)
                raise PrerequisiteMissing(
                    f"device {device.name!r} is not one of this sandbox's: {listed}"
                )
        return devices

    async def facts_of(self, devices: list[Device]) -> list[dict[str, Any]]:
        """Facts in the same order. Raises ``PrerequisiteMissing`` where devices of one request
        differ, whose runtimes could not be compared, and ``SandboxFault``."""
        found = [await self._facts.of(device, self.timing(device)) for device in devices]
        if len({facts["name"] for facts in found}) > 1:
            names = ", ".join(
                f"{d.name} is {f['name']}" for d, f in zip(devices, found, strict=True)
            )
            raise PrerequisiteMissing(f"devices used together must be alike: {names}")
        return found

    def get_ready(self, devices: list[Device], facts: list[dict[str, Any]]) -> None:
        """Make contexts for a first job in the background, while its candidate is compiled. One
        candidate gets no several devices ready."""
        device, identity = devices[0], _identity(devices[0], facts[0])
        if len(devices) > 1 or not backend_of(device).has_contexts:
            return
        if device.name not in self._sessions:
            session = self._session(device, identity)
            self._zygote.group.start_soon(self._get_ready, session, identity)

    async def _get_ready(self, session: DeviceSession, identity: str) -> None:
        with suppress(SandboxFault, PrerequisiteMissing, OSError):  # the job finds out
            async with self.leases.hold(identity):
                await session.get_ready()

    async def judge(
        self,
        devices: list[Device],
        facts: list[dict[str, Any]],
        job: Job,
        files: BuildFiles,
        to_beat: ToBeat | None,
    ) -> Judged:
        """Do a job under the lease of one of ``devices``. What beats ``to_beat`` is judged again
        by fresh processes on new inputs.

        Raises ``SandboxFault``, and for a baseline ``VerifierDied`` and ``VerifierSilent``.
        """
        waiting = time.monotonic()
        self._requested.update(device.name for device in devices)
        while True:
            by_identity = self.fit(devices, facts)
            if not by_identity:
                raise NoDeviceLeft(self._nothing_left(devices))
            async with self.leases.hold(*by_identity) as lease:
                leased = time.monotonic()
                device = by_identity[lease.identity]
                if device.name in self.quarantined:
                    continue  # while this one waited
                session = self._session(device, lease.identity)
                job = msgspec.structs.replace(
                    job,
                    device=device.inside,
                    libraries=files.names,
                    threads=self.threads(device),
                )
                breakdowns: list[str] = []
                try:
                    results = await self._judge.results(
                        session, job, files.fds, to_beat, breakdowns
                    )
                finally:
                    lease.clear = session.clear
                held_s = time.monotonic() - leased
            # What a candidate failed in stands; a good figure needs a device to trust.
            if session.unfit and any(isinstance(r.report.finding, Agreed) for r in results):
                raise SandboxFault(f"{device.name}: {session.unfit}")
            queue_s = leased - waiting
            return Judged(device, lease.identity, results, breakdowns, queue_s, held_s)

    @asynccontextmanager
    async def lease_again(
        self, judged: Judged, *, even_if_others_wait: bool = False, times: bool = True
    ) -> AsyncIterator[tuple[int, ...] | None]:
        """The lease of the device that ``judged`` is from, for optional work: the cores to do it
        on, or None where others wait (unless ``even_if_others_wait``) or it is quarantined.

        No earlier candidate is left on it. If the work ``times``, no preparation runs meanwhile.
        """
        if self.leases.waiting > _MAX_WAITING and not even_if_others_wait:
            yield None
            return
        async with self.leases.hold(judged.identity) as lease:
            await lease.clear.wait()
            fit = judged.device.name not in self.quarantined
            timed = TimingLock(timing_file(judged.identity)).held() if times else nullcontext()
            async with timed:
                yield self.timing(judged.device) if fit else None

    @asynccontextmanager
    async def while_idle(self, judged: Judged) -> AsyncIterator[tuple[int, ...] | None]:
        """The same, or None where any engine waits for a device, before the lease or with it."""
        if self.leases.waiting:
            yield None
            return
        async with self.lease_again(judged, times=False) as cores:
            yield None if self.leases.others_wait() else cores

    def fit(self, devices: list[Device], facts: list[dict[str, Any]]) -> dict[str, Device]:
        """Those that are not quarantined, by the identities of their leases."""
        by_identity = {_identity(d, f): d for d, f in zip(devices, facts, strict=True)}
        return {i: d for i, d in by_identity.items() if d.name not in self.quarantined}

    def stuck(self, device: Device) -> None:
        """Quarantine it: a killed process still holds it."""
        self._quarantine(device, STUCK)

    def _quarantine(self, device: Device, reason: str) -> None:
        self.quarantined.setdefault(device.name, reason)

    async def close(self) -> None:
        for session in self._sessions.values():
            await session.close()

    def _nothing_left(self, devices: list[Device]) -> str:
        reasons = "; ".join(f"{d.name}: {self.quarantined[d.name]}" for d in devices)
        return f"no device is left: {reasons}. See: engine doctor"

    def timing(self, device: Device) -> tuple[int, ...]:
        """The cores that time it."""
        return cores_of(device, self._names)[0]

    def threads(self, device: Device) -> int:
        """How many threads a job on it has."""
        cores = len(self.timing(device))
        return min(cores, self._limits.threads or cores)

    def sharing(self, device: Device) -> list[str]:
        """Notes on timings where compilers share its cores."""
        return sharing(device, self._names)

    def _session(self, device: Device, identity: str) -> DeviceSession:
        if device.name not in self._sessions:
            self._sessions[device.name] = DeviceSession(
                device,
                self._zygote,
                self.timing(device),
                TimingLock(timing_file(identity)),
                partial(self._preparing, identity),
                self.leases.others_wait,
                partial(self._quarantine, device),
            )
        return self._sessions[device.name]


def _identity(device: Device, facts: dict[str, Any]) -> str:
    """Of the device's lease."""
    return backend_of(device).lease_identity(device, facts)
