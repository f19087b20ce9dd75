"""The device stage: one job at a time on each device, under its exclusive lease.

A device that is of no more use is quarantined for as long as the sandbox lives: it gets no
more jobs, and the others go on. A verifier that dies, or in which the reference fails, costs
its own candidate only: after the second time the reference itself is judged as a
candidate. If that works, the candidate is to blame, else the device or the task. Changed inputs
that a verifier does not survive, before there is a candidate, are left out from then on.
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
from gpu_sandbox.devices.device_session import STUCK, Concluded, Station
from gpu_sandbox.devices.lease import Leases
from gpu_sandbox.devices.second_look import Looks, ToBeat, beats, undoubted
from gpu_sandbox.devices.timing_lock import TimingLock, timing_file
from gpu_sandbox.devices.verifier_client import VerifierDied, VerifierSilent
from gpu_sandbox.ipc.verifier_messages import Agreed, Job, TaskBroken
from gpu_sandbox.supervise.zygote_client import Zygote

_BUSY = 1
"""When more wait for a device, nobody gets it once more."""
_TRIES = 2
_PROOF_BENCH_S = 0.5
_ITSELF = "\n\nclass ModelNew(Model):\n    pass\n"


class ReferenceFailed(Exception):
    """In the verifier, beside a candidate: which may have left it no memory."""


_BREAKDOWNS = (VerifierDied, VerifierSilent, ReferenceFailed)


class Judged(msgspec.Struct, frozen=True):
    """A device stage's end: where (``identity`` is the lease's), what was seen, how long it
    waited for the lease, how long it held it."""

    device: Device
    identity: str
    looks: Looks
    queue_s: float
    lease_s: float


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
        self._stations: dict[str, Station] = {}
        self._asked_for: set[str] = set()
        self.leases = Leases(zygote.group)
        self.quarantined: dict[str, str] = {}
        """Device → why it is used no more."""
        self._left_out: dict[tuple[str, str], list[str]] = {}
        """Task and device → inputs that no verifier survived."""

    def __len__(self) -> int:
        """How many there has been work for, quarantined ones too."""
        return len(self._asked_for)

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
        """In the same order. Devices of one request must be of one kind: a runtime means
        nothing beside another device's. Raises ``PrerequisiteMissing``, ``SandboxFault``."""
        found = [await self._facts.of(device, self.timing(device)) for device in devices]
        if len({facts["name"] for facts in found}) > 1:
            names = ", ".join(
                f"{d.name} is {f['name']}" for d, f in zip(devices, found, strict=True)
            )
            raise PrerequisiteMissing(f"devices used together must be alike: {names}")
        return found

    def get_ready(self, devices: list[Device], facts: list[dict[str, Any]]) -> None:
        """In the background, contexts for a first job, which take a second. For a candidate
        that is compiled meanwhile; several devices will not be made ready for one."""
        device, identity = devices[0], _identity(devices[0], facts[0])
        if len(devices) > 1 or not backend_of(device).has_contexts:
            return
        if device.name not in self._stations:
            station = self._station(device, identity)
            self._zygote.group.start_soon(self._get_ready, station, identity)

    async def _get_ready(self, station: Station, identity: str) -> None:
        with suppress(SandboxFault, PrerequisiteMissing, OSError):  # the job finds out
            async with self.leases.hold(identity):
                await station.get_ready()

    async def judge(
        self,
        devices: list[Device],
        facts: list[dict[str, Any]],
        job: Job,
        files: BuildFiles,
        to_beat: ToBeat | None,
    ) -> Judged:
        """One job under the lease of one of ``devices``, and a second look by a fresh
        process on new inputs at what would beat ``to_beat``.

        Raises ``SandboxFault``, and for a baseline ``VerifierDied`` and ``VerifierSilent``.
        """
        waiting = time.monotonic()
        self._asked_for.update(device.name for device in devices)
        while True:
            by_identity = self.fit(devices, facts)
            if not by_identity:
                raise NoDeviceLeft(self._nothing_left(devices))
            async with self.leases.hold(*by_identity) as lease:
                leased = time.monotonic()
                device = by_identity[lease.identity]
                if device.name in self.quarantined:
                    continue  # while this one waited
                station = self._station(device, lease.identity)
                try:
                    looks = await self._looked(station, job, files, to_beat)
                finally:
                    lease.clear = station.clear
                held_s = time.monotonic() - leased
            self._refuse_of_unfit(station, looks)
            return Judged(device, lease.identity, looks, leased - waiting, held_s)

    @asynccontextmanager
    async def once_more(
        self, judged: Judged, *, whoever_waits: bool = False, times: bool = True
    ) -> AsyncIterator[tuple[int, ...] | None]:
        """The lease of the device that ``judged`` is from, for what can be left undone: the
        cores to do it on, or None where others wait (unless ``whoever_waits``) or the device
        is quarantined. Nothing of an earlier candidate is left on it. If it ``times`` something,
        no preparation runs meanwhile."""
        if self.leases.waiting > _BUSY and not whoever_waits:
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
        """The same, or None where anybody waits: before it is had, or when it is, who came after
        us, here or in another engine."""
        if self.leases.waiting:
            yield None
            return
        async with self.once_more(judged, times=False) as cores:
            yield None if self.leases.others_wait() else cores

    def fit(self, devices: list[Device], facts: list[dict[str, Any]]) -> dict[str, Device]:
        """Those that are not quarantined, by the identities of their leases."""
        by_identity = {_identity(d, f): d for d, f in zip(devices, facts, strict=True)}
        return {i: d for i, d in by_identity.items() if d.name not in self.quarantined}

    def stuck(self, device: Device) -> None:
        """Quarantine it: a process of somebody else's on it can't be ended."""
        self._quarantine(device, STUCK)

    def _quarantine(self, device: Device, why: str) -> None:
        self.quarantined.setdefault(device.name, why)

    async def close(self) -> None:
        """Nothing is left of any station."""
        for station in self._stations.values():
            await station.close()

    async def _looked(
        self, station: Station, job: Job, files: BuildFiles, to_beat: ToBeat | None
    ) -> Looks:
        """Looks, once more if the verifier breaks down, and finds out whose fault that was."""
        device, threads = station.device, self.threads(station.device)
        job = msgspec.structs.replace(
            job, device=device.inside, libraries=files.names, threads=threads
        )
        breakdowns: list[str] = []
        try:
            while len(breakdowns) < _TRIES:
                left_out = self._left_out.get((job.task_source, job.device), [])
                job = msgspec.structs.replace(job, leave_out=left_out)
                try:
                    return Looks(await self._look(station, job, files, to_beat), breakdowns)
                except _BREAKDOWNS as breakdown:
                    if self._leaves_out(job, breakdown):
                        continue
                    if job.mode == "baseline" or station.unfit:
                        raise
                    breakdowns.append(str(breakdown))
            await self._prove(station, job)
            return Looks([], breakdowns)
        except (*_BREAKDOWNS, SandboxFault) as fault:
            if station.unfit:
                raise SandboxFault(f"{station.device.name}: {station.unfit}") from fault
            raise

    def _leaves_out(self, job: Job, breakdown: Exception) -> bool:
        """Whether the next one is to do without some inputs. A GPU's context does not outlive an
        assertion in a kernel: that a probability is none, say."""
        if not isinstance(breakdown, VerifierDied | VerifierSilent):
            return False
        if not breakdown.trying or breakdown.trying in job.leave_out:
            return False
        self._left_out[job.task_source, job.device] = [*job.leave_out, breakdown.trying]
        return True

    async def _look(
        self, station: Station, job: Job, files: BuildFiles, to_beat: ToBeat | None
    ) -> list[Concluded]:
        limit_s = max(self._limits.device_s, 4 * job.call_s)
        if job.mode == "baseline":  # no worker: nothing but the reference can be slow
            limit_s = 4 * job.call_s
        look = partial(self._concluded, station, libraries=files.fds, limit_s=limit_s)
        first = await undoubted(look, job)
        if to_beat is None or not job.protocol.second_look or not beats(first, to_beat):
            return [first]
        again = msgspec.structs.replace(job, observe=[])  # the first look's will do
        return [first, await undoubted(partial(look, afresh=True), again)]

    async def _concluded(
        self,
        station: Station,
        job: Job,
        libraries: list[int],
        limit_s: float,
        *,
        afresh: bool = False,
    ) -> Concluded:
        concluded = await station.conclude(job, libraries, limit_s, afresh=afresh)
        finding = concluded.report.finding
        if isinstance(finding, TaskBroken) and job.mode == "evaluate":
            raise ReferenceFailed(f"{finding.reason}\n{finding.detail}".strip())
        return concluded

    def _refuse_of_unfit(self, station: Station, looks: Looks) -> None:
        """What a candidate failed in stands; a good figure needs a device to trust."""
        if not station.unfit:
            return
        if any(isinstance(c.report.finding, Agreed) for c in looks.concluded):
            raise SandboxFault(f"{station.device.name}: {station.unfit}")

    async def _prove(self, station: Station, job: Job) -> None:
        """The reference as its own candidate. If it fails, the task is to blame, and also if the
        verifier makes a mistake of its own with it, which another device would not help; if it
        dies of it otherwise, the station is unfit."""
        job = msgspec.structs.replace(
            job,
            candidate_source=job.task_source + _ITSELF,
            libraries=[],
            bench_s=min(job.bench_s, _PROOF_BENCH_S),
        )
        try:
            await self._concluded(station, job, [], self._limits.device_s)
        except ReferenceFailed as failure:
            raise SandboxFault(f"the task itself failed: {failure}") from None
        except (VerifierDied, VerifierSilent, SandboxFault) as fault:
            if isinstance(fault, VerifierDied) and fault.mistake:
                raise SandboxFault(f"the task can't be judged: {fault.mistake}") from None
            said = str(fault).splitlines()[0]
            station.find_unfit(f"the reference can't be judged on it: {said}")
            raise

    def _nothing_left(self, devices: list[Device]) -> str:
        told = "; ".join(f"{d.name}: {self.quarantined[d.name]}" for d in devices)
        return f"no device is left: {told}. See: engine doctor"

    def timing(self, device: Device) -> tuple[int, ...]:
        """The cores that time it."""
        return cores_of(device, self._names)[0]

    def threads(self, device: Device) -> int:
        """How many a job on it has."""
        cores = len(self.timing(device))
        return min(cores, self._limits.threads or cores)

    def sharing(self, device: Device) -> list[str]:
        """A note on what is timed on it, if need be."""
        return sharing(device, self._names)

    def _station(self, device: Device, identity: str) -> Station:
        if device.name not in self._stations:
            self._stations[device.name] = Station(
                device,
                self._zygote,
                self.timing(device),
                TimingLock(timing_file(identity)),
                partial(self._preparing, identity),
                self.leases.others_wait,
                partial(self._quarantine, device),
            )
        return self._stations[device.name]


def _identity(device: Device, facts: dict[str, Any]) -> str:
    """Of the device's lease."""
    return backend_of(device).lease_identity(device, facts)
