"""Pairs whose sides a device did at different clocks, by readings of a stand-in for the driver."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import PROTOCOLS, protocol_named
from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.verifier.timing import clock_filter as sifting
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.benchmark import Benchmark
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.timing.sm_clocks import HARD, Clocks, Reading, Side, slower_side
from gpu_sandbox.verifier.timing.stopping_rule import StoppingRule
from tests.gpu_sandbox.nvml import FakeDriver

THERMAL, BRAKE, POWER_CAP, IDLE = 0x40, 0x80, 0x4, 0x1
FULL, LOW = 1980, 1410


# --- readings


def test_readings_are_the_drivers_and_their_extremes_are_kept(driver: FakeDriver) -> None:
    driver.reading(FULL, IDLE)
    clocks = Clocks(driver.nvml)
    for mhz, reasons in ((1905, POWER_CAP), (LOW, THERMAL | POWER_CAP), (1980, IDLE)):
        driver.reading(mhz, reasons)
        clocks.read()
    assert clocks.conditions() == {
        "clocks.sm.timed": [LOW, FULL],
        "clocks.lowered_by": "power cap, thermal slowdown by hardware",
    }


def test_a_slow_driver_is_not_asked_between_releases(driver: FakeDriver) -> None:
    driver.reading(FULL)
    driver.slowness(5000)
    clocks = Clocks(driver.nvml)
    before = driver.asked
    assert clocks.read_between() is None
    assert driver.asked == before
    assert clocks.read() == Reading(FULL)


def test_without_a_driver_nothing_is_read() -> None:
    clocks = Clocks(None)
    assert clocks.read() is None
    assert clocks.read_between() is None
    assert clocks.conditions() == {}


def test_a_driver_that_knows_no_clock(driver: FakeDriver) -> None:
    clocks = Clocks(driver.nvml)
    assert clocks.read() is None
    assert clocks.conditions() == {}


# --- which side of a pair was slowed


@pytest.mark.parametrize(
    ("candidate", "baseline", "side"),
    [
        (Reading(FULL), Reading(FULL), None),
        (Reading(FULL), Reading(1950), None),
        (Reading(LOW), Reading(FULL), "candidate"),
        (Reading(FULL), Reading(LOW), "baseline"),
        (Reading(LOW, POWER_CAP), Reading(LOW, POWER_CAP), None),
        (Reading(FULL, POWER_CAP), Reading(FULL), None),  # by what it does to the clock
        (Reading(LOW, THERMAL), Reading(LOW, THERMAL), None),
        (Reading(FULL, THERMAL), Reading(FULL), "candidate"),
        (Reading(FULL), Reading(FULL, BRAKE), "baseline"),
        (Reading(LOW, THERMAL), Reading(FULL, BRAKE), "candidate"),
        (Reading(FULL, THERMAL), Reading(FULL, BRAKE), None),  # nobody can say
        (None, Reading(FULL), None),
    ],
)
def test_the_side_that_was_slowed(
    candidate: Reading | None, baseline: Reading | None, side: Side | None
) -> None:
    assert slower_side(candidate, baseline) == side


READINGS = st.one_of(
    st.none(),
    st.builds(Reading, st.integers(300, 2000), st.sampled_from([0, POWER_CAP, THERMAL, BRAKE])),
)


@given(READINGS, READINGS)
def test_it_does_not_matter_which_side_is_the_candidates(
    one: Reading | None, other: Reading | None
) -> None:
    swapped = {None: None, "candidate": "baseline", "baseline": "candidate"}
    assert slower_side(other, one) == swapped[slower_side(one, other)]


# --- which pairs count


def pair(slowed: Side | None = None, reported_ns: int = 1000) -> Pair:
    released = TimedBatch(reported_ns, 2 * reported_ns, 0, [], Ran(tree=None, leaves=[]))
    low, full = Reading(LOW, THERMAL), Reading(FULL)
    readings = {"candidate": (low, full), "baseline": (full, low), None: (full, full)}[slowed]
    assert slower_side(*readings) == slowed
    return Pair(released, released, first=True, readings=readings, slowed=slowed)


SIDES: st.SearchStrategy[Side | None] = st.sampled_from([None, "candidate", "baseline"])


@given(st.lists(SIDES, max_size=60))
def test_as_many_go_of_one_kind_as_of_the_other_and_never_more_than_count(
    sides: list[Side | None],
) -> None:
    taken = [pair(side) for side in sides]
    counted = sifting.counted_pairs(taken)
    dropped = [p for p in taken if not any(p is c for c in counted)]
    against = [p for p in dropped if p.slowed == "candidate"]
    assert 2 * len(against) == len(dropped)
    assert all(p.slowed for p in dropped)
    assert len(dropped) <= len(counted)
    assert counted == [p for p in taken if any(p is c for c in counted)]  # in order


@given(st.lists(st.sampled_from([None, "candidate"]), max_size=60))
def test_a_candidate_that_slows_only_itself_has_nothing_dropped(sides: list[Side | None]) -> None:
    taken = [pair(side) for side in sides]
    assert sifting.counted_pairs(taken) == taken


def test_what_was_set_aside_and_what_counts_all_the_same_is_told() -> None:
    taken = [*[pair() for _ in range(20)], pair("candidate"), pair("baseline")]
    counted = sifting.counted_pairs(taken)
    assert sifting.notes(taken, counted, Clocks(None)) == [
        "2 pairs of 22 were set aside: the device did their sides at different clocks "
        "(1410 to 1980 MHz, thermal slowdown by hardware)"
    ]
    taken = [*[pair() for _ in range(20)], *[pair("candidate") for _ in range(5)]]
    (note,) = sifting.notes(taken, sifting.counted_pairs(taken), Clocks(None))
    assert note.startswith("5 pairs of 25 count though the device did the candidate's side at")
    taken = [*[pair() for _ in range(20)], pair("baseline")]  # which moves no median
    assert sifting.notes(taken, sifting.counted_pairs(taken), Clocks(None)) == []


def test_a_slowdown_that_holds_for_both_sides_is_told_too(driver: FakeDriver) -> None:
    driver.reading(LOW, THERMAL | POWER_CAP)
    clocks = Clocks(driver.nvml)
    clocks.read()
    (note,) = sifting.notes([], [], clocks)
    assert note == "the device was slowed while timed: thermal slowdown by hardware"
    assert not POWER_CAP & HARD


# --- the bench draws anew


class Scripted:
    """Makes pairs as ``Pairing`` does, of which nothing is asked but their clocks."""

    def __init__(self, sides: list[Side | None]) -> None:
        self._sides = sides
        self.made = 0
        self.recheck_s = 0.0

    def pair(self, *_: Any) -> Pair:
        side = self._sides[self.made] if self.made < len(self._sides) else None
        self.made += 1
        return pair(side, 1000 + self.made)


def taken(protocol: str, sides: list[Side | None], clocks: Clocks) -> tuple[list[Pair], int]:
    """What a bench counts, and how many pairs were made for it."""
    bench: Any = object.__new__(Benchmark)
    bench._clocks, bench._notes = clocks, []
    bench._baseline = SimpleNamespace(settings=None)
    bench._batches = SimpleNamespace(calls=1, forget_ahead=lambda: None, may_change=False)
    job: Any = SimpleNamespace(protocol=protocol_named(protocol), bench_s=60.0)
    alone: Any = SimpleNamespace(due_s=lambda pairs, made: 1e-3 * made)
    bench._stopping_rule = StoppingRule(
        job, bench._batches, alone, lambda pairs: False, lambda pairs, s: "", bench._notes
    )
    pairing = Scripted(sides)
    return bench._stopping_rule.counted(bench._taken(pairing, 1)), pairing.made


def test_pairs_are_drawn_anew_for_those_that_were_set_aside(driver: FakeDriver) -> None:
    driver.reading(FULL)
    sides: list[Side | None] = [None, None, "candidate", "baseline", "candidate", "baseline"]
    most = PROTOCOLS["strict"].max_pairs
    counted, made = taken("strict", sides, Clocks(driver.nvml))
    assert (len(counted), made) == (most, most + 4)
    assert not any(p.slowed for p in counted)


def test_a_device_that_is_never_steady_starves_nobody() -> None:
    sides: list[Side | None] = ["candidate", "baseline"] * 2000
    counted, made = taken("strict", sides, Clocks(None))
    assert len(counted) == PROTOCOLS["strict"].max_pairs
    assert made <= 2 * len(counted)


@pytest.mark.parametrize("protocol", ["kernelbench", "paper"])
def test_protocols_of_others_set_nothing_aside(protocol: str) -> None:
    sides: list[Side | None] = ["candidate", "baseline"] * 50
    counted, made = taken(protocol, sides, Clocks(None))
    assert len(counted) == made == PROTOCOLS[protocol].max_pairs
