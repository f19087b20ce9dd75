"""Several engines beside one, on the CPU; and the arithmetic of their rates and waits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from benchmarks.engine_process import Judgement, kinds_on, pairs_of
from benchmarks.engines_together import figures, main, summary


def judgement(
    asked: float, ended: float, wait_s: float = 0.0, outcome: str = "correct"
) -> Judgement:
    return Judgement("torch", asked, ended, outcome, "", wait_s, {"lease": 1.0})


def test_a_rate_is_of_the_time_in_which_all_workers_have_work() -> None:
    """One verdict a second, but for the first and the last."""
    starts = [100.0, 100.0, *(float(second) for second in range(110, 120))]
    judged = [judgement(start, 110.0 + number) for number, start in enumerate(starts)]
    judged[-1] = judgement(119.0, 160.0)
    found = figures(judged, go=100.0, in_flight=2)
    assert found["per_hour"] == pytest.approx(3600.0)
    assert found["whole_per_hour"] == pytest.approx(3600 * 12 / 60)


def test_few_verdicts_are_counted_to_the_last() -> None:
    found = figures([judgement(0.0, 5.0, 1.5), judgement(5.0, 20.0, 4.5)], go=0.0, in_flight=1)
    assert found["per_hour"] == pytest.approx(360.0)
    assert (found["longest_wait_s"], found["longest_wait_of"]) == (4.5, "torch")


def test_what_is_not_correct_is_named() -> None:
    wrong = figures([judgement(0.0, 5.0, outcome="crashed")], go=0.0, in_flight=1)
    right = figures([judgement(0.0, 4.0)], go=0.0, in_flight=1)
    total = summary([{"one": wrong, "several": right}])
    assert total["ratio"] == pytest.approx(1.25)
    assert total["not_correct"] == ["torch: crashed: "]


def test_kinds_on_a_gpu_are_of_torch_triton_and_inline_cuda() -> None:
    pairs = pairs_of("cuda:0", kinds_on("cuda:0"))
    assert ["load_inline" in pair.candidate for pair in pairs].count(True) == 1
    assert ["import triton" in pair.candidate for pair in pairs].count(True) == 2
    assert len({pairs[0].marked(mark) for mark in ("a", "b")}) == 2


@pytest.mark.parametrize("words", [["--kinds", "triton"], ["--candidates", "256"]])
def test_what_can_not_be_had_is_refused(words: list[str]) -> None:
    with pytest.raises(SystemExit, match="2"):
        main(["--device", "cpu", *words])


@pytest.mark.slow
def test_both_sides_judge_the_same_number_of_candidates(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GPU_SANDBOX_LEASES", f"{tmp_path}")  # not to wait for other engines
    place = tmp_path / "engines.json"
    words = ["--device", "cpu", "--engines", "2", "--candidates", "3", "--turns", "1"]
    assert main([*words, "--kinds", "torch", "--bench-s", "0.1", "--json", f"{place}"]) == 0
    assert "several engines / one" in capsys.readouterr().out
    found = json.loads(place.read_text())
    (turn,) = found["turns"]
    assert {name: len(side["verdicts"]) for name, side in turn.items()} == {"one": 3, "several": 3}
    assert found["not_correct"] == []
    assert found["ratio"] > 0


@pytest.mark.process
def test_an_engine_that_fails_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--device", "cuda:99", "--engines", "1", "--candidates", "1"]) == 1
    assert "before all were ready" in capsys.readouterr().err
