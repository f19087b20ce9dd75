"""Releases: a run of calls on inputs that were drawn a moment ago, timed from outside.

Both sides, the baseline's worker and the candidate's, go through this code; neither sees
the other's memory. When a worker has answered, every output must lie in memory that the
verifier owns: a few, chosen only then, are copied before the clock stops.
"""

from __future__ import annotations

import secrets
import time

import msgspec
import torch

from gpu_sandbox.child.arena import lay_out
from gpu_sandbox.child.peer import Peer
from gpu_sandbox.child.reference import Broken, Case, Task
from gpu_sandbox.jobs import Forged
from gpu_sandbox.messages import Ran, Time, Timed

__all__ = ["Released", "Releases", "Settings"]

_LONG_NS = 8_000_000
_MOST_CALLS = 48
_MOST_OF_FREE = 0.1
_REDRAWS = 20
_WANTED_RELEASES = 8
_CHECKED = 2


class Released(msgspec.Struct, frozen=True):
    """``claim_ns``: of the calls, as the worker says; ``wall_ns``: of all, as we saw;
    ``cpu_ns``: what its process used of the processor meanwhile, by the kernel's account.

    ``chosen`` are calls, ``outputs`` their outputs; ``last`` is what the worker says of
    the last call's.
    """

    claim_ns: int
    wall_ns: int
    cpu_ns: int
    chosen: list[int]
    outputs: list[list[torch.Tensor]]
    last: Ran

    def bare(self) -> Released:
        """Without the outputs, which may be gigabytes."""
        return msgspec.structs.replace(self, outputs=[])

    @property
    def rest_ns(self) -> int:
        """Spent outside the calls, if the claim is true."""
        return self.wall_ns - self.claim_ns


class Settings(msgspec.Struct, frozen=True):
    """Of CUDA releases: what is done before each call (``messages.Time``)."""

    flush_bytes: int = 0
    cover_us: int = 0


class Releases:
    """Inputs for ``calls`` calls at a time, all like those of ``first``."""

    def __init__(self, task: Task, first: Case, device: torch.device, calls: int) -> None:
        self.calls = calls
        self.layout = lay_out(first.tensors, [e.native for e in first.expected], calls)
        self.cases: list[Case] = []
        self._task = task
        self._device = device
        self._shapes = _shapes(first)

    def long_enough(self, once_ns: int, draw_s: float, time_s: float) -> int:
        """How many calls make a release long enough to time from outside.

        On the CPU one: who sees several inputs at once can do their work together. On a
        GPU, where each release costs a change of context, more; but not more than memory
        holds, or than would take too much of ``time_s`` to draw (``draw_s`` each).
        """
        if self._device.type == "cpu":
            return 1
        each = max(self.layout.total_bytes // self.calls, 1)
        affordable = int(time_s / _WANTED_RELEASES / max(draw_s, 1e-6))
        held = int(torch.cuda.mem_get_info(self._device)[0] * _MOST_OF_FREE)
        most = min(_MOST_CALLS, held // each, affordable)
        return max(1, min(most, -(-_LONG_NS // max(once_ns, 1))))

    def draw(self, purpose: str, index: int) -> None:
        """New inputs for every call of the next release of both sides."""
        first = index * self.calls
        self.cases = [self._drawn(purpose, first + number) for number in range(self.calls)]

    def _drawn(self, purpose: str, index: int) -> Case:
        """One like the first: tasks may draw shapes, too."""
        for attempt in range(_REDRAWS):
            case = self._task.draw(purpose, index * _REDRAWS + attempt)
            if _shapes(case) == self._shapes:
                return case
        raise Broken("get_inputs() draws other shapes each time")

    def release(self, peer: Peer, settings: Settings, seed: int) -> Released:
        """Of the inputs drawn last. Raises what ``peer`` does, for claims that can't be, too.

        The clock starts before the worker can see the first of them: a head start is none.
        """
        request = Time(
            calls=self.calls,
            seed=seed,
            flush_bytes=settings.flush_bytes,
            cover_us=settings.cover_us,
        )
        chosen = _choose(self.calls)
        peer.lay(self.layout, self.cases)
        used_ns = peer.cpu_ns()
        began = time.perf_counter_ns()
        peer.put(self.layout, self.cases)
        timed = peer.ask(request, Timed, "bench")
        outputs = [peer.taken(self.layout.outputs[number]) for number in chosen]
        wall_ns = time.perf_counter_ns() - began
        cpu_ns = peer.cpu_ns() - used_ns
        claims = timed.elapsed_ns
        if len(claims) != self.calls or min(claims) < 0 or sum(claims) > wall_ns:
            raise peer.ended(Forged(reason="it claims a time that can't be"))
        return Released(max(sum(claims), 1), wall_ns, cpu_ns, chosen, outputs, timed.last)


def _choose(calls: int) -> list[int]:
    """Calls to check, by a generator that no seed of a task's leads to."""
    return secrets.SystemRandom().sample(range(calls), min(_CHECKED, calls))


def _shapes(case: Case) -> list[tuple[torch.Size, torch.dtype]]:
    return [(t.shape, t.dtype) for t in case.tensors]
