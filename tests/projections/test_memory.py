"""Peak memory in words, and wherever a figure of a kernel is shown."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from engine.cli.main import cli
from events.outcomes import Crashed
from projections.candidate.memory import (
    FLOOR_BYTES,
    memory_mark,
    memory_ratio,
    memory_words,
    size_words,
)
from projections.candidate.sections import Attempt, sections_of
from tests.histories.pins import histories
from tests.projections.rich import correct

MB = 1 << 20
sizes = st.none() | st.integers(0, 1 << 42)


@given(sizes, sizes)
def test_a_ratio_is_of_two_that_are_known_and_of_some_size(
    peak: int | None, reference: int | None
) -> None:
    ratio = memory_ratio(peak, reference)
    if peak is None or reference is None or max(peak, reference) < FLOOR_BYTES:
        assert ratio is None
    else:
        assert ratio is not None
        assert 0 < ratio <= max(peak, FLOOR_BYTES) / FLOOR_BYTES
        assert (ratio > 1) == (peak > max(reference, FLOOR_BYTES))


@pytest.mark.parametrize(
    ("peak", "reference", "words"),
    [
        (128, 64, "peak memory 128 MB, reference 64 MB"),
        (0, 64, "peak memory below 4 MB, reference 64 MB"),
        (128, None, "peak memory 128 MB"),
        (20 << 10, 64, "peak memory 20.0 GB, reference 64 MB"),
        (None, 64, ""),
    ],
)
def test_words(peak: int | None, reference: int | None, words: str) -> None:
    found = correct(1.0, peak_mb=peak, reference_mb=reference)
    assert memory_words(found.peak_bytes, found.reference_peak_bytes) == words


@pytest.mark.parametrize(
    ("peak", "reference", "mark"),
    [
        (150, 64, "  2.3× memory"),
        (256, 0, "  64× memory"),
        (10, 64, "  0.16× memory"),
        (70, 64, ""),
        (1, 3, ""),
        (None, 64, ""),
        (150, None, ""),
    ],
)
def test_marks_are_of_what_differs(peak: int | None, reference: int | None, mark: str) -> None:
    assert memory_mark(correct(1.0, peak_mb=peak, reference_mb=reference)) == mark
    assert memory_mark(Crashed(reason="no")) == ""


def test_sizes() -> None:
    assert [size_words(size) for size in (0, FLOOR_BYTES, 300 * MB)] == [
        "below 4 MB",
        "4 MB",
        "300 MB",
    ]


def test_planners_are_told_and_the_papers_sections_are_as_they_were() -> None:
    with_memory = Attempt(outcome=correct(4.0, peak_mb=150, reference_mb=64), runtime_ms=4.0)
    without = Attempt(outcome=correct(4.0), runtime_ms=4.0)
    (timing,) = sections_of(with_memory, ["timing"])
    told = "peak memory 150 MB, reference 64 MB, beyond inputs, outputs and parameters"
    assert told in timing.said.splitlines()
    assert "memory" not in sections_of(without, ["timing"])[0].said
    papers = "compiler", "execution"
    assert sections_of(with_memory, papers) == sections_of(without, papers)


def test_it_stands_where_figures_stand(rich: Path) -> None:
    def out(*words: str) -> str:
        return CliRunner().invoke(cli, list(words)).stdout

    log, words = str(rich), "peak memory 150 MB, reference 64 MB"
    assert "4 ms  2.50×  [not-gated, fallback]  2.3× memory" in out("tree", log)
    assert "5 ms  2.00×\n" in out("tree", log), "below 4 MB on both sides is no ratio"
    assert words in out("show", log, "5")
    assert words in out("status", log)
    best = CliRunner().invoke(cli, ["best", log])
    assert words in best.stderr
    _, _, board = out("report", log).partition("## Leaderboard")
    lines = [" ".join(line.split()) for line in board.splitlines()]
    places = [line for line in lines if line.startswith(("| 1 |", "| 2 |", "| 3 |"))]
    assert "| 150 MB, 64 MB (2.3×) |" in places[0]
    assert "| below 4 MB, below 4 MB |" in places[1]
    assert "| –, – " in places[2]
    assert json.loads(out("status", log, "--json"))["best"]["memory_ratio"] == 150 / 64
    query = "SELECT node, memory_ratio FROM evaluations WHERE outcome = 'correct'"
    rows = json.loads("[" + ",".join(out("sql", log, query, "--json").splitlines()) + "]")
    assert [row["memory_ratio"] for row in rows] == [None, None, 150 / 64]


def test_a_log_of_before_shows_no_place_for_it() -> None:
    log = str(histories(older=True)["0.1/stark_softmax_h200"][0])
    for command in ("report", "status", "tree"):
        shown = CliRunner().invoke(cli, [command, log]).stdout
        assert "×" in shown
        assert not any(words in shown for words in ("peak memory", "memory, ref", "× memory"))
