from __future__ import annotations

from collections.abc import Callable

import pytest

from gpu_sandbox.limits import Limits
from gpu_sandbox.port import PrerequisiteMissing, TaskUnusable
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import baseline
from tests.gpu_sandbox.sources import ADD_RELU, LINEAR

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "trio"


def forward(body: str) -> str:
    return ADD_RELU.replace("return torch.relu(a + b)", body)


async def test_a_baseline_has_a_runtime_and_its_spread(shared_sandbox: LocalSandbox) -> None:
    found = await shared_sandbox.baseline(baseline(LINEAR))
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
async def test_unusable_tasks_are_refused(
    shared_sandbox: LocalSandbox, task: str, reason: str
) -> None:
    with pytest.raises(TaskUnusable) as refused:
        await shared_sandbox.baseline(baseline(task))
    assert reason in refused.value.reason
    assert "\n" not in refused.value.reason


async def test_a_reference_that_hangs_is_unusable(
    make_sandbox: Callable[..., LocalSandbox],
) -> None:
    async with make_sandbox(Limits(call_s=0.2)) as sandbox:
        with pytest.raises(TaskUnusable, match="too long"):
            await sandbox.baseline(baseline(forward("while True: pass")))


async def test_dropout_is_deterministic_under_its_seed(shared_sandbox: LocalSandbox) -> None:
    task = forward("return torch.nn.functional.dropout(a + b, 0.5)")
    assert (await shared_sandbox.baseline(baseline(task))).runtime_ms > 0


async def test_pretrained_models_need_their_library(shared_sandbox: LocalSandbox) -> None:
    task = "from transformers import AutoConfig\n" + ADD_RELU
    with pytest.raises(PrerequisiteMissing, match="transformers"):
        await shared_sandbox.baseline(baseline(task))
