"""Recheck outputs that differ: by what rounding decides, and by what PyTorch leaves undefined.

Rounding: the reference runs on perturbed inputs (``verifier/reference/ulp_perturbation.py``), and
in float64. Undefined is which of equal keys comes first (``verifier/reference/stable_sort.py``).
"""

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
from gpu_sandbox.verifier.inputs.apply import InputTransform
from gpu_sandbox.verifier.inputs.transforms import LARGE_BYTES
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.sentinel_values import sentinel_mask
from gpu_sandbox.verifier.numerics.tolerances import FULL_PRECISION
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.stable_sort import StableSort
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.reference.ulp_perturbation import (
    DRY_RUN_STEPS,
    PERTURBED_DTYPES,
    SLOWEST_S,
    STEPS,
    UlpSensitivity,
    measure_sensitivity,
    perturb,
    perturbed,
)
from gpu_sandbox.verifier.trials.checks import Recheck
from gpu_sandbox.verifier.trials.convolution_recheck import grant_tf32
from gpu_sandbox.verifier.trials.rounding_flips import (
    is_unstable,
    with_flips_accepted,
    with_float64_integers,
    without_nan,
)

PERTURBED_INPUTS = "inputs moved by rounding"

_SLOWEST_FAILED_S = 1.0  # A reference whose candidate is about to be rejected may take longer
_SUSPECT, _MORE_RUNS = 1 / 32, 4  # of `max_own_error`: another run's may be many times larger
_MAX_COUNT = 1 << 62


class RoundingRecheck:
    """Rechecks of one task. There are none of references that are slow, or change their inputs."""

    def __init__(self, task: Task) -> None:
        self._task = task

    def sensitivity(self, first: Case) -> list[UlpSensitivity]:
        """Measure how far each output moves where inputs move by a few ulp."""
        task = self._task
        rounds = any(t.dtype in PERTURBED_DTYPES for t in first.tensors)
        if not _is_small(first) or PERTURBED_INPUTS in task.leave_out:
            return [UlpSensitivity(rounds=rounds) for _ in first.expected]

        def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
            case = task.draw("nudged", number) if number else first
            plain = task.results(task.model, _copied(case), case)
            by = InputTransform(perturb, task.invariants_of(case.tensors), slightly=True)
            return plain, task.results(task.model, mapped(_copied(case), by), case)

        fills = [one.fill for one in first.expected]
        count, forward_s = len(first.expected), task.forward_s
        return measure_sensitivity(count, pair, forward_s, rounds=rounds, fills=fills)

    def dry_run(self, first: Case) -> None:
        """Move inputs as far as any recheck does: also zeros and half precision, which
        ``sensitivity`` leaves as they are."""
        if self._is_for(first, _SLOWEST_FAILED_S):
            for steps in DRY_RUN_STEPS:
                with suppress(Exception):  # it checks its inputs more closely, or has no memory
                    self._run(first, steps)

    def rechecks(
        self, case: Case, expected: Sequence[Expected], got: list[torch.Tensor]
    ) -> Iterator[Recheck]:
        """Recheck outputs that are not as expected: passing one recheck is enough."""
        if grant_tf32(self._task, case, expected):
            yield expected, got
        if not self._is_for(case, _SLOWEST_FAILED_S):
            return
        exact = cache(lambda: self._task.float64.outputs(case, self._task.results)[0])
        same = with_float64_integers(expected, got, exact)
        if same is not None:
            yield expected, same
        mine = got if same is None else same
        run = partial(self._run, case, keeps_sentinels=True)
        rest = with_flips_accepted(expected, mine, run, exact, self._run_all_moved(case))
        if rest is not None:
            yield expected, rest
        if any(_has_nan(one.native) for one in expected):
            yield without_nan(expected, mine if rest is None else rest)
        stable = self._in_stable_order(case, expected)
        if stable:
            yield stable, got

    def timed_rechecks(
        self, case: Case, expected: Sequence[Expected], got: list[torch.Tensor]
    ) -> Iterator[Recheck]:
        """Recheck outputs with the margins of other inputs: beside float64 on these very
        inputs, too. An output of transformed inputs passes where the reference is ill conditioned
        or fails in float64."""
        yield from self.rechecks(case, expected, got)
        exact = self._in_float64(case, expected)
        if exact is None:
            if case.transform is not None and self._task.float64.failed:
                yield expected, [one.native for one in expected]
            return
        if case.transform is not None:
            lost = self.ill_conditioned(case, exact)
            got = [
                one.native if is_lost or one.is_unsound else mine
                for one, mine, is_lost in zip(exact, got, lost, strict=True)
            ]
        yield exact, got
        yield from self.rechecks(case, exact, got)

    def ill_conditioned(self, case: Case, expected: Sequence[Expected]) -> list[bool]:
        """Outputs that differ from float64 where inputs move by a few ulp, though they did not in
        the reference's own run: a large own error varies."""
        suspect = [
            one.by_dtype in FULL_PRECISION
            and one.truth is not one.native
            and one.own_error > _SUSPECT * one.by_dtype.max_own_error
            for one in expected
        ]
        if not any(suspect) or not self._is_for(case, SLOWEST_S):
            return [False] * len(suspect)
        try:
            runs = [self._run(case, STEPS, keeps_sentinels=True) for _ in range(_MORE_RUNS)]
            return [
                doubt and any(_is_other(one, run[number]) for run in runs)
                for number, (one, doubt) in enumerate(zip(expected, suspect, strict=True))
            ]
        except Exception:  # it checks its inputs more closely, or there is no memory
            return [False] * len(suspect)

    def _in_stable_order(self, case: Case, expected: Sequence[Expected]) -> list[Expected]:
        """Expect that equals stay in order; none where nothing is sorted otherwise."""
        try:
            with StableSort() as sorting:
                outputs = self._run(case, 0)
        except Exception:  # it calls that in a way of its own
            return []
        if not sorting.is_unstable or len(outputs) != len(expected):
            return []
        found = []
        for native, one in zip(outputs, expected, strict=True):
            mine = Expected.within(native, one.margin)
            mine.full_check = one.full_check
            found.append(mine)
        self._task.allow(found)
        return found

    def _in_float64(self, case: Case, expected: Sequence[Expected]) -> list[Expected] | None:
        """Expect the float64 run on this case's inputs. None where there is none."""
        task = self._task
        truth, rough = task.float64_outputs(case)
        if truth is None:
            return None
        native = [one.native for one in expected]
        usual_rms = [one.usual_rms for one in expected]
        found = task.expect(case, native, truth, rough, usual_rms)
        task.allow(found)
        return found

    def accepts_counts(self, case: Case, expected: Tree, got: Tree) -> bool:
        """Whether plain whole numbers that differ are right, since rounding flips what they
        count."""
        theirs, mine = whole_numbers(expected), whole_numbers(got)
        if not self._is_for(case, _SLOWEST_FAILED_S):
            return False
        if any(abs(number) > _MAX_COUNT for number in theirs + mine):
            return False
        wanted = [Expected(tensor) for tensor in _tensors(theirs)]

        def run(steps: int) -> list[torch.Tensor]:
            return _tensors(whole_numbers(self._task.plain(self._moved(case, steps), case)))

        rest = with_flips_accepted(wanted, _tensors(mine), run, list)
        return rest is not None and all(
            torch.equal(one.native, tensor) for one, tensor in zip(wanted, rest, strict=True)
        )

    def is_unstable(self, case: Case) -> bool:
        """Whether rounding decides much of what its outputs are."""
        run = partial(self._run, case)
        return self._is_for(case, SLOWEST_S) and is_unstable(case.expected, run)

    def _is_for(self, case: Case, slowest_s: float) -> bool:
        task = self._task
        if PERTURBED_INPUTS in task.leave_out:
            return False
        return _is_small(case) and not task.mutates and task.forward_s <= slowest_s

    def _run(self, case: Case, steps: int, *, keeps_sentinels: bool = False) -> list[torch.Tensor]:
        """Run on inputs that are moved by so many ulp."""
        arguments = self._moved(case, steps, keeps_sentinels=keeps_sentinels)
        return self._task.results(self._task.model, arguments, case)

    def _run_all_moved(self, case: Case) -> Callable[[int], list[torch.Tensor]] | None:
        """``_run`` with sentinels moved, if there are some and the reference orders equals, or
        picks one."""
        if all(sentinel_mask(tensor) is None for tensor in case.tensors):
            return None
        try:
            with StableSort() as sorting:
                self._run(case, 0)
        except Exception:  # as in _in_stable_order
            return None
        return partial(self._run, case) if sorting.picks_equals else None

    def _moved(self, case: Case, steps: int, *, keeps_sentinels: bool = False) -> Any:
        arguments = _copied(case)
        if not steps:
            return arguments
        torch.manual_seed(secrets.randbits(48))  # or all would be by the seed of a forward
        by = partial(perturbed, steps=steps, keeps_sentinels=keeps_sentinels)
        invariants = self._task.invariants_of(case.tensors)
        return mapped(arguments, InputTransform(by, invariants, slightly=True))


def _is_other(one: Expected, output: torch.Tensor) -> bool:
    assert one.by_dtype is not None
    return not distance(output, one.truth, one.min_norm)[0] <= one.by_dtype.max_own_error


def _tensors(numbers: Sequence[int]) -> list[torch.Tensor]:
    return [torch.tensor(number) for number in numbers]


def _has_nan(tensor: torch.Tensor) -> bool:
    return (tensor.is_floating_point() or tensor.is_complex()) and bool(tensor.isnan().any())


def _is_small(case: Case) -> bool:
    """Copies of larger inputs take too much memory."""
    return sum(t.nbytes for t in case.tensors) <= LARGE_BYTES


def _copied(case: Case) -> object:
    return mapped(case.arguments, torch.Tensor.clone)
