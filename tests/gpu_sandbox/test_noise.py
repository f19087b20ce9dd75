"""Outputs that are rounding more than anything else: whose task it is, is told of its fault."""

from __future__ import annotations

import pytest

from events.outcomes import Correct, WrongResult
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import as_candidate

MEAN = """
import time

import torch

LOADED = []

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = torch.nn.GroupNorm(4, 16)

    def forward(self, x):
        if not LOADED and x.dtype == torch.float32:
            LOADED.append(time.sleep(0.2))  # as who loads a library does
        return self.norm(x).mean(dim=[1, 2])

def get_inputs():
    return [torch.rand(64, 16, 300)]

def get_init_inputs():
    return []
"""
IN_ANOTHER_ORDER = as_candidate(MEAN).replace(".mean(dim=[1, 2])", ".mean(dim=2).mean(dim=1)")
DROPPED = (
    MEAN.replace("GroupNorm(4, 16)", "Dropout(0.5)")
    .replace(".mean(dim=[1, 2])", " * 2")
    .replace("time.sleep(0.2)", "None")
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.process
@pytest.mark.anyio
async def test_who_is_wrong_by_noise_is_told_whose_fault_that_is(
    shared_sandbox: LocalSandbox,
) -> None:
    found = await shared_sandbox.evaluate(evaluation(MEAN, IN_ANOTHER_ORDER))
    assert isinstance(found.outcome, WrongResult)
    (told,) = (note for note in found.notes if note.startswith("degenerate-task: "))
    assert "moves by" in told
    assert "float64" in told


@pytest.mark.anyio
async def test_its_audit_says_so(shared_sandbox: LocalSandbox) -> None:
    audit = (await shared_sandbox.baseline(baseline(MEAN))).audit
    assert [told for told in audit if "something else in float64" in told]


@pytest.mark.anyio
async def test_what_draws_other_numbers_in_float64_is_no_noise(
    shared_sandbox: LocalSandbox,
) -> None:
    found = await shared_sandbox.evaluate(evaluation(DROPPED, as_candidate(DROPPED)))
    assert isinstance(found.outcome, Correct), found.outcome
    assert not [note for note in found.notes if "rounding" in note or "degenerate" in note]
