"""A reference that asserts in a kernel: a GPU's context does not outlive that."""

from __future__ import annotations

from pathlib import Path

import pytest

from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.evaluator import EvaluationRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

PROBABILITIES = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, p, t):
        return nn.functional.binary_cross_entropy(p, t)


def get_inputs():
    return [torch.rand(2048, 512).clamp(1e-3, 0.999), torch.rand(2048, 512).round()]


def get_init_inputs():
    return []
"""
BY_HAND = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, p, t):
        return -(t * torch.log(p) + (1.0 - t) * torch.log1p(-p)).mean()
"""


@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_what_stops_the_device_is_left_out_of_the_trials() -> None:
    def request(source: str) -> EvaluationRequest:
        return EvaluationRequest(
            task_name="bce.py",
            task_source=PROBABILITIES,
            candidate_source=source,
            device="cuda:0",
            protocol="strict",
            seed=1,
        )

    async with LocalSandbox(devices=("cuda:0",), limits=Limits(bench_s=0.3)) as sandbox:
        for _ in range(2):
            verdict = await sandbox.evaluate(request(BY_HAND))
            assert isinstance(verdict.outcome, Correct), verdict
            (note,) = (note for note in verdict.notes if "left out" in note)
            assert "inputs times 64" in note
            print(f"\n{note}\n{verdict.timings_s}")
        wrong = await sandbox.evaluate(request(BY_HAND.replace("log1p(-p)", "log1p(p)")))
        assert isinstance(wrong.outcome, WrongResult)
        assert sandbox.load().quarantined == {}
