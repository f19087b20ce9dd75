"""Correctness trials: calls of the candidate on fresh inputs, some of them transformed.

Inputs of each call lie elsewhere than those of the call before, outputs are scrambled before and
inputs compared after, and a secret number of other calls follows before outputs are read. So memory
that is used again shows, and what was kept of earlier inputs (``stale_outputs.py``).
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import partial

import torch

from gpu_sandbox.ipc.verifier_messages import Differs
from gpu_sandbox.ipc.worker_messages import Done, PutInOrder, Ran
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.tensors.overwriting import is_written_over
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.trials.checks import (
    CHANGED_INPUTS,
    Agreement,
    check_call,
    check_mutated,
    check_shape,
    check_values,
    is_reordered,
    with_inputs_named,
)
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck
from gpu_sandbox.verifier.trials.stale_outputs import stale_reason
from gpu_sandbox.verifier.trials.task_checks import check_reference
from gpu_sandbox.verifier.trials.trial_calls import Candidate, FirstCall, TrialCalls, is_large
from gpu_sandbox.verifier.trials.trial_cases import trial_cases
from gpu_sandbox.verifier.worker_link.requests import Ended

_AHEAD_BYTES = 1 << 28  # of cases that are solved before there is a candidate to try them on
_TIMED_MARGIN = 4.0  # one trial says less of other transformed inputs than of others as drawn

_OF_EARLIER = (
    "it returns the output of an earlier call: compute it from the inputs of each call, into memory"
    " of its own (callers write NaN over outputs that they are done with)"
)
_PUT_IN_ORDER = (
    "its output lies in another order than the reference's, which is contiguous: .contiguous() was "
    "added to each call, and is in its time"
)


class Trials:
    """Trials of one candidate. ``done`` are right so far, ``failed`` is the case of a difference,
    and ``got`` the outputs of the last trial, if it came to that. ``before``: solved cases that
    come before all others."""

    def __init__(self, candidate: Candidate, before: Sequence[Case] = ()) -> None:
        self.task, self._peer, self._job, self._first, self._notes = candidate
        task, first, protocol = self.task, self._first, self._job.protocol
        self._recheck = RoundingRecheck(task)
        self._calls = TrialCalls(task, self._peer)
        self._cases = itertools.chain(before, trial_cases(task, first, protocol, self._notes))
        self._ahead: list[Case] = []
        self._is_put_in_order = False
        self.done = 0
        self.failed: Case | None = None
        self.got: list[torch.Tensor] = []

    @property
    def first_call(self) -> FirstCall | None:
        return self._calls.first

    def work_ahead(self) -> bool:
        """Draw and solve one more case, which needs no candidate; False when it's enough."""
        case = next(self._cases, None)
        if case is None:
            return False
        self._ahead.append(case)
        return sum(map(_bytes, self._ahead)) <= _AHEAD_BYTES

    def run(self) -> Agreement:
        """Try all cases; raise ``Ended`` on a difference."""
        found = Agreement()
        cases = itertools.chain(_popped(self._ahead), self._cases)
        while case := next(cases, None):
            try:
                found = found.and_also(self.trial(case, self.done + 1))
            except Ended as ended:
                self.failed = case
                if isinstance(ended.finding, Differs):
                    check_reference(self.task, self._first, case)
                raise
            self.done, self.got = self.done + 1, []
            case.drop_float64()
            transform = case.transform
            if transform is not None and transform.keeps_invariants and self._has_shapes(case):
                margins = [m.times(_TIMED_MARGIN) for m in case.margins]
                sizes = [_TIMED_MARGIN * size for size in case.usual_sizes]
                passed = transform._replace(margins=margins, usual_sizes=sizes)
                self.task.passed_transforms.append(passed)
            del case  # the next one is drawn now, and of gigabytes two are too many
        return found

    def _has_shapes(self, case: Case) -> bool:
        """Whether outputs fit the first's places: small integers have fewer non-zeros."""
        first = [e.native.shape for e in self._first.expected]
        return [e.native.shape for e in case.expected] == first

    def trial(self, case: Case, number: int) -> Agreement:
        """Try one case; raise ``Ended`` on a difference."""
        peer, self.got = self._peer, []
        other = None
        if not self.task.returns_state:  # or the reference's next call overwrites it, too
            other = self._calls.other(case, "between", number)
        inputs_are = case.description or "random inputs"
        try:
            ran, outputs = self._calls.call(case, other, between=True)
        except Ended as ended:
            where = f"trial {number}: {inputs_are}"
            raise Ended(with_inputs_named(ended.finding, where)) from None
        reordered = not self._is_put_in_order and _is_reordered(case, ran)
        accepts_counts = partial(self._recheck.accepts_counts, case)
        check_shape(case, ran, number, any_order=reordered, accepts_counts=accepts_counts)
        self.got = got = peer.taken(outputs)
        try:
            agreement = self._check_call(case, got, number)
        except Ended:
            if why := self._why(case, other, ran, got, number):
                raise Ended(Differs(reason=why, trial=number)) from None
            raise
        if self.task.mutates:
            mutated = peer.taken(peer.turn.inputs[0])
            check_mutated(case.mutated, mutated, self._job.protocol, number, inputs_are)
        elif not peer.intact(peer.turn.inputs[0], case.tensors):
            raise Ended(Differs(reason=CHANGED_INPUTS, trial=number))
        if reordered:
            self._is_put_in_order = True
            peer.ask(PutInOrder(), Done, "run")
            if _PUT_IN_ORDER not in self._notes:
                self._notes.append(_PUT_IN_ORDER)
        return agreement

    def _check_call(self, case: Case, got: list[torch.Tensor], number: int) -> Agreement:
        protocol, rechecks = self._job.protocol, self._recheck.rechecks
        return check_call(case, case.expected, got, protocol, number, rechecks)

    def _why(
        self, case: Case, other: Case | None, ran: Ran, got: list[torch.Tensor], number: int
    ) -> str:
        """Find out whether a wrong output is an earlier or a later call's."""
        pairs = zip(ran.leaves, got, strict=False)
        if any(leaf.of_earlier and is_written_over(tensor) for leaf, tensor in pairs):
            return _OF_EARLIER
        if other is not None and self._changed_later(case, other, got, number):
            return "its output changed in a later call: it returns the same memory each time"
        if number == 1 or is_large(case):
            return ""
        other = self._calls.other(case, "stale", number)
        if other is None:
            return ""
        why = stale_reason(self._calls, self._peer, case, other, self._is_answer)
        return why or (_OF_EARLIER if self._fits(self._first, case, got) else "")

    def _changed_later(self, case: Case, other: Case, got: list[torch.Tensor], number: int) -> bool:
        """Whether it is the answer to a call in between, and right with no call after it: a
        candidate that uses a part of its inputs may give another's answer, too."""
        if not self._is_answer(case, other, got):
            return False
        try:
            _, outputs = self._calls.call(case, other, between=False)
            self._check_call(case, self._peer.taken(outputs), number)
        except Ended:
            return False
        return True

    def _is_answer(self, case: Case, other: Case, got: list[torch.Tensor]) -> bool:
        """Whether ``got`` is right for ``other``, within the margins of ``case``."""
        try:
            self.task.solve(other, exact=False)
        except Broken:
            return False
        return self._fits(other, case, got)

    def _fits(self, other: Case, case: Case, got: list[torch.Tensor]) -> bool:
        pairs = zip(other.expected, case.margins, strict=False)
        expected = [Expected.within(one.native, margin) for one, margin in pairs]
        if [e.native.shape for e in expected] != [t.shape for t in got]:
            return False
        try:
            check_values(expected, got, self._job.protocol, None)
        except Ended:
            return False
        return True


def _is_reordered(case: Case, ran: Ran) -> bool:
    if len(ran.leaves) != len(case.expected):
        return False
    return any(is_reordered(case, number, leaf) for number, leaf in enumerate(ran.leaves))


def _popped(cases: list[Case]) -> Iterator[Case]:
    """In order; what was taken is not held any more."""
    while cases:
        yield cases.pop(0)


def _bytes(case: Case) -> int:
    """Size of its inputs and outputs, the latter in float64 as well."""
    held = [*case.tensors, *(t for e in case.expected for t in (e.native, e.truth))]
    return sum(t.numel() * t.element_size() for t in held)
