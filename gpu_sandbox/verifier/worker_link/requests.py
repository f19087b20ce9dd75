"""Requests to a worker, its replies, and every way in which it can end."""

from __future__ import annotations

import math
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TypeVar

from gpu_sandbox.ipc.framing import BadFrame, Channel, PeerGone, PeerSilent
from gpu_sandbox.ipc.verifier_messages import (
    Finding,
    Forged,
    WorkerDied,
    WorkerFailed,
    WorkerSilent,
)
from gpu_sandbox.ipc.worker_messages import MAX_REPLY_BYTES, Done, Failed, Reply, Request

R = TypeVar("R")
_ALL_ANSWERS = 3.0  # times the limit of one answer that all of a candidate's may take together


class Ended(Exception):
    """The evaluation is over: ``finding`` says why."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(finding)
        self.finding = finding


class ReferenceEnded(Exception):
    """The reference's worker has ended: no candidate is to blame."""

    def __init__(self, finding: Finding) -> None:
        super().__init__(f"the reference's worker: {finding}")
        self.finding = finding


class WorkerRequests:
    """Methods raise ``Ended``, or ``ReferenceEnded`` if the worker holds the reference."""

    def __init__(self, sock: socket.socket, call_s: float, *, reference: bool) -> None:
        self._channel: Channel[Reply] = Channel(sock, Reply, most_bytes=MAX_REPLY_BYTES)
        self.call_s = call_s
        self.ended: Callable[[Finding], Exception] = ReferenceEnded if reference else Ended
        self._remaining_s = math.inf if reference else _ALL_ANSWERS * call_s

    def ask(self, request: Request, expected: type[R], stage: str) -> R:
        self.send(request, stage)
        return self.take(expected, stage)

    def send(self, request: Request, stage: str, *fds: int) -> None:
        self._require_silence()
        try:
            self._channel.send(request, *fds, limit_s=self.call_s)
        except (PeerSilent, PeerGone) as error:
            raise self._ending(error, stage) from None

    def send_bytes(self, data: bytes, stage: str) -> None:
        self._require_silence()
        try:
            self._channel.send_bytes(data)
        except (PeerSilent, PeerGone) as error:
            raise self._ending(error, stage) from None

    def receive_bytes(self, count: int, stage: str) -> bytes:
        try:
            with self._answering(stage, self.call_s) as limit_s:
                return self._channel.receive_bytes(count, limit_s)
        except (PeerGone, BadFrame) as error:
            raise self._ending(error, stage) from None

    def said_something(self) -> bool:
        """Whether there is a reply to take, or its end."""
        return self._channel.readable()

    def take(self, expected: type[R], stage: str, limit_s: float | None = None) -> R:
        try:
            with self._answering(stage, limit_s or self.call_s) as limit_s:
                reply = self._channel.receive(limit_s)
        except (PeerGone, BadFrame) as error:
            raise self._ending(error, stage) from None
        if isinstance(reply, Failed):
            kind, message, trace = reply.kind, reply.message, reply.traceback
            failed = WorkerFailed(stage=reply.stage, kind=kind, message=message, traceback=trace)
            raise self.ended(failed)
        if not isinstance(reply, expected):
            raise self.ended(Forged(reason="the worker answered what it was not asked"))
        return reply

    def _require_silence(self) -> None:
        """A reply before its request is a forgery."""
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
        """How long to wait for an answer. Ends a worker that takes longer, alone or in all."""
        began = time.monotonic()
        allowed_s = min(limit_s, self._remaining_s)
        try:
            yield max(allowed_s, 0.0)
        except PeerSilent:
            together = self._remaining_s < limit_s
            exceeded_s = _ALL_ANSWERS * self.call_s if together else limit_s
            silent = WorkerSilent(stage=stage, limit_s=exceeded_s, together=together)
            raise self.ended(silent) from None
        finally:
            self._remaining_s -= time.monotonic() - began

    def take_fds(self, stage: str, most: int) -> list[int]:
        """Descriptors that come with its ``Done``."""
        with self._channel.taking_fds(most):
            self.take(Done, stage)
        return self._channel.take_fds()
