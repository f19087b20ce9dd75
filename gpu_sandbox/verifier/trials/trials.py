"""The correctness trials: fresh inputs, some of them out of the ordinary.

Every trial runs the candidate on inputs that it never saw, at another address than those of the
call before, with outputs scrambled before and inputs compared after, and other calls in between,
nobody knows how many, so that buffers that are used again show, and so does what was kept of
earlier inputs (``stale_outputs.py``). Random inputs come as the task draws them; structured ones
are the same with their floating point tensors changed. Where the reference itself leaves the finite
numbers on those, or fails, the trial says nothing and is left out."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.ipc.verifier_messages import Differs, Job
from gpu_sandbox.ipc.worker_messages import Done, PutInOrder, Ran
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.overwriting import is_written_over
from gpu_sandbox.verifier.inputs.altered import Altered
from gpu_sandbox.verifier.inputs.transforms import MAKES_TIES, TIES, ways
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.tolerances import FULL
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.checks import (
    Agreement,
    check_call,
    check_left,
    check_shape,
    check_values,
    is_turned,
    told_of,
)
from gpu_sandbox.verifier.trials.first_call import FirstCall
from gpu_sandbox.verifier.trials.rounding_recheck import Rounding
from gpu_sandbox.verifier.trials.scaled_inputs import scaled_cases
from gpu_sandbox.verifier.trials.stale_outputs import stale_reason
from gpu_sandbox.verifier.trials.task_checks import check_reference
from gpu_sandbox.verifier.trials.trial_calls import TrialCalls, is_large
from gpu_sandbox.verifier.worker_link.client import Peer
from gpu_sandbox.verifier.worker_link.requests import Ended

__all__ = ["Trials", "changed_case", "is_degenerate", "trial_cases"]

_SLOW_S = 2.0
_SLOW_TRIALS = 3
_TRIES = 4
_AHEAD_BYTES = 1 << 28
"""Of cases that are worked out before there is a candidate to try them on."""
_TIMED_MARGIN = 4.0
"""What one trial on changed inputs says of others is less certain than of random ones."""


_OF_EARLIER = (
    "it returns the output of an earlier call: compute it from the inputs of each call, into memory"
    " of its own (callers write NaN over outputs that they are done with)"
)
_PUT_IN_ORDER = (
    "its output lies in another order than the reference's, which is contiguous: .contiguous() was "
    "added to each call, and is in its time"
)


class Trials:
    """``run`` says how far outputs are off; raises ``Ended`` on a difference, of the case
    ``failed``. ``done`` are right so far. ``got``: the candidate's outputs in the last trial, if
    it came to that."""

    def __init__(
        self,
        task: Task,
        peer: Peer,
        job: Job,
        first: Case,
        notes: list[str],
        before: Sequence[Case] = (),
    ) -> None:
        """``before``: cases, solved already, that come before all others."""
        self._task = self.task = task
        self._peer = peer
        self._job = job
        self._notes = notes
        self._first = first
        self._rounding = Rounding(task)
        self._calls = TrialCalls(task, peer)
        self._cases = itertools.chain(before, trial_cases(task, first, job.protocol, notes))
        self._ahead: list[Case] = []
        self._put_in_order = False
        self.done = 0
        self.failed: Case | None = None
        self.got: list[torch.Tensor] = []

    @property
    def first_call(self) -> FirstCall | None:
        """None before there was one."""
        return self._calls.first

    def work_ahead(self) -> bool:
        """Draw and solve one more case, which needs no candidate; False when it's enough."""
        case = next(self._cases, None)
        if case is None:
            return False
        self._ahead.append(case)
        return sum(map(_bytes, self._ahead)) <= _AHEAD_BYTES

    def run(self) -> Agreement:
        found = Agreement()
        cases = itertools.chain(_taken(self._ahead), self._cases)
        while case := next(cases, None):
            try:
                found = found.and_also(self.trial(case, self.done + 1))
            except Ended as ended:
                self.failed = case
                if isinstance(ended.finding, Differs):
                    check_reference(self._task, self._first, case)
                raise
            self.done, self.got = self.done + 1, []
            case.forget_exact()
            altered = case.altered
            if altered is not None and altered.formed and _outputs_alike(case, self._first):
                margins = [m.times(_TIMED_MARGIN) for m in case.margins]
                usual = [_TIMED_MARGIN * size for size in case.usual]
                self._task.altered.append(altered._replace(margins=margins, usual=usual))
            del case  # the next one is drawn now, and of gigabytes two are too many
        return found

    def _between(self, case: Case, number: int) -> Case | None:
        """None if the reference does itself return what its next call overwrites."""
        if self._task.returns_state:
            return None
        return self._calls.other(case, "between", number)

    def trial(self, case: Case, number: int) -> Agreement:
        """How far one call on ``case`` is off; raises ``Ended`` on a difference."""
        peer, self.got = self._peer, []
        other = self._between(case, number)
        try:
            ran, outputs = self._calls.call(case, other, between=True)
        except Ended as ended:
            where = f"trial {number}: {case.changed or 'random inputs'}"
            raise Ended(told_of(ended.finding, where)) from None
        turned = not self._put_in_order and _is_turned(case, ran)
        check_shape(
            case, ran, number, any_order=turned, counts=partial(self._rounding.counts, case)
        )
        self.got = got = peer.taken(outputs)
        told = case.changed or "random inputs"
        looks = self._rounding.looks
        try:
            agreement = check_call(case, case.expected, got, self._job.protocol, number, looks)
        except Ended:
            if why := self._why(case, other, ran, got, number):
                raise Ended(Differs(reason=why, trial=number)) from None
            raise
        if self._task.mutates:
            left = peer.taken(peer.turn.inputs[0])
            check_left(case.left, left, self._job.protocol, number, told)
        elif not peer.intact(peer.turn.inputs[0], case.tensors):
            raise Ended(Differs(reason="it changed its inputs", trial=number))
        if turned:
            self._put_in_order = True
            peer.ask(PutInOrder(), Done, "run")
            if _PUT_IN_ORDER not in self._notes:
                self._notes.append(_PUT_IN_ORDER)
        return agreement

    def _why(
        self, case: Case, other: Case | None, ran: Ran, got: list[torch.Tensor], number: int
    ) -> str:
        """An output is wrong, if it is for one of these reasons."""
        ways = zip(ran.leaves, got, strict=False)
        if any(leaf.of_earlier and is_written_over(tensor) for leaf, tensor in ways):
            return _OF_EARLIER
        if other is not None and self._changed_later(case, other, got, number):
            return "its output changed in a later call: it returns the same memory each time"
        if number == 1 or is_large(case):
            return ""
        other = self._calls.other(case, "stale", number)
        if other is None:
            return ""
        why = stale_reason(self._calls, self._peer, case, other, self._is_answer)
        return why or (_OF_EARLIER if self._is_of_first(case, got) else "")

    def _changed_later(self, case: Case, other: Case, got: list[torch.Tensor], number: int) -> bool:
        """It gave the answer to what was called in between, and is right with no call after it: who
        works with a part of its inputs may give another's answer, too."""
        if not self._is_answer(case, other, got):
            return False
        try:
            _, outputs = self._calls.call(case, other, between=False)
            alone = self._peer.taken(outputs)
            check_call(case, case.expected, alone, self._job.protocol, number, self._rounding.looks)
        except Ended:
            return False
        return True

    def _is_of_first(self, case: Case, got: list[torch.Tensor]) -> bool:
        """Whether it repeats the first trial's output."""
        ways = zip(self._first.expected, case.margins, strict=False)
        return self._would_do([Expected.within(one.native, margin) for one, margin in ways], got)

    def _is_answer(self, case: Case, other: Case, got: list[torch.Tensor]) -> bool:
        """To another case, with the errors that may be made on this one."""
        try:
            self._task.solve(other, exact=False)
        except Broken:
            return False
        ways = zip(other.expected, case.margins, strict=False)
        return self._would_do([Expected.within(one.native, margin) for one, margin in ways], got)

    def _would_do(self, expected: list[Expected], got: list[torch.Tensor]) -> bool:
        """Whether ``got`` would be right if that was expected."""
        if [e.native.shape for e in expected] != [t.shape for t in got]:
            return False
        try:
            check_values(expected, got, self._job.protocol, None)
        except Ended:
            return False
        return True


def _is_turned(case: Case, ran: Ran) -> bool:
    """One of as many outputs as expected."""
    if len(ran.leaves) != len(case.expected):
        return False
    return any(is_turned(case, number, leaf) for number, leaf in enumerate(ran.leaves))


def _taken(cases: list[Case]) -> Iterator[Case]:
    """In order; what was taken is not held any more."""
    while cases:
        yield cases.pop(0)


def _bytes(case: Case) -> int:
    """Of its inputs and outputs, the latter in float64 as well."""
    held = [*case.tensors, *(t for e in case.expected for t in (e.native, e.truth))]
    return sum(t.numel() * t.element_size() for t in held)


def _outputs_of(case: Case) -> list[torch.Tensor]:
    return [expected.native for expected in case.expected]


def _outputs_alike(case: Case, other: Case) -> bool:
    """Whether they have the same places: small integers have fewer that are not zero."""
    return [e.native.shape for e in case.expected] == [e.native.shape for e in other.expected]


def trial_cases(task: Task, first: Case, protocol: Protocol, notes: list[str]) -> Iterator[Case]:
    """``first``, and what else a candidate has to get right, solved."""
    exact, count = protocol.allclose is None, protocol.trials
    slow = task.forward_s > _SLOW_S and exact
    if slow:
        count = min(count, _SLOW_TRIALS)
        notes.append(f"{count} trials: the reference takes {task.forward_s:.1f} s")
    yield first
    for number in range(1, count):
        yield _solved(task, task.draw("trial", number), exact)
    changeable = any(t.is_floating_point() or t.is_complex() for t in first.tensors)
    if protocol.structured and changeable and not slow:
        taken = 0
        counts = any(not (t.is_floating_point() or t.is_complex()) for t in _outputs_of(first))
        for altered in ways(first.tensors):
            ties = counts and altered.told == TIES
            if not ties and altered.told not in task.leave_out:
                for case in changed_case(task, altered, first, exact=exact):
                    taken += 1
                    yield case
                    del case  # or it would be held while the next is drawn
        if not taken:
            notes.append("no changed inputs: the reference fails on them, or is not finite there")
    yield from scaled_cases(task, first, protocol, notes)


def _solved(task: Task, case: Case, exact: bool) -> Case:
    task.solve(case, exact=exact)
    return case


def is_degenerate(case: Case, first: Case) -> bool:
    """Whether an output is something else in float64. In full precision only if it was not before:
    one that never is the same there (it draws numbers) is held to the reference's own run."""
    ways = zip(case.expected, first.expected, strict=False)
    return any(one.unsound and not (before.unsound and one.rule in FULL) for one, before in ways)


def changed_case(task: Task, altered: Altered, first: Case, *, exact: bool) -> list[Case]:
    """One case, of which some inputs only are changed if need be; none if the reference can't take
    it, does not stay finite, sorts equals, or is so degenerate there that its own precision makes
    something else of it than float64 does, or would if inputs differed by rounding."""
    for attempt in range(_TRIES):
        way = altered.of_some(first.tensors) if attempt else altered
        if attempt and way.only is None:
            break
        try:
            case = task.draw(f"{way.told}/{way.part}", attempt, way)
        except Broken:
            continue
        sound = task.takes(case, exact=exact) and not is_degenerate(case, first)
        sound = sound and not (exact and any(Rounding(task).lost(case, case.expected)))
        if sound and not (way.told in MAKES_TIES and Rounding(task).undecided(case)):
            return [case]
        del case
    return []
