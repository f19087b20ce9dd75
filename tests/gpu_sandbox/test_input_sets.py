"""Tasks with several input sets: what is read of their files, and what verdicts come to."""

from __future__ import annotations

import math

import msgspec
import pytest

from events.observations import Observations
from events.outcomes import CompileFailed, Correct, KernelResources, WrongResult
from gpu_sandbox.api.evaluator import (
    Baseline,
    BaselineRequest,
    EvaluationRequest,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.evaluate.combined_sets import baseline_of_all, verdict_on_all
from gpu_sandbox.evaluate.input_sets import BadInputSets, InputSet, input_sets, shown_source
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.sources import as_candidate

TASK = '''
from functools import cache

import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)


def get_init_inputs():
    return []


def get_input_sets():
    return {"short": lambda: [torch.randn(200, 16)], "long": [torch.randn(3, 4000)]}


# Nobody who writes a kernel knows these.
@cache
def get_hidden_input_sets():
    """Odd ones."""
    return {"secret": lambda: [torch.randn(77, 333)]}


LAST = 1
'''
ONLY_EVEN = as_candidate(TASK).replace(
    "return torch.softmax(x, -1)", "return torch.softmax(x, -1) * (1 + 0.5 * (x.shape[-1] % 2))"
)


def test_each_set_is_a_task_of_its_own() -> None:
    found = input_sets(TASK)
    assert [(each.name, each.hidden) for each in found] == [
        ("short", False), ("long", False), ("secret", True),
    ]  # fmt: skip
    for each, shape in zip(found, [(200, 16), (3, 4000), (77, 333)], strict=True):
        module: dict[str, object] = {}
        exec(each.task_source, module)
        (x,) = module["get_inputs"]()  # type: ignore[operator]
        assert x.shape == shape


def test_prompts_show_all_but_hidden_sets() -> None:
    shown = shown_source(TASK)
    assert "get_input_sets" in shown
    assert "LAST = 1" in shown
    for told in ("secret", "333", "get_hidden_input_sets", "@cache", "Odd ones"):
        assert told not in shown
    compile(shown, "shown", "exec")
    assert [each.name for each in input_sets(shown)] == ["short", "long"]


@pytest.mark.parametrize("source", ["", "x = (", "def get_inputs():\n    return []\n", "\0"])
def test_a_file_without_input_sets_is_as_ever(source: str) -> None:
    assert input_sets(source) == []
    assert shown_source(source) == source


@pytest.mark.parametrize(
    ("returns", "told"),
    [
        ("return made()", "a dict that is written out"),
        ("return {}", "a dict that is written out"),
        ("return {name: lambda: []}", "has to be a text"),
        ("return {**others}", "has to be a text"),
        ("return {'': lambda: []}", "has to be a text"),
        ("return {'a': lambda: [], 'a': lambda: []}", "there are two input sets 'a'"),
    ],
)
def test_what_is_not_written_out_is_refused_with_the_reason(returns: str, told: str) -> None:
    with pytest.raises(BadInputSets, match=told):
        input_sets(f"def get_input_sets():\n    {returns}\n")


def _correct(ratio: float, **others: object) -> Correct:
    found = Correct(
        runtime_ms=10 * ratio, speedup=1 / ratio, ratio=ratio, ratio_low=ratio / 1.1,
        ratio_high=ratio * 1.1, pairs=20, candidate_ms=ratio, baseline_ms=1.0, error=1e-6,
        error_bound=1e-5, trial=1,
    )  # fmt: skip
    return msgspec.structs.replace(found, **others)


def _verdict(outcome: Correct | WrongResult, *notes: str) -> Verdict:
    return Verdict(
        outcome=outcome, protocol="strict", timings_s={"check": 1.0}, queue_s=0.5, device="cpu",
        isolation=[], run_log="printed", notes=list(notes),
    )  # fmt: skip


def _sets(*names: str, hidden: str = "") -> list[InputSet]:
    return [InputSet(name=name, hidden=name == hidden, task_source="") for name in names]


def test_the_score_is_the_geometric_mean_and_the_worst_is_told() -> None:
    few, many = _correct(0.25, labels=["torch-only"]), _correct(1.0, error=9e-6, trial=4)
    notes = "torch-only: no kernel", "noisy"
    judged = [_verdict(few, "busy", notes[0]), _verdict(many, "busy", notes[1])]
    found = verdict_on_all([*zip(_sets("a", "b"), judged, strict=True)], root_ms=8.0)
    outcome = found.outcome
    assert isinstance(outcome, Correct)
    assert outcome.ratio == pytest.approx(0.5)
    assert outcome.runtime_ms == pytest.approx(4.0)
    assert outcome.speedup == pytest.approx(math.sqrt(4 * 1))
    assert (outcome.error, outcome.trial) == (9e-6, 4)
    assert outcome.labels == ["torch-only"]
    assert [(each.name, each.speedup) for each in outcome.sets] == [("a", 4.0), ("b", 1.0)]
    assert outcome.worst_set is outcome.sets[1]
    assert found.notes == [
        "busy", "torch-only: no kernel (input set 'a')", "noisy (input set 'b')",
    ]  # fmt: skip
    assert (found.timings_s, found.queue_s) == ({"check": 2.0}, 1.0)


def test_an_eager_speedup_needs_one_of_each_set() -> None:
    loops = {
        "eager_speedup": 2.0, "eager_low": 1.0, "eager_high": 4.0, "eager_ms": 1.0,
        "eager_baseline_ms": 2.0,
    }  # fmt: skip
    both = [_verdict(_correct(0.5, **loops)), _verdict(_correct(0.5, **loops))]
    one = [both[0], _verdict(_correct(0.5))]
    eager = [
        verdict_on_all([*zip(_sets("a", "b"), judged, strict=True)], None).outcome
        for judged in (both, one)
    ]
    assert [getattr(outcome, "eager_speedup", 0) for outcome in eager] == [pytest.approx(2.0), None]


def test_how_a_hidden_set_fails_is_in_no_prompt() -> None:
    wrong = _verdict(WrongResult(reason="shape (77, 333) (trial 2)", trial=2))
    wrong = msgspec.structs.replace(wrong, compile_log="built for 77")
    right = msgspec.structs.replace(_verdict(_correct(0.5)), compile_log="built for a")
    judged = [*zip(_sets("a", "b", hidden="b"), [right, wrong], strict=True)]
    found = verdict_on_all(judged, None)
    reason = "on a hidden input set; it passed all that prompts show"
    assert found.outcome == WrongResult(reason=reason)
    assert (found.compile_log, found.run_log) == ("built for a", "")
    assert found.observations is None
    assert found.notes == ["shape (77, 333) (trial 2) (input set 'b')"]
    shown = verdict_on_all([(_sets("b")[0], wrong)], None)
    assert shown.outcome.reason == "input set 'b': shape (77, 333) (trial 2)"
    assert shown.run_log == "printed"


def test_what_a_right_one_prints_of_a_hidden_set_is_in_no_prompt() -> None:
    def judged(size: int, peak_bytes: int) -> Verdict:
        outcome = _correct(0.5, peak_bytes=peak_bytes, reference_peak_bytes=peak_bytes)
        return msgspec.structs.replace(
            _verdict(outcome), compile_log=f"N={size}", run_log=f"length {size}",
            observations=Observations(difference=f"{size}"),
            resources=[KernelResources(kernel=f"rows_{size}", registers=8)],
        )  # fmt: skip

    each = [judged(64, 10), judged(1021, 99)]
    found = verdict_on_all([*zip(_sets("a", "b", hidden="b"), each, strict=True)], None)
    assert isinstance(found.outcome, Correct)
    assert (found.compile_log, found.run_log) == ("N=64", "length 64")
    assert (found.observations, found.resources) == (each[0].observations, each[0].resources)
    assert (found.outcome.peak_bytes, found.outcome.reference_peak_bytes) == (10, 10)
    alone = verdict_on_all([(_sets("b", hidden="b")[0], each[1])], None)
    assert (alone.compile_log, alone.run_log, alone.observations) == ("", "", None)
    assert alone.resources == []


def test_a_failed_build_is_of_no_set() -> None:
    failed = Verdict(
        outcome=CompileFailed(reason="expected ';'"), protocol="strict", timings_s={}, queue_s=0,
        device="cpu", isolation=[],
    )  # fmt: skip
    assert verdict_on_all([(_sets("a")[0], failed)], None).outcome.reason == "expected ';'"


def test_a_baseline_is_the_geometric_mean_of_the_sets() -> None:
    def measured(runtime_ms: float, audit: list[str]) -> Baseline:
        return Baseline(
            runtime_ms=runtime_ms, spread=runtime_ms / 10, repetitions=9, timings_s={"bench": 1.0},
            isolation=[], audit=audit, measured_at=f"2026-11-2{runtime_ms:.0f}T00:00:00Z",
        )  # fmt: skip

    each = [measured(1.0, []), measured(4.0, ["zeros pass"])]
    found = baseline_of_all([*zip(_sets("a", "b"), each, strict=True)])
    assert found.runtime_ms == pytest.approx(2.0)
    assert found.spread == 0.4
    assert found.audit == ["input set 'b': zeros pass"]
    assert found.timings_s == {"bench": 2.0}
    assert found.measured_at == "2026-11-21T00:00:00Z"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def _request(candidate: str) -> EvaluationRequest:
    return EvaluationRequest(
        task_name="t", task_source=TASK, candidate_source=candidate,
        device="cpu", protocol="strict", seed=3, root_ms=1.0,
    )  # fmt: skip


@pytest.mark.process
@pytest.mark.anyio
async def test_who_is_right_on_all_sets_has_a_score_on_each(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(_request(as_candidate(TASK)))
    outcome = verdict.outcome
    assert isinstance(outcome, Correct), verdict
    assert [each.name for each in outcome.sets] == ["short", "long", "secret"]
    mean = math.prod(each.speedup for each in outcome.sets) ** (1 / 3)
    assert outcome.speedup == pytest.approx(mean)
    assert outcome.runtime_ms == pytest.approx(1 / mean)


@pytest.mark.anyio
async def test_who_is_wrong_on_a_hidden_set_is_wrong(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(_request(ONLY_EVEN))
    assert isinstance(verdict.outcome, WrongResult), verdict
    assert verdict.outcome.reason == "on a hidden input set; it passed all that prompts show"
    assert any(note.endswith("(input set 'secret')") for note in verdict.notes)


@pytest.mark.anyio
async def test_a_task_whose_sets_are_not_written_out_is_unusable(
    shared_sandbox: LocalSandbox,
) -> None:
    source = TASK.replace('return {"short"', 'return made or {"short"')
    request = BaselineRequest(
        task_name="t", task_source=source, device="cpu", protocol="strict", seed=1
    )
    with pytest.raises(TaskUnusable, match="written out"):
        await shared_sandbox.baseline(request)
