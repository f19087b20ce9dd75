"""``LocalSandbox``: the evaluator that runs candidates on this machine.

Stages: static guard → compile pool (parallel, no device) → device stage (one exclusive
lease per device) → verdict. This process never imports torch; whatever runs foreign
code is a child under discipline (``process.py``).
"""

from __future__ import annotations

import os
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from types import TracebackType
from typing import Any

import anyio
import msgspec

from events.outcomes import Outcome
from gpu_sandbox.compile_stage import CompilePool
from gpu_sandbox.device_stage import (
    Concluded,
    VerifierDied,
    VerifierSilent,
    pair_of_children,
)
from gpu_sandbox.devices import Device, DeviceFacts, device_named
from gpu_sandbox.guard import inspect_candidate
from gpu_sandbox.leases import Leases
from gpu_sandbox.limits import Limits
from gpu_sandbox.messages import Job, Measured, TaskBroken
from gpu_sandbox.port import (
    Baseline,
    BaselineRequest,
    DeviceLoad,
    EvaluationRequest,
    PrerequisiteMissing,
    SandboxFault,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.prerequisites import hub_environment
from gpu_sandbox.protocols import Protocol, protocol_named
from gpu_sandbox.verdicts import outcome_of, run_log_of
from gpu_sandbox.workdir import RunDirectory, remove_stale, run_directory

__all__ = ["ISOLATION", "LocalSandbox", "default_cache"]

ISOLATION = (
    "process-group",
    "rlimits",
    "scrubbed-env",
    "private-tmp",
    "closed-descriptors",
    "capped-output",
    "missing:uid",
    "missing:namespaces",
    "missing:landlock",
    "missing:seccomp",
    "missing:cgroup",
)
"""What holds in this version, and what does not; stamped into every verdict."""

_CPU_BENCH_S, _CUDA_BENCH_S = 3.0, 5.0


def default_cache() -> Path:
    base = os.environ.get("XDG_CACHE_HOME") or str(Path.home() / ".cache")
    return Path(base) / "stark-engine" / "sandbox"


class Judged(msgspec.Struct, frozen=True):
    """A device stage's end: how long it waited for the lease, how long it held it."""

    concluded: Concluded
    queue_s: float
    lease_s: float


class LocalSandbox:
    """Implements ``gpu_sandbox.port.Evaluator``; safe for concurrent calls of one loop.

    ``devices`` are the names that may be used. ``cache`` keeps finished builds and
    device facts (content-addressed; shared between processes). ``compile_jobs`` bounds
    the candidates that are compiled at the same time. As a context manager it sweeps up
    what killed engines left behind; evaluations clean up after themselves regardless.
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
        self._runs = Path(tempfile.gettempdir()) / f"gpu-sandbox-runs-{os.getuid()}"
        self._leases = Leases()
        self._facts = DeviceFacts(self._cache / "facts", self._runs, self._limits)
        jobs = compile_jobs or max(1, len(os.sched_getaffinity(0)) - 1)
        self._compilers = CompilePool(self._cache / "builds", self._limits, jobs)

    async def __aenter__(self) -> LocalSandbox:
        await anyio.to_thread.run_sync(remove_stale, self._runs)
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        return None

    # --- the port

    def load(self) -> DeviceLoad:
        return DeviceLoad(
            compiling=self._compilers.running,
            waiting_for_device=self._leases.waiting,
            on_device=self._leases.holding,
        )

    async def fingerprint(self, device: str) -> dict[str, Any]:
        facts = await self._facts.of(self._device(device))
        return {key: value for key, value in facts.items() if key != "uuid"}

    async def baseline(self, request: BaselineRequest) -> Baseline:
        device = self._device(request.device)
        protocol = _protocol(request.protocol)
        facts = await self._facts.of(device)
        extra = hub_environment(request.task_source)
        async with run_directory(self._runs) as run:
            task = run.write("verifier/task.py", request.task_source)
            job = self._job("baseline", task, Path(), device, protocol, request.seed)
            try:
                judged = await self._judge(run, device, facts, job, None, extra)
            except VerifierDied as died:
                raise TaskUnusable(f"the reference's process died: {died}", died.output) from None
            except VerifierSilent as silent:
                raise TaskUnusable(f"the reference took too long: {silent}") from None
        concluded = judged.concluded
        finding = concluded.report.finding
        if isinstance(finding, TaskBroken):
            raise TaskUnusable(finding.reason, finding.detail)
        if not isinstance(finding, Measured):
            raise SandboxFault(f"a baseline ended as {type(finding).__name__}")
        return Baseline(
            runtime_ms=finding.runtime_ms,
            spread=finding.spread,
            repetitions=finding.repetitions,
            timings_s={**concluded.report.timings_s, "lease": judged.lease_s},
            isolation=list(ISOLATION),
            notes=concluded.report.notes,
        )

    async def evaluate(self, request: EvaluationRequest) -> Verdict:
        device = self._device(request.device)
        protocol = _protocol(request.protocol)
        began = time.monotonic()
        inspected = inspect_candidate(request.candidate_source)
        timings = {"guard": time.monotonic() - began}

        def verdict(outcome: Outcome, **found: Any) -> Verdict:
            return Verdict(
                outcome=outcome,
                protocol=protocol.name,
                device=device.name,
                isolation=list(ISOLATION),
                **{"timings_s": timings, "queue_s": 0.0, **found},
            )

        if inspected.outcome is not None:
            return verdict(inspected.outcome)
        facts = await self._facts.of(device)
        extra = hub_environment(request.task_source)
        async with run_directory(self._runs) as run:
            task = run.write("verifier/task.py", request.task_source)
            candidate = run.write("worker/candidate.py", request.candidate_source)
            built = await self._compilers.build(
                run, request.candidate_source, task, candidate, device, facts, inspected, extra
            )
            timings["compile"] = built.seconds
            if built.outcome is not None:
                return verdict(built.outcome, queue_s=built.queue_s, compile_log=built.log)
            job = self._job("evaluate", task, candidate, device, protocol, request.seed)
            try:
                judged = await self._judge(run, device, facts, job, built.extensions, extra)
            except (VerifierDied, VerifierSilent) as fault:
                raise SandboxFault(str(fault)) from None
        concluded = judged.concluded
        finding = concluded.report.finding
        if isinstance(finding, TaskBroken):
            raise SandboxFault(f"the task itself failed: {finding.reason}\n{finding.detail}")
        timings.update(concluded.report.timings_s, lease=judged.lease_s)
        return verdict(
            outcome_of(concluded, request.root_ms),
            queue_s=built.queue_s + judged.queue_s,
            compile_log=built.log,
            run_log=run_log_of(concluded),
            notes=[*built.notes, *concluded.report.notes],
        )

    # --- steps

    async def _judge(
        self,
        run: RunDirectory,
        device: Device,
        facts: dict[str, Any],
        job: Job,
        extensions: Path | None,
        extra: dict[str, str],
    ) -> Judged:
        """One job under the lease. Raises ``VerifierDied`` and ``VerifierSilent``.

        On CUDA the children start before they queue for the device: importing torch
        disturbs no kernel. On the CPU it would disturb whoever is being timed.
        """
        pair_of = pair_of_children(run, device, self._limits, self._threads, extensions, extra)
        async with AsyncExitStack() as stack:
            pair = None
            if device.is_cuda:
                pair = await stack.enter_async_context(pair_of)
                await pair.ready(self._limits.start_s)
            waiting = time.monotonic()
            await stack.enter_async_context(self._leases.hold(_identity(device, facts)))
            leased = time.monotonic()
            if pair is None:
                pair = await stack.enter_async_context(pair_of)
                await pair.ready(self._limits.start_s)
            limit_s = self._limits.device_s
            if job.mode == "baseline":  # no worker: nothing but the reference can be slow
                limit_s = min(limit_s, 4 * self._limits.call_s)
            concluded = await pair.conclude(job, limit_s)
        ended = time.monotonic()
        return Judged(concluded, queue_s=leased - waiting, lease_s=ended - leased)

    def _device(self, name: str) -> Device:
        device = device_named(name)
        if device.name not in {device_named(known).name for known in self._devices}:
            listed = ", ".join(self._devices)
            raise PrerequisiteMissing(f"device {name!r} is not one of this sandbox's: {listed}")
        return device

    @property
    def _threads(self) -> int:
        return self._limits.threads or len(os.sched_getaffinity(0))

    def _job(
        self,
        mode: str,
        task: Path,
        candidate: Path,
        device: Device,
        protocol: Protocol,
        seed: int,
    ) -> Job:
        default = _CUDA_BENCH_S if device.is_cuda else _CPU_BENCH_S
        return Job(
            mode="baseline" if mode == "baseline" else "evaluate",
            task_path=str(task),
            candidate_path=str(candidate),
            device=device.inside,
            protocol=protocol,
            seed=seed,
            threads=self._threads,
            start_s=self._limits.start_s,
            call_s=self._limits.call_s,
            bench_s=default if self._limits.bench_s is None else self._limits.bench_s,
        )


def _identity(device: Device, facts: dict[str, Any]) -> str:
    return str(facts.get("uuid") or device.name)


def _protocol(name: str) -> Protocol:
    try:
        return protocol_named(name)
    except ValueError as error:
        raise PrerequisiteMissing(str(error)) from None
