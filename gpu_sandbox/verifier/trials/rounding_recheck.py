"""Other ways of looking at outputs that differ: what rounding decides, and what is left open.

Rounding: the reference is run on nudged inputs (``verifier/reference/ulp_perturbation.py``), and in
float64. What PyTorch leaves open: which of equal keys comes first
(``verifier/reference/stable_sort.py``)."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache, partial
from typing import Any

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.tensors.chunked import distance
from gpu_sandbox.tensors.pytree import mapped, whole_numbers
from gpu_sandbox.verifier.inputs.apply import Changed
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.sentinel_values import marks
from gpu_sandbox.verifier.numerics.tolerances import FULL
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.stable_sort import Stably
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.reference.ulp_perturbation import (
    NUDGED,
    REHEARSED,
    SLOWEST_S,
    STEPS,
    Nudged,
    measured,
    moved,
    nudge,
)
from gpu_sandbox.verifier.trials.checks import Look
from gpu_sandbox.verifier.trials.convolution_recheck import grant_tf32
from gpu_sandbox.verifier.trials.rounding_flips import mended, undecided

__all__ = ["NUDGED_INPUTS", "Rounding", "without_nan"]

NUDGED_INPUTS = "inputs moved by rounding"

_SLOWEST_FAILED_S = 1.0
"""A reference whose candidate is about to be rejected may take longer."""
_SUSPECT, _MORE_RUNS = 1 / 32, 4
"""Of what float64 may be off by: errors of that size may be many times as large in another run."""
_SELDOM_NAN = 100
_MOST = 1 << 62
_MOST_BYTES = 1 << 30
"""Of inputs: copies of more take too much memory."""


class Rounding:
    """Of one task. Nothing of references that are slow, or change their inputs."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def measured(self, first: Case) -> list[Nudged]:
        """By how much each output differs where the inputs differ by rounding."""
        task = self._task
        rounds = any(t.dtype in NUDGED for t in first.tensors)
        if not _is_small(first) or NUDGED_INPUTS in task.leave_out:
            return [Nudged(rounds=rounds) for _ in first.expected]

        def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            case = task.draw("nudged", number) if number else first
            plain = task.results(task.model, _copied(case), case)
            other = mapped(
                _copied(case), Changed(nudge, task.forms_of(case.tensors), slightly=True)
            )
            return plain, task.results(task.model, other, case)

        fills = [one.fill for one in first.expected]
        return measured(len(first.expected), pair, task.forward_s, rounds=rounds, fills=fills)

    def rehearse(self, first: Case) -> None:
        """Run the reference on inputs that are moved as far as any look moves them: zeros, too, and
        half precision's, which those that are measured leave as they are."""
        if self._is_for(first, _SLOWEST_FAILED_S):
            for steps in REHEARSED:
                with suppress(Exception):  # it looks at its inputs more closely, or has no memory
                    self._nudged(first, steps)

    def looks(
        self, case: Case, expected: Sequence[Expected], got: list[torch.Tensor]
    ) -> Iterator[Look]:
        """At outputs that are not as expected: who passes one of them is right."""
        if grant_tf32(self._task, case, expected):
            yield expected, got
        if not self._is_for(case, _SLOWEST_FAILED_S):
            return
        exact = cache(lambda: self._task.exact.outputs(case, self._task.results)[0])
        same = by_float64(expected, got, exact)
        if same is not None:
            yield expected, same
        mine = got if same is None else same
        rest = mended(expected, mine, partial(self._held, case), exact, self._freely(case))
        if rest is not None:
            yield expected, rest
        if any(_has_nan(one.native) for one in expected):
            yield without_nan(expected, mine if rest is None else rest)
        stable = self._stably(case, expected)
        if stable:
            yield stable, got

    def timed_looks(
        self, case: Case, expected: Sequence[Expected], got: list[torch.Tensor]
    ) -> Iterator[Look]:
        """The same where ``expected`` goes by the errors that others had, which may be easier: by
        those of these very inputs, too. An output of changed ones that are so degenerate that the
        reference has no say is let pass."""
        yield from self.looks(case, expected, got)
        exact = self._exactly(case, expected)
        if exact is None:
            if case.altered is not None and self._task.exact.failed:
                yield expected, [one.native for one in expected]
            return
        if case.altered is not None:
            lost = [a or b.unsound for a, b in zip(self.lost(case, exact), exact, strict=True)]
            ways = zip(exact, got, lost, strict=True)
            got = [one.native if is_lost else mine for one, mine, is_lost in ways]
        yield exact, got
        yield from self.looks(case, exact, got)

    def lost(self, case: Case, expected: Sequence[Expected]) -> list[bool]:
        """Outputs of which rounding makes something else than float64 does, though it did not in
        the reference's own run: by how much that is off says little where it is off by much."""
        suspect = [
            one.rule in FULL and one.truth is not one.native and one.own > _SUSPECT * one.rule.sane
            for one in expected
        ]
        if not any(suspect) or not self._is_for(case, SLOWEST_S):
            return [False] * len(suspect)
        try:
            runs = [self._held(case, STEPS) for _ in range(_MORE_RUNS)]
            return [
                doubt and any(_is_other(one, run[number]) for run in runs)
                for number, (one, doubt) in enumerate(zip(expected, suspect, strict=True))
            ]
        except Exception:  # it looks at its inputs more closely, or there is no memory
            return [False] * len(suspect)

    def _stably(self, case: Case, expected: Sequence[Expected]) -> list[Expected]:
        """What is expected if equals stay in order; none where nothing is sorted otherwise."""
        try:
            with Stably() as sorting:
                outputs = self._nudged(case, 0)
        except Exception:  # it calls that in a way of its own
            return []
        if not sorting.asked or len(outputs) != len(expected):
            return []
        ways = zip(outputs, expected, strict=True)
        found = [Expected.within(native, one.margin) for native, one in ways]
        for mine, one in zip(found, expected, strict=True):
            mine.drawn = one.drawn
        self._task.allow(found)
        return found

    def _exactly(self, case: Case, expected: Sequence[Expected]) -> list[Expected] | None:
        """By float64 on this case's inputs. None where that can't be told."""
        task = self._task
        truth, rough = task.exactly(case)
        if truth is None:
            return None
        native = [one.native for one in expected]
        typical = [one.typical for one in expected]
        found = task.expect(case, native, truth, rough, typical)
        task.allow(found)
        return found

    def counts(self, case: Case, expected: Tree, got: Tree) -> bool:
        """Whether plain whole numbers, some of which are others, are right: rounding turns what
        they count."""
        theirs, mine = whole_numbers(expected), whole_numbers(got)
        if not self._is_for(case, _SLOWEST_FAILED_S) or any(abs(n) > _MOST for n in theirs + mine):
            return False
        wanted = [Expected(tensor, None) for tensor in _tensors(theirs)]
        rest = mended(wanted, _tensors(mine), partial(self._counted, case), list)
        return rest is not None and all(
            torch.equal(one.native, tensor) for one, tensor in zip(wanted, rest, strict=True)
        )

    def _counted(self, case: Case, steps: int) -> list[torch.Tensor]:
        """Its plain whole numbers on inputs that are nudged by so many steps."""
        return _tensors(whole_numbers(self._task.plain(self._moved(case, steps), case)))

    def undecided(self, case: Case) -> bool:
        """Whether rounding decides much of what its outputs are."""
        run = partial(self._nudged, case)
        return self._is_for(case, SLOWEST_S) and undecided(case.expected, run)

    def _is_for(self, case: Case, slowest_s: float) -> bool:
        task = self._task
        if NUDGED_INPUTS in task.leave_out:
            return False
        return _is_small(case) and not task.mutates and task.forward_s <= slowest_s

    def _nudged(self, case: Case, steps: int) -> list[torch.Tensor]:
        """Its outputs on inputs that are nudged by so many steps."""
        return self._task.results(self._task.model, self._moved(case, steps), case)

    def _held(self, case: Case, steps: int) -> list[torch.Tensor]:
        """The same, where what marks something is as it was: the zeros of padding, what was cut
        off at an end. To move these turns all that goes by them, which no rounding does."""
        task, arguments = self._task, self._moved(case, steps, freely=False)
        return task.results(task.model, arguments, case)

    def _freely(self, case: Case) -> Callable[[int], list[torch.Tensor]] | None:
        """``_nudged``, if there are such and the reference puts equals in order, or takes one."""
        if all(marks(tensor) is None for tensor in case.tensors):
            return None
        try:
            with Stably() as sorting:
                self._nudged(case, 0)
        except Exception:  # as in _stably
            return None
        return partial(self._nudged, case) if sorting.chose else None

    def _moved(self, case: Case, steps: int, *, freely: bool = True) -> Any:
        arguments = _copied(case)
        if not steps:
            return arguments
        torch.manual_seed(secrets.randbits(48))  # or all would be by the seed of a forward
        forms, by = self._task.forms_of(case.tensors), partial(moved, steps=steps, freely=freely)
        return mapped(arguments, Changed(by, forms, slightly=True))


def _is_other(one: Expected, output: torch.Tensor) -> bool:
    assert one.rule is not None
    return not distance(output, one.truth, one.least)[0] <= one.rule.sane


def _tensors(numbers: Sequence[int]) -> list[torch.Tensor]:
    return [torch.tensor(number) for number in numbers]


def by_float64(
    expected: Sequence[Expected],
    got: Sequence[torch.Tensor],
    exactly: Callable[[], Sequence[torch.Tensor] | None],
) -> list[torch.Tensor] | None:
    """With what is expected where integers are what they are in float64: who adds up what rounding
    flips flips all that follows. None if there are none that differ."""
    if all(one.rule is not None for one in expected):
        return None
    truth = exactly()
    if truth is None or [one.native.shape for one in expected] != [t.shape for t in truth]:
        return None
    found, differs = [], False
    for one, mine, exact in zip(expected, got, truth, strict=True):
        if one.rule is None and exact.dtype == mine.dtype:
            right = (mine == exact) & (mine != one.native)
            differs = differs or bool(right.any())
            mine = torch.where(right, one.native, mine)
        found.append(mine)
    return found if differs else None


def without_nan(expected: Sequence[Expected], got: Sequence[torch.Tensor]) -> Look:
    """Without the elements that are NaN in both, of a hundred one at most: the root of what is next
    to nothing, in inputs that the task drew."""
    found: list[Expected] = []
    rest: list[torch.Tensor] = []
    for one, mine in zip(expected, got, strict=True):
        nan = one.native.isnan() & mine.isnan()
        if 0 < int(nan.sum()) <= nan.numel() // _SELDOM_NAN:
            one, mine = one.without(nan), mine.masked_fill(nan, 0.0)
        found.append(one)
        rest.append(mine)
    return found, rest


def _has_nan(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and bool(tensor.isnan().any())


def _is_small(case: Case) -> bool:
    return sum(t.nbytes for t in case.tensors) <= _MOST_BYTES


def _copied(case: Case) -> object:
    return mapped(case.arguments, torch.Tensor.clone)
