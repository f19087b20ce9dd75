"""What a ratio is multiplied with: who takes now less, now more is scored by the mean. And what no
call can do without is measured twice before it is held against anybody."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.ipc.values import Plain
from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.timing.score import Score
from tests.gpu_sandbox.test_enough import pair

LAST = Ran(tree=Plain(value=None), leaves=[])


def score(
    protocol: str,
    notes: list[str],
    disturbance: float = 1.0,
    least: Callable[[], float] = lambda: 0.0,
) -> Score:
    alone: Any = SimpleNamespace(
        disturbance=lambda pairs: disturbance, overhead_ns=0, max_overhead_ns=0.0
    )
    return Score(protocol_named(protocol), torch.device("cpu"), 1, alone, least, notes)


def test_who_is_fast_in_some_calls_only_is_scored_by_the_mean() -> None:
    notes: list[str] = []
    strict = score("strict", notes)
    assert strict.allowance([pair(1000.0 + n % 5, n) for n in range(20)], 1.0) == 1.0
    assert strict.allowance([pair(2e4 if n < 2 else 1000.0, n) for n in range(20)], 1.0) == 1.0
    by_turns = [pair(1000.0 if n % 5 < 2 else 100.0, n) for n in range(20)]
    assert strict.allowance(by_turns, 0.6) == 1.0, "it is scored by more: the outer clock's"
    assert notes == []
    assert strict.allowance(by_turns, 0.1) == pytest.approx(4.4, rel=0.2)
    assert strict.allowance(by_turns, 0.2) == pytest.approx(2.2, rel=0.2)
    assert [note.split(" (")[0] for note in notes] == [
        "bimodal call times: scored by the trimmed mean"
    ] * 2


@pytest.mark.parametrize("protocol", ["kernelbench", "paper"])
def test_who_publishes_means_has_them_already(protocol: str) -> None:
    by_turns = [pair(1000.0 if n % 5 < 2 else 100.0, n) for n in range(20)]
    assert score(protocol, []).allowance(by_turns, 0.1) == 1.0


def test_who_slows_the_baseline_is_charged_with_it() -> None:
    notes: list[str] = []
    steady = [pair(1000.0 + n % 5, n) for n in range(20)]
    assert score("strict", notes, 1.1).allowance(steady, 1.0) == 1.0
    assert notes == []
    assert score("strict", notes, 1.5).allowance(steady, 1.0) == 1.5
    (note,) = notes
    assert note.startswith("the baseline takes 1.50 times as long while the candidate's process")


@pytest.mark.parametrize(
    ("looks_ns", "ratio", "told"),
    [([9e5, 9e5], 0.9, 1), ([9e5, 3e5], 0.5, 0), ([3e5], 0.5, 0), ([3e6, 3e6], 1.0, 1)],
)
def test_what_writing_takes_is_measured_again_before_it_decides(
    looks_ns: list[float], ratio: float, told: int
) -> None:
    """Once the device may have been slow; and nobody is held to more than the baseline takes."""
    left, notes = list(looks_ns), list[str]()
    strict = score("strict", notes, least=lambda: left.pop(0))
    found = strict.scored([pair(500.0, n) for n in range(8)])
    assert found.ratio == pytest.approx(ratio)
    assert not left
    assert len(notes) == told


@pytest.mark.parametrize(
    ("gates_decide", "call_ns", "stands"),
    [(False, 10_000.0, False), (True, 10_000.0, True), (True, 2e6, False)],
)
def test_walls_of_pairs_bound_no_short_call_where_a_gate_decides(
    gates_decide: bool, call_ns: float, stands: bool
) -> None:
    """A release of short calls is as long as the host takes; of long ones it is what they take."""
    notes: list[str] = []
    made = score("strict", notes)
    made.gates_decide = gates_decide
    pairs = [late(call_ns, n) for n in range(20)]
    claim = made.reported(pairs).ratio
    assert claim == pytest.approx(1.0)
    assert (made.scored(pairs).ratio == pytest.approx(claim)) == stands
    assert made.is_corroborated(pairs) == stands
    assert (notes == []) == stands


def late(call_ns: float, number: int) -> Pair:
    """Both sides claim the same; the candidate's release is four times as long."""
    claimed = TimedBatch(int(call_ns), int(call_ns), 0, [], LAST, cpu_ns=int(call_ns))
    longer = msgspec.structs.replace(claimed, wall_ns=int(4 * call_ns), cpu_ns=int(4 * call_ns))
    return Pair(longer, claimed, bool(number % 2))
