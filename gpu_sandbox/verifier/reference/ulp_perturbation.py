"""Sensitivity of the reference to inputs moved by a few ulp.

Where it rounds, compares or sorts, another right computation falls on the other side now and then.
Before there is a candidate, outputs on some inputs and on perturbed ones are compared, and as much
is allowed: in floating point no more than without a float64 reference, and a thousandth of an
output's integers.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeAlias

import msgspec
import torch

from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.fill_value import without_fill
from gpu_sandbox.verifier.numerics.rules import registry
from gpu_sandbox.verifier.numerics.rules.integers import FlipBudget
from gpu_sandbox.verifier.numerics.rules.rule import Rule, RunPair, is_discrete
from gpu_sandbox.verifier.numerics.sentinel_values import sentinel_mask

Outputs: TypeAlias = Sequence[torch.Tensor]

PERTURBED_DTYPES = (torch.float32, torch.float64)
_HALF, _FEWER_IN_HALF = (torch.float16, torch.bfloat16), 32  # long sums are rounded once
SLOWEST_S, _SLOWEST_FILLED_S = 0.1, 1.0  # the second with a fill, to confirm it
_MAX_DRAWS, _ENOUGH_S = 8, 0.03
_MAX_DISCRETE_DRAWS, _ENOUGH_DISCRETE_S = 20, 0.1
"""Where integers may flip: one in ten draws, maybe, and a verdict compares a hundred."""
STEPS = 4
RECHECK_STEPS = (4, 4, 4, 4, -4, -4, *[16] * 4, *[64] * 8, *[-64] * 10)
"""In ulp. Long sums round as often, and what lies that near to an edge may cross it. Below zero all
elements of an input move the same way: otherwise a sum of thousands stays where it is."""
DRY_RUN_STEPS = (min(RECHECK_STEPS), STEPS, max(RECHECK_STEPS))
_MARGIN = 2.0


class UlpSensitivity(msgspec.Struct, frozen=True):
    """Sensitivity of one output. ``relative``: L2 distance; ``spreads``: by rule, what it measured
    (``Rule.spread``); ``rounds``: there is an input that a perturbation moves;
    ``measured``: of a floating point output the distance is known."""

    relative: float = 0.0
    rounds: bool = False
    spreads: Mapping[Rule[Any, Any], Any] = {}
    measured: bool = False

    def larger(self, other: UlpSensitivity) -> UlpSensitivity:
        spreads = {**self.spreads, **other.spreads}
        for rule in self.spreads.keys() & other.spreads.keys():
            spreads[rule] = rule.larger(self.spreads[rule], other.spreads[rule])
        return UlpSensitivity(
            max(self.relative, other.relative),
            self.rounds or other.rounds,
            spreads,
            self.measured or other.measured,
        )

    def allow(self, expected: Expected, budget: FlipBudget | None = None) -> None:
        """Let an output of a call be as far from the reference's."""
        by = expected.by_dtype
        if by is not None:
            is_stable = self.measured and self.relative <= by.without_float64
            expected.confirm_fill(is_stable=is_stable)
        if self.rounds if by is None else _MARGIN * self.relative > by.floor:
            expected.widen(self.relative, self.spreads, budget)


def perturbed(tensor: torch.Tensor, steps: int, *, keeps_sentinels: bool = False) -> torch.Tensor:
    """Move each element by up to ``steps`` ulp, below zero all of them the same way, and zeros by
    as many of the usual size. Half precision moves by its own ulp, but by fewer."""
    kept = sentinel_mask(tensor) if keeps_sentinels else None
    if kept is not None:
        return torch.where(kept, tensor, perturbed(tensor, steps))
    if tensor.dtype in _HALF:
        each = int(torch.finfo(tensor.dtype).eps / torch.finfo(torch.float32).eps)
        wide = max(1, abs(steps) // _FEWER_IN_HALF) * each
        return perturbed(tensor.float(), wide if steps > 0 else -wide).to(tensor.dtype)
    if tensor.dtype not in PERTURBED_DTYPES:
        return tensor
    if steps < 0:
        return _random_factors(tensor, -steps, ()).mul(tensor)
    moved = perturb(tensor, steps)
    if tensor.numel() == 0:
        return moved
    usual = float(torch.linalg.vector_norm(tensor)) / math.sqrt(tensor.numel())
    by = torch.rand(tensor.shape, dtype=tensor.dtype, device=tensor.device).sub_(0.5)
    by.mul_(2 * steps * torch.finfo(tensor.dtype).eps * usual)
    return torch.where(tensor == 0, by, moved)


def perturb(tensor: torch.Tensor, steps: int = STEPS) -> torch.Tensor:
    """Move each element of full precision by up to ``steps`` ulp; zeros stay."""
    if tensor.dtype not in PERTURBED_DTYPES:
        return tensor
    return _random_factors(tensor, steps, tensor.shape).mul_(tensor)


def _random_factors(tensor: torch.Tensor, steps: int, shape: Sequence[int]) -> torch.Tensor:
    by = torch.rand(shape, dtype=tensor.dtype, device=tensor.device).sub_(0.5)
    return by.mul_(2 * steps * torch.finfo(tensor.dtype).eps).add_(1.0)


def measure_sensitivity(
    outputs: int,
    pair: Callable[[int], tuple[Outputs, Outputs]],
    forward_s: float,
    *,
    rounds: bool = True,
    fills: Sequence[float | None] = (),
) -> list[UlpSensitivity]:
    """Measure so many outputs. ``pair`` runs the reference on some inputs, by number, and on those
    perturbed: elements that are all but equal are not in every draw. ``fills``: of outputs that
    are measured without one. Slow references are not measured."""
    found = [UlpSensitivity(rounds=rounds) for _ in range(outputs)]
    slowest_s = SLOWEST_S if all(fill is None for fill in fills) else _SLOWEST_FILLED_S
    if forward_s > slowest_s or not rounds:
        return found
    began, most, enough_s = time.thread_time(), _MAX_DRAWS, _ENOUGH_S
    for number in range(_MAX_DISCRETE_DRAWS):
        try:
            plain, moved = pair(number)
        except Exception:  # it checks its inputs more closely, or there is no memory
            break
        if any(is_discrete(t) for t in plain):
            most, enough_s = _MAX_DISCRETE_DRAWS, _ENOUGH_DISCRETE_S
        if [t.shape for t in plain] != [t.shape for t in moved] or len(plain) != outputs:
            break
        seen = map(_between, plain, moved, fills or [None] * outputs)
        found = [a.larger(b) for a, b in zip(found, seen, strict=True)]
        if number + 1 >= most or time.thread_time() - began > enough_s:
            break
    return found


def _between(plain: torch.Tensor, moved: torch.Tensor, fill: float | None) -> UlpSensitivity:
    if plain.dtype != moved.dtype or plain.numel() == 0:
        return UlpSensitivity()
    if fill is not None:
        plain, moved = without_fill(fill, plain, [plain, moved])
    pair = RunPair(plain, moved)
    found = {rule: rule.spread(pair) for rule in registry.REGISTRY}
    spreads = {rule: spread for rule, spread in found.items() if spread is not None}
    if is_discrete(plain):
        return UlpSensitivity(spreads=spreads)
    return UlpSensitivity(pair.distance[0], spreads=spreads, measured=True)
