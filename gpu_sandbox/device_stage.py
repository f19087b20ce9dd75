"""The device stage: one job at a time on each device, under its exclusive lease."""

from __future__ import annotations

import os
import time
from typing import Any

import msgspec
from anyio.abc import TaskGroup

from gpu_sandbox.builds import BuildFiles
from gpu_sandbox.cores import split_cores
from gpu_sandbox.devices import Device, DeviceFacts, device_named, devices_named
from gpu_sandbox.jobs import Job
from gpu_sandbox.leases import Leases
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import BaselineRequest, EvaluationRequest, PrerequisiteMissing
from gpu_sandbox.prerequisites import hub_environment
from gpu_sandbox.protocols import Protocol, protocol_named
from gpu_sandbox.station import Concluded, Station
from gpu_sandbox.verdicts import beats
from gpu_sandbox.workdir import RunDirectory
from gpu_sandbox.zygote import Zygote

__all__ = ["DevicePool", "Judged", "cores_of", "job_for"]

_CPU_BENCH_S, _CUDA_BENCH_S = 3.0, 5.0


class Judged(msgspec.Struct, frozen=True):
    """A device stage's end: where, what each look found, how long it waited for the lease,
    how long it held it."""

    device: Device
    concluded: list[Concluded]
    queue_s: float
    lease_s: float


class DevicePool:
    """The devices of one sandbox, named ``names``. Safe for concurrent calls of one loop."""

    def __init__(
        self,
        names: tuple[str, ...],
        facts: DeviceFacts,
        limits: Limits,
        zygote: Zygote,
        run: RunDirectory,
        group: TaskGroup,
    ) -> None:
        self._names = names
        self._facts = facts
        self._limits = limits
        self._zygote = zygote
        self._run = run
        self._group = group
        self._stations: dict[str, Station] = {}
        self.leases = Leases()

    def __len__(self) -> int:
        """How many have worked so far."""
        return len(self._stations)

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
        found = [
            await self._facts.of(device, self._timing(device), self._zygote, self._run)
            for device in devices
        ]
        if len({facts["name"] for facts in found}) > 1:
            names = ", ".join(
                f"{d.name} is {f['name']}" for d, f in zip(devices, found, strict=True)
            )
            raise PrerequisiteMissing(f"devices used together must be alike: {names}")
        return found

    async def judge(
        self,
        devices: list[Device],
        facts: list[dict[str, Any]],
        job: Job,
        files: BuildFiles,
        to_beat: float | None,
    ) -> Judged:
        """One job under the lease of one of ``devices``, and a second look by a fresh
        process on new inputs at what would beat ``to_beat`` milliseconds.

        Raises ``VerifierDied``, ``VerifierSilent`` and ``SandboxFault``.
        """
        waiting = time.monotonic()
        by_identity = {_identity(d, f): d for d, f in zip(devices, facts, strict=True)}
        async with self.leases.hold(*by_identity) as identity:
            leased = time.monotonic()
            limit_s = self._limits.device_s
            if job.mode == "baseline":  # no worker: nothing but the reference can be slow
                limit_s = min(limit_s, 4 * self._limits.call_s)
            device = by_identity[identity]
            station = self._station(device)
            job = msgspec.structs.replace(
                job, device=device.inside, libraries=files.names, threads=station.threads
            )
            concluded = [await station.conclude(job, files.fds, limit_s)]
            if to_beat is not None and job.protocol.second_look and beats(concluded[0], to_beat):
                concluded.append(await station.conclude(job, files.fds, limit_s))
        ended = time.monotonic()
        return Judged(device, concluded, queue_s=leased - waiting, lease_s=ended - leased)

    async def close(self) -> None:
        """Nothing is left of any station."""
        for station in self._stations.values():
            await station.close()

    def _timing(self, device: Device) -> tuple[int, ...]:
        return cores_of(device, self._names)[0]

    def _station(self, device: Device) -> Station:
        if device.name not in self._stations:
            self._stations[device.name] = Station(
                device,
                self._zygote,
                self._run,
                self._group,
                self._limits,
                self._timing(device),
            )
        return self._stations[device.name]


def cores_of(device: Device, names: tuple[str, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The cores that time ``device``, one of those named, and those that compile for it."""
    available = sorted(os.sched_getaffinity(0))
    if not device.is_cuda:
        cores = split_cores(available, 0)
        return cores.timing[0], cores.compiling
    ours = [name for listed in names for name in devices_named(listed)]
    gpus = [d for d in map(device_named, ours) if d.is_cuda]
    cores = split_cores(available, len(gpus))
    return cores.timing[gpus.index(device)], cores.compiling


def job_for(request: BaselineRequest | EvaluationRequest, device: Device, limits: Limits) -> Job:
    """What to do on ``device`` or one like it. Raises ``PrerequisiteMissing``."""
    source = request.candidate_source if isinstance(request, EvaluationRequest) else None
    default_s = _CUDA_BENCH_S if device.is_cuda else _CPU_BENCH_S
    return Job(
        mode="baseline" if source is None else "evaluate",
        task_source=request.task_source,
        candidate_source=source or "",
        libraries=[],
        device=device.inside,
        protocol=_protocol(request.protocol),
        seed=request.seed,
        threads=1,
        load_s=max(limits.call_s, limits.start_s),
        call_s=limits.call_s,
        bench_s=default_s if limits.bench_s is None else limits.bench_s,
        environment=hub_environment(request.task_source),
    )


def _protocol(name: str) -> Protocol:
    try:
        return protocol_named(name)
    except ValueError as error:
        raise PrerequisiteMissing(str(error)) from None


def _identity(device: Device, facts: dict[str, Any]) -> str:
    return str(facts.get("uuid") or device.name)
