from __future__ import annotations

from collections.abc import Callable

import pytest

from events.outcomes import Correct
from gpu_sandbox.limits import Limits
from gpu_sandbox.port import SandboxFault, TaskUnusable
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, LINEAR

pytestmark = pytest.mark.anyio


@pytest.fixture
def anyio_backend() -> str:
    return "trio"


def forward(body: str) -> str:
    return ADD_RELU.replace("return torch.relu(a + b)", body)


async def test_a_baseline_has_a_runtime_and_its_spread(sandbox: LocalSandbox) -> None:
    found = await sandbox.baseline(baseline(LINEAR))
    assert found.runtime_ms > 0
    assert found.spread >= 0
    assert found.repetitions >= 20
    assert found.timings_s.keys() == {"check", "bench", "audit", "lease"}
    assert found.isolation


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        ("def get_inputs(:\n", "the task file failed: SyntaxError"),
        (ADD_RELU.replace("get_inputs", "inputs"), "has no get_inputs"),
        (forward("return a @ b"), "the reference failed: RuntimeError"),
        (forward("return a + b * float('nan')"), "holds NaN"),
        (forward("return 3"), "returns no tensor"),
        (forward("import os; return a + float(os.urandom(1)[0])"), "not deterministic"),
        (forward("import os; os._exit(1)"), "process died"),
    ],
    ids=["syntax", "incomplete", "raises", "nan", "nothing", "random", "dies"],
)
async def test_unusable_tasks_are_refused(sandbox: LocalSandbox, task: str, reason: str) -> None:
    with pytest.raises(TaskUnusable) as refused:
        await sandbox.baseline(baseline(task))
    assert reason in refused.value.reason
    assert "\n" not in refused.value.reason


async def test_a_reference_that_hangs_is_unusable(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    async with make_sandbox(Limits(call_s=0.2)) as sandbox:
        with pytest.raises(TaskUnusable, match="too long"):
            await sandbox.baseline(baseline(forward("while True: pass")))


async def test_dropout_is_deterministic_under_its_seed(sandbox: LocalSandbox) -> None:
    task = forward("return torch.nn.functional.dropout(a + b, 0.5)")
    assert (await sandbox.baseline(baseline(task))).runtime_ms > 0


def confined(what: str) -> str:
    """A task that behaves otherwise in the worker that times it, which nobody may blame a
    candidate for: files, memory and processor time end there sooner than with the verifier."""
    return forward(
        f"import os\n        if __name__ != 'task': {what}\n        return torch.relu(a + b)"
    )


async def test_a_reference_that_fails_where_it_is_confined_is_unusable(
    sandbox: LocalSandbox,
) -> None:
    task = confined("raise MemoryError('no room')")
    with pytest.raises(TaskUnusable, match="fails where it is confined: MemoryError: no room"):
        await sandbox.baseline(baseline(task))
    with pytest.raises(SandboxFault, match="no room"):
        await sandbox.evaluate(evaluation(task, HONEST))


async def test_a_death_of_the_references_worker_is_no_verdict(sandbox: LocalSandbox) -> None:
    with pytest.raises(SandboxFault, match="the reference's worker: WorkerDied"):
        await sandbox.evaluate(evaluation(confined("os._exit(0)"), HONEST))
    verdict = await sandbox.evaluate(evaluation(ADD_RELU, HONEST))  # another verifier
    assert isinstance(verdict.outcome, Correct), verdict
