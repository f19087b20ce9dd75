"""When pairs are enough: who is late where it is not timed does not have fewer of them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

import pytest

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.ipc.verifier_messages import WorkerSilent
from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.timing.stopping_rule import StoppingRule
from gpu_sandbox.verifier.worker_link.requests import Ended

BENCH_S = 1.0
PATIENCE_S = 3.0


def pair(candidate_us: float, number: int, *, changed: bool = False) -> Pair:
    candidate, baseline = (
        TimedBatch(int(us * 1e3), int(us * 1e3), 0, [], Ran(tree=None, leaves=[]))
        for us in (candidate_us, 1000.0)
    )
    return Pair(candidate, baseline, bool(number % 2), changed=changed)


def enough(
    *, due_s: float, late_at_s: float = math.inf, may_change: bool = True, notes: list[str]
) -> StoppingRule:
    """Of pairs that ought to take so long each."""
    job: Any = SimpleNamespace(protocol=protocol_named("strict"), bench_s=BENCH_S)
    releases: Any = SimpleNamespace(calls=1, may_change=may_change)
    alone: Any = SimpleNamespace(due_s=lambda pairs, number: due_s * number)

    def late(pairs: Sequence[Pair], spent_s: float) -> str:
        return "late" if spent_s > late_at_s else ""

    return StoppingRule(job, releases, alone, lambda pairs: False, late, notes)


def pairs(number: int, changed: int = 99) -> list[Pair]:
    return [pair(1000.0, n, changed=n < changed) for n in range(number)]


@pytest.mark.parametrize("each_s", [0.25, 2.0])
def test_of_slow_ones_there_are_as_many_as_they_ought_to_take(each_s: float) -> None:
    """Whatever they do take: a machine may be slow, too."""
    affordable = math.ceil(PATIENCE_S / each_s)
    notes: list[str] = []
    made = enough(due_s=each_s, may_change=False, notes=notes)
    for number in range(1, affordable):
        assert not made.reached(pairs(number), 100.0)
    assert made.reached(pairs(affordable), 0.1)
    assert notes == [f"only {affordable} pairs: the time was up"]


def test_who_is_late_is_ended() -> None:
    made = enough(due_s=0.25, late_at_s=8.0, notes=[])
    assert not made.reached(pairs(2), 7.9)
    with pytest.raises(Ended) as ended:
        made.reached(pairs(3), 8.1)
    assert isinstance(ended.value.finding, WorkerSilent)


@pytest.mark.parametrize(("each_s", "wanted"), [(0.01, 5), (0.2, 3), (0.3, 3)])
def test_some_have_changed_inputs_if_any_can(each_s: float, wanted: int) -> None:
    """Not for ever: the reference may not take what was drawn."""
    number = min(20, math.ceil(PATIENCE_S / each_s))
    made = enough(due_s=each_s, notes=[])
    assert made.reached(pairs(number, wanted), 2.0)
    assert not made.reached(pairs(number, wanted - 1), 2.0)
    assert not made.reached(pairs(3 * number - 1, wanted - 1), 2.0)
    assert made.reached(pairs(3 * number, wanted - 1), 2.0)
