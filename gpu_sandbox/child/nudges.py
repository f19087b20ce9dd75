"""How far is the reference from itself, on inputs that differ by no more than rounding?

Where it rounds, compares or sorts, another right way to the same number falls on the other side
now and then: one element of a million is another integer, or off by a whole step. By how much is
measured on a few inputs, before there is a candidate, and so much more is allowed for: in
floating point never beyond what one without a float64 reference is granted, and of integers a
thousandth of the elements. And where a candidate is wrong in some elements, the very inputs are
nudged: what the reference turns, too, is nobody's to say (``mended``).
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import torch

from gpu_sandbox.child.bulk import Bulk, apart
from gpu_sandbox.child.expected import Expected
from gpu_sandbox.child.fill import without_fill
from gpu_sandbox.child.marks import marks
from gpu_sandbox.child.pieces import distance
from gpu_sandbox.child.seldom import Seldom

__all__ = [
    "NUDGED",
    "REHEARSED",
    "SLOWEST_S",
    "Nudged",
    "measured",
    "mended",
    "moved",
    "nudge",
    "undecided",
]

Outputs: TypeAlias = Sequence[torch.Tensor]
Ends: TypeAlias = tuple[torch.Tensor, torch.Tensor]

NUDGED = (torch.float32, torch.float64)
_HALF, _FEWER_IN_HALF = (torch.float16, torch.bfloat16), 32
"""Long sums are made in full precision, and rounded once."""
SLOWEST_S, _SLOWEST_FILLED_S = 0.1, 1.0
"""The second where an output has a fill: one look at least tells whether that holds."""
_MOST, _ENOUGH_S = 8, 0.03
_MOST_COUNTED, _ENOUGH_COUNTED_S = 20, 0.1
"""Where integers may flip: one in ten draws, maybe, and a verdict looks at a hundred."""
_SELDOM = 100_000
"""Of so many elements one may flip in one draw of sixty, which is not seen in twenty."""
_STEPS = 4
_LOOKS = (4, 4, 4, 4, -4, -4, 16, 16, 16, 16, 64, 64, 64, 64, 64, 64, 64, 64, *[-64] * 10)
"""Steps of rounding. Long sums have so many, and what lies that near to an edge may cross it. Below
zero all elements of an input go the same way: otherwise a sum of thousands stays where it is."""
REHEARSED = (min(_LOOKS), _STEPS, max(_LOOKS))
"""As far as any look goes, each way."""
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
_MARGIN, _FLIPS = 2.0, 4
_FEW, _OF = 2, 1000
"""Elements that may be others beside those that were seen, and of how many at least each."""


class Nudged(msgspec.Struct, frozen=True):
    """Of one output. ``relative``: L2 distance; ``worst``: of an element; ``flips``: how many
    integers or booleans were others, at most; ``rounds``: there is an input that rounding moves;
    ``bulk``: by how much most elements moved; ``seen``: it is known."""

    relative: float = 0.0
    worst: float = 0.0
    flips: int = 0
    rounds: bool = False
    bulk: Bulk | None = None
    seen: bool = False

    def further(self, other: Nudged) -> Nudged:
        return Nudged(
            max(self.relative, other.relative),
            max(self.worst, other.worst),
            max(self.flips, other.flips),
            self.rounds or other.rounds,
            self.bulk.at_least(other.bulk) if self.bulk and other.bulk else self.bulk or other.bulk,
            self.seen or other.seen,
        )

    def allow(self, expected: Expected, seldom: Seldom | None = None) -> None:
        """Let an output of a call be as far from the reference's."""
        elements = expected.native.numel()
        if self.rounds and expected.rule is None:
            seen = min(_FLIPS * self.flips + _FEW, elements // _OF) if self.flips else 0
            expected.loose = max(seen, elements // _SELDOM)
            expected.flips, expected.seldom = min(self.flips, elements // _OF), seldom
        if expected.rule is not None:
            expected.vouched(steady=self.seen and self.relative <= expected.rule.blind)
        if expected.rule is not None and _MARGIN * self.relative > expected.rule.floor:
            k, blind = expected.rule.k, expected.rule.blind
            bulk = self.bulk and self.bulk.times(k).at_most(*expected.rule.of_most(blind))
            expected.loosen(min(k * self.relative, blind), self.worst, bulk)


def moved(tensor: torch.Tensor, steps: int, *, freely: bool = True) -> torch.Tensor:
    """Nudged by so many steps; zeros, too, by as many of the usual size: none is as large as
    another. Below zero: all of them the same way, nobody knows which. What is of half precision by
    its own, but by fewer. But ``freely`` without what ``marks`` something."""
    kept = None if freely else marks(tensor)
    if kept is not None:
        return torch.where(kept, tensor, moved(tensor, steps))
    if tensor.dtype in _HALF:
        each = int(torch.finfo(tensor.dtype).eps / torch.finfo(torch.float32).eps)
        wide = max(1, abs(steps) // _FEWER_IN_HALF) * each
        return moved(tensor.float(), wide if steps > 0 else -wide).to(tensor.dtype)
    if steps < 0:
        return _moved_together(tensor, -steps)
    nudged = nudge(tensor, steps)
    if nudged is tensor or tensor.numel() == 0:
        return nudged
    usual = float(torch.linalg.vector_norm(tensor)) / math.sqrt(tensor.numel())
    by = torch.rand(tensor.shape, dtype=tensor.dtype, device=tensor.device).sub_(0.5)
    by.mul_(2 * steps * torch.finfo(tensor.dtype).eps * usual)
    return torch.where(tensor == 0, by, nudged)


def _moved_together(tensor: torch.Tensor, steps: int) -> torch.Tensor:
    if tensor.dtype not in NUDGED:
        return tensor
    by = torch.rand((), dtype=tensor.dtype, device=tensor.device).sub_(0.5)
    return by.mul_(2 * steps * torch.finfo(tensor.dtype).eps).add_(1.0).mul(tensor)


def nudge(tensor: torch.Tensor, steps: int = _STEPS) -> torch.Tensor:
    """Each element up or down, by as much as some steps of rounding make, at most."""
    if tensor.dtype not in NUDGED:
        return tensor
    by = torch.rand(tensor.shape, dtype=tensor.dtype, device=tensor.device).sub_(0.5)
    return by.mul_(2 * steps * torch.finfo(tensor.dtype).eps).add_(1.0).mul_(tensor)


def measured(
    outputs: int,
    pair: Callable[[int], tuple[Outputs, Outputs]],
    forward_s: float,
    *,
    rounds: bool = True,
    fills: Sequence[float | None] = (),
) -> list[Nudged]:
    """Of so many outputs. ``pair`` runs the reference on some inputs, by number, and on those
    nudged: two that are equal, or all but equal, are not in every draw. ``rounds``: there is an
    input that is moved; ``fills``: of outputs that are looked at beside one. Of slow ones
    nothing."""
    found = [Nudged(rounds=rounds) for _ in range(outputs)]
    slowest_s = SLOWEST_S if all(fill is None for fill in fills) else _SLOWEST_FILLED_S
    if forward_s > slowest_s or not rounds:
        return found
    began, most, enough_s = time.thread_time(), _MOST, _ENOUGH_S
    for number in range(_MOST_COUNTED):
        try:
            plain, nudged = pair(number)
        except Exception:  # it looks at its inputs more closely, or there is no memory
            break
        if any(_is_counted(t) for t in plain):
            most, enough_s = _MOST_COUNTED, _ENOUGH_COUNTED_S
        if [t.shape for t in plain] != [t.shape for t in nudged] or len(plain) != outputs:
            break
        seen = map(_between, plain, nudged, fills or [None] * outputs)
        found = [a.further(b) for a, b in zip(found, seen, strict=True)]
        if number + 1 >= most or time.thread_time() - began > enough_s:
            break
    return found


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
        chaotic = [_is_chaotic(*pair) for pair in zip(expected, run(_STEPS), strict=True)]
        if any(chaos and bool(mask.any()) for chaos, mask in zip(chaotic, wrong, strict=True)):
            return None
        reach = [(one, one) for one in plain]
        ways = (run,) if freely is None else (run, freely)
        for steps, way in ((0, run), *((steps, way) for steps in _LOOKS for way in ways)):
            others = way(steps) if steps else exact() or plain
            slightly = abs(steps) <= _MOST_OF_FEW
            for number, (one, other, mine) in enumerate(zip(plain, others, got, strict=True)):
                if way is freely and (not _is_counted(one) or one.dtype == torch.bool):
                    continue
                reach[number] = _further(reach[number], other)
                if slightly or _is_counted(one) or one.numel() > _FEW_ELEMENTS:
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
        nudged = run(_STEPS)
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
    if _is_counted(native) or torch.finfo(native.dtype).eps < _HALF_EPS:
        return max(native.numel() // _MOST_WRONG, 1)
    return native.numel() // _MOST_WRONG_OF_HALF


def _is_wrong(expected: Expected, got: torch.Tensor, times: float = 1.0) -> torch.Tensor:
    """Elements beyond so many times the tolerance of their row, which is no less than a hundredth
    of all rows'."""
    expected, got = expected.beside_fill(got)
    return _differs(expected.native, got, times * expected.allowed.tolerance)


def _differs(native: torch.Tensor, got: torch.Tensor, tolerance: float) -> torch.Tensor:
    if _is_counted(native):
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
    if _is_counted(plain):
        return (plain != nudged) & (nudged == got)
    appears = got.isnan() & nudged.isnan()  # or disappears: as little as that makes it NaN
    disappears = plain.isnan() & ~nudged.isnan()
    far = (nudged - plain).abs() >= _LEAST_TURN * (got - plain).abs()
    return far | (plain.isnan() != got.isnan()) & (appears | disappears)


def _between(plain: torch.Tensor, nudged: torch.Tensor, fill: float | None) -> Nudged:
    if plain.dtype != nudged.dtype or plain.numel() == 0:
        return Nudged()
    if _is_counted(plain):
        return Nudged(flips=int(torch.count_nonzero(plain != nudged)))
    if fill is not None:
        plain, nudged = without_fill(fill, plain, [plain, nudged])
    relative, worst = distance(nudged, plain)
    return Nudged(relative=relative, worst=worst, bulk=apart(plain, nudged), seen=True)


def _is_counted(output: torch.Tensor) -> bool:
    return not (output.is_floating_point() or output.is_complex())


def _is_few_counted(output: torch.Tensor) -> bool:
    return _is_counted(output) and output.dtype != torch.bool and output.numel() <= _FEW_ELEMENTS
