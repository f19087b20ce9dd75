"""When pairs are enough: who is late where it is not timed does not have fewer of them."""

from __future__ import annotations

import math
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_sandbox.child.bench import Bench
from gpu_sandbox.child.conversation import Ended
from gpu_sandbox.child.pairs import Pair
from gpu_sandbox.child.releases import Released
from gpu_sandbox.jobs import WorkerSilent
from gpu_sandbox.messages import Ran
from gpu_sandbox.protocols import protocol_named

BENCH_S = 1.0
PATIENCE_S = 3.0


def pair(candidate_us: float, number: int) -> Pair:
    candidate, baseline = (
        Released(int(us * 1e3), int(us * 1e3), 0, [], Ran(tree=None, leaves=[]))
        for us in (candidate_us, 1000.0)
    )
    return Pair(candidate, baseline, bool(number % 2))


def bench(*, due_s: float, late_at_s: float = math.inf, changed_in: int = 0) -> Any:
    """Of pairs that ought to take so long each; its baseline's releases had changed inputs so
    often."""
    made: Any = object.__new__(Bench)
    made._notes = []
    made._job = SimpleNamespace(protocol=protocol_named("strict"), bench_s=BENCH_S)
    made._releases = SimpleNamespace(calls=1, has_changed=lambda wanted: changed_in >= wanted)
    made._alone = SimpleNamespace(
        due_s=lambda pairs, number: due_s * number,
        late=lambda pairs, number, spent_s: "late" if spent_s > late_at_s else "",
    )
    made._settled = lambda pairs: False
    return made


def pairs(number: int) -> list[Pair]:
    return [pair(1000.0, n) for n in range(number)]


@pytest.mark.parametrize("each_s", [0.25, 2.0])
def test_of_slow_ones_there_are_as_many_as_they_ought_to_take(each_s: float) -> None:
    """Whatever they do take: a machine may be slow, too."""
    affordable = math.ceil(PATIENCE_S / each_s)
    made = bench(due_s=each_s, changed_in=9)
    for number in range(1, affordable):
        assert not made._is_enough(pairs(number), number, 100.0)
    assert made._is_enough(pairs(affordable), affordable, 0.1)
    assert made._notes == [f"only {affordable} pairs: the time was up"]


def test_who_is_late_is_ended() -> None:
    made = bench(due_s=0.25, changed_in=9, late_at_s=8.0)
    assert not made._is_enough(pairs(2), 2, 7.9)
    with pytest.raises(Ended) as ended:
        made._is_enough(pairs(3), 3, 8.1)
    assert isinstance(ended.value.finding, WorkerSilent)


@pytest.mark.parametrize(("each_s", "wanted"), [(0.01, 5), (0.2, 3), (0.3, 3)])
def test_some_have_changed_inputs_if_any_can(each_s: float, wanted: int) -> None:
    """Not for ever: the reference may not take what was drawn."""
    number = min(20, math.ceil(PATIENCE_S / each_s))
    assert bench(due_s=each_s, changed_in=wanted)._is_enough(pairs(number), number, 2.0)
    few = bench(due_s=each_s, changed_in=wanted - 1)
    assert not few._is_enough(pairs(number), number, 2.0)
    assert few._is_enough(pairs(number), 3 * number, 2.0)


def test_who_is_fast_in_some_calls_only_is_scored_by_the_mean() -> None:
    made = bench(due_s=0.01)
    assert made._by_turns([pair(1000.0 + n % 5, n) for n in range(20)], 1.0) == 1.0
    assert made._by_turns([pair(20_000.0 if n < 2 else 1000.0, n) for n in range(20)], 1.0) == 1.0
    by_turns = [pair(1000.0 if n % 5 < 2 else 100.0, n) for n in range(20)]
    assert made._by_turns(by_turns, 0.6) == 1.0, "it is scored by more: the outer clock's"
    assert made._notes == []
    assert made._by_turns(by_turns, 0.1) == pytest.approx(4.4, rel=0.2)
    assert made._by_turns(by_turns, 0.2) == pytest.approx(2.2, rel=0.2)
    (note, _) = made._notes
    assert note.startswith("its calls take now less, now more: scored by their mean")


def test_a_protocol_of_means_has_them_already() -> None:
    made = bench(due_s=0.01)
    made._job.protocol = protocol_named("paper")
    by_turns = [pair(1000.0 if n % 5 < 2 else 100.0, n) for n in range(20)]
    assert made._by_turns(by_turns, 0.1) == 1.0
    assert made._notes == []
