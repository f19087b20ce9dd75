"""Elements in which a candidate is wrong, and which the reference flips where it rounds otherwise.

The very inputs are perturbed (``verifier/reference/ulp_perturbation.py``), and the reference also
runs in float64. An element that it flips itself, by as little, is undefined.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.rules.rule import is_discrete
from gpu_sandbox.verifier.reference.ulp_perturbation import RECHECK_STEPS, STEPS, Outputs

Range: TypeAlias = tuple[torch.Tensor, torch.Tensor]

_MAX_STEPS_OF_SMALL = 4
"""For a small output, but for counts: by 64 steps of numbers near 50 a mean moves as far as where a
thirtieth of them is off."""
_ENOUGH_S = 4.0  # of this thread's own time, on a busy machine too
_MIN_MOVE = 0.25  # of the candidate's error in an element, to count as flipped, in floating point
_MAX_WRONG_ONE_IN, _MAX_WRONG_OF_HALF_ONE_IN = 3, 10  # of an output's elements; of fewer one
_HALF_EPS = 1e-4
_MAX_NAN_ONE_IN = 100
_SMALL = 16
_COUNT_OFF, _COUNT_OFF_ONE_IN = 16, 1000
"""By so much a count may be off that rounding flips, or by one in so many if a few steps do."""
_MAX_FLIPPED = 0.75  # of an output's elements, by a few steps: chaos would excuse anything
_MANY_ONE_IN, _FAR, _SAMPLE = 100, 200.0, 1 << 19
"""Unstable is an output of which one in so many elements is so many tolerances off, of a sample."""


def with_flips_accepted(
    expected: Sequence[Expected],
    got: Outputs,
    run: Callable[[int], Outputs],
    exact: Callable[[], Outputs | None],
    run_all_moved: Callable[[int], Outputs] | None = None,
) -> list[torch.Tensor] | None:
    """Replace wrong elements of ``got`` by the reference's own, where perturbations flip these, or
    float64 does; None if there are none.

    ``run`` gives the reference's outputs on the same inputs, moved by so many ulp, and ``exact``
    those in float64, if it can. ``run_all_moved``: with sentinel values moved as well: for integers
    alone, where equals are put in order.
    """
    try:
        wrong = [_is_wrong(one, tensor) for one, tensor in zip(expected, got, strict=True)]
        if any(int(mask.sum()) > _max_wrong(o) for o, mask in zip(expected, wrong, strict=True)):
            return None
        plain = run(0)
        if any(bool(_is_wrong(*pair).any()) for pair in zip(expected, plain, strict=True)):
            return None  # it draws numbers of its own
        chaotic = [_is_chaotic(*pair) for pair in zip(expected, run(STEPS), strict=True)]
        if any(chaos and bool(mask.any()) for chaos, mask in zip(chaotic, wrong, strict=True)):
            return None
        unexplained = _unexplained(wrong, got, plain, run, exact, run_all_moved)
    except Exception:  # it checks its inputs more closely, or there is no memory
        return None
    right = [mask & ~still for mask, still in zip(wrong, unexplained, strict=True)]
    if not any(bool(mask.any()) for mask in right):
        return None
    return [
        torch.where(mask, one.native, mine)
        for mask, one, mine in zip(right, expected, got, strict=True)
    ]


def _unexplained(
    wrong: Sequence[torch.Tensor],
    got: Outputs,
    plain: Outputs,
    run: Callable[[int], Outputs],
    exact: Callable[[], Outputs | None],
    run_all_moved: Callable[[int], Outputs] | None,
) -> list[torch.Tensor]:
    """Elements of ``wrong`` that no run flips."""
    unexplained, began = [mask.clone() for mask in wrong], time.thread_time()
    ranges = [(one, one) for one in plain]
    runs = (run,) if run_all_moved is None else (run, run_all_moved)
    for steps, way in ((0, run), *((steps, way) for steps in RECHECK_STEPS for way in runs)):
        others = way(steps) if steps else exact() or plain
        slightly = abs(steps) <= _MAX_STEPS_OF_SMALL
        for number, (one, other, mine) in enumerate(zip(plain, others, got, strict=True)):
            if way is run_all_moved and (not is_discrete(one) or one.dtype == torch.bool):
                continue
            ranges[number] = _wider(ranges[number], other)
            if slightly or is_discrete(one) or one.numel() > _SMALL:
                flipped = _flipped(one, other, mine, ranges[number], slightly=slightly)
                unexplained[number] &= ~flipped
        if not any(bool(mask.any()) for mask in unexplained):
            break
        if time.thread_time() - began > _ENOUGH_S:
            break
    return unexplained


def with_float64_integers(
    expected: Sequence[Expected],
    got: Sequence[torch.Tensor],
    exactly: Callable[[], Sequence[torch.Tensor] | None],
) -> list[torch.Tensor] | None:
    """Replace integers that equal the float64 run's by what is expected: a sum of what rounding
    flips flips all that follows. None if there are none."""
    if all(one.by_dtype is not None for one in expected):
        return None
    truth = exactly()
    if truth is None or [one.native.shape for one in expected] != [t.shape for t in truth]:
        return None
    found, differs = [], False
    for one, mine, exact in zip(expected, got, truth, strict=True):
        if one.by_dtype is None and exact.dtype == mine.dtype:
            right = (mine == exact) & (mine != one.native)
            differs = differs or bool(right.any())
            mine = torch.where(right, one.native, mine)
        found.append(mine)
    return found if differs else None


def without_nan(
    expected: Sequence[Expected], got: Sequence[torch.Tensor]
) -> tuple[list[Expected], list[torch.Tensor]]:
    """Leave out elements that are NaN in both, of a hundred one at most: the root of what is next
    to nothing, in inputs that the task drew."""
    found: list[Expected] = []
    rest: list[torch.Tensor] = []
    for one, mine in zip(expected, got, strict=True):
        nan = one.native.isnan() & mine.isnan()
        if 0 < int(nan.sum()) <= nan.numel() // _MAX_NAN_ONE_IN:
            one, mine = one.without(nan), mine.masked_fill(nan, 0.0)
        found.append(one)
        rest.append(mine)
    return found, rest


def is_unstable(expected: Sequence[Expected], run: Callable[[int], Outputs]) -> bool:
    """Whether perturbations flip many elements, as where equals are sorted."""
    try:
        moved = run(STEPS)
    except Exception:  # as above
        return False
    for one, other in zip(expected, moved, strict=True):
        tolerance = _FAR * (one.tolerance + one.nondeterminism.tolerance)
        mask = _differs(_some_rows(one.native), _some_rows(other), tolerance)
        if int(mask.sum()) * _MANY_ONE_IN > mask.numel():
            return True
    return False


def _some_rows(output: torch.Tensor) -> torch.Tensor:
    if output.dim() < 2 or not output.numel():
        return output
    rows = output.reshape(-1, output.shape[-1])
    return rows[:: max(1, output.numel() // _SAMPLE)]


def _is_chaotic(expected: Expected, moved: torch.Tensor) -> bool:
    """Whether a few ulp change most elements."""
    if moved.numel() <= _SMALL:
        return False
    return float(_is_wrong(expected, moved).float().mean()) > _MAX_FLIPPED


def _max_wrong(expected: Expected) -> int:
    """Half precision differs from float64 by its own rounding: that flips nothing, least of all a
    single number."""
    native = expected.native
    if is_discrete(native) or torch.finfo(native.dtype).eps < _HALF_EPS:
        return max(native.numel() // _MAX_WRONG_ONE_IN, 1)
    return native.numel() // _MAX_WRONG_OF_HALF_ONE_IN


def _is_wrong(expected: Expected, got: torch.Tensor) -> torch.Tensor:
    """Elements beyond the tolerance of their row, which is no less than a hundredth of all
    rows'."""
    expected, got = expected.without_fill(got)
    tolerance = expected.tolerance + expected.nondeterminism.tolerance
    return _differs(expected.native, got, tolerance)


def _differs(native: torch.Tensor, got: torch.Tensor, tolerance: float) -> torch.Tensor:
    if is_discrete(native):
        return native != got
    size = native.abs().double().nan_to_num(0.0, 0.0, 0.0)
    rms = size.square().mean(dim=-1, keepdim=True).sqrt() if native.dim() else size
    rms = rms.clamp(min=float(size.square().mean().sqrt()) / 100) if native.numel() else rms
    bound = tolerance * (rms + size) / 2  # of one element as ``compare``
    near = (got - native).abs().double() <= bound
    return ~(near | (got == native) | (got.isnan() & native.isnan()))


def _wider(range_: Range, other: torch.Tensor) -> Range:
    if not _is_small_count(other):
        return range_
    return torch.minimum(range_[0], other), torch.maximum(range_[1], other)


def _flipped(
    plain: torch.Tensor, moved: torch.Tensor, got: torch.Tensor, range_: Range, *, slightly: bool
) -> torch.Tensor:
    """Where a perturbation makes of the reference's element what the candidate has, or about that.
    A count may lie within the range that was seen, or as far beyond."""
    if _is_small_count(plain):
        least, most, mine = (t.long() for t in (*range_, got))
        span = most - least  # more runs would have seen a little more
        of_all = plain.long().abs() // _COUNT_OFF_ONE_IN if slightly else torch.zeros_like(mine)
        near = (mine - plain.long()).abs() <= of_all.clamp(_COUNT_OFF)
        return (plain != got) & near & (least - span <= mine) & (mine <= most + span)
    if is_discrete(plain):
        return (plain != moved) & (moved == got)
    appears = got.isnan() & moved.isnan()  # or disappears: as little as that makes it NaN
    disappears = plain.isnan() & ~moved.isnan()
    far = (moved - plain).abs() >= _MIN_MOVE * (got - plain).abs()
    return far | (plain.isnan() != got.isnan()) & (appears | disappears)


def _is_small_count(output: torch.Tensor) -> bool:
    return is_discrete(output) and output.dtype != torch.bool and output.numel() <= _SMALL
