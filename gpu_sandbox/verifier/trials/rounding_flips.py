"""Elements in which a candidate is wrong, and the reference turns, too, where it rounds otherwise.

The very inputs are nudged (``verifier/reference/ulp_perturbation.py``), and the reference is run in
float64: what it turns itself, by as little, is nobody's to say."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import torch

from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.reference.ulp_perturbation import LOOKS, STEPS, Outputs, is_counted

__all__ = ["mended", "undecided"]

Ends: TypeAlias = tuple[torch.Tensor, torch.Tensor]

_MOST_OF_FEW = 4
"""For an output of few elements, but for counts: by 64 steps of numbers near 50 a mean moves as far
as that of a thirtieth of them is off."""
_LOOKED_S = 4.0
"""Of its own time: who shares a machine looks as often. Or until there was a look at each."""
_LEAST_TURN = 0.25
"""Of how far a candidate's element is off, to count as turned, in floating point."""
_MOST_WRONG, _MOST_WRONG_OF_HALF = 3, 10
"""One in so many elements of an output may be looked at anew, of fewer one."""
_HALF_EPS = 1e-4
_FEW_ELEMENTS = 16
_COUNTED, _COUNTED_OF = 16, 1000
"""By so many a count may be off that rounding turns, or by one in so many if a few steps do."""
_MOST_TURNED = 0.75
"""Of an output's elements, by a few steps of rounding: where more are, who leaves out a third of
them is excused by chaos, and who computes all otherwise than the reference is not."""
_MANY, _FAR, _SHARE_OF = 100, 200.0, 1 << 19
"""Undecided is an output of which one in so many elements, of so many about, is so many tolerances
off."""


def mended(
    expected: Sequence[Expected],
    got: Outputs,
    run: Callable[[int], Outputs],
    exact: Callable[[], Outputs | None],
    freely: Callable[[int], Outputs] | None = None,
) -> list[torch.Tensor] | None:
    """``got`` with the reference's own elements where it is wrong and nudges turn these, or float64
    does; None if there are none. ``run`` gives the reference's outputs of the same inputs, nudged
    by so many steps, and ``exact`` those in float64, if it can. ``freely``: as ``run``, with what
    ``marks`` something moved as well, which tells of the order of equals, so of integers alone."""
    try:
        wrong = [_is_wrong(one, tensor) for one, tensor in zip(expected, got, strict=True)]
        if any(int(mask.sum()) > _most_wrong(o) for o, mask in zip(expected, wrong, strict=True)):
            return None
        left, began = [mask.clone() for mask in wrong], time.thread_time()
        plain = run(0)
        if any(bool(_is_wrong(*pair).any()) for pair in zip(expected, plain, strict=True)):
            return None  # it draws numbers of its own
        chaotic = [_is_chaotic(*pair) for pair in zip(expected, run(STEPS), strict=True)]
        if any(chaos and bool(mask.any()) for chaos, mask in zip(chaotic, wrong, strict=True)):
            return None
        reach = [(one, one) for one in plain]
        ways = (run,) if freely is None else (run, freely)
        for steps, way in ((0, run), *((steps, way) for steps in LOOKS for way in ways)):
            others = way(steps) if steps else exact() or plain
            slightly = abs(steps) <= _MOST_OF_FEW
            for number, (one, other, mine) in enumerate(zip(plain, others, got, strict=True)):
                if way is freely and (not is_counted(one) or one.dtype == torch.bool):
                    continue
                reach[number] = _further(reach[number], other)
                if slightly or is_counted(one) or one.numel() > _FEW_ELEMENTS:
                    turned = _turned(one, other, mine, reach[number], slightly=slightly)
                    left[number] &= ~turned
            if not any(bool(mask.any()) for mask in left):
                break
            if time.thread_time() - began > _LOOKED_S:
                break
    except Exception:  # it looks at its inputs more closely, or there is no memory
        return None
    right = [mask & ~still for mask, still in zip(wrong, left, strict=True)]
    if not any(bool(mask.any()) for mask in right):
        return None
    return [
        torch.where(mask, one.native, mine)
        for mask, one, mine in zip(right, expected, got, strict=True)
    ]


def undecided(expected: Sequence[Expected], run: Callable[[int], Outputs]) -> bool:
    """Whether nudges turn many of its elements: of equals, say, that it sorts. Then nobody can be
    held to them."""
    try:
        nudged = run(STEPS)
    except Exception:  # as above
        return False
    for one, other in zip(expected, nudged, strict=True):
        tolerance = _FAR * one.allowed.tolerance
        mask = _differs(_some_rows(one.native), _some_rows(other), tolerance)
        if int(mask.sum()) * _MANY > mask.numel():
            return True
    return False


def _some_rows(output: torch.Tensor) -> torch.Tensor:
    """Of an output of many, as many as say what share of all is otherwise."""
    if output.dim() < 2 or not output.numel():
        return output
    rows = output.reshape(-1, output.shape[-1])
    return rows[:: max(1, output.numel() // _SHARE_OF)]


def _is_chaotic(expected: Expected, nudged: torch.Tensor) -> bool:
    """Whether a few steps of rounding make something else of most of its elements."""
    if nudged.numel() <= _FEW_ELEMENTS:
        return False
    return float(_is_wrong(expected, nudged).float().mean()) > _MOST_TURNED


def _most_wrong(expected: Expected) -> int:
    """Half precision is off from float64 by its own rounding: that turns nothing, least of all a
    single number."""
    native = expected.native
    if is_counted(native) or torch.finfo(native.dtype).eps < _HALF_EPS:
        return max(native.numel() // _MOST_WRONG, 1)
    return native.numel() // _MOST_WRONG_OF_HALF


def _is_wrong(expected: Expected, got: torch.Tensor, times: float = 1.0) -> torch.Tensor:
    """Elements beyond so many times the tolerance of their row, which is no less than a hundredth
    of all rows'."""
    expected, got = expected.beside_fill(got)
    return _differs(expected.native, got, times * expected.allowed.tolerance)


def _differs(native: torch.Tensor, got: torch.Tensor, tolerance: float) -> torch.Tensor:
    if is_counted(native):
        return native != got
    size = native.abs().double().nan_to_num(0.0, 0.0, 0.0)
    rms = size.square().mean(dim=-1, keepdim=True).sqrt() if native.dim() else size
    rms = rms.clamp(min=float(size.square().mean().sqrt()) / 100) if native.numel() else rms
    bound = tolerance * (rms + size) / 2  # of one element as ``compare``
    near = (got - native).abs().double() <= bound
    return ~(near | (got == native) | (got.isnan() & native.isnan()))


def _further(ends: Ends, other: torch.Tensor) -> Ends:
    if not _is_few_counted(other):
        return ends
    return torch.minimum(ends[0], other), torch.maximum(ends[1], other)


def _turned(
    plain: torch.Tensor, nudged: torch.Tensor, got: torch.Tensor, ends: Ends, *, slightly: bool
) -> torch.Tensor:
    """Where this nudge makes of the reference's element what the candidate has, or about that. A
    count of millions may lie between the least and the largest that were seen, or as far beyond."""
    if _is_few_counted(plain):
        least, most, mine = (t.long() for t in (*ends, got))
        span = most - least  # more looks would have seen a little more
        of_all = plain.long().abs() // _COUNTED_OF if slightly else torch.zeros_like(mine)
        near = (mine - plain.long()).abs() <= of_all.clamp(_COUNTED)
        return (plain != got) & near & (least - span <= mine) & (mine <= most + span)
    if is_counted(plain):
        return (plain != nudged) & (nudged == got)
    appears = got.isnan() & nudged.isnan()  # or disappears: as little as that makes it NaN
    disappears = plain.isnan() & ~nudged.isnan()
    far = (nudged - plain).abs() >= _LEAST_TURN * (got - plain).abs()
    return far | (plain.isnan() != got.isnan()) & (appears | disappears)


def _is_few_counted(output: torch.Tensor) -> bool:
    return is_counted(output) and output.dtype != torch.bool and output.numel() <= _FEW_ELEMENTS
