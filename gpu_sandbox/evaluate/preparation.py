"""The prepare stage: a first call without a lease, for what a candidate compiles when called.

A jailed process of its own imports, constructs and calls it once, and is frozen while its device
is timed. Files that compilers left go to the fresh worker that is judged; nothing else is used.
A candidate that does not return is ``timed_out``, other failures count for nothing.
"""

from __future__ import annotations

import os
from collections import Counter
from contextlib import suppress
from weakref import WeakSet

import anyio
import anyio.to_thread
import msgspec

from gpu_sandbox.api.device import Device
from gpu_sandbox.backends.known import backend_of
from gpu_sandbox.builds.build_cache import BuildFiles
from gpu_sandbox.devices.device_session import JobResult
from gpu_sandbox.devices.timing_lock import Permit, timing_file
from gpu_sandbox.devices.worker_pool import child_variables
from gpu_sandbox.evaluate.pausing import PausingJail
from gpu_sandbox.ipc.child_messages import CACHES, MAX_PREPARED, Prepare, Step
from gpu_sandbox.ipc.framing import BadFrame, Line, PeerGone
from gpu_sandbox.ipc.verifier_messages import Job, Report, WorkerSilent
from gpu_sandbox.supervise.control_line import controlled
from gpu_sandbox.supervise.isolation_policy import policy_for
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from gpu_sandbox.toolchain.environment import child_environment
from gpu_sandbox.toolchain.hf_cache import hub_readable

_MAX_HELD_BYTES = 1 << 30  # of archives, in memory; candidates beyond that are unprepared
_ARCHIVE_S = 30.0  # to write the archive


class Place(msgspec.Struct, frozen=True):
    """Where to prepare: a device, the identity of its lease, and the cores that compile for it."""

    device: Device
    identity: str
    cores: tuple[int, ...]


class Prepared(msgspec.Struct, frozen=True, kw_only=True):
    """``timed_out``: it did not end, and is not judged. ``call_s`` is the time of its first call,
    None if that did not return; times count running only. ``stuck``: the kernel holds it."""

    timed_out: JobResult | None = None
    call_s: float | None = None
    ran_s: float = 0.0
    stuck: bool = False


class Preparations:
    """Of one sandbox. Safe for concurrent calls of one loop."""

    def __init__(self, zygote: Zygote) -> None:
        self._zygote = zygote
        self._limiters: dict[str, anyio.CapacityLimiter] = {}
        self._running = Counter[str]()
        self._files: WeakSet[BuildFiles] = WeakSet()
        """With archives that wait for their candidate's verdict."""

    def least_busy(self, places: list[Place]) -> Place:
        return min(places, key=lambda place: self._limiter(place).borrowed_tokens)

    async def prepare(self, place: Place, job: Job, files: BuildFiles) -> Prepared:
        """Adds what compilers left to ``files``. Raises ``SandboxFault`` if it can't start."""
        async with self._limiter(place):
            permit = Permit(timing_file(place.identity))
            try:
                await permit.take()
                self._running[place.identity] += 1
                try:
                    return await self._prepared(place, job, files, permit)
                finally:
                    self._running[place.identity] -= 1
            finally:
                permit.close()

    def running(self, identity: str) -> int:
        """Processes on that device, frozen ones included."""
        return self._running[identity]

    def _limiter(self, place: Place) -> anyio.CapacityLimiter:
        """At most one a core, since time limits count on that."""
        if place.identity not in self._limiters:
            most = min(MAX_PREPARED, len(place.cores))
            self._limiters[place.identity] = anyio.CapacityLimiter(most)
        return self._limiters[place.identity]

    async def _prepared(
        self, place: Place, job: Job, files: BuildFiles, permit: Permit
    ) -> Prepared:
        own = self._zygote.run.new_home("preparation")
        home = await self._zygote.candidates_home(own)
        nodes, limits = backend_of(place.device).nodes(), self._zygote.limits
        policy = policy_for(limits, home, place.cores, nodes, readable=hub_readable())
        environment = child_environment(home, **child_variables(place.device))
        async with controlled(
            self._zygote, "preparation", Step, own, policy, environment, fds=1
        ) as (process, line):
            return await self._done(place, job, files, permit, process, line)

    async def _done(
        self,
        place: Place,
        job: Job,
        files: BuildFiles,
        permit: Permit,
        process: ForkedProcess,
        line: Line[Step],
    ) -> Prepared:
        try:
            drains_s = backend_of(place.device).drains_s
            pausing = await PausingJail.of(process.pid, permit, drains_s)
        except (OSError, NotImplementedError):  # it can't be stopped: nothing is prepared here
            return Prepared()
        steps = _Steps(line, pausing, job)
        order = Prepare(
            task=job.task_source,
            candidate=job.candidate_source,
            device=place.device.inside,
            threads=job.threads,
            precision=job.protocol.precision,
            libraries=files.names,
        )
        try:
            async with anyio.create_task_group() as group:
                group.start_soon(pausing.watch, group.cancel_scope)
                await steps.take(order, files.fds)
                group.cancel_scope.cancel()
            await process.end()
        finally:
            await pausing.close()
        if archives := line.take_fds() if steps.are_done else []:
            is_full = sum(each.added_bytes for each in self._files) >= _MAX_HELD_BYTES
            self._files.add(files)
            with anyio.CancelScope(shield=True):
                await anyio.to_thread.run_sync(_add, files, archives, is_full)
        return Prepared(
            timed_out=_timed_out(steps.silent_in, process) if pausing.is_late else None,
            call_s=steps.call_s,
            ran_s=pausing.ran_s,
            stuck=process.stuck,
        )


class _Steps:
    """Steps of one preparation, as its process reports them."""

    def __init__(self, line: Line[Step], pausing: PausingJail, job: Job) -> None:
        self._line = line
        self._pausing = pausing
        self._job = job
        self.silent_in: WorkerSilent | None = None
        """The finding if it does not go on; None where that is not the candidate's fault."""
        self.call_s: float | None = None
        self.are_done = False
        """The line holds the archive's descriptor."""

    async def take(self, order: Prepare, fds: list[int]) -> None:
        """Returns at the last one, or when the process ends or reports one out of turn. Each sets
        a new limit."""
        load_s, call_s = self._job.load_s, self._job.call_s
        self._pausing.allow(load_s)
        with suppress(PeerGone, BadFrame, OSError):
            await self._line.send(order, *fds)
            if await self._is_next("drawn"):
                self._await("load", load_s)
                if await self._is_next("loaded"):
                    called_s = self._pausing.ran_s
                    self._await("run", call_s)
                    if await self._is_next("called"):
                        self.call_s = self._pausing.ran_s - called_s
                        self._await(None, _ARCHIVE_S)
                        await self._is_next("kept")

    async def _is_next(self, expected: str) -> bool:
        """The last one may come early."""
        done = (await self._line.receive()).done
        self.are_done = done == "kept"
        return done == expected

    def _await(self, stage: str | None, limit_s: float) -> None:
        self.silent_in = WorkerSilent(stage=stage, limit_s=limit_s) if stage else None
        self._pausing.allow(limit_s)


def _timed_out(silent: WorkerSilent | None, process: ForkedProcess) -> JobResult | None:
    if silent is None:
        return None
    return JobResult(report=Report(finding=silent, timings_s={}), worker_output=process.output())


def _add(files: BuildFiles, archives: list[int], is_full: bool) -> None:
    """Untrusted files, for the candidate's own worker alone."""
    for archive in archives:
        with suppress(OSError):
            if not is_full:
                files.add(CACHES, archive)
        os.close(archive)
