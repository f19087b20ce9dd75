"""The verifier's view of its worker: requests out, claims in, and every way it can end."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeVar

import torch

from gpu_sandbox.child.arena import Arena, Layout, place
from gpu_sandbox.child.bits import same_bits
from gpu_sandbox.child.cases import Case
from gpu_sandbox.child.own_memory import Memory
from gpu_sandbox.child.reference import Task
from gpu_sandbox.child.sealing import rows_of
from gpu_sandbox.child.signals import Where
from gpu_sandbox.child.stopping import Still, Stoppable, Unstoppable
from gpu_sandbox.child.values import pack
from gpu_sandbox.frames import BadFrame, Channel, PeerGone, PeerSilent
from gpu_sandbox.jobs import Finding, Forged, WorkerDied, WorkerFailed, WorkerSilent
from gpu_sandbox.messages import (
    MOST_REPLY_BYTES,
    ArenaShared,
    Done,
    Failed,
    GateKernels,
    Load,
    Loaded,
    Place,
    Reply,
    Request,
    ShowMemory,
    Spot,
)

__all__ = ["Ended", "Peer", "ReferenceEnded"]

R = TypeVar("R")
_MOST_USED_NS = 1_000_000
"""Of the processor, by a side that is stopped."""
_ALL_ANSWERS = 3.0
"""Times what one may take, that all of a candidate's may take together: a call of eleven seconds,
and some two hundred of them, is no reason to hold a device for half an hour."""
_SELDOM = 3
"""It may be more: who leaves the processor to stop may have to wait with that."""
_UNSTOPPABLE = Forged(reason="its processes can't be stopped while the baseline is timed")
_NOBODY = Still({}, lambda: (set(), set()), 0)


class Ended(Exception):
    """The evaluation is over: ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


class ReferenceEnded(Exception):
    """The same of the worker that holds the reference: no candidate is to blame."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"the reference's worker: {finding}")
        self.finding = finding


class Peer:
    """One worker, and the arena that it shares with us. ``close`` gives that back.

    Its questions raise ``Ended``, or ``ReferenceEnded`` if the worker holds the reference.
    ``queued``: so many of its calls could be queued ahead when they were last asked to be, and
    ``queues`` says whether that was all.
    """

    def __init__(
        self,
        sock: socket.socket,
        pid: int,
        device: torch.device,
        call_s: float,
        *,
        reference: bool = False,
    ) -> None:
        self._channel: Channel[Reply] = Channel(sock, Reply, most_bytes=MOST_REPLY_BYTES)
        self._device = device
        self.call_s = call_s
        self._arena: Arena | None = None
        self._host: Arena | None = None
        self._has_kernels = False
        self.queued = self.unqueued = 0
        self._placed: dict[int, Place] = {}
        self._seen: dict[Spot, torch.Tensor] = {}
        self.ended: Callable[[Finding], Exception] = ReferenceEnded if reference else Ended
        self._memory: Memory | None = None
        self._processes = Stoppable(pid) if device.type == "cpu" else None
        self._restless = 0
        self._patience_s = math.inf if reference else _ALL_ANSWERS * call_s
        """That is left for all of its answers together."""

    @property
    def queues(self) -> bool:
        """Whether its calls were queued ahead when they were last asked to be."""
        return self.unqueued == 0

    def close(self) -> None:
        self._seen.clear()
        for held in (self._arena, self._host, self._memory, self._processes):
            if held is not None:
                held.close()

    @contextmanager
    def stopped(self) -> Iterator[Still]:
        """On the CPU: while the other side is timed, which this one could keep busy, while its
        inputs come, and when it has answered. A GPU is timed by its own clock, and by gates."""
        if self._processes is None:
            yield _NOBODY
            return
        stopping = self._processes.stopped()
        try:
            still = stopping.__enter__()
        except Unstoppable:
            raise self.ended(_UNSTOPPABLE) from None
        except OSError:
            raise self.ended(WorkerDied(stage="bench")) from None
        try:
            yield still
        finally:
            stopping.__exit__(None, None, None)

    def used_while(self, still: Still) -> int:
        """How much of the processor this side has used though it was to lie still, in nanoseconds.
        Ends who does so often."""
        used_ns = still.used_ns()
        self._restless += used_ns > _MOST_USED_NS
        if self._restless > _SELDOM and self.ended is Ended:
            raise self.ended(_UNSTOPPABLE)
        return used_ns

    # --- questions and claims

    def ask(self, request: Request, expected: type[R], stage: str) -> R:
        self.send(request, stage)
        return self.take(expected, stage)

    def send(self, request: Request, stage: str, *fds: int) -> None:
        self._require_silence()
        try:
            self._channel.send(request, *fds, limit_s=self.call_s)
        except (PeerSilent, PeerGone) as error:
            raise self._ending(error, stage) from None

    def tell(self, data: bytes, stage: str) -> None:
        """A few bytes that are no frame."""
        self._require_silence()
        try:
            self._channel.tell(data)
        except (PeerSilent, PeerGone) as error:
            raise self._ending(error, stage) from None

    def told(self, count: int, stage: str) -> bytes:
        """So many bytes that are no frame."""
        try:
            with self._answering(stage, self.call_s) as limit_s:
                return self._channel.told(count, limit_s)
        except (PeerGone, BadFrame) as error:
            raise self._ending(error, stage) from None

    def said_something(self) -> bool:
        """Whether there is something to take, be it that it is gone."""
        return self._channel.readable()

    def take(self, expected: type[R], stage: str, limit_s: float | None = None) -> R:
        try:
            with self._answering(stage, limit_s or self.call_s) as limit_s:
                reply = self._channel.receive(limit_s)
        except (PeerGone, BadFrame) as error:
            raise self._ending(error, stage) from None
        if isinstance(reply, Failed):
            raise self.ended(_failure(reply))
        if not isinstance(reply, expected):
            raise self.ended(Forged(reason="the worker answered what it was not asked"))
        return reply

    def _require_silence(self) -> None:
        """A reply that is there before its question is a forgery."""
        if self._channel.pending():
            raise self.ended(Forged(reason="the worker answered before it was asked"))

    def _ending(self, error: PeerSilent | PeerGone | BadFrame, stage: str) -> Exception:
        match error:
            case PeerSilent():
                return self.ended(WorkerSilent(stage=stage, limit_s=self.call_s))
            case PeerGone():
                return self.ended(WorkerDied(stage=stage))
            case _:
                return self.ended(Forged(reason="the worker sent a malformed reply"))

    @contextmanager
    def _answering(self, stage: str, limit_s: float) -> Iterator[float]:
        """How long to wait for an answer. Ends who takes longer, or has for all together."""
        began = time.monotonic()
        allowed_s = min(limit_s, self._patience_s)
        try:
            yield max(allowed_s, 0.0)
        except PeerSilent:
            together = self._patience_s < limit_s
            told_s = _ALL_ANSWERS * self.call_s if together else limit_s
            silent = WorkerSilent(stage=stage, limit_s=told_s, together=together)
            raise self.ended(silent) from None
        finally:
            self._patience_s -= time.monotonic() - began

    # --- the arena

    def reserve(self, total_bytes: int) -> Arena:
        """An arena of at least that size. A new one makes all former places invalid."""
        if self._arena is None or total_bytes > self._arena.size:
            self._seen.clear()
            if self._arena is not None:
                self._arena.close()
                self._arena = None  # also if there is no memory for the next one
            self._placed.clear()
            self._arena = arena = Arena.create(total_bytes, self._device)
            self.send(ArenaShared(total_bytes=arena.size), "share", arena.descriptor)
            self.take(Done, "share")
        return self._arena

    def share_host(self, total_bytes: int) -> Arena:
        """Host memory of at least that size, which a CUDA worker has pinned."""
        if self._host is None or total_bytes > self._host.size:
            if self._host is not None:
                self._host.close()
                self._host = None
            self._host = Arena.create(total_bytes, torch.device("cpu"))
            shared = ArenaShared(total_bytes=self._host.size, host=True)
            self.send(shared, "share", self._host.descriptor)
            self.take(Done, "share")
        return self._host

    def give_kernels(self, image: bytes) -> None:
        """Those that gates need, once."""
        if not self._has_kernels:
            self.ask(GateKernels(image=image), Done, "share")
            self._has_kernels = True

    def rows(self, places: Sequence[list[Spot]]) -> torch.Tensor:
        """The bytes of each call's, in our own view of the arena: (calls, bytes)."""
        return rows_of(self._need(), places)

    def start_loading(
        self, task: Task, source: str, class_name: str, libraries: list[str], fds: list[int]
    ) -> None:
        """Ask it to import and construct; ``finish_loading`` waits for the answer."""
        tensors: list[torch.Tensor] = []
        tree = pack(task.init, tensors, pickling=True)
        spots, end = place(tensors, 0)
        arena = self.reserve(end)
        for tensor, view in zip(tensors, arena.views(spots), strict=True):
            view.copy_(tensor)
        self._synchronize()
        self._placed.clear()
        load = Load(
            source=source,
            class_name=class_name,
            libraries=libraries,
            device=str(self._device),
            threads=torch.get_num_threads(),
            precision=task.precision,
            weight_seed=task.weight_seed,
            init=tree,
            init_spots=spots,
        )
        if self._processes is not None and self._memory is None:
            self._memory = self._shown_memory()
        self.send(load, "load", *fds)

    def _shown_memory(self) -> Memory:
        """Asked for before there is a candidate: it could show another's."""
        self.send(ShowMemory(), "load")
        with self._channel.taking_fds(1):
            self.take(Done, "load")
        (descriptor,) = self._channel.take_fds()
        return Memory(descriptor)

    def finish_loading(self, limit_s: float) -> Loaded:
        return self.take(Loaded, "load", limit_s)

    def lay(self, layout: Layout, cases: Sequence[Case]) -> None:
        """Tell the worker of the slots, where it does not know them yet."""
        self.reserve(layout.total_bytes)
        for number, case in enumerate(cases):
            told = Place(
                slot=number,
                args=case.tree,
                inputs=layout.inputs[number],
                outputs=layout.outputs[number],
            )
            if self._placed.get(number) != told:
                self.ask(told, Done, "share")
                self._placed[number] = told

    def put(self, layout: Layout, cases: Sequence[Case]) -> None:
        """Copy the inputs of each case to its slot."""
        for number, case in enumerate(cases):
            views = self._views(layout.inputs[number])
            for tensor, view in zip(case.tensors, views, strict=True):
                view.copy_(tensor.detach())
        self._synchronize()

    def scramble(self, spots: list[Spot]) -> None:
        self._need().scramble(spots)
        self._synchronize()

    def taken(self, spots: list[Spot]) -> list[torch.Tensor]:
        """Private copies: what is compared can't be changed while it is."""
        copies = [view.clone() for view in self._views(spots)]
        self._synchronize()
        return copies

    def read(self, spot: Spot, found: Where) -> torch.Tensor:
        """On the CPU: a private copy of an output that lies in its own memory. Raises
        ``Unreadable``."""
        assert self._memory is not None
        return self._memory.read(spot, found)

    @contextmanager
    def spoiled(self, spots: list[Spot]) -> Iterator[None]:
        """Inputs in the arena are others meanwhile, in some places. Of the reference only before:
        an output that shares memory with them here may be one that does not where they lie
        otherwise, as drawn; and both sides' inputs are to be touched alike."""
        with self._need().spoiled(spots):
            if self.ended is Ended:
                yield
        if self.ended is not Ended:
            yield

    def intact(self, spots: list[Spot], tensors: list[torch.Tensor]) -> bool:
        """Whether the inputs there are, bit for bit, what was put there."""
        views = self._views(spots)
        return all(same_bits(a, b) for a, b in zip(views, tensors, strict=True))

    def _views(self, spots: list[Spot]) -> list[torch.Tensor]:
        """Of our own arena. Kept: thousands are looked at in the time of one verdict."""
        for spot in spots:
            if spot not in self._seen:
                self._seen[spot] = self._need().view(spot)
        return [self._seen[spot] for spot in spots]

    def _need(self) -> Arena:
        assert self._arena is not None
        return self._arena

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _failure(reply: Failed) -> WorkerFailed:
    return WorkerFailed(
        stage=reply.stage, kind=reply.kind, message=reply.message, traceback=reply.traceback
    )
