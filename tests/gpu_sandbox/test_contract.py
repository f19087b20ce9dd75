"""What every evaluator owes the search: one suite for the fake and for the real one."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import pytest

from events.outcomes import CompileFailed, Correct, NoCandidate, WrongResult
from gpu_sandbox.api.evaluator import DeviceLoad, Evaluator, PrerequisiteMissing, TaskUnusable
from gpu_sandbox.sandbox import LocalSandbox
from tests.conftest import own_temp
from tests.gpu_sandbox.conftest import QUICK, baseline, evaluation
from tests.gpu_sandbox.fake import FakeSandbox
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate

pytestmark = [pytest.mark.anyio, pytest.mark.process]

WRONG = candidate("return a + b")
BROKEN = "class ModelNew(:\n"
EMPTY = "import torch\n"
UNUSABLE = "def get_inputs():\n    return []\n"
IDLE = DeviceLoad(compiling=0, waiting_to_compile=0, waiting_for_device=0, on_device=0)


@pytest.fixture(scope="module", params=["asyncio", "trio"])
def anyio_backend(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module", params=["fake", "local"])
async def evaluator(
    request: pytest.FixtureRequest, sandbox_cache: Path, tmp_path_factory: pytest.TempPathFactory
) -> AsyncIterator[Evaluator]:
    if request.param == "local":
        with own_temp(tmp_path_factory.mktemp("local")):
            async with LocalSandbox(limits=QUICK, cache=sandbox_cache) as sandbox:
                yield sandbox
        return
    correct = Correct(
        runtime_ms=1.0,
        speedup=2.0,
        ratio=0.5,
        ratio_low=0.4,
        ratio_high=0.6,
        pairs=20,
        candidate_ms=1.0,
        baseline_ms=2.0,
    )
    yield FakeSandbox(
        {
            HONEST: correct,
            WRONG: WrongResult(reason="differs", trial=1),
            BROKEN: CompileFailed(reason="syntax error"),
            EMPTY: NoCandidate(reason="no ModelNew"),
        },
        baseline={UNUSABLE: TaskUnusable("no Model")},
        delay_s=0.05,
    )


@pytest.mark.process
async def test_a_baseline_then_a_correct_and_a_wrong_candidate(evaluator: Evaluator) -> None:
    root = await evaluator.baseline(baseline(ADD_RELU))
    assert root.runtime_ms > 0
    assert root.isolation

    good = await evaluator.evaluate(evaluation(ADD_RELU, HONEST, root_ms=2.0))
    assert isinstance(good.outcome, Correct)
    assert good.outcome.runtime_ms == pytest.approx(2.0 * good.outcome.ratio)
    assert good.outcome.speedup == pytest.approx(1 / good.outcome.ratio)
    assert good.outcome.ratio_low <= good.outcome.ratio <= good.outcome.ratio_high
    assert good.timings_s.keys() >= {"guard", "compile", "check", "bench", "lease"}
    within = ("check", "bench", "audit", "observe", "handover")
    assert sum(good.timings_s.get(part, 0.0) for part in within) <= good.timings_s["lease"]
    assert good.protocol == "strict"

    wrong = await evaluator.evaluate(evaluation(ADD_RELU, WRONG))
    assert isinstance(wrong.outcome, WrongResult)
    assert evaluator.load() == IDLE


async def test_what_cannot_be_run_is_an_outcome(evaluator: Evaluator) -> None:
    broken = await evaluator.evaluate(evaluation(ADD_RELU, BROKEN))
    assert isinstance(broken.outcome, CompileFailed)
    empty = await evaluator.evaluate(evaluation(ADD_RELU, EMPTY))
    assert isinstance(empty.outcome, NoCandidate)


async def test_an_unusable_task_is_refused_at_its_baseline(evaluator: Evaluator) -> None:
    with pytest.raises(TaskUnusable) as refused:
        await evaluator.baseline(baseline(UNUSABLE))
    assert "no Model" in refused.value.reason


@pytest.mark.parametrize("device", ["cuda:63", "tpu"])
async def test_a_device_that_is_not_there_is_a_missing_prerequisite(
    evaluator: Evaluator, device: str
) -> None:
    with pytest.raises(PrerequisiteMissing):
        await evaluator.fingerprint(device)
    with pytest.raises(PrerequisiteMissing):
        await evaluator.baseline(baseline(ADD_RELU, device=device))
    with pytest.raises(PrerequisiteMissing):
        await evaluator.evaluate(evaluation(ADD_RELU, HONEST, device=device))


async def test_the_fingerprint_names_kind_and_versions(evaluator: Evaluator) -> None:
    facts = await evaluator.fingerprint("cpu")
    assert facts["kind"] == "cpu"
    assert facts.keys() >= {"name", "cores", "vector_bits", "isa", "torch", "cuda"}


async def test_one_on_the_device_and_a_cancelled_one_frees_it(evaluator: Evaluator) -> None:
    seen: list[DeviceLoad] = []
    async with anyio.create_task_group() as group:
        group.start_soon(evaluator.evaluate, evaluation(ADD_RELU, HONEST))
        group.start_soon(evaluator.evaluate, evaluation(ADD_RELU, HONEST, seed=8))
        with anyio.fail_after(30):
            while not _one_holds_one_waits(evaluator):  # noqa: ASYNC110 (nothing to await)
                await anyio.sleep(0.001)
        seen.append(evaluator.load())
        group.cancel_scope.cancel()
    assert [(load.waiting_for_device, load.on_device) for load in seen] == [(1, 1)]
    assert evaluator.load() == IDLE
    with anyio.fail_after(30):
        await evaluator.evaluate(evaluation(ADD_RELU, WRONG))


def _one_holds_one_waits(evaluator: Evaluator) -> bool:
    load = evaluator.load()
    return bool(load.on_device and load.waiting_for_device)
