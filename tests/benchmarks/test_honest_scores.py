"""Scores beside true speedups: the arithmetic, and what the cases have in common."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from benchmarks.honest_figures import (
    Activity,
    MarkersMissing,
    Row,
    call_ns,
    claimed_speedup,
    quantile,
    rows_of,
    summary,
    table,
    true_speedup,
)
from benchmarks.honest_scores import CASES, Case, cases, interleaved

SPIN = "void at::cuda::(anonymous namespace)::spin_kernel(long)"


def call(start: int, *work: tuple[int, int], kind: str = "kernel") -> list[Activity]:
    """A fill, a marker of 100 ns, work of (start, duration) after it, and a marker at 1000."""
    return [
        Activity("fill", start - 50, 40, "kernel"),
        Activity(SPIN, start, 100, "kernel"),
        *(Activity("k", start + 100 + at, took, kind) for at, took in work),
        Activity(SPIN, start + 1000, 1, "kernel"),
    ]


def test_a_call_lasts_from_its_first_start_to_its_last_end() -> None:
    activities = call(5000, (10, 20), (15, 300), (40, 5)) + call(0, (3, 7))
    assert call_ns(activities, 2) == [7, 305]


def test_what_lies_before_and_behind_the_markers_is_none_of_the_call() -> None:
    copy = Activity("Memcpy DtoD", -500, 300, "gpu_memcpy")
    assert call_ns([copy, *call(0, (3, 7)), Activity("copy", 1100, 9, "gpu_memcpy")], 1) == [7]


def test_copies_and_fills_are_work_and_annotations_are_not() -> None:
    assert call_ns(call(0, (3, 7), kind="gpu_memset"), 1) == [7]
    annotated = [*call(0, (3, 7)), Activity("region", 101, 800, "gpu_user_annotation")]
    assert call_ns(annotated, 1) == [7]


def test_activities_of_unknown_kind_all_count() -> None:
    assert call_ns(call(0, (3, 7), kind=""), 1) == [7]


def test_a_profile_that_lost_a_marker_is_no_measurement() -> None:
    with pytest.raises(MarkersMissing, match="expected 4 markers of 2 calls; the profile has 3"):
        call_ns(call(0, (3, 7)) + call(5000, (3, 7))[:-1], 2)


def test_a_call_that_did_nothing_is_no_measurement() -> None:
    with pytest.raises(MarkersMissing, match="call 1 shows no device activity"):
        call_ns(call(0, (3, 7)) + call(5000), 2)


def test_quantiles_lie_between_the_nearest_values() -> None:
    assert quantile([3.0, 1.0, 2.0], 0.5) == 2.0
    assert quantile([1.0, 2.0], 0.25) == 1.25
    assert quantile([4.0], 0.95) == 4.0


def test_the_true_speedup_is_the_median_of_rounds() -> None:
    assert true_speedup([10.0, 20.0, 30.0], [10.0, 5.0, 15.0]) == 2.0


def test_a_disputed_claim_is_read_from_the_notes() -> None:
    why = "timing disputed: 0.19x by the verifier's clock, 1.19x by the candidate's own clock"
    assert claimed_speedup(["other", f"{why}; the lower counts"]) == 1.19
    assert claimed_speedup(["others on the device"]) is None


def found(candidate_us: float, true: float, scored: float, name: str = "x") -> Row:
    return Row(name, "k", 2 * candidate_us, candidate_us, true, scored, scored, "correct", "")


def test_long_and_short_candidates_are_held_to_limits_of_their_own() -> None:
    rows = [found(20.0, 1.0, 1.04), found(100.0, 2.0, 2.2), found(19.0, 1.0, 0.9)]
    told = "\n".join(summary(rows))
    assert "of 20 µs and more: 1 of 2 (50%) within 5%" in told
    assert "below 20 µs: 1 of 1 (100%) within 15%" in told


def test_a_score_is_beyond_whichever_way_it_is_off() -> None:
    rows = [found(30.0, 1.0, 0.5, "slow"), found(30.0, 1.0, 1.4, "fast"), found(30.0, 1.0, 1.0)]
    assert "worst: 0.500 (slow); beyond 1.3: 2" in summary(rows)


def test_what_is_not_correct_is_counted_with_its_reason() -> None:
    truths = {
        "a": {"eager_us": 9.0, "candidate_us": 8.0, "speedup": 1.125, "notes": ["launches"]},
        "b": {"failed": "MarkersMissing: none"},
    }
    scores = {
        "a": {"outcome": "correct", "speedup": 0.2, "claimed": 1.1, "labels": ["torch-only"]},
        "b": {"outcome": "wrong_result", "reason": "off by 1e-3"},
    }
    rows = rows_of({"b": "cuda", "c": "cuda", "a": "triton"}, truths, scores)
    assert [row.name for row in rows] == ["b", "c", "a"]
    assert summary(rows)[-2:] == [
        "not correct: 1, not scored: 1, without truth: 2",
        "  b: truth: MarkersMissing: none; wrong_result: off by 1e-3",
    ]
    line = table(rows).splitlines()[-1].split("  ")
    assert [cell.strip() for cell in line if cell] == [
        "a", "triton", "9.0", "8.0", "1.125", "1.100", "0.200", "0.178", "launches; torch-only",
    ]  # fmt: skip


def test_what_builds_goes_by_turns_with_what_does_not() -> None:
    builds = [Case(Path(name), "k", name.isupper()) for name in ("A", "B", "c", "d", "e")]
    assert [case.name for case in interleaved(builds)] == ["A", "c", "B", "d", "e"]


# --- the cases themselves


def test_there_are_forty_cases_of_ten_kinds() -> None:
    found = cases()
    assert len(found) >= 40
    assert len({case.kind for case in found}) >= 10
    assert [case.name for case in cases("triton_*", "triton")] == [
        case.name for case in found if case.name.startswith("triton_") and case.kind == "triton"
    ]


@pytest.mark.parametrize("case", cases(), ids=lambda case: case.name)
def test_a_case_is_a_task_and_a_candidate_that_say_what_they_are(case: Case) -> None:
    task, kernel = (ast.parse((case.folder / f).read_text()) for f in ("task.py", "kernel.py"))
    for tree in (task, kernel):
        assert len((ast.get_docstring(tree) or "").splitlines()) == 1
    assert {"Model", "get_inputs", "get_init_inputs"} <= names(task)
    assert "ModelNew" in names(kernel)
    assert arguments(task, "Model") == arguments(kernel, "ModelNew")


def names(tree: ast.Module) -> set[str]:
    return {s.name for s in tree.body if isinstance(s, (ast.ClassDef, ast.FunctionDef))}


def arguments(tree: ast.Module, name: str) -> list[str]:
    """Of the constructor."""
    (made,) = (s for s in tree.body if isinstance(s, ast.ClassDef) and s.name == name)
    for part in made.body:
        if isinstance(part, ast.FunctionDef) and part.name == "__init__":
            return [argument.arg for argument in part.args.args]
    return ["self"]


def test_no_two_candidates_share_a_source() -> None:
    """Names, numbers and texts apart."""
    sources: dict[str, str] = {}
    for case in cases():
        shape = skeleton((case.folder / "kernel.py").read_text())
        assert shape not in sources, f"{case.name} is {sources[shape]}"
        sources[shape] = case.name
    assert len(sources) == len(list(CASES.glob("*/task.py")))


def skeleton(source: str) -> str:
    """The source without its docstring and KIND, digits and white space."""
    tree = ast.parse(source)
    body = [s for s in tree.body if not (isinstance(s, ast.Expr) or "KIND" in ast.unparse(s)[:4])]
    text = ast.unparse(ast.Module(body, []))
    return "".join(c for c in text if not c.isdigit() and not c.isspace())
