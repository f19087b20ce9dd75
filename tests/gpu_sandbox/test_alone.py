"""Who is charged when the baseline was slower beside a candidate: that, or the machine."""

from __future__ import annotations

import time
from collections.abc import Iterator
from itertools import chain, repeat
from typing import cast

import pytest

from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.verifier.timing.baseline import Baseline
from gpu_sandbox.verifier.timing.baseline_drift import DISTURBED, BaselineDrift
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.pairs import Pair, reported_ratio

CALM_US, BUSY_US = 400.0, 500.0


def released(claim_us: float) -> TimedBatch:
    claim, rest = int(claim_us * 1e3), 100_000
    return TimedBatch(claim, claim + rest, 0, [], Ran(tree=None, leaves=[]))


class Machine:
    """On which the baseline's releases take so many microseconds, one after the other."""

    slow = False

    def __init__(self, claims_us: Iterator[float]) -> None:
        self._claims_us = claims_us
        self.windows: list[int] = []

    def alone(self, releases: int, purpose: str) -> list[TimedBatch]:
        assert purpose
        self.windows.append(releases)
        return [released(next(self._claims_us)) for _ in range(releases)]


def disturbance(machine: Machine, *, within_s: float) -> float:
    """What is held against a candidate beside which the baseline took ``BUSY_US``."""
    alone = BaselineDrift(cast(Baseline, machine))
    pairs = [Pair(released(BUSY_US), released(BUSY_US), bool(n % 2)) for n in range(10)]
    assert alone.disturbance(pairs) >= DISTURBED, "or nobody would look again"
    alone.measure_again(lambda: alone.disturbance(pairs) >= DISTURBED, within_s)
    return alone.disturbance(pairs)


@pytest.mark.parametrize(
    ("claim_us", "spent_s", "is_late"),
    [(400, 3.0, True), (400, 1.0, False), (500_000, 3.0, False), (500_000, 9.0, True)],
)
def test_few_pairs_are_for_what_calls_take_or_for_who_is_late_between_them(
    claim_us: float, spent_s: float, is_late: bool
) -> None:
    """A machine that stands still for a second is nobody's fault."""
    alone = BaselineDrift(cast(Baseline, Machine(repeat(CALM_US))))
    pairs = [Pair(released(claim_us), released(CALM_US), first=True) for _ in range(3)]
    told = alone.late(pairs, spent_s)
    assert bool(told) == is_late, told


@pytest.mark.parametrize(("times", "is_late"), [(1.0, True), (3.0, False), (20.0, False)])
def test_a_machine_that_has_become_slower_is_not_its_doing(times: float, is_late: bool) -> None:
    """But no candidate may take more than four times as long as that, and no looks are for ever."""
    machine = Waits()
    alone = BaselineDrift(cast(Baseline, machine))
    pairs = [Pair(released(CALM_US), released(CALM_US), first=True) for _ in range(100)]
    spent_s = 4 * alone.due_s(pairs, 100) * 2 + 2
    assert alone.late(pairs, spent_s)
    machine.pause_s *= times
    assert alone.measure_slowdown()
    assert bool(alone.late(pairs, spent_s)) == is_late
    assert alone.late(pairs, 2.5 * spent_s)
    assert [alone.measure_slowdown() for _ in range(3)] == [True, True, False]


class Waits(Machine):
    """Batches take a while by the clock on the wall."""

    def __init__(self) -> None:
        super().__init__(repeat(CALM_US))
        self.pause_s = 0.01

    def alone(self, releases: int, purpose: str) -> list[TimedBatch]:
        time.sleep(releases * self.pause_s)
        return super().alone(releases, purpose)


def by_turns(calm: int, busy: int) -> Machine:
    """So many looks of the one kind, and so many of the other, again and again."""
    turn = (*repeat(CALM_US, 15 * calm), *repeat(BUSY_US, 15 * busy))
    return Machine(chain(repeat(CALM_US, 5), chain.from_iterable(repeat(turn))))


def test_a_machine_that_is_slow_by_turns_is_looked_at_until_it_is_slow_again() -> None:
    machine = by_turns(calm=6, busy=10)
    assert disturbance(machine, within_s=60) < DISTURBED
    assert sum(machine.windows) <= 5 + 15 * 15, "and no longer"
    assert disturbance(by_turns(calm=2, busy=1), within_s=0.05) < DISTURBED
    assert disturbance(by_turns(calm=9, busy=1), within_s=0.05) == BUSY_US / CALM_US


def test_a_single_slow_release_clears_nobody() -> None:
    now_and_then = chain.from_iterable(repeat((3 * BUSY_US, *repeat(CALM_US, 4))))
    assert disturbance(Machine(now_and_then), within_s=0.05) == BUSY_US / CALM_US


def test_what_slows_the_baseline_and_is_gone_is_charged_with_it() -> None:
    assert disturbance(Machine(repeat(CALM_US)), within_s=0.05) == BUSY_US / CALM_US


def test_who_slows_the_baseline_in_one_order_only_is_found_out() -> None:
    """Its share is below a half of all pairs, but all of an order: what the ratio is made of."""
    alone = BaselineDrift(cast(Baseline, Machine(repeat(CALM_US))))
    taken = [(n % 2 == 0, 2.0 if n % 2 == 0 and n % 20 else 1.0) for n in range(100)]
    assert sum(slower > 1 for _, slower in taken) < 50
    pairs = [Pair(released(CALM_US), released(CALM_US * s), first) for first, s in taken]
    gained = reported_ratio(pairs, mean=False).ratio
    assert gained == pytest.approx(2**-0.5)
    assert alone.disturbance(pairs) * gained == pytest.approx(1.0)


def test_a_baseline_of_long_calls_is_not_looked_at_for_ever() -> None:
    machine = Machine(repeat(CALM_US))
    disturbance(machine, within_s=1e-9)
    assert machine.windows == [5, 3, 3, 3, 3]
