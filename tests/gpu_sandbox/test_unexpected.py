"""Exceptions that nobody foresaw, and whom they cost."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from events.outcomes import Correct, Crashed, WrongResult
from gpu_sandbox import sandbox as sandbox_module
from gpu_sandbox.guard import inspect_candidate
from gpu_sandbox.port import EvaluationRequest, SandboxFault, Verdict
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.unexpected import judged_anyway
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST

pytestmark = pytest.mark.anyio
POISON = HONEST + "\n# poison\n"
RIGHT = Correct(
    runtime_ms=1.0,
    speedup=1.0,
    ratio=1.0,
    ratio_low=1.0,
    ratio_high=1.0,
    pairs=20,
    candidate_ms=1.0,
    baseline_ms=1.0,
)


class Judge:
    """Raises over one source so many times, and over the reference in its place if told."""

    def __init__(
        self, error: Exception, *, times: int = 99, over_all: bool = False, wrong: bool = False
    ) -> None:
        self.seen: list[str] = []
        self._error = error
        self._times = times
        self._over_all = over_all
        self._wrong = wrong

    async def __call__(self, request: EvaluationRequest) -> Verdict:
        self.seen.append(request.candidate_source)
        poisoned = request.candidate_source == POISON
        if (poisoned or self._over_all) and len(self.seen) <= self._times:
            raise self._error
        outcome = WrongResult(reason="no") if self._wrong and not poisoned else RIGHT
        return Verdict(
            outcome=outcome, protocol="strict", timings_s={}, queue_s=0, device="cpu", isolation=[]
        )


async def test_it_costs_the_candidate_that_brings_it_about() -> None:
    judge = Judge(RecursionError("too\ndeep"))
    verdict = await judged_anyway(judge, evaluation(ADD_RELU, POISON))
    assert isinstance(verdict.outcome, Crashed)
    told = "it can't be judged, as the reference can: unexpected RecursionError: too deep (at "
    assert verdict.outcome.reason.startswith(told)
    assert judge.seen[:2] == [POISON, POISON]
    assert judge.seen[2].startswith(ADD_RELU)
    assert len(judge.seen) == 3


async def test_once_is_nobodys_fault() -> None:
    judge = Judge(OSError(28, "full"), times=1)
    verdict = await judged_anyway(judge, evaluation(ADD_RELU, POISON))
    assert verdict.outcome == RIGHT


@pytest.mark.parametrize(
    "judge", [Judge(KeyError("uuid"), over_all=True), Judge(KeyError("uuid"), wrong=True)]
)
async def test_where_the_reference_fails_as_well_it_is_the_sandboxs(judge: Judge) -> None:
    with pytest.raises(KeyError):
        await judged_anyway(judge, evaluation(ADD_RELU, POISON))


async def test_what_was_foreseen_is_passed_on_at_once() -> None:
    judge = Judge(SandboxFault("no device"))
    with pytest.raises(SandboxFault, match="no device"):
        await judged_anyway(judge, evaluation(ADD_RELU, POISON))
    assert judge.seen == [POISON]


async def test_a_mistake_of_a_stage_costs_one_verdict_and_the_next_is_given(
    make_sandbox: Callable[..., LocalSandbox], monkeypatch: pytest.MonkeyPatch
) -> None:
    def inspect(source: str) -> object:
        if "poison" in source:
            raise RecursionError("too deep")
        return inspect_candidate(source)

    monkeypatch.setattr(sandbox_module, "inspect_candidate", inspect)
    async with make_sandbox() as sandbox:
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, POISON))
        assert isinstance(verdict.outcome, Crashed)
        assert "test_unexpected.py" in verdict.outcome.reason
        assert any("please report it" in note for note in verdict.notes)
        verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))
        assert isinstance(verdict.outcome, Correct)
