"""What a pair says of the candidate's time if nothing that it says is believed."""

from __future__ import annotations

import pytest

from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.claim_rules import labels_on_cpu
from gpu_sandbox.verifier.timing.pairs import Pair


def released(reported_ns: int, wall_ns: int, cpu_ns: int, other_side_ns: int = 0) -> TimedBatch:
    last = Ran(tree=None, leaves=[])
    return TimedBatch(reported_ns, wall_ns, 0, [], last, cpu_ns=cpu_ns, other_side_ns=other_side_ns)


def pair(other_side_ns: int = 0) -> Pair:
    return Pair(released(100, 1000, 800), released(300, 900, 700, other_side_ns), first=True)


@pytest.mark.parametrize(
    ("other_side_ns", "max_overhead_ns", "bound_ns"),
    [(0, 1e9, 400), (100, 1e9, 500), (0, 450, 550)],
)
def test_of_the_baselines_rest_what_is_the_candidates_doing_is_not_believed(
    other_side_ns: int, max_overhead_ns: float, bound_ns: float
) -> None:
    assert pair(other_side_ns).wall_bound_ns(max_overhead_ns) == bound_ns


@pytest.mark.parametrize(
    ("handled_ns", "copied_ns", "bound_ns"),
    [(0, 0, 400_000), (425_000, 0, 400_000), (825_000, 0, 640_000), (825_000, 500_000, 400_000)],
)
def test_nobody_is_through_before_an_output_like_his_is_told_of(
    handled_ns: int, copied_ns: int, bound_ns: float
) -> None:
    """To list tensors is needed by any worker; to copy scattered ones is not, if one's own are not
    scattered."""
    last = Ran(tree=None, leaves=[])
    candidate = TimedBatch(100_000, 1_000_000, 0, [], last)
    told = TimedBatch(
        300_000, 900_000 + handled_ns, 0, [], last, handled_ns=handled_ns, copied_ns=copied_ns
    )
    rest = told.overhead_ns
    assert rest == 600_000 + min(handled_ns, 25_000)
    sure = Pair(candidate, told, first=True).wall_bound_ns(600_000)
    assert sure == bound_ns


@pytest.mark.parametrize(("max_overhead_ns", "bound_ns"), [(1e9, 400), (300, 500)])
def test_the_processor_time_besides_calls_has_a_limit_too(
    max_overhead_ns: float, bound_ns: float
) -> None:
    assert pair().cpu_bound_ns(max_overhead_ns) == bound_ns


@pytest.mark.parametrize(
    ("uncertainty_ns", "output_ns", "each_ns", "told"),
    [
        (0, 0, 10e6, None),
        (0, 0, 0.5e6, "15%"),
        (425e3, 0, 10e6, "5%"),
        (0, 425e3, 10e6, "5%"),
        (0, 0, 1.6e6, None),
    ],
)
def test_a_short_call_says_how_closely_it_is_checked(
    uncertainty_ns: float, output_ns: float, each_ns: float, told: str | None
) -> None:
    """By what the outer clock is off, and by what a worker may leave out, of the faster side."""
    labels = labels_on_cpu(uncertainty_ns, output_ns, each_ns)
    assert (told is None) == (labels == {})
    assert told is None or labels["below-resolution"].endswith(told)
