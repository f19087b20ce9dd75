"""Peak memory of a candidate and of the reference, beyond inputs, outputs and parameters.

The verifier reads the driver's account of a worker's processes, or on the CPU the kernel's: before
the worker loads anything, and while it is called some times more when all is timed. Before, both
sides give back what allocators keep, so the reading after the calls is the peak of what went
through an allocator; other memory shows only in readings in between. Taken off, on both sides:
arenas where the account has them, the reference's parameters, and outputs of one call.
"""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import torch

from gpu_sandbox.ipc.verifier_messages import Agreed, Job
from gpu_sandbox.ipc.worker_messages import Done, ReleaseMemory, Repeat
from gpu_sandbox.tensors.shared_arena import lay_out
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.process_memory import device_bytes, host_bytes, jail_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.work_estimate import moved_bytes
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended, ReferenceEnded

_CALLS_S = 0.015  # of calls: some readings fall into a short one, too
_MAX_CALLS = 500
_MAX_CALL_S = 2.0  # A longer call is not made once more for this figure
_POLL_S = 0.0005  # between readings of the kernel's account; the driver's takes as long itself
_MIN_LIMIT_S, _LIMIT_RATIO = 2.0, 20.0  # for an answer: at least, and times the calls
_TRIAL_BYTES = 32 << 20  # of an arena, to see whether the driver counts it in a worker's account


class _Memo:
    """What later jobs of this process need."""

    def __init__(self) -> None:
        self.before: dict[int, int] = {}  # bytes of the reference's fresh worker, by pid
        self.counts_arenas = False  # the driver counts what the verifier shares with a worker
        self.references: dict[tuple[str, str, str], int] = {}  # by task, precision and device


_memo = _Memo()


class PeakMemory:
    """Peaks of one job. ``lost``: the candidate failed in these calls, and may not answer."""

    def __init__(self, job: Job, device: torch.device) -> None:
        self._job = job
        self._device = device
        self._backend = backend_of(device)
        self._driver = self._backend.driver_account()
        self._wanted = job.protocol.structured and job.mode == "evaluate"
        self._before: int | None = None
        self._peak: int | None = None
        self._reference_peak: int | None = None
        self.lost = False

    def begin_reference(self, peer: Peer) -> None:
        """Before a fresh worker loads its first reference."""
        account = self._account(peer)
        used = account()
        _memo.before.clear()
        if used is None:
            return
        _memo.before[peer.pid] = used
        if not self._backend.on_host:
            arena = peer.reserve(_TRIAL_BYTES)
            _memo.counts_arenas = (account() or 0) - used > arena.size / 2
            peer.give_up_arena()

    def begin_candidate(self, peer: Peer) -> None:
        """Before it is loaded, and gates are tried in its worker."""
        if self._wanted:
            self._before = self._account(peer)()

    def measure_candidate(self, task: Task, first: Case, peer: Peer, call_ms: float) -> None:
        """After it is timed: nothing that it does now changes the verdict."""
        if self._before is None or call_ms / 1e3 > _MAX_CALL_S:
            return
        try:
            self._peak = self._measured(task, first, peer, call_ms / 1e3, self._before)
        except Ended:
            self.lost = True

    def measure_reference(self, task: Task, first: Case, peer: Peer, call_ms: float) -> None:
        """After all is timed, once a task."""
        before = _memo.before.get(peer.pid)
        if not self._wanted or before is None or call_ms / 1e3 > _MAX_CALL_S:
            return
        key = self._job.task_source, self._job.protocol.precision, str(self._device)
        if key not in _memo.references:
            try:
                found = self._measured(task, first, peer, call_ms / 1e3, before)
            except ReferenceEnded:  # others have its memory: the verdict stands without
                return
            if found is None:
                return
            _memo.references[key] = found
        self._reference_peak = _memo.references[key]

    def added_to(self, agreed: Agreed) -> Agreed:
        return msgspec.structs.replace(
            agreed, peak_bytes=self._peak, reference_peak_bytes=self._reference_peak
        )

    def _measured(
        self, task: Task, first: Case, peer: Peer, call_s: float, before: int
    ) -> int | None:
        layout = lay_out(first.tensors, [e.native for e in first.expected], 1)
        peer.lay(layout, [first])
        peer.put([first])
        calls = calls_for(call_s)
        limit_s = max(_MIN_LIMIT_S, _LIMIT_RATIO * calls * call_s)
        peer.send(ReleaseMemory(), "memory")
        peer.take(Done, "memory", limit_s)
        account = self._account(peer)
        peer.send(Repeat(calls=calls), "memory")
        highest = self._highest(peer, account, limit_s)
        peer.take(Done, "memory", limit_s)
        after = self._account(peer)()  # with processes that have come meanwhile
        if after is None:
            return None
        parameters = _storage_bytes([*task.model.parameters(), *task.model.buffers()])
        return beyond(
            max(highest, after),
            before,
            arenas=peer.shared_bytes if _memo.counts_arenas else 0,
            parameters=parameters,
            outputs=moved_bytes(task, first)[1],
        )

    def _highest(self, peer: Peer, account: Callable[[], int | None], limit_s: float) -> int:
        """Read until there is an answer, or it is late."""
        deadline, highest = time.monotonic() + limit_s, 0
        while not peer.said_something() and time.monotonic() < deadline:
            highest = max(highest, account() or 0)
            if self._driver is None:
                time.sleep(_POLL_S)
        return highest

    def _account(self, peer: Peer) -> Callable[[], int | None]:
        """The account of the processes that there are now."""
        worker, jail = peer.pid, jail_of(peer.pid)
        if self._backend.on_host:
            return lambda: host_bytes(worker, jail)
        driver = self._driver
        return lambda: None if driver is None else device_bytes(driver, worker, jail)


def calls_for(call_s: float) -> int:
    """Count the calls of that length that are enough."""
    return max(1, min(_MAX_CALLS, round(_CALLS_S / max(call_s, 1e-9))))


def beyond(highest: int, before: int, *, arenas: int, parameters: int, outputs: int) -> int:
    """Take off from a reading what any worker needs."""
    return max(0, highest - before - arenas - parameters - outputs)


def _storage_bytes(tensors: list[torch.Tensor]) -> int:
    """Size of their memory; what several share counts once."""
    storages = [t.untyped_storage() for t in tensors if t.layout == torch.strided]
    return sum({storage.data_ptr(): storage.nbytes() for storage in storages}.values())
