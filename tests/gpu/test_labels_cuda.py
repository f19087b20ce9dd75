"""Labels of CUDA candidates on a device: who gets one, and that honest kernels get none."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.sources import ADD_RELU, as_candidate, candidate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

WAITS = ADD_RELU.replace("torch.relu(a + b)", "torch.relu(a) + 0 * a[0, 0].item()")
LARGE = ADD_RELU.replace("(64, 128)", "(8192, 8192)")
UNREAD = LARGE.replace("torch.relu(a + b)", "torch.relu(a)[:64] + (0 * b).sum()")
"""Two inputs of 268 MB, of which the answer needs two megabytes."""
CONVOLUTION = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(256, 256, 3, padding=1)

    def forward(self, x):
        return self.conv(x)


def get_inputs():
    return [torch.rand(32, 256, 64, 64)]


def get_init_inputs():
    return []
"""
"""cuDNN takes TF32 for it: many times the rate of float32 products."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalSandbox]:
    limits = Limits(bench_s=1.0, observe_share=1.0)
    cache = tmp_path_factory.getbasetemp() / "labels-cache"
    async with LocalSandbox(("cuda:0",), limits=limits, cache=cache) as entered:
        yield entered


async def judge(
    sandbox: LocalSandbox, task: str, source: str, protocol: str = "strict"
) -> tuple[Correct, Verdict]:
    request = EvaluationRequest(
        task_name="t",
        task_source=task,
        candidate_source=source,
        device="cuda:0",
        protocol=protocol,
        seed=3,
        observe=("roofline",),
    )
    verdict = await sandbox.evaluate(request)
    print(f"\n{verdict.outcome}\n{verdict.notes}")
    assert isinstance(verdict.outcome, Correct), verdict.outcome
    return verdict.outcome, verdict


async def test_what_no_gate_can_check_says_so(sandbox: LocalSandbox) -> None:
    outcome, verdict = await judge(sandbox, WAITS, candidate("return a.clamp(min=0)"))
    assert "not-gated" in outcome.labels, verdict.notes
    assert "below-floor" not in outcome.labels
    assert any(note.startswith("not-gated: no gate has checked") for note in verdict.notes)


@pytest.mark.parametrize("source", [as_candidate(LARGE), candidate("return (a + b).relu_()")])
async def test_a_call_that_lasts_has_no_label_of_its_time(
    sandbox: LocalSandbox, source: str
) -> None:
    outcome, verdict = await judge(sandbox, LARGE, source)
    assert outcome.labels == ["torch-only"], verdict.notes


async def test_inputs_that_are_not_read_are_a_label_and_no_refusal(sandbox: LocalSandbox) -> None:
    outcome, verdict = await judge(sandbox, UNREAD, candidate("return torch.relu(a[:64])"))
    assert "below-floor" in outcome.labels, verdict.notes
    assert any("MB of inputs and outputs" in note for note in verdict.notes)


@pytest.mark.parametrize("protocol", ["strict", "strict-tf32", "strict-bf16", "kernelbench"])
async def test_tensor_cores_are_no_suspicion(sandbox: LocalSandbox, protocol: str) -> None:
    outcome, verdict = await judge(sandbox, CONVOLUTION, as_candidate(CONVOLUTION), protocol)
    assert "below-floor" not in outcome.labels, verdict.notes
