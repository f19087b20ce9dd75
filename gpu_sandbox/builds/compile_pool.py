"""The compile stage: builds a candidate's extensions in a jailed child, without the lease.

Builds are cached by source and toolchain. A candidate without extensions skips the stage.
"""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import anyio
import anyio.to_thread
import msgspec

from events.outcomes import CompileFailed, Crashed, Outcome, TimedOut
from gpu_sandbox.api.device import Device
from gpu_sandbox.backends.known import backend_of, visible_variables
from gpu_sandbox.builds.build_cache import BuildCache, BuildFiles, BuildRecord
from gpu_sandbox.builds.precompiled_headers import PrecompiledHeaders
from gpu_sandbox.ipc.child_messages import MAX_BUILT, Built, Compile
from gpu_sandbox.ipc.framing import BadFrame, Line, PeerGone
from gpu_sandbox.static_checks.precheck import Inspected
from gpu_sandbox.store.best_effort import Keeping
from gpu_sandbox.supervise.control_line import controlled
from gpu_sandbox.supervise.isolation_policy import policy_for
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from gpu_sandbox.toolchain.compiler_flags import flag_sets
from gpu_sandbox.toolchain.environment import child_environment
from gpu_sandbox.toolchain.hf_cache import hub_readable, hub_variables
from gpu_sandbox.toolchain.identity import torch_identity
from gpu_sandbox.toolchain.stack_traces import printed, without_places

_FORMAT = "2"  # of a build's entry in the cache
_MAX_LOG = 32_000
_MOST_ANSWERS = 2
_TRIES = 2


class Compiled(msgspec.Struct, frozen=True, kw_only=True):
    """``outcome`` ends the evaluation; else ``files`` were built, and are the caller's to close."""

    outcome: Outcome | None = None
    files: BuildFiles
    log: str = ""
    seconds: float = 0.0
    queue_s: float = 0.0
    notes: list[str] = []


class _Lost(Exception):
    """The child's end was not seen, because the zygote or its jail init died."""


class Candidate(msgspec.Struct, frozen=True, kw_only=True):
    """What the stage needs of a request."""

    source: str
    task_source: str
    device: Device
    facts: dict[str, Any]
    inspected: Inspected


class CompilePool:
    """At most ``jobs`` compile children at a time, served in order of arrival, on ``cores``."""

    def __init__(
        self,
        builds: BuildCache,
        prebuilt: Path,
        zygote: Zygote,
        keeping: Keeping,
        *,
        jobs: int,
        cores: tuple[int, ...],
    ) -> None:
        self._builds = builds
        self._prebuilt = PrecompiledHeaders(prebuilt, zygote, cores, keeping)
        self._zygote = zygote
        self.jobs = jobs
        self._cores = cores
        self._places = anyio.CapacityLimiter(jobs)
        self.running = 0
        self.busy_s = 0.0
        """Of all places together, of finished builds."""

    @asynccontextmanager
    async def place(self) -> AsyncIterator[tuple[int, ...]]:
        """One of its places, as cores: for all that must not disturb timing."""
        async with self._places:
            self.running += 1
            began = time.monotonic()
            try:
                yield self._cores
            finally:
                self.running -= 1
                self.busy_s += time.monotonic() - began

    @property
    def prebuilt(self) -> Path | None:
        """Directory of the precompiled headers, if it was built."""
        return self._prebuilt.place()

    @property
    def waiting(self) -> int:
        return self._places.statistics().tasks_waiting

    async def build(self, candidate: Candidate) -> Compiled:
        """Raises ``PrerequisiteMissing`` where a compiler is needed and missing, and
        ``SandboxFault``."""
        if not candidate.inspected.builds:
            return Compiled(files=BuildFiles([], []))
        began = time.monotonic()
        key = _key(candidate)
        known = await anyio.to_thread.run_sync(self._builds.fetch, key)
        if known is not None:
            spent = time.monotonic() - began
            notes = ["compiled before: build reused"]
            return Compiled(files=known, seconds=spent, notes=notes)
        backend_of(candidate.device).builds.require()
        async with self.place():
            queued = time.monotonic() - began
            flags = await anyio.to_thread.run_sync(flag_sets, candidate.source)
            prebuilt = await self._prebuilt.for_flags(flags)
            compiled = await self._compiled_surely(candidate, key, prebuilt)
            if prebuilt is None:
                notes = [*compiled.notes, "the slim binding can't be built here"]
                compiled = msgspec.structs.replace(compiled, notes=notes)
        spent = time.monotonic() - began - queued
        return msgspec.structs.replace(compiled, seconds=spent, queue_s=queued)

    async def _compiled_surely(
        self, candidate: Candidate, key: str, prebuilt: Path | None
    ) -> Compiled:
        """Again where its jail init or zygote died, which is seldom the candidate's doing."""
        for _ in range(_TRIES):
            with suppress(_Lost):
                return await self._compile(candidate, key, prebuilt)
        reason = f"its jail init was gone on import, {_TRIES} times"
        return Compiled(outcome=Crashed(reason=reason), files=BuildFiles([], []))

    async def _compile(self, candidate: Candidate, key: str, prebuilt: Path | None) -> Compiled:
        """Raises ``_Lost``."""
        home = self._zygote.run.new_home("compile")
        device = candidate.device
        variables = _compile_variables(device, candidate.facts, len(self._cores), self.jobs)
        readable = hub_readable()
        if prebuilt is not None:
            readable = (*readable, str(prebuilt))
            variables["GPU_SANDBOX_PREBUILT"] = str(prebuilt)
        async with controlled(
            self._zygote,
            "compiler",
            Built,
            home,
            policy_for(self._zygote.limits, home, self._cores, readable=readable),
            child_environment(home, **variables),
            {"pretend": backend_of(device).builds.pretended(candidate.facts)},
            MAX_BUILT,
        ) as (process, line):
            fds: list[int] = []
            try:
                built, late = await self._answers(line, candidate, process, fds)
                await process.end()
                return await self._compiled(built, late, process, key, fds)
            finally:
                _close(fds)

    async def _answers(
        self, line: Line[Built], candidate: Candidate, process: ForkedProcess, fds: list[int]
    ) -> tuple[Built | None, bool]:
        """The child's last report, and whether its time ran out before it had finished. ``fds``
        gets the files that came with it.

        It reports after the import, and again after trying to construct the model: a death or a
        hang in that second part loses nothing.
        """
        last: Built | None = None
        with anyio.move_on_after(self._zygote.limits.compile_s) as scope:
            try:
                late = candidate.inspected.builds_late
                order = Compile(task=candidate.task_source, candidate=candidate.source, late=late)
                await line.send(order)
                for _ in range(_MOST_ANSWERS):
                    last = await line.receive()
                    _close(fds)
                    fds += line.take_fds()
            except (PeerGone, BadFrame):
                pass
        if last is None and not scope.cancelled_caught:
            await process.ended_within(1.0)
        return last, scope.cancelled_caught

    async def _compiled(
        self, built: Built | None, late: bool, process: ForkedProcess, key: str, fds: list[int]
    ) -> Compiled:
        nothing = BuildFiles([], [])
        if built is None:
            if not late and process.lost:
                raise _Lost
            outcome = _ended(late, process, self._zygote.limits.compile_s)
            return Compiled(
                outcome=outcome, files=nothing, log=printed(process.output(), stopped=late)
            )
        parts = (without_places(built.log[:_MAX_LOG]), printed(process.output()))
        log = "\n".join(part for part in parts if part)
        if built.failure:
            failed = CompileFailed(reason=built.failure)
            return Compiled(outcome=failed, files=nothing, log=log)
        notes = []
        if built.full_header:
            notes.append(f"{built.full_header} extensions needed the full torch headers")
        files: BuildFiles | None = None
        if len(built.files) == len(fds):
            record = BuildRecord.of(built.resources, built.lines)
            files = await anyio.to_thread.run_sync(
                self._builds.store, key, built.files, fds, record
            )
        return Compiled(files=files or nothing, log=log, notes=notes)


def _close(fds: list[int]) -> None:
    while fds:
        os.close(fds.pop())


def _ended(late: bool, process: ForkedProcess, limit_s: float) -> Outcome:
    """The outcome of a child that never reported."""
    if late:
        reason = f"not compiled within {limit_s:g} s"
        return TimedOut(reason=reason, stage="compile", limit_s=limit_s)
    how = f"signal {process.signal}" if process.signal else f"exit {process.code}"
    how = "its memory limit" if process.out_of_memory else how
    return Crashed(reason=f"its process died on import ({how})", signal=process.signal)


def _key(candidate: Candidate) -> str:
    builds = backend_of(candidate.device).builds
    arch, tools = builds.architecture(candidate.facts), builds.toolchain()
    late = str(candidate.inspected.builds_late)
    return BuildCache.key(_FORMAT, candidate.source, torch_identity(), tools, arch, late)


def _compile_variables(
    device: Device, facts: dict[str, Any], cores: int, jobs: int
) -> dict[str, str]:
    return {
        **hub_variables(),
        **visible_variables(),
        "MAX_JOBS": str(max(2, cores // jobs)),
        "OMP_NUM_THREADS": "1",
        **backend_of(device).builds.variables(facts),
    }
