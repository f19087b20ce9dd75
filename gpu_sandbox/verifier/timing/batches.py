"""Batches of timed calls on freshly drawn inputs, timed by the verifier.

The baseline's worker and the candidate's go through the same code. On a GPU (``event_batches.py``)
outputs of secretly chosen calls are copied to the verifier's memory before the clock stops. On the
CPU (``cpu_call.py``) they are read where they lie, while the worker is frozen.
"""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.ipc.verifier_messages import Forged
from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.shared_arena import lay_out
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.launch_cover import HostTime
from gpu_sandbox.verifier.trials.hidden_cases import HiddenCases
from gpu_sandbox.verifier.worker_link.client import Peer

_HANDLED_NS = 25_000  # that describing any output takes a worker, beside all the rest
_MAX_FREE_SHARE = 0.1
_AHEAD_BYTES = 1 << 31  # of inputs drawn before their turn
_MAX_REDRAWS = 20
_MIN_COMPARED, _COMPARED_BYTES = 2, 1 << 27
"""Calls whose outputs are compared: at least so many, and as many as have so many bytes. Of 16
calls a skipped one is missed seven times in eight where two are compared."""


class TimedBatch(msgspec.Struct, frozen=True):
    """Times of one batch, and what it put out.

    ``reported_ns``: of the calls, as the worker says. ``wall_ns``: the verifier's clock;
    ``transfer_ns`` of it the verifier spent copying. ``launch_ns`` and ``loop_ns``: what queueing a
    call took by the worker's account, without and with all around it. On the CPU, ``cpu_ns``: the
    processor time of the worker's processes, by the kernel; ``other_side_ns``: that of the frozen
    other side; ``handled_ns``: what describing the output took by the worker's account, and
    ``copied_ns`` to copy what can't be read as it lies; ``mapped_bytes``: of outputs in pages that
    were not written (``page_map.py``); ``intact``: whether inputs were unchanged, if compared.

    ``outputs`` are those of the chosen calls; ``last`` describes the last call's.
    """

    reported_ns: int
    wall_ns: int
    transfer_ns: int
    outputs: list[list[torch.Tensor]]
    last: Ran
    launch_ns: int = 0
    loop_ns: int = 0
    cpu_ns: int = 0
    other_side_ns: int = 0
    handled_ns: int = 0
    copied_ns: int = 0
    mapped_bytes: int = 0
    intact: bool | None = None
    mutated_inputs: list[torch.Tensor] = []
    """Of the first chosen call, where the task changes its inputs."""
    trees: list[Tree] = []
    """Of the first chosen calls, where outputs hold plain values; on the CPU that is ``last``."""

    def bare(self) -> TimedBatch:
        """Without outputs, which may be gigabytes."""
        return msgspec.structs.replace(self, outputs=[], mutated_inputs=[], trees=[])

    def host_time(self, calls: int) -> HostTime:
        """Of each of so many calls."""
        return HostTime(self.launch_ns, self.loop_ns, self.reported_ns / calls)

    def charged(self, more_ns: int) -> TimedBatch:
        """Longer by so much, all of it the calls'."""
        return msgspec.structs.replace(
            self,
            reported_ns=self.reported_ns + more_ns,
            wall_ns=self.wall_ns + more_ns,
            cpu_ns=self.cpu_ns + more_ns,
        )

    @property
    def output_ns(self) -> int:
        """The part of ``handled_ns`` that grows with the output: to list tensors, to copy scattered
        ones. A worker can skip it, so it is no overhead; where the verifier's clock decides it
        counts as the calls', on both sides."""
        return max(0, self.handled_ns - _HANDLED_NS)

    @property
    def describing_ns(self) -> int:
        """The part of ``output_ns`` that any worker needs, however the output lies."""
        return max(0, self.handled_ns - self.copied_ns - _HANDLED_NS)

    @property
    def overhead_ns(self) -> int:
        """Spent outside the calls and not on their output, if the reported time is true."""
        return self.wall_ns - self.reported_ns - self.output_ns


class Settings(msgspec.Struct, frozen=True):
    """What is done around each call.

    On a GPU: bytes to flush, by which ``kernels``, the cover, and what is taken off each reading of
    events (``EventClock``). On the CPU: whether the last call is repeated before the next batch
    (``worker_messages.StandBy``)."""

    flush_bytes: int = 0
    kernels: bytes = b""
    cover_us: int = 0
    reading_ns: int = 0
    rehearses: bool = False


class Batches(ABC):
    """Batches of ``calls`` calls each, on inputs all like those of ``first``."""

    def __init__(self, task: Task, first: Case, device: torch.device, calls: int) -> None:
        self.calls = calls
        self.cases: list[Case] = []
        self.unusual = False
        self.device = device
        self._ahead: dict[tuple[str, int], tuple[list[Case], bool]] = {}
        self._hidden_cases = HiddenCases(task, first)
        self._task = task
        self._first = first
        self._backend = backend_of(device)
        outputs = [e.native for e in first.expected]
        spare = 1 if calls == 1 and task.has_second_place else 0
        self.layout = lay_out(first.tensors, outputs, calls, spare)
        self._output_bytes = sum(t.numel() * t.element_size() for t in outputs)

    @abstractmethod
    def run(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        """Time a batch on the inputs drawn last. Raises ``Ended`` for impossible reported times.

        The clock starts before the worker can see the first input. ``chosen`` are the calls whose
        outputs are wanted, which no worker is given."""

    # --- inputs

    def draw(self, purpose: str, index: int) -> None:
        """New inputs for every call of both sides' next batch. ``unusual``: none of them is as
        the task draws them."""
        self.let_go()  # gigabytes, maybe: not those before and these at a time
        drawn = self._ahead.pop((purpose, index), None) or self._drawn_anew(purpose, index)
        self.cases, self.unusual = drawn
        self._backend.synchronize()  # or the first batch would pay for the drawing

    @property
    def may_change(self) -> bool:
        """Whether batches may have hidden cases."""
        return bool(self._task.passed_transforms)

    def draw_ahead(self, purpose: str, most: int) -> bool:
        """Draw for one more of the first ``most`` batches; False when there are enough. On the CPU
        there always are: inputs in the verifier's cache would show in wall times."""
        number = len(self._ahead)
        each = self.calls * sum(t.numel() * t.element_size() for t in self._first.tensors)
        if self._backend.on_host or number >= most:
            return False
        if (number + 1) * each > min(_AHEAD_BYTES, self._affordable_bytes()):
            return False
        self._ahead[purpose, number] = self._drawn_anew(purpose, number)
        return True

    def let_go(self) -> None:
        """Release the inputs of the last batch, when no other follows soon."""
        self.cases = []

    def forget_ahead(self) -> None:
        self._ahead.clear()

    def _affordable_bytes(self) -> int:
        free = self._backend.free_bytes()
        assert free is not None
        return int(free * _MAX_FREE_SHARE)

    def _drawn_anew(self, purpose: str, index: int) -> tuple[list[Case], bool]:
        first = index * self.calls
        changed = self._hidden_cases.among(self.calls, purpose, index)
        if not self._hidden_cases.in_place:
            self._backend.leave_half()  # the reference ran on them
        cases = [
            changed.get(number) or self._drawn(purpose, first + number)
            for number in range(self.calls)
        ]
        return cases, len(changed) + self._hidden_cases.change(cases) == self.calls

    def _drawn(self, purpose: str, index: int) -> Case:
        """One like the first: tasks may draw shapes, too."""
        for attempt in range(_MAX_REDRAWS):
            case = self._task.draw(purpose, index * _MAX_REDRAWS + attempt)
            if case.is_like(self._first):
                return case
        raise Broken("get_inputs() draws other shapes each time")

    # --- checks

    def choose(self) -> list[int]:
        """Calls to compare, in an order that no seed of a task leads to. A hidden case is always
        among them, if there is one."""
        affordable = _COMPARED_BYTES // max(self._output_bytes, 1)
        number = min(max(_MIN_COMPARED, affordable), self.calls)
        chosen = secrets.SystemRandom().sample(range(self.calls), number)
        changed = [number for number, case in enumerate(self.cases) if case.transform]
        if changed and not set(changed) & set(chosen):
            chosen[-1] = secrets.choice(changed)
        return chosen

    def intact(self, peer: Peer, number: int) -> bool:
        """Whether the inputs of that call are, bit for bit, what was drawn."""
        return peer.intact(peer.turn.inputs[number], self.cases[number].tensors)


def check_reported_time(peer: Peer, reported: Sequence[int], calls: int, wall_ns: int) -> int:
    """Their sum in nanoseconds. Ends a worker whose times can't be."""
    if len(reported) != calls or min(reported) < 0 or sum(reported) > wall_ns:
        raise peer.ended(Forged(reason="it claims a time that can't be"))
    return max(sum(reported), 1)
