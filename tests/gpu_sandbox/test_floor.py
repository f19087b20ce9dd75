"""What can't be, what is worth a label, and above all whom neither touches."""

from __future__ import annotations

from types import SimpleNamespace
from typing import cast

import msgspec
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from events.observations import Ceilings
from events.outcomes import Correct, Refused
from gpu_sandbox.api.statistics import Estimate
from gpu_sandbox.backends.cpu import cpu_cache_bytes
from gpu_sandbox.devices.peak_rates import raised
from gpu_sandbox.evaluate.speed_of_light import Load, Reach, beaten, rate_of, weighed
from gpu_sandbox.verifier.reference.cases import Case
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing.claim_rules import RESOLUTION_NS, timing_labels
from gpu_sandbox.verifier.timing.work_estimate import moved_bytes

GB = 10**9
PROBED = Ceilings(
    bytes_per_s=4e12, flops_per_s={"float32": 5e13, "tf32": 4e14}, measured_on="2026-11-22"
)
H200 = Reach(cache_bytes=50_000_000, sheet_bytes_per_s=4.8e12, probed=PROBED)
COPY = Load(input_bytes=GB, output_bytes=GB, rate="tf32")
WRITTEN_MS, MOVED_MS = 950e6 / 4.8e9, 1950e6 / 4.8e9


def timed(time_ms: float, reference_ms: float = 1.0) -> Correct:
    ratio = time_ms / reference_ms
    return Correct(
        runtime_ms=time_ms, speedup=1 / ratio, ratio=ratio, ratio_low=ratio, ratio_high=ratio,
        pairs=20, candidate_ms=time_ms, baseline_ms=reference_ms,
    )  # fmt: skip


def test_what_writes_faster_than_memory_is_no_score() -> None:
    refused, notes = weighed(timed(0.88 * WRITTEN_MS), COPY, H200)
    assert isinstance(refused, Refused)
    assert refused.label is None
    assert notes == []
    assert refused.reason == (
        "correct, but 5.74x is below the memory-bandwidth bound: 0.1742 ms a call can't be:"
        " 1000 MB of its outputs, of which caches hold 50 MB, take 0.1979 ms at 4800 GB/s"
    )


def test_what_reads_faster_than_memory_has_a_label_with_the_figures() -> None:
    outcome, notes = weighed(timed(0.92 * WRITTEN_MS), COPY, H200)
    assert isinstance(outcome, Correct)
    assert outcome.labels == ["below-floor"]
    assert notes == [
        "below-floor: 0.1821 ms a call, where 2000 MB of inputs and outputs, of which caches"
        " hold 50 MB, take 0.4062 ms at 4800 GB/s"
    ]
    assert weighed(timed(0.92 * MOVED_MS), COPY, H200) == (timed(0.92 * MOVED_MS), [])


def test_operations_count_where_they_take_longest() -> None:
    product = msgspec.structs.replace(COPY, flops=4 * 10**14)  # a second of TF32
    outcome, notes = weighed(timed(700.0, 3000.0), product, H200)
    assert isinstance(outcome, Correct)
    assert outcome.labels == ["below-floor"]
    assert "4e+05 GFLOP take 1000 ms at 400 TFLOP/s (tf32)" in notes[0]
    assert weighed(timed(800.0, 3000.0), product, H200)[1] == []
    unknown = msgspec.structs.replace(product, rate="float64")
    assert weighed(timed(700.0, 3000.0), unknown, H200)[1] == []


def test_a_probe_alone_refuses_nobody_and_labels_later() -> None:
    """It may have met a busy device."""
    unlisted = msgspec.structs.replace(H200, sheet_bytes_per_s=None)
    outcome, notes = weighed(timed(0.001), COPY, unlisted)
    assert isinstance(outcome, Correct)
    assert outcome.labels == ["below-floor"]
    assert "at 4000 GB/s" in notes[0]
    at_half = timed(0.8 * 1950e6 / 4e9)
    assert weighed(at_half, COPY, unlisted) == (at_half, [])


def test_a_probe_that_met_a_busy_device_gives_way_to_the_data_sheet() -> None:
    slow = msgspec.structs.replace(PROBED, bytes_per_s=1e12)
    busy = msgspec.structs.replace(H200, probed=slow)
    honest = timed(0.95 * MOVED_MS)
    assert weighed(honest, COPY, busy) == (honest, [])


@pytest.mark.parametrize(
    "reach", [Reach(), Reach(cache_bytes=0), Reach(sheet_bytes_per_s=4.8e12, probed=PROBED)]
)
def test_where_nothing_is_known_nothing_is_said(reach: Reach) -> None:
    assert weighed(timed(1e-6), COPY, reach) == (timed(1e-6), [])


def test_what_the_caches_may_hold_costs_nothing() -> None:
    small = Load(input_bytes=25_000_000, output_bytes=25_000_000)
    assert weighed(timed(1e-6), small, H200) == (timed(1e-6), [])


def test_a_floor_that_the_reference_is_below_is_none() -> None:
    """Whatever made it so fast: the reader is not to be told that it was the candidate."""
    both = timed(0.1, reference_ms=0.15)
    assert weighed(both, COPY, H200) == (both, [])


sizes = st.integers(0, 1 << 40)
rates = st.floats(1e6, 1e16)


@given(
    st.builds(Load, input_bytes=sizes, output_bytes=sizes, flops=sizes, rate=st.just("tf32")),
    st.builds(
        Reach,
        cache_bytes=st.none() | sizes,
        sheet_bytes_per_s=st.none() | rates,
        probed=st.none() | st.just(PROBED),
    ),
    st.floats(1e-3, 1e4),
    st.floats(1.0, 100.0),
)
def test_what_is_no_faster_than_the_reference_is_let_alone(
    load: Load, reach: Reach, reference_ms: float, times: float
) -> None:
    outcome = timed(reference_ms * times, reference_ms)
    assert weighed(outcome, load, reach) == (outcome, [])


def test_operations_go_by_the_fastest_honest_rate() -> None:
    assert rate_of("float32", "float32", has_tf32=False) == "float32"
    assert rate_of("float32", "float32", has_tf32=True) == "tf32", "cuDNN's convolutions"
    assert rate_of("float32", "tf32", has_tf32=True) == "tf32"
    assert rate_of("float32", "bf16", has_tf32=True) == "bfloat16"
    assert rate_of("float16", "float32", has_tf32=True) == "float16"


X, Y, MODEL = torch.rand(8, 4), torch.rand(8, 4), torch.nn.Linear(4, 4)


@pytest.mark.parametrize(
    ("outputs", "aliasing", "written"),
    [
        ([Y], [False], 128),
        ([Y, Y.view(4, 8)], [False, False], 128),  # one of them is a view of the other
        (list(Y.chunk(2)), [False, False], 128),
        ([X.t().clone(), Y], [True, False], 128),  # as the verifier keeps a view of an input
        ([MODEL.weight.detach(), Y[:1]], [False, False], 16),
        ([torch.zeros(1).expand(1000)], [False], 4),
        ([torch.eye(4).to_sparse()], [False], 0),
    ],
)
def test_only_what_has_to_be_written_counts(
    outputs: list[torch.Tensor], aliasing: list[bool], written: int
) -> None:
    expected = [SimpleNamespace(native=output) for output in outputs]
    kept = [False] * len(outputs)
    case = SimpleNamespace(tensors=[X, X], expected=expected, aliasing=aliasing, state=kept)
    task = SimpleNamespace(model=MODEL)
    assert moved_bytes(cast(Task, task), cast(Case, case)) == (128, written)


PRODUCT = Load(input_bytes=0, output_bytes=0, flops=4 * 10**11, rate="tf32")  # a ms at the ceiling


@pytest.mark.parametrize(
    ("time_ms", "reference_ms", "load", "reach", "is_beaten"),
    [
        (0.9, 2.0, PRODUCT, H200, True),
        (0.97, 2.0, PRODUCT, H200, False),  # noise
        (0.9, 2.0, PRODUCT, Reach(), False),  # no ceiling
        (0.9, 2.0, msgspec.structs.replace(PRODUCT, rate="float64"), H200, False),
        (2.0, 0.9, PRODUCT, H200, True),  # by the reference
        (0.9 * 1950e6 / 4e9, 1.0, COPY, H200, True),
        (0.97 * 1950e6 / 4e9, 1.0, COPY, H200, False),
        (1e-6, 1.0, Load(input_bytes=25_000_000, output_bytes=25_000_000), H200, False),  # a cache
        (1e-6, 1.0, COPY, msgspec.structs.replace(H200, cache_bytes=None), False),
    ],
)
def test_a_ceiling_is_beaten_by_more_than_noise(
    time_ms: float, reference_ms: float, load: Load, reach: Reach, is_beaten: bool
) -> None:
    assert beaten(timed(time_ms, reference_ms), load, reach) == is_beaten


def test_a_wide_interval_beats_no_ceiling() -> None:
    wide = msgspec.structs.replace(timed(0.5, 2.0), ratio_high=0.6)
    assert not beaten(wide, PRODUCT, H200)


def test_a_higher_ceiling_takes_the_old_ones_place_figure_by_figure() -> None:
    new = Ceilings(
        bytes_per_s=5e12, flops_per_s={"float32": 4e13, "float16": 1e15}, measured_on="2026-11-23",
        measured_at="2026-11-23T10:00:00Z",
    )  # fmt: skip
    assert raised(PROBED, new) == msgspec.structs.replace(
        new, flops_per_s={"float32": 5e13, "tf32": 4e14, "float16": 1e15}
    )
    lower = msgspec.structs.replace(new, bytes_per_s=1e12, flops_per_s={"tf32": 4e14})
    assert raised(PROBED, lower) is None


def test_caches_are_counted_once() -> None:
    held = cpu_cache_bytes()
    assert held is None or 1 << 15 <= held < 1 << 36


# --- what the way that it was timed tells


def within(half_width: float, ratio: float = 0.5) -> Estimate:
    return Estimate(ratio, ratio * (1 - half_width), ratio * (1 + half_width))


@pytest.mark.parametrize(
    ("half_width", "each_ns", "labelled"),
    [
        (0.02, 5_000.0, True),  # 100 ns of 5 us
        (0.008, 5_000.0, False),  # narrow enough for what a figure is read to
        (0.02, 100_000.0, False),  # 2 us of 100: noise
    ],
)
def test_an_interval_that_the_clock_left_wide(
    half_width: float, each_ns: float, labelled: bool
) -> None:
    assert (half_width * each_ns < RESOLUTION_NS) == (labelled or half_width < 0.01)
    found = timing_labels(within(half_width), each_ns, "")
    assert list(found) == (["below-resolution"] if labelled else [])
    assert timing_labels(within(0.02), 5_000.0, "")["below-resolution"] == (
        "of calls of 5 us, readings tell the ratio to within 2.0% only"
    )


def test_no_gate_is_said_with_the_reason() -> None:
    assert timing_labels(within(0.001), 1e6, "calls this short") == {
        "not-gated": "no gate has checked its time: calls this short"
    }
