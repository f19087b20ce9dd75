"""Entry point of the verifier: the trusted process of a device, which has the last word.

It owns the inputs, the truth and the clock, lives as long as its device works, and does one job at
a time (``job.py``). Reference and candidate are in workers of their own (``Peer``).
"""

from __future__ import annotations

import gc
import os
import socket
import sys
import tempfile
import time
from contextlib import suppress
from pathlib import Path

import torch

from gpu_sandbox.ipc.framing import MAX_FDS, Channel, PeerGone, TooLong
from gpu_sandbox.ipc.verifier_messages import Differs, Job, Ready, Report, TaskBroken, ToVerifier
from gpu_sandbox.runtime.module_loader import settle
from gpu_sandbox.tensors.pytree import TASK_MODULE
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.job import Assignment
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded


def _serve(engine: Channel[ToVerifier], device: torch.device) -> None:
    sock, pid = None, 0
    garbage = Garbage()
    while True:
        # Where an earlier candidate has wrecked it, this process dies: the engine starts another
        # verifier, or finds that it can't.
        backend_of(device).get_ready()
        engine.send(Ready())
        job = engine.receive()
        if not isinstance(job, Job):
            raise RuntimeError("protocol error: leave to go on received without a job")
        fds = engine.take_fds()
        if job.reference_pid is not None:
            if sock is not None:
                sock.close()
            sock, pid = socket.socket(fileno=fds.pop(0)), job.reference_pid
        if sock is None:
            raise RuntimeError("protocol error: job received before a reference worker")
        reference = Peer(sock, pid, device, job.call_s, reference=True)
        try:
            _do(job, engine, reference, fds, garbage)
            with suppress(Ended, ReferenceEnded):  # the next job finds out
                reference.keep_little()
        finally:
            reference.close()


def _do(
    job: Job, engine: Channel[ToVerifier], reference: Peer, fds: list[int], garbage: Garbage
) -> None:
    """Report first, and clear up while the engine ends the worker."""
    settle(job.threads, job.protocol.precision)
    descriptor, path = tempfile.mkstemp(prefix="task-", suffix=".py")
    try:
        os.close(descriptor)
        Path(path).write_text(job.task_source, encoding="utf-8", errors="surrogatepass")
        _send(Assignment(job, engine, reference, fds).report(path), job, engine)
    finally:
        os.unlink(path)
        for fd in fds:
            os.close(fd)
        garbage.collect()
        backend_of(torch.device(job.device)).keep_little()


class Garbage:
    """Garbage of jobs: tensors among it."""

    def __init__(self, slow_s: float = 0.004) -> None:
        self._slow_s = slow_s
        self._freezes_left = 3

    def collect(self) -> None:
        """Collect, and freeze what the first jobs imported, which took 10 ms each time. A few
        times only: what a cache holds of a task is never collected then."""
        sys.modules.pop(TASK_MODULE, None)
        began = time.perf_counter()
        gc.collect()
        if self._freezes_left and time.perf_counter() - began > self._slow_s:
            self._freezes_left -= 1
            gc.freeze()


def _send(report: Report, job: Job, engine: Channel[ToVerifier]) -> None:
    """Send it, or say why not: a missing report is the sandbox's failure. Findings and notes are
    cut as they are made, so this is a last resort."""
    try:
        engine.send(report)
    except TooLong as error:
        reason = f"the report does not fit in a message: {error}"
        broken = TaskBroken(reason=reason)
        finding = broken if job.mode == "baseline" else Differs(reason=reason)
        engine.send(Report(finding=finding, timings_s=report.timings_s))


def main(*, control: int, device: str, cores: list[int]) -> None:
    os.sched_setaffinity(0, cores)
    with socket.socket(fileno=control) as sock:
        engine: Channel[ToVerifier] = Channel(sock, ToVerifier, fds=MAX_FDS)
        with suppress(PeerGone):
            _serve(engine, torch.device(device))
