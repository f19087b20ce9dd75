"""Sections: their caps, their texts, and the arithmetic under the roof."""

from __future__ import annotations

import math

import msgspec
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from events.observations import (
    SECTIONS,
    Ceilings,
    Counter,
    Counters,
    Observations,
    Profile,
    ProfileRow,
    Work,
)
from events.outcomes import LABELS, Correct, Crashed, KernelResources, SetScore, WrongResult
from projections.candidate.roofline import roofline
from projections.candidate.sections import CAPS, SELECTED_CAPS, Attempt, cut, sections_of
from tests.thorough import examples

sizes = st.integers(0, 1 << 45)
works = st.builds(
    Work,
    input_bytes=sizes,
    output_bytes=sizes,
    parameter_bytes=sizes,
    flops=st.integers(0, 1 << 60),
    dtype=st.sampled_from(["float32", "bfloat16", "float64", ""]),
    uncounted=st.lists(st.text(max_size=20), max_size=8),
)
rates = st.floats(1e6, 1e16)
roofs = st.builds(
    Ceilings,
    bytes_per_s=rates,
    flops_per_s=st.dictionaries(st.sampled_from(["float32", "bfloat16"]), rates),
    measured_on=st.just("2026-11-21"),
)
runtimes = st.floats(1e-4, 1e6)


@given(works, roofs, runtimes)
def test_a_time_under_the_roof_reaches_the_roof_and_no_less_time_keeps_below_it(
    work: Work, ceilings: Ceilings, runtime_ms: float
) -> None:
    found = roofline(work, ceilings, runtime_ms)
    assert found.bytes_per_s * runtime_ms == pytest.approx(1e3 * work.moved_bytes)
    assert found.flops_per_s * runtime_ms == pytest.approx(1e3 * work.flops)
    shares = [s for s in (found.bytes_share, found.flops_share) if s is not None]
    assert found.least_ms is not None
    # The larger share is that part of the time that the roof would leave of it.
    assert found.least_ms == pytest.approx(max(shares) * runtime_ms, rel=1e-9, abs=0)
    assert (found.flops_share is None) == (work.dtype not in ceilings.flops_per_s)
    if found.least_ms > 1e-4:
        at_best = roofline(work, ceilings, found.least_ms)
        assert max(at_best.bytes_share or 0, at_best.flops_share or 0) == pytest.approx(1)
    if found.bound == "compute":
        assert found.flops_share is not None
        assert found.bytes_share is not None
        assert found.flops_share >= found.bytes_share * (1 - 1e-9)


@given(works, runtimes)
def test_without_ceilings_none_are_made_up(work: Work, runtime_ms: float) -> None:
    found = roofline(work, None, runtime_ms)
    assert (found.bytes_share, found.flops_share, found.least_ms, found.bound) == (None,) * 4


@pytest.mark.parametrize("runtime_ms", [0.0, -1.0, math.nan])
def test_no_time_at_all_is_refused(runtime_ms: float) -> None:
    work = Work(input_bytes=1, output_bytes=1, parameter_bytes=0, flops=0, dtype="float32")
    with pytest.raises(ValueError, match="a runtime of"):
        roofline(work, None, runtime_ms)


@given(st.text(), st.integers(-5, 400))
@example("ä" * 300, 101)
@example("x" * 300, 33)
def test_a_cut_text_fits_and_keeps_its_ends(text: str, most: int) -> None:
    text = text.encode(errors="replace").decode()
    short = cut(text, most)
    assert len(short.encode()) <= max(most, 0)
    assert (short == text) == (len(text.encode()) <= max(most, 0))
    if "left out" in short and "left out" not in text:
        head, _, tail = short.partition("\n[… ")
        assert text.startswith(head)
        assert text.endswith(tail.partition("left out …]\n")[2])


anything = st.text(st.characters(), max_size=200)
names = st.text(max_size=200)
amounts = st.integers(0, 1 << 53)
profiles = st.builds(
    Profile,
    what=st.sampled_from(["kernels", "operators"]),
    calls=st.integers(1, 1 << 53),
    wall_ns=amounts,
    own_ns=amounts,
    rows=st.lists(st.builds(ProfileRow, name=names, count=amounts, own_ns=amounts), max_size=12),
)
counters = st.builds(
    Counters,
    kernel=names,
    counters=st.lists(st.builds(Counter, name=names, value=names, unit=names), max_size=8),
)
observations = st.builds(
    Observations,
    difference=anything,
    work=st.none() | works,
    ceilings=st.none() | roofs,
    profile=st.none() | profiles,
    counters=st.none() | counters,
    missing=st.dictionaries(st.sampled_from(SECTIONS), anything),
)
CORRECT = Correct(
    runtime_ms=0.5, speedup=2.0, ratio=0.5, ratio_low=0.49, ratio_high=0.52, pairs=40,
    candidate_ms=0.51, baseline_ms=1.02, max_abs_error=2e-6, bounded_speedup=1.5,
    candidate_spread=0.034,
)  # fmt: skip
outcomes = st.sampled_from(
    [None, CORRECT, Crashed(reason="\x1b" * 300), WrongResult(reason="r", max_abs_error=1e300)]
)
logs = st.builds(lambda text, times: text * times, anything, st.sampled_from([1, 200]))


@settings(max_examples=examples(40))
@given(
    st.builds(
        Attempt,
        outcome=outcomes,
        runtime_ms=st.none() | runtimes,
        compile_log=logs,
        run_log=logs,
        resources=st.lists(
            st.builds(KernelResources, kernel=anything, registers=sizes), max_size=16
        ),
        observations=st.none() | observations,
    ),
    st.sets(st.sampled_from(SECTIONS)),
    st.sampled_from([CAPS, SELECTED_CAPS]),
)
def test_sections_are_those_asked_for_in_order_within_their_caps(
    attempt: Attempt, wanted: set[str], caps: dict[str, int]
) -> None:
    found = sections_of(attempt, wanted, caps)
    order = [section.name for section in found]
    assert order == [name for name in SECTIONS if name in order]
    assert set(order) <= wanted
    assert {"compiler", "execution"} & wanted <= set(order)
    for section in found:
        told = section.said + section.quoted
        assert len(told.encode()) <= caps[section.name]
        assert all(c.isprintable() or c in "\n\t" for c in told)


def told(attempt: Attempt) -> dict[str, tuple[str, str]]:
    return {section.name: (section.said, section.quoted) for section in sections_of(attempt)}


@pytest.mark.parametrize(
    ("eager", "line"),
    [
        (None, ""),
        (1.9, ""),
        (2.1, ""),
        (0.5, "and the host's work, the speedup is 0.5: 2.04 ms a call against 1.02 ms"),
    ],
    ids=["not measured", "a little less", "a little more", "half"],
)  # fmt: skip
def test_both_times_are_told_where_they_differ(eager: float | None, line: str) -> None:
    outcome = msgspec.structs.replace(
        CORRECT, eager_speedup=eager, eager_ms=2.04, eager_baseline_ms=1.02
    )
    said = told(Attempt(outcome=outcome, runtime_ms=0.5))["timing"][0]
    assert line in said
    assert ("plain Python loop" in said) == bool(line)
    assert len([each for each in said.splitlines() if "plain Python loop" in each]) == bool(line)


def test_what_a_correct_kernel_shows() -> None:
    seen = Observations(
        work=Work(
            input_bytes=1 << 20, output_bytes=1 << 20, parameter_bytes=0, flops=0,
            dtype="float32", uncounted=["relu"],
        ),
        ceilings=Ceilings(bytes_per_s=8e9, flops_per_s={}, measured_on="2026-11-21"),
        profile=Profile(
            what="kernels", calls=4, wall_ns=4_000_000, own_ns=2_000_000,
            rows=[ProfileRow(name="void f(float*)", count=8, own_ns=1_500_000)],
        ),
        missing={"counters": "no ncu"},
    )  # fmt: skip
    found = told(Attempt(outcome=CORRECT, runtime_ms=0.5, speedup=2.0, observations=seen))
    assert found["compiler"] == ("(no messages)", "")
    assert found["execution"] == ("correct: runtime 0.5 ms, 2 × the reference's speed", "")
    assert found["error"] == ("largest absolute error 2e-06", "")
    assert found["timing"][0].splitlines() == [
        "median 0.51 ms a call, of 40 pairs of timings; from the 5th to the 95th percentile"
        " 3.4% of it",
        "the reference beside it: 1.02 ms",
        "speedup 2, 95 % interval 1.923 to 2.041; at least 1.5 by the clock outside its process",
    ]
    assert found["roofline"][0].splitlines() == [
        "bandwidth: 4.19 GB/s, 52% of 8 GB/s",
        "under this roof: at least 0.262 ms, bound by memory; it takes 0.5 ms",
        "counted on the reference, at least: 2.1 MB moved once (inputs 1.05 MB, outputs 1.05 MB,"
        " parameters 0 B), 0 FLOP",
        "operations not counted: those of relu",
        "ceilings: reached on this device by a probe (copy or sum, matrix product), 2026-11-21",
    ]
    assert "at work for 50% of that" in found["profile"][0]
    assert found["profile"][1].splitlines()[1].split() == ["75.0%", "375", "2", "void", "f(float*)"]
    assert found["counters"] == ("(not observed)", "no ncu")
    assert "resources" not in found


def test_what_was_observed_on_the_first_input_set_stands_beside_its_time() -> None:
    sets = [
        SetScore(
            name=name, hidden=hidden, speedup=speedup, speedup_low=speedup, speedup_high=speedup,
            candidate_ms=9.0, baseline_ms=1.0,
        )
        for name, hidden, speedup in (("short", False, 4.0), ("secret", True, 0.5))
    ]  # fmt: skip
    seen = Observations(
        work=Work(input_bytes=1 << 20, output_bytes=0, parameter_bytes=0, flops=0, dtype="float32"),
        ceilings=Ceilings(bytes_per_s=8e9, flops_per_s={}, measured_on="2026-11-21"),
        profile=Profile(what="kernels", calls=1, wall_ns=1000, own_ns=1000, rows=[]),
    )  # fmt: skip
    outcome = msgspec.structs.replace(CORRECT, sets=sets)
    found = told(Attempt(outcome=outcome, runtime_ms=0.7, observations=seen))
    roofline = found["roofline"][0].splitlines()
    assert roofline[:2] == ["on input set 'short' alone:", "bandwidth: 4.19 GB/s, 52% of 8 GB/s"]
    assert roofline[2].endswith("it takes 0.25 ms")
    assert found["profile"][0].startswith("on input set 'short' alone:\n1 calls")
    assert "geometric means over the input sets" in found["timing"][0]
    assert not any("secret" in text for texts in found.values() for text in texts)


def test_labels_stand_below_the_figures_that_they_are_about() -> None:
    labels = ["not-gated", "torch-only"]
    said, _ = told(Attempt(outcome=msgspec.structs.replace(CORRECT, labels=labels)))["timing"]
    assert [line.partition(":")[0] for line in said.splitlines()[3:]] == [
        "label not-gated", "label torch-only",
    ]  # fmt: skip
    everything = Attempt(outcome=msgspec.structs.replace(CORRECT, labels=list(LABELS)))
    assert len(told(everything)["timing"][0].encode()) < CAPS["timing"], "none is cut off"


def test_what_a_wrong_one_shows() -> None:
    wrong = WrongResult(reason="off", trial=2, max_abs_error=7.0, max_rel_error=0.5)
    seen = Observations(difference="at (3, 5): expected 1, got -7")
    found = told(Attempt(outcome=wrong, run_log="hello\n", observations=seen))
    assert found == {
        "compiler": ("(no messages)", ""),
        "execution": ("wrong_result", "off\n\nhello"),
        "error": (
            "largest absolute error 7, largest relative error 0.5, in trial 2\n"
            "at (3, 5): expected 1, got -7",
            "",
        ),
    }
