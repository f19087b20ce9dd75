"""How often a claim is looked at behind gates, and which looks count."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from gpu_sandbox.api.statistics import Estimate
from gpu_sandbox.verifier.timing import gate_benchmark as passages
from gpu_sandbox.verifier.timing.gate_benchmark import GateBenchmark
from gpu_sandbox.verifier.timing.wall_clock_bound import GateCalibration, Judgement

EMPTY_NS, CALLS_NS = 950_000.0, 75_000.0
SLOWER_NS = 95_000.0
"""Than usual, on both sides: much beside the calls, little beside a release."""
BEFORE = Judgement(claim=1.0, found=Estimate(1.0, 0.99, 1.01), at_most=5.0)
PASSAGE = GateCalibration(
    together=False,
    calls=32,
    empty_ns=EMPTY_NS,
    noise_ns=9000.0,
    usual_ns=EMPTY_NS + CALLS_NS,
    warm_ns=CALLS_NS,
    cold_ns=120_000.0,
    crypt_ns=14_000.0,
    reading_ns=1000.0,
)


class Looks:
    """A pairing whose walls are those of a candidate and a baseline, look by look."""

    def __init__(self, walls: Iterator[tuple[float, float]]) -> None:
        self._walls = walls
        self.indices: list[int] = []

    def gated_walls_ns(self, gated: Any, index: int) -> tuple[float, float]:
        self.indices.append(index)
        return next(self._walls)


def judged(monkeypatch: pytest.MonkeyPatch, looks: Looks, seconds: float = 60.0) -> Judgement:
    gated = SimpleNamespace(let_go=lambda: None)
    monkeypatch.setattr(GateBenchmark, "_calibrated", lambda self, calls: [(gated, PASSAGE)])
    monkeypatch.setattr(passages, "_PAUSE_S", 0.001)
    anything: Any = None
    made = GateBenchmark(anything, anything, anything, torch.device("cuda"), anything, 32, 4000.0)
    peer: Any = SimpleNamespace(queues=True)
    pairing: Any = looks
    made.reported(4000.0)
    return made.judge(pairing, peer, BEFORE, seconds)


def walls(*spells: tuple[int, float, float]) -> Iterator[tuple[float, float]]:
    """So many looks in which candidate and baseline take so much more than usual; the last for
    ever."""
    usual = EMPTY_NS + CALLS_NS
    for count, mine, theirs in spells:
        for _ in range(count):
            yield usual + mine, usual + theirs
    while True:
        yield usual + spells[-1][1], usual + spells[-1][2]


def test_who_takes_what_it_claims_is_cleared_by_the_first_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Looks(walls((1, 0.0, 0.0)))
    assert judged(monkeypatch, looks).note == ""
    assert len(looks.indices) == PASSAGE.min_batches


def test_a_machine_that_is_slow_for_a_while_is_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(walls((3 * PASSAGE.min_batches, SLOWER_NS, SLOWER_NS), (1, 0.0, 0.0)))
    assert judged(monkeypatch, looks).note == ""
    assert len(looks.indices) == len(set(looks.indices)) == 4 * PASSAGE.min_batches


def test_who_alone_takes_more_is_scored_by_the_first_looks(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = Looks(walls((3 * PASSAGE.min_batches, SLOWER_NS, 0.0), (1, 0.0, 0.0)))
    found = judged(monkeypatch, looks)
    assert found.found.ratio > 1.25
    assert "timing disputed" in found.note
    assert len(looks.indices) == 3 * PASSAGE.min_batches


def test_who_slows_the_baseline_gains_nothing_by_it(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(walls((1, SLOWER_NS, SLOWER_NS)))
    found = judged(monkeypatch, looks)
    alone = judged(monkeypatch, Looks(walls((1, SLOWER_NS, 0.0))))
    assert found.found.ratio == alone.found.ratio
    assert len(looks.indices) == passages._MAX_TRIES * 3 * PASSAGE.min_batches


def test_it_is_not_waited_for_longer_than_there_is_time(monkeypatch: pytest.MonkeyPatch) -> None:
    looks = Looks(walls((1, SLOWER_NS, SLOWER_NS)))
    assert judged(monkeypatch, looks, seconds=0.0).note
    assert len(looks.indices) == 3
