"""The verifier's view of its worker: requests out, claims in, and every way it can end."""

from __future__ import annotations

import os
import socket
import time
from typing import Any, TypeVar

import torch

from gpu_sandbox.child.arena import Arena, place
from gpu_sandbox.child.reference import Case
from gpu_sandbox.child.values import pack, unpack
from gpu_sandbox.frames import BadFrame, Channel, PeerGone, PeerSilent
from gpu_sandbox.messages import (
    Failed,
    Finding,
    Forged,
    Load,
    Loaded,
    Reply,
    Request,
    SetInputs,
    Spot,
    WorkerDied,
    WorkerFailed,
    WorkerSilent,
)

__all__ = ["Ended", "Peer"]

R = TypeVar("R")


class Ended(Exception):
    """The evaluation is over: ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


class Peer:
    """One worker, and the arena that it shares with us."""

    def __init__(self, sock: socket.socket, device: torch.device, call_s: float) -> None:
        self._channel: Channel[Reply] = Channel(sock, Reply)
        self._device = device
        self._call_s = call_s
        self._arena: Arena | None = None
        self._capacity = 0
        self.wall_ns = 0
        """Of the last ``ask``: from sending the request to having the reply."""

    def ask(self, request: Request, expected: type[R], stage: str) -> R:
        self._send(request, stage)
        return self._take(expected, stage, self._call_s)

    def _send(self, request: Request, stage: str, *fds: int) -> None:
        self._sent = time.perf_counter_ns()
        try:
            self._channel.send(request, *fds)
        except PeerGone:
            raise Ended(WorkerDied(stage=stage)) from None

    def _take(self, expected: type[R], stage: str, limit_s: float) -> R:
        try:
            reply = self._channel.receive(limit_s)
        except PeerSilent:
            raise Ended(WorkerSilent(stage=stage, limit_s=limit_s)) from None
        except PeerGone:
            raise Ended(WorkerDied(stage=stage)) from None
        except (BadFrame, RecursionError):
            raise Ended(Forged(reason="the worker sent a malformed reply")) from None
        self.wall_ns = time.perf_counter_ns() - self._sent
        if isinstance(reply, Failed):
            raise Ended(_failure(reply))
        if not isinstance(reply, expected):
            raise Ended(Forged(reason="the worker answered what it was not asked"))
        return reply

    # --- the arena

    def _reserve(self, total_bytes: int) -> Arena:
        """An arena of at least that size. A new one makes all former spots invalid."""
        if self._arena is None or total_bytes > self._capacity:
            if self._arena is not None:
                self._arena.close()
            self._arena = Arena.create(total_bytes, self._device)
            self._capacity = total_bytes
            fds = () if self._arena.fd is None else (self._arena.fd,)
            self._send(self._arena.shared, "share", *fds)
            self._take(object, "share", self._call_s)
        return self._arena

    def start_loading(self, source: str, init: object, weight_seed: int, threads: int) -> None:
        """Ask it to import and construct; ``finish_loading`` waits for the answer."""
        tensors: list[torch.Tensor] = []
        tree = pack(init, tensors, pickling=True)
        spots, end = place(tensors, 0)
        arena = self._reserve(end)
        for tensor, spot in zip(tensors, spots, strict=True):
            arena.view(spot).copy_(tensor)
        load = Load(
            source_path=source,
            device=str(self._device),
            threads=threads,
            weight_seed=weight_seed,
            init=tree,
            init_spots=spots,
        )
        self._send(load, "load")

    def finish_loading(self, limit_s: float) -> Loaded:
        return self._take(Loaded, "load", limit_s)

    def put(self, cases: list[Case]) -> tuple[list[list[Spot]], list[Spot]]:
        """Copy each case's inputs into its slot. The spots of inputs, and those of outputs.

        All cases of one call live in the arena together; the output spots are shared.
        """
        layout: list[list[Spot]] = []
        end = 0
        for case in cases:
            spots, end = place(case.tensors, end)
            layout.append(spots)
        outputs, end = place([e.native for e in cases[0].expected], end)
        arena = self._reserve(end)
        for slot, (case, spots) in enumerate(zip(cases, layout, strict=True)):
            for tensor, spot in zip(case.tensors, spots, strict=True):
                arena.view(spot).copy_(tensor)
            self._synchronize()
            self._send(SetInputs(slot=slot, args=case.tree, spots=spots), "share")
            self._take(object, "share", self._call_s)
        return layout, outputs

    def arguments(self, case: Case, spots: list[Spot]) -> Any:
        """The case's arguments as the worker has them: tensors in the shared memory."""
        views = [self._need().view(spot) for spot in spots]
        # The tree is our own, packed on this side: what is pickled in it may be trusted.
        return unpack(case.tree, views, unpickling=True)

    def poison(self, outputs: list[Spot]) -> None:
        self._need().poison(outputs, os.urandom(1)[0])
        self._synchronize()

    def outputs(self, spots: list[Spot]) -> list[torch.Tensor]:
        """Private copies: what is compared can't be changed while it is."""
        return [self._need().view(spot).clone() for spot in spots]

    def inputs_intact(self, case: Case, spots: list[Spot]) -> bool:
        views = [self._need().view(spot) for spot in spots]
        return all(_same_bits(a, b) for a, b in zip(views, case.tensors, strict=True))

    def _need(self) -> Arena:
        assert self._arena is not None
        return self._arena

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch.cuda.synchronize(self._device)


def _failure(reply: Failed) -> WorkerFailed:
    return WorkerFailed(
        stage=reply.stage,
        kind=reply.kind[:100],
        message=reply.message[:500],
        traceback=reply.traceback[:20_000],
    )


def _same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    if torch.equal(a, b):
        return True
    return bool(((a == b) | ((a != a) & (b != b))).all())
