"""Calls of trials: each has its inputs elsewhere than the call before, and others follow it."""

from __future__ import annotations

import itertools
import secrets
import time
from typing import NamedTuple

import msgspec
import torch

from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.ipc.verifier_messages import Agreed, Job
from gpu_sandbox.ipc.worker_messages import Ran, Run
from gpu_sandbox.tensors.shared_arena import lay_out
from gpu_sandbox.verifier.inputs.transforms import LARGE_BYTES
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.worker_link.client import Peer

_MAX_BETWEEN = 8
_BETWEEN_S = 0.02
_PLACES = 3  # for inputs: so that calls in between do not lie where the one before them did, either
_MIN_TIMES, _MIN_MS = 10.0, 100.0  # of a warm call: a first call that takes more than both is noted


class FirstCall(NamedTuple):
    """Wall time of a message, the first call, and ``others`` that came right behind it."""

    wall_ms: float
    others: int


def with_first_call(
    agreed: Agreed, first: FirstCall | None, prepared_ms: float, notes: list[str]
) -> Agreed:
    """Add the time of the first call, which tunes, compiles and fills caches. ``prepared_ms``: of
    the preparation's, whose compilers do nothing again here; 0 without one."""
    if first is None:
        return agreed
    warm_ms = agreed.looped.candidate_ms if agreed.looped else agreed.candidate_ms
    first_ms = max(first.wall_ms - first.others * warm_ms, prepared_ms, 0.0)
    if first_ms > _MIN_MS and first_ms > _MIN_TIMES * warm_ms:
        notes.append(f"its first call took {first_ms:.4g} ms, a warm one {warm_ms:.4g} ms")
    return msgspec.structs.replace(agreed, first_call_ms=first_ms)


class Candidate(NamedTuple):
    """A candidate in its worker, the task and its first case, and ``notes`` of the verdict."""

    task: Task
    peer: Peer
    job: Job
    first: Case
    notes: list[str]


class TrialCalls:
    def __init__(self, task: Task, peer: Peer) -> None:
        self._task = task
        self._peer = peer
        self.first: FirstCall | None = None

    def other(self, case: Case, purpose: str, number: int) -> Case | None:
        """Draw similar inputs for the places that ``case`` does not lie in; None if there are none,
        or memory is to be spared."""
        if is_large(case) or not case.tensors:
            return None
        other = self._task.draw(purpose, number)
        return other if case.is_like(other) else None

    def call(self, case: Case, other: Case | None, *, between: bool) -> tuple[Ran, list[Spot]]:
        """Call once; return what the worker says, and where its outputs are. ``other`` lies in all
        other places; with ``between`` it is called on, too. Raises ``Ended``."""
        peer = self._peer
        spare = 0 if not self._task.has_second_place else 1 if other is None else _PLACES - 1
        layout = lay_out(case.tensors, [e.native for e in case.expected], 1, spare)
        turn = peer.lay(layout, [case])
        peer.put([case])
        beside = peer.lay_beside(layout, [other] * spare if other is not None else [])
        number = self._calls_between() if between and beside else 0
        then = list(itertools.islice(itertools.cycle(beside), number))
        return self._run(Run(slot=turn.first, seed=case.forward_seed, then=then))

    def call_again(self, other: Case) -> list[torch.Tensor]:
        """Call on inputs that lie where those of the call before did; return the outputs."""
        self._peer.put([other])
        _, outputs = self._run(Run(slot=self._peer.turn.first, seed=other.forward_seed))
        return self._peer.taken(outputs)

    def _run(self, run: Run) -> tuple[Ran, list[Spot]]:
        (outputs,) = self._peer.turn.outputs
        self._peer.scramble(outputs)
        self._peer.called = [run.slot, *run.then][-1]
        began = time.perf_counter()
        ran = self._peer.ask(run, Ran, "run")
        if self.first is None:
            self.first = FirstCall(1e3 * (time.perf_counter() - began), len(run.then))
        return ran, outputs

    def _calls_between(self) -> int:
        """A random number, up to more than one where the reference is fast: some candidates use two
        buffers, or more, in turn."""
        affordable = int(_BETWEEN_S / max(self._task.forward_s, 1e-9))
        return 1 + secrets.randbelow(max(1, min(affordable, _MAX_BETWEEN)))


def is_large(case: Case) -> bool:
    return sum(tensor.nbytes for tensor in case.tensors) > LARGE_BYTES
