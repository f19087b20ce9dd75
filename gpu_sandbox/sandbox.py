"""``LocalSandbox``: the evaluator that runs candidates on this machine.

Stages: static guard → compile pool (parallel, no device) → device stage (one exclusive
lease per device) → verdict. This process never imports torch; whatever runs foreign
code is a confined fork of the zygote (``zygote.py``, ``confine/``).
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Literal

import anyio
import anyio.abc
import anyio.to_thread
import msgspec

from events.outcomes import Outcome
from gpu_sandbox.builds import BuildFiles
from gpu_sandbox.compile_stage import Candidate, CompilePool
from gpu_sandbox.confine import Survey
from gpu_sandbox.cores import split_cores
from gpu_sandbox.devices import Device, DeviceFacts, device_named, devices_named
from gpu_sandbox.guard import inspect_candidate
from gpu_sandbox.hub import require_models
from gpu_sandbox.jobs import Job, Measured, TaskBroken
from gpu_sandbox.leases import Leases
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import (
    Baseline,
    BaselineRequest,
    DeviceLoad,
    EvaluationRequest,
    PoolUsage,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.protocols import Protocol, protocol_named
from gpu_sandbox.station import Concluded, Station, VerifierDied, VerifierSilent
from gpu_sandbox.verdicts import (
    beats,
    cleaned,
    looks_of,
    outcome_of,
    run_log_of,
    seconds_of,
    worst_of,
)
from gpu_sandbox.workdir import RunDirectory, remove_stale, run_directory
from gpu_sandbox.zygote import Zygote

__all__ = ["LocalSandbox", "default_cache"]

_CPU_BENCH_S, _CUDA_BENCH_S = 3.0, 5.0


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "stark-engine" / "sandbox"


class Judged(msgspec.Struct, frozen=True):
    """A device stage's end: where, what each look found, how long it waited for the lease,
    how long it held it."""

    device: Device
    concluded: list[Concluded]
    queue_s: float
    lease_s: float


class _Open(msgspec.Struct, frozen=True):
    """What exists between entering and leaving."""

    since: float
    run: RunDirectory
    zygote: Zygote
    group: anyio.abc.TaskGroup
    stations: dict[str, Station]
    pools: dict[bool, CompilePool]


class LocalSandbox:
    """Implements ``gpu_sandbox.port.Evaluator``; safe for concurrent calls of one loop.

    An asynchronous context manager: its processes live between entering and leaving, and
    are started when they are first needed. ``devices`` are the names that may be used.
    ``cache`` keeps finished builds and device facts (content-addressed; shared between
    processes). ``compile_jobs`` bounds the candidates that are compiled at the same time.
    """

    def __init__(
        self,
        devices: tuple[str, ...] = ("cpu",),
        *,
        limits: Limits | None = None,
        cache: Path | None = None,
        compile_jobs: int | None = None,
    ) -> None:
        self._devices = devices
        self._limits = limits or Limits()
        self._cache = cache or default_cache()
        self._compile_jobs = compile_jobs
        self._leases = Leases()
        self._facts = DeviceFacts(self._cache / "facts", self._limits)
        self._stack = AsyncExitStack()
        self._opened: _Open | None = None

    async def __aenter__(self) -> LocalSandbox:
        """Also sweeps up what killed engines left behind."""
        runs = Path(tempfile.gettempdir()) / f"gpu-sandbox-runs-{os.getuid()}"
        await anyio.to_thread.run_sync(remove_stale, runs)
        run = await self._stack.enter_async_context(run_directory(runs))
        group = await self._stack.enter_async_context(anyio.create_task_group())
        zygote = Zygote(group, run, self._limits)
        self._opened = _Open(time.monotonic(), run, zygote, group, {}, {})
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        opened, self._opened = self._opened, None
        assert opened is not None
        for station in opened.stations.values():
            await station.close()
        opened.group.cancel_scope.cancel()
        await self._stack.__aexit__(None, None, None)

    # --- the port

    def load(self) -> DeviceLoad:
        pools = list(self._opened.pools.values()) if self._opened else []
        return DeviceLoad(
            compiling=sum(pool.running for pool in pools),
            waiting_to_compile=sum(pool.waiting for pool in pools),
            waiting_for_device=self._leases.waiting,
            on_device=self._leases.holding,
        )

    async def fingerprint(self, device: str) -> dict[str, Any]:
        facts = await self._facts_of(self._pool_of(device))
        return {key: value for key, value in facts[0].items() if key != "uuid"}

    async def baseline(self, request: BaselineRequest) -> Baseline:
        require_models(request.task_source)
        devices = self._pool_of(request.device)
        facts = await self._facts_of(devices)
        job = self._job(request, "baseline", devices[0])
        try:
            judged = await self._judge(devices, facts, job, BuildFiles([], []), None)
        except VerifierDied as died:
            raise TaskUnusable(f"the reference's process died: {died}", died.output) from None
        except VerifierSilent as silent:
            raise TaskUnusable(f"the reference took too long: {silent}") from None
        report = judged.concluded[0].report
        finding = report.finding
        if isinstance(finding, TaskBroken):
            raise TaskUnusable(finding.reason, finding.detail)
        if not isinstance(finding, Measured):
            raise SandboxFault(f"a baseline ended as {type(finding).__name__}")
        return Baseline(
            runtime_ms=finding.runtime_ms,
            spread=finding.spread,
            repetitions=finding.repetitions,
            timings_s={**report.timings_s, "lease": judged.lease_s},
            isolation=await self._isolation(),
            audit=finding.audit,
            conditions=finding.conditions,
            notes=report.notes,
        )

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        require_models(request.task_source)
        devices = self._pool_of(request.device)
        job = self._job(request, "evaluate", devices[0])
        began = time.monotonic()
        inspected = inspect_candidate(request.candidate_source)
        timings = {"guard": time.monotonic() - began}
        isolation = await self._isolation()

        def verdict(outcome: Outcome, device: Device = devices[0], **found: Any) -> Verdict:
            return Verdict(
                outcome=cleaned(outcome),
                protocol=request.protocol,
                device=device.name,
                isolation=isolation,
                usage=self._usage(),
                **{"timings_s": timings, "queue_s": 0.0, **found},
            )

        if inspected.outcome is not None:
            return verdict(inspected.outcome)
        facts = await self._facts_of(devices)
        candidate = Candidate(
            source=request.candidate_source,
            task_source=request.task_source,
            device=devices[0],
            facts=facts[0],
            inspected=inspected,
        )
        built = await self._compilers(devices[0]).build(candidate)
        try:
            timings["compile"] = built.seconds
            if built.outcome is not None:
                return verdict(built.outcome, queue_s=built.queue_s, compile_log=built.log)
            to_beat = request.incumbent_ms or request.root_ms
            try:
                judged = await self._judge(devices, facts, job, built.files, to_beat)
            except (VerifierDied, VerifierSilent) as fault:
                raise SandboxFault(str(fault)) from None
        finally:
            built.files.close()
        concluded = worst_of(judged.concluded)
        finding = concluded.report.finding
        if isinstance(finding, TaskBroken):
            raise SandboxFault(f"the task itself failed: {finding.reason}\n{finding.detail}")
        timings.update(seconds_of(judged.concluded), lease=judged.lease_s)
        return verdict(
            outcome_of(concluded, request.root_ms),
            device=judged.device,
            queue_s=built.queue_s + judged.queue_s,
            compile_log=built.log,
            run_log=run_log_of(concluded),
            notes=[*built.notes, *concluded.report.notes, *looks_of(judged.concluded)],
        )

    # --- steps

    async def _judge(
        self,
        devices: list[Device],
        facts: list[dict[str, Any]],
        job: Job,
        files: BuildFiles,
        to_beat: float | None,
    ) -> Judged:
        """One job under the lease of one of ``devices``, and a second look by a fresh
        process on new inputs at what would beat ``to_beat`` milliseconds.

        Raises ``VerifierDied`` and ``VerifierSilent``.
        """
        waiting = time.monotonic()
        by_identity = {_identity(d, f): d for d, f in zip(devices, facts, strict=True)}
        async with self._leases.hold(*by_identity) as identity:
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

    def _pool_of(self, names: str) -> list[Device]:
        """The devices of a request: one, or several that it may run on."""
        devices = [device_named(name) for name in names.split(",")]
        ours = [name for listed in self._devices for name in devices_named(listed)]
        for device in devices:
            if device.name not in ours:
                listed = ", ".join(ours)
                raise PrerequisiteMissing(
                    f"device {device.name!r} is not one of this sandbox's: {listed}"
                )
        return devices

    def _job(
        self,
        request: BaselineRequest | EvaluationRequest,
        mode: Literal["baseline", "evaluate"],
        device: Device,
    ) -> Job:
        default = _CUDA_BENCH_S if device.is_cuda else _CPU_BENCH_S
        limits = self._limits
        return Job(
            mode=mode,
            task_source=request.task_source,
            candidate_source=getattr(request, "candidate_source", ""),
            libraries=[],
            device=device.inside,
            protocol=_protocol(request.protocol),
            seed=request.seed,
            threads=1,
            load_s=max(limits.call_s, limits.start_s),
            call_s=limits.call_s,
            bench_s=default if limits.bench_s is None else limits.bench_s,
        )

    def _usage(self) -> PoolUsage:
        opened = self._open
        pools = opened.pools.values()
        load = self.load()
        return PoolUsage(
            up_s=time.monotonic() - opened.since,
            devices=len(opened.stations),
            device_busy_s=self._leases.held_s,
            device_queue=load.waiting_for_device,
            compile_places=sum(pool.jobs for pool in pools),
            compile_busy_s=sum(pool.busy_s for pool in pools),
            compile_queue=load.waiting_to_compile,
        )

    # --- what lives as long as the sandbox

    @property
    def _open(self) -> _Open:
        if self._opened is None:
            raise RuntimeError("a LocalSandbox works inside 'async with' only")
        return self._opened

    async def _facts_of(self, devices: list[Device]) -> list[dict[str, Any]]:
        """In the same order. Devices of one pool must be of one kind: a runtime means
        nothing beside another device's."""
        opened = self._open
        found = [
            await self._facts.of(device, self._cores(device)[0], opened.zygote, opened.run)
            for device in devices
        ]
        if len({facts["name"] for facts in found}) > 1:
            names = ", ".join(
                f"{d.name} is {f['name']}" for d, f in zip(devices, found, strict=True)
            )
            raise PrerequisiteMissing(f"devices used together must be alike: {names}")
        return found

    async def survey(self) -> Survey:
        """What confines candidates here, as attacks on each layer have shown."""
        return await self._open.zygote.survey()

    async def _isolation(self) -> list[str]:
        survey = await self.survey()
        return [*survey.layers, *(f"missing:{name}" for name in survey.missing)]

    def _cores(self, device: Device) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """The cores that time ``device``, and those that compile for it."""
        available = sorted(os.sched_getaffinity(0))
        if not device.is_cuda:
            cores = split_cores(available, 0)
            return cores.timing[0], cores.compiling
        ours = [name for listed in self._devices for name in devices_named(listed)]
        gpus = [d for d in map(device_named, ours) if d.is_cuda]
        cores = split_cores(available, len(gpus))
        return cores.timing[gpus.index(device)], cores.compiling

    def _station(self, device: Device) -> Station:
        opened = self._open
        if device.name not in opened.stations:
            opened.stations[device.name] = Station(
                device,
                opened.zygote,
                opened.run,
                opened.group,
                self._limits,
                self._cores(device)[0],
            )
        return opened.stations[device.name]

    def _compilers(self, device: Device) -> CompilePool:
        opened = self._open
        if device.is_cuda not in opened.pools:
            cores = self._cores(device)[1]
            opened.pools[device.is_cuda] = CompilePool(
                self._cache / "builds",
                self._limits,
                opened.zygote,
                opened.run,
                jobs=self._compile_jobs or len(cores),
                cores=cores,
            )
        return opened.pools[device.is_cuda]


def _identity(device: Device, facts: dict[str, Any]) -> str:
    return str(facts.get("uuid") or device.name)


def _protocol(name: str) -> Protocol:
    try:
        return protocol_named(name)
    except ValueError as error:
        raise PrerequisiteMissing(str(error)) from None
