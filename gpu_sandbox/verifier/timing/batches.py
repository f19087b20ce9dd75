"""Batches of timed calls on freshly drawn inputs, timed by the verifier.

The baseline's worker and the candidate's go through the same code. On a GPU (``EventBatches``) the
outputs of secretly chosen calls are copied to the verifier's memory before the clock stops. On the
CPU (``cpu_call.py``) they are read where they lie, while the worker is frozen.
"""

from __future__ import annotations

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Sequence

import msgspec
import torch

from gpu_sandbox.ipc.verifier_messages import Forged
from gpu_sandbox.ipc.worker_messages import Ran, Time, Timed, Tree
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.shared_arena import lay_out
from gpu_sandbox.verifier.backends.lookup import backend_of
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.launch_cover import HostTime
from gpu_sandbox.verifier.trials.hidden_cases import Surprises
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.digests import recall_trees

__all__ = [
    "FEW_CALLS",
    "MANY_CALLS",
    "Batches",
    "EventBatches",
    "Settings",
    "TimedBatch",
    "check_reported_time",
]

_LONG_NS = 8_000_000
_HANDLED_NS = 25_000
"""What a worker takes to tell of an output, at most, that is nothing beside all the rest."""
FEW_CALLS, MANY_CALLS = 16, 48
"""At most, of a release: to time pairs, which differ by more than their calls do; to see from
outside what calls take, and where calls are to follow upon each other."""
_MOST_OF_FREE = 0.1
_AHEAD_BYTES = 1 << 31
"""Of inputs that are drawn before their turn."""
_REDRAWS = 20
_WANTED_RELEASES = 8
_FEWEST_COMPARED, _COMPARED_BYTES = 2, 1 << 27
"""Calls whose outputs are compared, at least, and how much memory more may take. Of sixteen calls
one is left out unseen seven times in eight where two are compared."""


class TimedBatch(msgspec.Struct, frozen=True):
    """``reported_ns``: of the calls, as the worker says; ``wall_ns``: of all, as we saw;
    ``own_ns``: what copying took us of ``wall_ns``; ``cpu_ns``: on the CPU what its processes used
    of the processor meanwhile, by the kernel's account; ``beside_ns``: what the other side's used,
    though they should lie still; ``handled_ns``: what it says that telling of its output took, and
    ``copied_ns`` to copy what of it can't be read as it lies; ``mapped_bytes``: on the CPU, of its
    outputs, in pages that were not written (``verifier/worker_link/page_map.py``).

    ``outputs`` are those of the chosen calls; ``last`` is what the worker says of the last
    call's, and ``launch_ns`` what it says that queueing a call takes, with all around it
    ``loop_ns``. ``intact``: on the CPU
    whether its inputs were what was drawn when it lay still, if that was looked at.
    """

    reported_ns: int
    wall_ns: int
    own_ns: int
    outputs: list[list[torch.Tensor]]
    last: Ran
    launch_ns: int = 0
    loop_ns: int = 0
    cpu_ns: int = 0
    beside_ns: int = 0
    handled_ns: int = 0
    copied_ns: int = 0
    mapped_bytes: int = 0
    intact: bool | None = None
    left: list[torch.Tensor] = []
    """What the inputs of the first chosen call are afterwards, where the task changes them."""
    trees: list[Tree] = []
    """Of the first chosen calls, where outputs hold plain values; on the CPU there is ``last``."""

    def bare(self) -> TimedBatch:
        """Without the outputs, which may be gigabytes."""
        return msgspec.structs.replace(self, outputs=[], left=[], trees=[])

    def host_time(self, calls: int) -> HostTime:
        """Of each of so many calls."""
        return HostTime(self.launch_ns, self.loop_ns, self.reported_ns / calls)

    def charged(self, more_ns: int) -> TimedBatch:
        """Longer by so much, all of it the calls'."""
        reported_ns, wall_ns = self.reported_ns + more_ns, self.wall_ns + more_ns
        return msgspec.structs.replace(
            self, reported_ns=reported_ns, wall_ns=wall_ns, cpu_ns=self.cpu_ns + more_ns
        )

    @property
    def output_ns(self) -> int:
        """Of ``handled_ns`` what grows with the output: to list two thousand tensors, to copy one
        that lies scattered. A worker can do without, so it is no rest; where the clock outside
        decides it counts as the calls', on both sides."""
        return max(0, self.handled_ns - _HANDLED_NS)

    @property
    def describing_ns(self) -> int:
        """Of ``output_ns`` what any worker takes to tell of such an output, however it lies."""
        return max(0, self.handled_ns - self.copied_ns - _HANDLED_NS)

    @property
    def overhead_ns(self) -> int:
        """Spent outside the calls, and not on their output, if the claim is true."""
        return self.wall_ns - self.reported_ns - self.output_ns


class Settings(msgspec.Struct, frozen=True):
    """What is done before each call: of CUDA releases (``messages.Time``), with ``kernels`` for it
    (``cuda/nvrtc.py``), and what is taken off each reading of events, since it is not the call's
    (``EventClock`` in ``verifier/backends``); and whether the last one is repeated before one of
    the CPU (``messages.StandBy``)."""

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
        self._ahead: dict[tuple[str, int], tuple[list[Case], bool]] = {}
        self._surprises = Surprises(task, first)
        self._task = task
        self._first = first
        self.device = device
        self._backend = backend_of(device)
        outputs = [e.native for e in first.expected]
        spare = 1 if calls == 1 and task.has_second_place else 0
        self.layout = lay_out(first.tensors, outputs, calls, spare)
        self._output_bytes = sum(t.numel() * t.element_size() for t in outputs)

    def draw(self, purpose: str, index: int) -> None:
        """New inputs for every call of the next release of both sides. ``unusual``: none of
        them are as the task's own."""
        self.let_go()  # gigabytes, maybe: not those before and these at a time
        drawn = self._ahead.pop((purpose, index), None) or self._drawn_anew(purpose, index)
        self.cases, self.unusual = drawn
        self._backend.synchronize()  # or the first release would pay for the drawing

    @property
    def may_change(self) -> bool:
        """Whether some have changed inputs, if the reference takes what is drawn."""
        return bool(self._task.altered)

    def draw_ahead(self, purpose: str, most: int) -> bool:
        """For one more of the first so many releases; False when it's enough. On the CPU it
        always is: inputs that lie in its cache when they are copied tell on the walls."""
        number = len(self._ahead)
        each = self.calls * sum(t.numel() * t.element_size() for t in self._first.tensors)
        if self._backend.on_host or number >= most:
            return False
        if (number + 1) * each > min(_AHEAD_BYTES, self._affordable_bytes()):
            return False
        self._ahead[purpose, number] = self._drawn_anew(purpose, number)
        return True

    def let_go(self) -> None:
        """Of the inputs of the last release, when no other follows soon."""
        self.cases = []

    def forget_ahead(self) -> None:
        """What was drawn and not needed."""
        self._ahead.clear()

    def _affordable_bytes(self) -> int:
        free = self._backend.free_bytes()
        assert free is not None
        return int(free * _MOST_OF_FREE)

    def _drawn_anew(self, purpose: str, index: int) -> tuple[list[Case], bool]:
        first = index * self.calls
        changed = self._surprises.among(self.calls, purpose, index)
        if not self._surprises.in_place:
            self._backend.leave_half()  # the reference ran on them
        cases = [
            changed.get(number) or self._drawn(purpose, first + number)
            for number in range(self.calls)
        ]
        return cases, len(changed) + self._surprises.change(cases) == self.calls

    def choose(self) -> list[int]:
        """Calls to compare, in random order, by a generator that no seed of a task's leads to. One
        on changed inputs is always among them, if there is one."""
        held = _COMPARED_BYTES // max(self._output_bytes, 1)
        number = min(max(_FEWEST_COMPARED, held), self.calls)
        chosen = secrets.SystemRandom().sample(range(self.calls), number)
        changed = [number for number, case in enumerate(self.cases) if case.altered]
        if changed and not set(changed) & set(chosen):
            chosen[-1] = secrets.choice(changed)
        return chosen

    def _drawn(self, purpose: str, index: int) -> Case:
        """One like the first: tasks may draw shapes, too."""
        for attempt in range(_REDRAWS):
            case = self._task.draw(purpose, index * _REDRAWS + attempt)
            if case.is_like(self._first):
                return case
        raise Broken("get_inputs() draws other shapes each time")

    @abstractmethod
    def release(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        """Of the inputs drawn last. Raises ``Ended`` for claims that can't be.

        The clock starts before the worker can see the first of them: a head start is none.
        ``chosen`` are the calls whose outputs are wanted, which nobody else knows.
        """

    def intact(self, peer: Peer, number: int) -> bool:
        """Whether the inputs of that call, bit for bit, are what was drawn."""
        return peer.intact(peer.turn.inputs[number], self.cases[number].tensors)


class EventBatches(Batches):
    """All calls at once, each with its own place for inputs and outputs. On the CPU that is
    one call (``cpu_call.py``)."""

    def long_enough(self, once_ns: int, draw_s: float, time_s: float, most: int) -> int:
        """How many calls make a release long enough to time from outside, ``most`` at most.

        Each release costs a change of context; but not more than memory holds, or than would
        take too much of ``time_s`` to draw (``draw_s`` each).
        """
        each = max(self.layout.total_bytes // self.calls, 1)
        affordable = int(time_s / _WANTED_RELEASES / max(draw_s, 1e-6))
        held = self._affordable_bytes() // each
        return max(1, min(most, held, affordable, -(-_LONG_NS // max(once_ns, 1))))

    def release(
        self, peer: Peer, settings: Settings, seed: int, chosen: Sequence[int] = ()
    ) -> TimedBatch:
        return self._released(peer, settings, seed, chosen)

    def release_touches(self, peer: Peer, settings: Settings, seed: int) -> TimedBatch:
        """Of a kernel on one element in place of the model."""
        return self._released(peer, settings, seed, (), empty=True)

    def _released(
        self,
        peer: Peer,
        settings: Settings,
        seed: int,
        chosen: Sequence[int],
        *,
        empty: bool = False,
    ) -> TimedBatch:
        if settings.kernels:
            peer.give_kernels(settings.kernels)
        turn = peer.lay(self.layout, self.cases)
        request = Time(
            calls=self.calls,
            first=turn.first,
            seed=seed,
            flush_bytes=settings.flush_bytes,
            cover_us=settings.cover_us,
            empty=empty,
        )
        began = time.perf_counter_ns()
        peer.put(self.cases)
        given = time.perf_counter_ns()
        timed = peer.ask(request, Timed, "bench")
        answered = time.perf_counter_ns()
        taken = iter(peer.taken([s for number in chosen for s in turn.outputs[number]]))
        outputs = [[next(taken) for _ in turn.outputs[number]] for number in chosen]
        changed = bool(chosen) and self._task.mutates
        left = peer.taken(turn.inputs[chosen[0]]) if changed else []
        ended = time.perf_counter_ns()
        wall_ns, own_ns = ended - began, ended - answered + given - began
        reported_ns = check_reported_time(peer, timed.elapsed_ns, self.calls, wall_ns)
        return TimedBatch(
            max(reported_ns - settings.reading_ns * self.calls, 1),
            wall_ns,
            own_ns,
            outputs,
            timed.last,
            launch_ns=max(timed.launch_ns, 0),
            loop_ns=max(timed.loop_ns, 0),
            left=left,
            trees=recall_trees(peer, timed.last, timed.plain, self.calls, chosen),
        )


def check_reported_time(peer: Peer, claims: Sequence[int], calls: int, wall_ns: int) -> int:
    """Its claim in nanoseconds, if it is one that can be; else that is its end."""
    if len(claims) != calls or min(claims) < 0 or sum(claims) > wall_ns:
        raise peer.ended(Forged(reason="it claims a time that can't be"))
    return max(sum(claims), 1)
