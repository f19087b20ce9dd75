"""A device's workers: each holds one candidate, or the reference, and is surely ended.

Spares without a candidate are made ahead of time, while nothing is timed. On a GPU that is done
in two steps, since its driver makes contexts slowly and one after the other.
"""

from __future__ import annotations

import os
import socket
from collections.abc import Awaitable, Callable
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

import anyio
import anyio.to_thread
import msgspec
from anyio.abc import TaskGroup

from gpu_sandbox.api.device import Device
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.backends.known import backend_of, visible_variables
from gpu_sandbox.confine import Policy
from gpu_sandbox.ipc.framing import BadFrame, Line, PeerGone
from gpu_sandbox.ipc.worker_messages import MakeContext, Reply
from gpu_sandbox.supervise.isolation_policy import policy_for
from gpu_sandbox.supervise.run_directory import remove
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from gpu_sandbox.toolchain.environment import child_environment
from gpu_sandbox.toolchain.hf_cache import hub_readable, hub_variables

_SPARE_DESCRIPTORS = 4  # times those of a candidate, until one is loaded (worker/main.py)

Side: TypeAlias = Literal["worker", "reference"]
"""Which side of a pair a worker holds; ``worker`` is the candidate's."""


class DeviceNotReady(SandboxFault):
    """A fresh process can't use the device."""


class Worker:
    """``peer`` is the verifier's end of its socket. ``died``: before it was ended."""

    def __init__(self, process: ForkedProcess, peer: socket.socket, home: Path) -> None:
        self.process = process
        self.peer = peer
        self.home = home
        self.died = False

    async def end(self) -> None:
        self.peer.close()
        await self.process.end()
        await _removed(self.home)


async def _living(worker: Worker | None) -> Worker | None:
    """None for one that has died meanwhile."""
    if worker is None or not worker.process.ended.is_set():
        return worker
    await worker.end()
    return None


async def _removed(home: Path) -> None:
    with anyio.CancelScope(shield=True):
        await anyio.to_thread.run_sync(remove, home)


class _BackgroundTask:
    """A failure in it counts for nothing: the next evaluation tries the same, and says so."""

    def __init__(self, group: TaskGroup) -> None:
        self._group = group
        self._scope = anyio.CancelScope()
        self.over = anyio.Event()
        self.over.set()

    def start(self, do: Callable[[], Awaitable[None]]) -> None:
        """Unless it is running."""
        if not self.over.is_set():
            return
        self.over = anyio.Event()
        self._scope = anyio.CancelScope()
        self._group.start_soon(self._done, do, self._scope, self.over)

    def cancel(self) -> None:
        self._scope.cancel()

    async def _done(
        self, do: Callable[[], Awaitable[None]], scope: anyio.CancelScope, over: anyio.Event
    ) -> None:
        try:
            with scope, suppress(SandboxFault, OSError):
                await do()
        finally:
            over.set()


class Workers:
    """One device's. On the CPU the reference gets a new worker for each candidate: a process
    that has judged a hundred is a percent faster than a fresh one. On a GPU, where a context
    costs 0.2 s, it keeps its worker until a recheck."""

    def __init__(self, device: Device, zygote: Zygote, cores: tuple[int, ...]) -> None:
        self._device = device
        self._backend = backend_of(device)
        self._zygote = zygote
        self._limits = zygote.limits
        self._cores = cores
        self._spares: dict[Side, Worker] = {}
        self._begun: dict[Side, Worker] = {}
        """On a GPU: without a context yet."""
        self._beginning = _BackgroundTask(zygote.group)
        self._making = _BackgroundTask(zygote.group)
        self.renews_reference = not self._backend.has_contexts

    async def take(self, side: Side) -> Worker:
        """The spare if it lives still, else a new one. Raises ``SandboxFault``."""
        await self._making.over.wait()
        return await _living(self._spares.pop(side, None)) or await self._new(side)

    def begin_spares(self) -> None:
        """On a GPU: what the next candidate needs, in the background, but for its context."""
        if self._backend.has_contexts:
            self._beginning.start(self._begin_spares)

    def prepare_spares(self) -> None:
        """What the next candidate needs, in the background."""
        self._making.start(self._make_spares)

    def prepare_first(self, *, with_candidate: bool) -> None:
        """On a GPU: the first ones, in the background, side by side, so that the driver starts in
        one process while it makes another's context."""
        sides: tuple[Side, ...] = ("reference", "worker") if with_candidate else ("reference",)
        if self._backend.has_contexts:
            self._making.start(partial(self._make_together, sides))

    async def still(self) -> None:
        """Wait until no spare is being made or begun."""
        while not self.are_still:
            await self._beginning.over.wait()
            await self._making.over.wait()

    @property
    def are_still(self) -> bool:
        return self._beginning.over.is_set() and self._making.over.is_set()

    async def _new(self, side: Side) -> Worker:
        """With its context on a GPU. Raises ``SandboxFault``."""
        await self._beginning.over.wait()
        if begun := await _living(self._begun.pop(side, None)):
            try:
                return await self._with_context(begun)
            except DeviceNotReady:
                if not begun.died:
                    raise
        return await self._with_context(await self._begin(side))

    async def _with_context(self, worker: Worker) -> Worker:
        if self._backend.has_contexts:
            await self._answered(worker, MakeContext())
            worker.peer.setblocking(True)
        return worker

    async def _begin(self, side: Side) -> Worker:
        """With its driver started on a GPU. Raises ``SandboxFault``."""
        try:
            worker = await self._forked(side)
        except OSError as error:  # candidates fill disks, and use up descriptors
            raise SandboxFault(f"no {side} can be started: {error}") from error
        if self._backend.has_contexts:
            await self._answered(worker)
        return worker

    async def _forked(self, side: Side) -> Worker:
        own = self._zygote.run.new_home(f"{side}-{self._device.name}")
        ours, theirs = socket.socketpair()
        try:
            with theirs:
                home = await self._zygote.candidates_home(own)
                process = await self._zygote.spawn(
                    "worker",
                    {"device": self._device.inside, "descriptors": self._limits.descriptors},
                    {"peer": theirs},
                    environment=child_environment(home, **child_variables(self._device)),
                    directory=own,
                    policy=self._policy(home),
                )
        except BaseException:
            ours.close()
            await _removed(own)
            raise
        return Worker(process, ours, own)

    async def close(self) -> None:
        """End the spares, and make no more."""
        for each in (self._beginning, self._making):
            each.cancel()
        await self.still()
        for ahead in (self._spares, self._begun):
            while ahead:
                await ahead.popitem()[1].end()

    async def _begin_spares(self) -> None:
        if "worker" not in self._begun:
            self._begun["worker"] = await self._begin("worker")

    async def _make_spares(self) -> None:
        sides: tuple[Side, ...] = ("worker", "reference") if self.renews_reference else ("worker",)
        for side in sides:
            await self._make_spare(side)

    async def _make_together(self, sides: tuple[Side, ...]) -> None:
        async def make(side: Side) -> None:
            with suppress(SandboxFault, OSError):  # also if the other one can be made
                await self._make_spare(side)

        async with anyio.create_task_group() as making:
            for side in sides:
                making.start_soon(make, side)

    async def _make_spare(self, side: Side) -> None:
        if side not in self._spares:
            self._spares[side] = await self._new(side)

    async def _answered(self, worker: Worker, request: MakeContext | None = None) -> None:
        """Wait until it has done what was requested, or what it begins with. Raises
        ``DeviceNotReady``, and then has ended it."""
        line: Line[Reply] = Line(worker.peer, Reply)
        try:
            try:
                with anyio.fail_after(self._limits.start_s):
                    if request is not None:
                        await line.send(request)
                    await line.receive()
            except (PeerGone, BadFrame, TimeoutError) as failure:
                worker.died = isinstance(failure, PeerGone)
                why = await worker.process.last_words()
                raise DeviceNotReady(f"a worker can't use {self._device.name} ({why})") from None
        except BaseException:
            await worker.end()
            raise

    def _policy(self, home: Path) -> Policy:
        policy = policy_for(
            self._limits, home, self._cores, self._backend.nodes(), readable=hub_readable()
        )
        return msgspec.structs.replace(policy, descriptors=_SPARE_DESCRIPTORS * policy.descriptors)


def child_variables(device: Device) -> dict[str, str]:
    """Environment of a worker or verifier of ``device``, beside what all children have."""
    return {
        **hub_variables(),
        **visible_variables(device),
        "MAX_JOBS": str(max(1, (os.cpu_count() or 1) // 2)),
    }
