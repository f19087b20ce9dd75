"""Kept verdicts: to whom they are given again, and to whom never."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import msgspec
import pytest

from events.outcomes import CompileFailed, Correct, Crashed, Outcome, TimedOut, WrongResult
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.evaluate.verdict_cache import KnownVerdicts, harness_version
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, as_candidate

pytestmark = pytest.mark.process

CORRECT = Correct(
    runtime_ms=5.0, speedup=2.0, ratio=0.5, ratio_low=0.4, ratio_high=0.6, pairs=20,
    candidate_ms=1.0, baseline_ms=2.0,
)  # fmt: skip
FACTS: dict[str, Any] = {"name": "a device", "driver": "1"}
LAYERS = ["namespaces"]


def verdict(outcome: Outcome) -> Verdict:
    return Verdict(
        outcome=outcome, protocol="strict", timings_s={"bench": 1.0}, queue_s=0.5, device="cpu",
        isolation=LAYERS, compile_log="built",
    )  # fmt: skip


def asked(**options: object) -> EvaluationRequest:
    return evaluation("task", "candidate", **{"root_ms": 10.0, "incumbent_ms": 4.0, **options})


@pytest.mark.parametrize(
    "outcome", [CORRECT, WrongResult(reason="off"), CompileFailed(), Crashed(signal=11)]
)
def test_a_kept_verdict_comes_back_without_its_times(tmp_path: Path, outcome: Outcome) -> None:
    known = KnownVerdicts(tmp_path)
    known.keep(asked(), Limits(), FACTS, LAYERS, verdict(outcome))
    found = known.find(asked(seed=99), Limits(), FACTS, LAYERS)
    assert found == msgspec.structs.replace(
        verdict(outcome), timings_s={}, queue_s=0.0, cached=True
    )


@pytest.mark.parametrize(
    ("request_", "limits", "facts", "layers"),
    [
        (asked(protocol="paper"), Limits(), FACTS, LAYERS),
        (asked(device="cuda:0"), Limits(), FACTS, LAYERS),
        (asked(autopsy_of_wrong=False), Limits(), FACTS, LAYERS),
        (evaluation("task2", "candidate"), Limits(), FACTS, LAYERS),
        (evaluation("task", "candidate "), Limits(), FACTS, LAYERS),
        (evaluation("taskcandidate", ""), Limits(), FACTS, LAYERS),
        (asked(), Limits(call_s=1.0), FACTS, LAYERS),
        (asked(), Limits(), {**FACTS, "driver": "2"}, LAYERS),
        (asked(), Limits(), FACTS, ["missing:namespaces"]),
    ],
)
def test_what_a_verdict_depends_on_is_in_its_key(
    tmp_path: Path,
    request_: EvaluationRequest,
    limits: Limits,
    facts: dict[str, Any],
    layers: list[str],
) -> None:
    known = KnownVerdicts(tmp_path)
    known.keep(asked(), Limits(), FACTS, LAYERS, verdict(WrongResult()))
    assert known.find(request_, limits, facts, layers) is None


def test_another_harness_judges_for_itself(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    known = KnownVerdicts(tmp_path)
    known.keep(asked(), Limits(), FACTS, LAYERS, verdict(WrongResult()))
    assert len(harness_version()) == 64
    monkeypatch.setattr("gpu_sandbox.evaluate.verdict_cache.harness_version", lambda: "another")
    assert known.find(asked(), Limits(), FACTS, LAYERS) is None


@pytest.mark.parametrize(
    ("root_ms", "incumbent_ms", "runtime_ms"),
    [(10.0, 4.0, 5.0), (8.0, 3.9, 4.0), (10.0, 5.0, None), (10.0, 6.0, None),
     (10.0, None, None), (None, 4.0, None)],
)  # fmt: skip
def test_what_would_be_the_best_is_judged_again(
    tmp_path: Path, root_ms: float | None, incumbent_ms: float | None, runtime_ms: float | None
) -> None:
    known = KnownVerdicts(tmp_path)
    known.keep(asked(), Limits(), FACTS, LAYERS, verdict(CORRECT))
    request = asked(root_ms=root_ms, incumbent_ms=incumbent_ms)
    found = known.find(request, Limits(), FACTS, LAYERS)
    assert (found and found.outcome.runtime_ms) == runtime_ms  # type: ignore[union-attr]


@pytest.mark.parametrize(("score", "taken"), [("device", True), ("eager", False)])
def test_what_would_be_the_best_goes_by_the_score(tmp_path: Path, score: str, taken: bool) -> None:
    """5 ms on the device, 2.5 ms by its speedup in a loop; 4 ms are to be beaten."""
    known, fast = KnownVerdicts(tmp_path), msgspec.structs.replace(CORRECT, eager_speedup=4.0)
    known.keep(asked(), Limits(), FACTS, LAYERS, verdict(fast))
    assert (known.find(asked(score=score), Limits(), FACTS, LAYERS) is not None) == taken


def test_a_missed_limit_is_not_kept_and_a_broken_file_is_none(tmp_path: Path) -> None:
    known = KnownVerdicts(tmp_path)
    known.keep(asked(), Limits(), FACTS, LAYERS, verdict(TimedOut(stage="run", limit_s=1.0)))
    assert list(tmp_path.iterdir()) == []
    known.keep(asked(), Limits(), FACTS, LAYERS, verdict(CORRECT))
    (kept,) = tmp_path.glob("*/*")
    kept.write_bytes(kept.read_bytes()[:-3])
    assert known.find(asked(), Limits(), FACTS, LAYERS) is None
    (tmp_path / "file").write_text("")
    KnownVerdicts(tmp_path / "file").keep(asked(), Limits(), FACTS, LAYERS, verdict(CORRECT))


def test_a_time_of_a_busy_machine_is_not_kept_and_a_wrong_result_is(tmp_path: Path) -> None:
    known = KnownVerdicts(tmp_path)
    busy = msgspec.structs.replace(verdict(CORRECT), busy=["others used 40%"])
    known.keep(asked(), Limits(), FACTS, LAYERS, busy)
    assert known.find(asked(), Limits(), FACTS, LAYERS) is None
    known.keep(
        asked(), Limits(), FACTS, LAYERS, msgspec.structs.replace(busy, outcome=WrongResult())
    )
    assert known.find(asked(), Limits(), FACTS, LAYERS) is not None


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "trio"


@pytest.mark.anyio
async def test_a_sandbox_gives_what_was_kept_to_who_asks_for_it(
    make_sandbox: Callable[..., LocalSandbox], tmp_path: Path
) -> None:
    wrong = as_candidate(ADD_RELU).replace("a + b", "a - b")
    async with make_sandbox(cache=tmp_path / "cache") as sandbox:
        first = await sandbox.evaluate(evaluation(ADD_RELU, wrong, reuse=True))
        again = await sandbox.evaluate(evaluation(ADD_RELU, wrong, reuse=True, seed=8))
        anew = await sandbox.evaluate(evaluation(ADD_RELU, wrong))
    assert isinstance(first.outcome, WrongResult)
    assert (first.cached, again.cached, anew.cached) == (False, True, False)
    assert again.outcome == first.outcome
    assert (again.timings_s, again.usage) == ({}, None)
    assert anew.timings_s
