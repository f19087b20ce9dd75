"""Parameters on a device: those that differ, and those that are constant in new modules."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.sources import as_candidate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

TASK = """
import torch
import torch.nn as nn
import torch.nn.functional as F


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.norm = nn.LayerNorm(n)

    def forward(self, x):
        return self.norm(self.linear(x))


def get_inputs():
    return [torch.randn(512, 1024)]


def get_init_inputs():
    return [1024]
"""
WITHOUT_WEIGHT = TASK.replace(
    "self.norm(self.linear(x))", "F.layer_norm(self.linear(x), (1024,), None, self.norm.bias)"
)
RENAMED = TASK.replace("self.norm", "self.last")
DRAWS_MORE = TASK.replace("self.linear =", "torch.rand(3)\n        self.linear =")
GRAPH = TASK.replace(
    "        return self.norm(self.linear(x))",
    """        if not hasattr(self, "graph"):
            self.x = x.clone()
            for _ in range(2):
                self.norm(self.linear(self.x))
            self.graph = torch.cuda.CUDAGraph()
            with torch.cuda.graph(self.graph):
                self.y = self.norm(self.linear(self.x))
        self.x.copy_(x)
        self.graph.replay()
        return self.y.clone()""",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalSandbox]:
    cache = tmp_path_factory.getbasetemp() / "parameters-cache"
    async with LocalSandbox(("cuda:0",), limits=Limits(bench_s=0.5), cache=cache) as entered:
        yield entered


async def judged(sandbox: LocalSandbox, source: str) -> Verdict:
    return await sandbox.evaluate(
        EvaluationRequest(
            task_name="t",
            task_source=TASK,
            candidate_source=as_candidate(source),
            device="cuda:0",
            protocol="strict",
            seed=7,
        )
    )


async def test_a_norm_without_its_weight_is_wrong(sandbox: LocalSandbox) -> None:
    outcome = (await judged(sandbox, WITHOUT_WEIGHT)).outcome
    assert isinstance(outcome, WrongResult)
    assert outcome.reason.startswith("does not use parameter `norm.weight`")


@pytest.mark.parametrize("source", [TASK, RENAMED, GRAPH], ids=["itself", "renamed", "graph"])
async def test_who_uses_all_is_correct(sandbox: LocalSandbox, source: str) -> None:
    verdict = await judged(sandbox, source)
    assert isinstance(verdict.outcome, Correct), verdict
    assert "constant-parameters" not in verdict.outcome.labels, verdict.notes


async def test_the_references_values_are_loaded(sandbox: LocalSandbox) -> None:
    verdict = await judged(sandbox, DRAWS_MORE)
    assert isinstance(verdict.outcome, Correct), verdict
    assert any(n.startswith("parameter `linear.weight` differs") for n in verdict.notes)
