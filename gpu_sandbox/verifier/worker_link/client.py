"""The verifier's client of one worker: requests, shared memory, and its processes' freeze."""

from __future__ import annotations

import socket
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import torch

from gpu_sandbox.confine.freeze import Frozen, Stoppable, Unstoppable
from gpu_sandbox.ipc.cpu_call_messages import Where
from gpu_sandbox.ipc.model_messages import Load, Loaded
from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.ipc.verifier_messages import Forged, WorkerDied
from gpu_sandbox.ipc.worker_messages import Done, LoadKernels, ShowMemory
from gpu_sandbox.tensors.pytree import pack
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.worker_link.input_placement import SharedSlots
from gpu_sandbox.verifier.worker_link.requests import Ended
from gpu_sandbox.verifier.worker_link.worker_memory import Memory

_MAX_USED_NS = 1_000_000  # of the processor, by a frozen side
_MAX_RESTLESS = 3
"""Times it may be more: a process that leaves the processor to stop may have to wait for that."""
_UNSTOPPABLE = Forged(reason="its processes can't be stopped while the baseline is timed")
_NO_PROCESSES = Frozen({}, lambda: (set(), set()), 0)


class Peer(SharedSlots):
    """One worker. ``queued``: how many of its calls were queued ahead when last asked to be, and
    ``queues`` whether that was all."""

    def __init__(
        self,
        sock: socket.socket,
        pid: int,
        device: torch.device,
        call_s: float,
        *,
        reference: bool = False,
    ) -> None:
        super().__init__(sock, device, call_s, reference=reference)
        self.pid = pid
        self._has_kernels = False
        self.queued = self.unqueued = 0
        self._memory: Memory | None = None
        self._processes = Stoppable(pid) if self._backend.on_host else None
        self._restless = 0

    @property
    def queues(self) -> bool:
        return self.unqueued == 0

    def close(self) -> None:
        super().close()
        for held in (self._memory, self._processes):
            if held is not None:
                held.close()

    @contextmanager
    def stopped(self) -> Iterator[Frozen]:
        """Freeze its processes, on the CPU: while the other side is timed, while its inputs come,
        and when it has answered. A GPU is timed by its own clock and by gates."""
        if self._processes is None:
            yield _NO_PROCESSES
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

    def used_while(self, still: Frozen) -> int:
        """Nanoseconds of processor time that this side used while frozen. Ends a candidate that
        does so often."""
        used_ns = still.used_ns()
        self._restless += used_ns > _MAX_USED_NS
        if self._restless > _MAX_RESTLESS and self.ended is Ended:
            raise self.ended(_UNSTOPPABLE)
        return used_ns

    # --- loading

    def give_kernels(self, image: bytes) -> None:
        """The harness's own, once."""
        if not self._has_kernels:
            self.ask(LoadKernels(image=image), Done, "share")
            self._has_kernels = True

    def start_loading(
        self, task: Task, source: str, class_name: str, libraries: list[str], fds: list[int]
    ) -> None:
        """Ask it to import and construct; ``finish_loading`` waits for the answer."""
        tensors: list[torch.Tensor] = []
        tree = pack(task.init, tensors, pickling=True)
        spots = self.lend(tensors)
        self._layout, self.called = None, None
        load = Load(
            source=source,
            class_name=class_name,
            owned=task.owned,
            libraries=libraries,
            device=str(self._device),
            threads=torch.get_num_threads(),
            precision=task.precision,
            weight_seed=task.weight_seed,
            init=tree,
            init_spots=spots,
        )
        if self._processes is not None and self._memory is None:
            # Before there is a candidate, which could show another's.
            self.send(ShowMemory(), "load")
            self._memory = Memory(self.take_fds("load", most=2))
        self.send(load, "load", *fds)

    def finish_loading(self, limit_s: float) -> Loaded:
        return self.take(Loaded, "load", limit_s)

    # --- the worker's own memory, on the CPU

    def read(self, spot: Spot, found: Where) -> torch.Tensor:
        """A private copy of an output. Raises ``Unreadable``."""
        assert self._memory is not None
        return self._memory.read(spot, found)

    @property
    def shows_pages(self) -> bool:
        return self._memory is not None and self._memory.pages is not None

    def mapped_bytes(self, outputs: Sequence[tuple[Spot, Where]]) -> int:
        """Bytes of these that were mapped into place, not written."""
        assert self._memory is not None
        return self._memory.mapped_bytes(outputs)
