"""Integers that nobody saw rounding flip may be others now and then, not each time."""

from __future__ import annotations

import torch

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.rules.integers import INTEGERS, FlipBudget
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity

STRICT = protocol_named("strict")
NATIVE = torch.arange(400_000)


def let_off(wrong: int, flip_budget: FlipBudget, flips: int = 0) -> bool:
    expected = Expected(NATIVE, None)
    UlpSensitivity(rounds=True, spreads={INTEGERS: flips}).allow(expected, flip_budget)
    got = NATIVE.clone()
    got[:wrong] += 1
    return compare(expected, got, STRICT).ok


def test_once_and_in_one_output_of_ten() -> None:
    flip_budget = FlipBudget()
    assert let_off(4, flip_budget)
    assert not let_off(4, flip_budget)
    assert all(let_off(0, flip_budget) for _ in range(10))
    assert let_off(4, flip_budget)
    assert sum(let_off(4, flip_budget) for _ in range(50)) < 7


def test_as_many_as_were_seen_are_let_off_each_time() -> None:
    flip_budget = FlipBudget()
    assert all(let_off(3, flip_budget, flips=3) for _ in range(20))
    assert [let_off(4, flip_budget, flips=3) for _ in range(6)] == [
        True,
        True,
        True,
        False,
        False,
        False,
    ]
    assert not let_off(15, flip_budget, flips=3)
