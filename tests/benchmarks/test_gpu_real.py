"""The table of what was asked and what was reached, from made-up results of its parts."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from benchmarks.engines_together import summary
from benchmarks.gpu_real import main
from benchmarks.kernelbench import Case, Look
from benchmarks.stamps import UNKNOWN, Stamp

COMMIT = "7b527da9b1f78afbf16504002374580bde270908"


def stamped(folder: Path, part: str, rc: int | None = 0, commit: str = COMMIT) -> None:
    stamp = Stamp(
        part=part, commit=commit, device="NVIDIA H200", driver="580.1", torch="2.11.0",
        triton="3.6.0", python="3.12.3", began="2026-11-29T12:00:00Z", command=["python", part],
        rc=rc, wall_s=431.0,
    )  # fmt: skip
    (folder / f"{part}.stamp.json").write_bytes(msgspec.json.encode(stamp))


def left(folder: Path, part: str, found: Any, **options: Any) -> None:
    (folder / f"{part}.json").write_text(json.dumps(found))
    stamped(folder, part, **options)


def reported(
    folder: Path, part: str, cases: dict[str, str], rc: int = 0, others: tuple[str, ...] = ()
) -> None:
    """``cases``: a test's name and what is in its element. ``others`` were not run."""
    ids = "".join(f"tests/test_x.py::{name}\n" for name in (*cases, *others))
    (folder / f"ids.{part}").write_text(ids)
    body = "".join(f'<testcase name="{name}">{end}</testcase>' for name, end in cases.items())
    (folder / f"{part}.xml").write_text(f"<testsuites>{body}</testsuites>")
    stamped(folder, part, rc=rc)


def rows(text: str) -> dict[str, list[str]]:
    """By measure: asked, reached, peer, verdict, and more columns."""
    lines = [line.split("|")[1:-1] for line in text.splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line] for line in lines]
    return {measure: rest for _, measure, *rest in cells}


def honest(cases: int, *, off: float = 1.0, lease_s: float = 1.0, first: int = 0) -> dict[str, Any]:
    """``off``: scored / true of each; kinds by turns, and of every other one the length."""
    names = [f"case{number}" for number in range(first, first + cases)]
    kinds = {name: f"triton{number % 12}" for number, name in enumerate(names)}
    truth = {"eager_us": 60.0, "candidate_us": 30.0, "speedup": 2.0, "notes": []}
    short = {**truth, "candidate_us": 10.0}
    score = {
        "outcome": "correct", "reason": "", "speedup": 2.0 * off, "claimed": None, "labels": [],
        "baseline_ms": 0.06, "candidate_ms": 0.03, "timings_s": {"lease": lease_s},
    }  # fmt: skip
    return {
        "facts": {}, "kinds": kinds, 
        "truths": {name: short if number % 2 else truth for number, name in enumerate(names)},
        "scores": dict.fromkeys(names, score),
    }  # fmt: skip


def turn(evaluator: float, unseen: float, seen: float, second: float) -> dict[str, float]:
    return {"evaluator": evaluator, "unseen": unseen, "seen": seen, "a second": second}


def engines(ratio: float, wait_s: float) -> dict[str, Any]:
    """Of two turns, of which one has no wait at all."""

    def side(per_hour: float, wait_s: float) -> dict[str, Any]:
        judged = {"kind": "triton", "outcome": "correct", "reason": ""}
        return {
            "per_hour": per_hour, "longest_wait_s": wait_s, "longest_wait_of": "triton",
            "verdicts": [judged],
        }  # fmt: skip

    turns = [
        {"one": side(900.0, wait_s), "several": side(1100.0 * ratio, 0.0)},
        {"several": side(900.0 * ratio, 0.0), "one": side(1100.0, 0.0)},
    ]
    return {"engines": 4, **summary(turns), "turns": turns}


def looks(*ratios: tuple[str, float]) -> dict[str, Any]:
    """Of candidates' names, and their times over KernelBench's."""
    problem = Path("level1/1_x.py")
    found = [
        Look(
            Case(problem, Path(f"level1_1_{name}.py")), False, {"eager": 1.0, "candidate": ratio},
            {"eager": {"mean_ms": 1.0}, "candidate": {"mean_ms": 1.0}},
        )
        for name, ratio in ratios
    ]  # fmt: skip
    failed = Look(Case(problem, None), False, {"failed": "crashed"}, {"eager": None})
    return {"looks": [look.raw() for look in [*found, *([failed] if len(found) == 2 else [])]]}


def test_all_that_was_asked_is_met(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reported(tmp_path, "places", {"test_attack_cuda[a]": "", "test_honest_cuda[b]": ""})
    reported(tmp_path, "attacks", {"test_attack_cuda[a]": "", "test_attack_cuda[c]": ""})
    reported(tmp_path, "corpus", {"test_honest_cuda[b]": ""})
    left(tmp_path, "kernelbench", looks(("gelu", 1.1), ("relu", 1.0), ("gelu", 1.02)))
    left(tmp_path, "honest", honest(48))
    left(tmp_path, "first", {"triton": [turn(5.0, 7.0, 6.0, 1.0)],
                             "inline CUDA": [turn(40.0, 30.0, 20.0, 1.5)]})  # fmt: skip
    left(tmp_path, "engines", engines(0.95, 9.5))
    assert main([str(tmp_path)]) == 0
    said = capsys.readouterr().out
    found = rows(said)
    assert {row[-1] for name, row in found.items() if not set(name) <= {"-"}} == {"verdict", "met"}
    assert found["attacks"] == ["all", "2 of 2 withstood", "-", "met"]
    assert found["candidate times / KernelBench's"][1] == "2 of 2"
    assert found["lease, 95 %"] == ["≤ 5 s", "1.00 s of 48 (48 Triton)", "-", "met"]
    assert found["first verdict, triton, task seen"] == [
        "≤ 1.2 times the peer's", "6.00 s (1.20 times)", "5.00 s", "met",
    ]  # fmt: skip
    assert found["first verdict, inline CUDA, task never seen"][0] == "≤ 1 times the peer's"
    assert found["4 engines / one with 4 workers"][1] == "0.95 (950 to 1000 an hour)"
    assert "- honest: NVIDIA H200, driver 580.1, torch 2.11.0, triton 3.6.0, Python 3.12.3" in said
    assert f"commit {COMMIT}; exit 0 after 431 s; `python honest`" in said


def test_what_is_not_met_says_by_how_much(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    failures = {"test_attack_cuda[a]": "", "test_attack_cuda[b]": "<failure/>",
                "test_attack_cuda[c]": "<skipped/>"}  # fmt: skip
    reported(tmp_path, "attacks", failures, rc=1)
    left(tmp_path, "kernelbench", looks(("gelu", 1.1), ("relu", 1.0)))
    left(tmp_path, "honest", honest(30, off=1.4, lease_s=6.0))
    left(tmp_path, "first", {"torch": [turn(5.0, 13.0, 6.5, 1.6)]})
    left(tmp_path, "engines", engines(0.8, 31.0))
    assert main([str(tmp_path)]) == 1
    found = rows(capsys.readouterr().out)
    missed = {name: row[1] for name, row in found.items() if row[-1] == "NOT MET"}
    assert missed == {
        "attacks": "1 of 2 withstood; not tried: c; not: b",
        "candidate times / KernelBench's": "1 of 2, 1 not compared; level1/1_x gelu 1.100",
        "honest candidates scored": "30 of 30, 12 kinds",
        "≥ 20 µs: scored / true within 5%": "0 of 15 (0%)",
        "< 20 µs: scored / true within 15%": "0 of 15 (0%)",
        "scored / true beyond 1.3": "30; worst 1.40 (case0)",
        "lease, median": "6.00 s of 30 (30 Triton)",
        "lease, 95 %": "6.00 s of 30 (30 Triton)",
        "first verdict, torch, task never seen": "13.00 s (2.60 times)",
        "first verdict, torch, task seen": "6.50 s (1.30 times)",
        "one candidate more, torch": "1.60 s",
        "4 engines / one with 4 workers": "0.80 (800 to 1000 an hour)",
        "longest wait for others": "31.0 s (triton)",
    }
    assert found["inputs elsewhere in every call"] == ["-", "-", "-", "not run"]


@pytest.mark.parametrize(
    ("rc", "how"), [(2, "failed: exit 2 after 431 s"), (None, "it did not end")]
)
def test_a_part_that_failed_is_shown_as_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], rc: int | None, how: str
) -> None:
    stamped(tmp_path, "first", rc=rc)
    left(tmp_path, "engines", engines(0.95, 1.0))
    assert main([str(tmp_path)]) == 1
    found = rows(capsys.readouterr().out)
    assert found["first verdicts: run first"] == ["exit 0", how, "-", "NOT MET"]
    assert found["longest wait for others"][-1] == "met"


@pytest.mark.parametrize("text", [None, "{", '{"rows": []}', '{"looks": [{}]}'])
def test_a_result_that_is_none_is_shown_as_failed(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    stamped(tmp_path, "kernelbench")
    if text is not None:
        (tmp_path / "kernelbench.json").write_text(text)
    assert main([str(tmp_path)]) == 1
    assert rows(capsys.readouterr().out)["times beside KernelBench's"][1].startswith("failed: ")


def test_tests_that_were_not_run_are_counted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """As of an interrupted run, of which pytest reports what it did."""
    left_out = ("test_attack_cuda[b]", "test_attack_cuda[c]")
    reported(tmp_path, "attacks-1of1", {"test_attack_cuda[a]": ""}, others=left_out)
    assert main([str(tmp_path)]) == 1
    found = rows(capsys.readouterr().out)
    assert found["attacks"][1] == "1 of 1 withstood"
    assert found["attacks: tests of attacks-1of1"] == [
        "all", "not run: 2 (test_attack_cuda[b] …)", "-", "NOT MET",
    ]  # fmt: skip


def test_different_commits_are_refused_unless_each_row_says_its_own(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left(tmp_path, "engines", engines(0.95, 1.0))
    left(tmp_path, "honest", honest(48), commit="abc123")
    assert main([str(tmp_path)]) == 3
    refused = capsys.readouterr()
    assert not refused.out
    assert "honest: abc123" in refused.err
    main([str(tmp_path), "--mixed"])
    found = rows(capsys.readouterr().out)
    assert found["longest wait for others"][-1] == COMMIT[:12]
    assert found["lease, median"][-1] == "abc123"


def test_an_unknown_commit_is_never_the_same_as_another(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left(tmp_path, "engines", engines(0.95, 1.0), commit=UNKNOWN)
    assert main([str(tmp_path)]) == 0
    left(tmp_path, "first", {"torch": [turn(5.0, 5.0, 5.0, 1.0)]}, commit=UNKNOWN)
    assert main([str(tmp_path)]) == 3
    assert "first: unknown" in capsys.readouterr().err


def test_shards_make_a_whole_and_a_missing_one_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    left(tmp_path, "honest-1of3", honest(24))
    left(tmp_path, "honest-3of3", honest(24, first=24))
    reported(tmp_path, "corpus-1of2", {"test_honest_cuda[a]": ""})
    reported(tmp_path, "corpus-2of2", {"test_honest_cuda[b]": ""})
    assert main([str(tmp_path)]) == 1
    found = rows(capsys.readouterr().out)
    assert found["honest candidates scored"][1] == "48 of 48, 12 kinds"
    assert found["honest scores, leases: shards"][1:] == ["not run: 2 of 3", "-", "NOT MET"]
    assert found["honest corpus"] == ["all", "2 of 2 accepted", "-", "met"]
    assert "honest corpus: shards" not in found


@pytest.mark.parametrize("text", [None, "{}", "{"])
def test_a_folder_without_stamps_has_no_table(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], text: str | None
) -> None:
    if text is not None:
        (tmp_path / "first.stamp.json").write_text(text)
    assert main([str(tmp_path)]) == 3
    assert "stamp" in capsys.readouterr().err
