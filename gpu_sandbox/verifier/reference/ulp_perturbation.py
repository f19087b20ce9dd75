"""How far is the reference from itself, on inputs that differ by no more than rounding?

Where it rounds, compares or sorts, another right way to the same number falls on the other side
now and then: one element of a million is another integer, or off by a whole step. By how much is
measured on a few inputs, before there is a candidate, and so much more is allowed for: in
floating point never beyond what one without a float64 reference is granted, and of integers a
thousandth of the elements.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from typing import TypeAlias

import msgspec
import torch

from gpu_sandbox.tensors.chunked import distance
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.fill_value import without_fill
from gpu_sandbox.verifier.numerics.rules.error_quantiles import Bulk, apart
from gpu_sandbox.verifier.numerics.rules.integers import Seldom
from gpu_sandbox.verifier.numerics.sentinel_values import marks

__all__ = [
    "LOOKS",
    "NUDGED",
    "REHEARSED",
    "SLOWEST_S",
    "STEPS",
    "Nudged",
    "Outputs",
    "is_counted",
    "measured",
    "moved",
    "nudge",
]

Outputs: TypeAlias = Sequence[torch.Tensor]

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
STEPS = 4
LOOKS = (4, 4, 4, 4, -4, -4, 16, 16, 16, 16, 64, 64, 64, 64, 64, 64, 64, 64, *[-64] * 10)
"""Steps of rounding. Long sums have so many, and what lies that near to an edge may cross it. Below
zero all elements of an input go the same way: otherwise a sum of thousands stays where it is."""
REHEARSED = (min(LOOKS), STEPS, max(LOOKS))
"""As far as any look goes, each way."""
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


def nudge(tensor: torch.Tensor, steps: int = STEPS) -> torch.Tensor:
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
        if any(is_counted(t) for t in plain):
            most, enough_s = _MOST_COUNTED, _ENOUGH_COUNTED_S
        if [t.shape for t in plain] != [t.shape for t in nudged] or len(plain) != outputs:
            break
        seen = map(_between, plain, nudged, fills or [None] * outputs)
        found = [a.further(b) for a, b in zip(found, seen, strict=True)]
        if number + 1 >= most or time.thread_time() - began > enough_s:
            break
    return found


def _between(plain: torch.Tensor, nudged: torch.Tensor, fill: float | None) -> Nudged:
    if plain.dtype != nudged.dtype or plain.numel() == 0:
        return Nudged()
    if is_counted(plain):
        return Nudged(flips=int(torch.count_nonzero(plain != nudged)))
    if fill is not None:
        plain, nudged = without_fill(fill, plain, [plain, nudged])
    relative, worst = distance(nudged, plain)
    return Nudged(relative=relative, worst=worst, bulk=apart(plain, nudged), seen=True)


def is_counted(output: torch.Tensor) -> bool:
    return not (output.is_floating_point() or output.is_complex())
