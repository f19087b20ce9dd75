"""How far a reference is from itself on inputs that differ by rounding, and what that allows."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import torch

from gpu_sandbox.child.compare import compare
from gpu_sandbox.child.expected import RULES, Expected
from gpu_sandbox.child.nudges import Nudged, measured, nudge
from gpu_sandbox.protocols import PROTOCOLS

STRICT = PROTOCOLS["strict"]


def measure(reference: Callable[[torch.Tensor], torch.Tensor]) -> Nudged:
    def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        x = torch.randn(100_000, generator=torch.Generator().manual_seed(number))
        return [reference(x)], [reference(nudge(x))]

    return measured(1, pair, 0.001)[0]


def test_a_nudge_is_a_few_last_places() -> None:
    x = torch.randn(1000)
    off = ((nudge(x) - x) / x).abs()
    assert 0 < off.max() < 6e-7
    for other in (torch.arange(5), x.half(), x > 0):
        assert nudge(other) is other


def test_smooth_ones_are_as_near_as_rounding() -> None:
    found = measure(torch.tanh)
    assert found.flips == 0
    assert 0 < found.relative < 1e-6
    expected = Expected(torch.ones(5000), None)
    found.allow(expected)
    assert (expected.tolerance, expected.slack) == (RULES[torch.float32].blind, 0.0)


def test_integers_that_flip_may_be_others_within_a_thousandth() -> None:
    found = measure(lambda x: torch.round(x * 500).int())
    assert 0 < found.flips < 1000
    native = torch.arange(5000)
    for allowed, elements in ((5, 5000), (0, 900)):
        expected = Expected(native[:elements], None)
        found.allow(expected)
        assert expected.loose == allowed
        for wrong, ok in ((allowed, True), (allowed + 1, False)):
            got = native[:elements].clone()
            got[:wrong] += 1
            assert compare(expected, got, STRICT).ok == ok
            by_element = compare(expected, got, PROTOCOLS["kernelbench"])
            assert by_element.ok == (wrong == 0)
    again = Expected.within(native, expected.margin)
    assert again.loose == expected.loose, "as in timed calls"


def test_integers_that_never_flip_have_to_be_exact() -> None:
    found = measure(lambda x: torch.arange(len(x)))
    expected = Expected(torch.arange(5000), None)
    found.allow(expected)
    got = torch.arange(5000)
    got[7] += 1
    assert not compare(expected, got, STRICT).ok


def test_steps_are_allowed_for_no_further_than_without_a_float64_reference() -> None:
    found = measure(lambda x: torch.round(x / 0.002) * 0.002)
    assert found.worst == pytest.approx(0.002, rel=1e-2)
    native = torch.randn(100_000)
    expected = Expected(native, native.double())
    assert expected.tolerance == RULES[torch.float32].floor
    found.allow(expected)
    assert RULES[torch.float32].floor <= expected.tolerance <= RULES[torch.float32].blind
    far = Nudged(relative=0.5, worst=9.0)
    far.allow(expected)
    assert expected.tolerance == RULES[torch.float32].blind


def test_of_slow_ones_nothing_is_measured() -> None:
    def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        raise AssertionError(number)

    assert measured(2, pair, 3.0, rounds=False) == [Nudged(), Nudged()]
    assert measured(1, pair, 0.001, rounds=False) == [Nudged()], "nothing moves"
    assert measured(1, pair, 3.0) == [Nudged(rounds=True)]


def test_of_many_integers_that_rounding_may_reach_a_few_may_flip_unseen() -> None:
    native = torch.zeros(300_000, dtype=torch.bool)
    got = native.clone()
    got[:3] = True
    for nudged, ok in ((Nudged(rounds=True), True), (Nudged(), False)):
        expected = Expected(native, None)
        nudged.allow(expected)
        assert compare(expected, got, STRICT).ok == ok
    got[3] = True
    expected = Expected(native, None)
    Nudged(rounds=True).allow(expected)
    assert not compare(expected, got, STRICT).ok


def test_a_reference_that_wants_its_own_inputs_is_no_broken_task() -> None:
    def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        if number == 2:
            raise ValueError("not symmetric")
        return [torch.tensor([1, 2])], [torch.tensor([1, 3])]

    assert measured(1, pair, 0.001) == [Nudged(flips=1, rounds=True)]
