"""What verdicts say: errors beside their bounds, percentages, and outputs that are named."""

from __future__ import annotations

import pytest
import torch

from events.figures import beside, percent, whole_percent
from events.outcomes import Correct, WrongResult
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.numerics.rules.not_finite import nan_hint
from gpu_sandbox.verifier.trials.checks import Agreement
from projections.candidate.sections import Attempt, sections_of
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("share", "told", "whole"),
    [
        (1.0, "100 %", "100 %"),
        (0.0, "0 %", "0 %"),
        (0.999, "99.9 %", "99.9 %"),
        (8184 / 8192, "99.9 %", "99.9 %"),
        (0.99999, "over 99.9 %", "over 99.9 %"),
        (0.994, "99.4 %", "99 %"),
        (0.5, "50 %", "50 %"),
        (0.0371, "3.7 %", "4 %"),
        (1e-4, "0.01 %", "0.01 %"),
        (1e-9, "less than 0.001 %", "less than 0.001 %"),
        (1.5, "150 %", "150 %"),
    ],
)
def test_only_all_of_it_is_a_hundred_percent(share: float, told: str, whole: str) -> None:
    assert (percent(share), whole_percent(share)) == (told, whole)
    assert whole_percent(share, "") == whole.replace(" %", "%")


def test_an_error_is_told_apart_from_its_bound() -> None:
    assert beside(2.5e-1, 2e-5) == ("2.50e-01", "2.00e-05")
    assert beside(2.00004e-5, 2e-5) == ("2.00004e-05", "2.00000e-05")


def test_the_trial_that_came_nearest_to_its_bound_decides() -> None:
    trials = [
        Agreement(5.0, 1e-6, 2e-5, 1), Agreement(1.0, 9e-6, 2e-5, 2), Agreement(2.0, 2e-5, 8e-5, 3),
        Agreement(9.0, None, None, 4),
    ]  # fmt: skip
    found = Agreement()
    for one in trials:
        found = found.and_also(one)
    assert found == Agreement(9.0, 9e-6, 2e-5, 2)


def test_nan_is_traced_to_infinities_only_where_there_are_some() -> None:
    masked = torch.randn(4, 8)
    masked[1] = -torch.inf
    native, got = torch.zeros(4, 8), torch.zeros(4, 8)
    got[1] = torch.nan
    plain = torch.randn(4, 8)
    assert "in rows in which input 1 holds -inf" in nan_hint([plain, masked], native, got)
    assert nan_hint([plain], native, got) == ""
    assert nan_hint([masked], native.fill_(torch.nan), got) == ""
    elsewhere = torch.zeros(4, 8)
    elsewhere[2] = torch.nan
    assert "; and input 0 holds -inf" in nan_hint([masked], torch.zeros(4, 8), elsewhere)
    minus = torch.full((4, 8), -torch.inf)
    assert "the reference's output holds -inf" in nan_hint([plain], minus, got)


@pytest.mark.anyio
@pytest.mark.parametrize("protocol", ["strict", "kernelbench"])
async def test_a_correct_verdict_says_its_error_its_bound_and_its_trial(
    shared_sandbox: LocalSandbox, protocol: str
) -> None:
    source = candidate("return torch.relu(a + b) * (1 + 1e-6)")
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, source, protocol=protocol))
    outcome = verdict.outcome
    assert isinstance(outcome, Correct), outcome
    assert outcome.error is not None
    assert outcome.error_bound is not None
    assert 1e-7 < outcome.error < outcome.error_bound < 1e-3
    assert outcome.trial is not None
    told = {s.name: s for s in sections_of(Attempt(outcome=outcome))}["error"]
    said = f"{told}"
    assert "relative error" in said
    assert f"nearest in trial {outcome.trial}" in said


@pytest.mark.anyio
async def test_what_is_equal_has_no_error(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)
    assert verdict.outcome.error is not None
    assert verdict.outcome.error < 1e-6


KEPT = "if self.kept is None:\n    self.kept = torch.relu(a + b)\nreturn self.kept"
MASKED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x):
        grown = torch.exp(x - x.amax(-1, keepdim=True).clamp(min=-1e30))
        return grown / grown.sum(-1, keepdim=True).clamp(min=1e-30)


def get_inputs():
    x = torch.randn(64, 128)
    x[::4] = float("-inf")
    return [x]


def get_init_inputs():
    return []
"""
SOFTMAX = """
import torch
import torch.nn as nn


class ModelNew(nn.Module):
    def forward(self, x):
        return torch.softmax(x, -1)
"""


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("task", "source", "told"),
    [
        (ADD_RELU, candidate(KEPT, init="self.kept = None"), "the output of an earlier call"),
        (
            ADD_RELU, candidate(f"{KEPT}.clone()", init="self.kept = None"),
            "it was kept from an earlier call",
        ),
        (
            ADD_RELU, candidate("return torch.relu(a + b) * float('nan')"),
            "NaN, or infinities that differ (8192 of 8192 elements, 100 %)",
        ),
        (MASKED, SOFTMAX, "(2048 of 8192 elements, 25 %); in rows in which input 0 holds -inf"),
        (ADD_RELU, candidate("return b.clamp_(min=0)"), "shares memory with an input (input 1)"),
        (
            ADD_RELU, candidate("return torch.relu(a + b).index_fill_(0, torch.tensor(0), 0) + 9"),
            "allowed 2.00e-05",
        ),
    ],
    ids=["kept", "kept and copied", "nan", "masked", "shared", "wrong"],
)  # fmt: skip
async def test_what_is_wrong_is_named(
    shared_sandbox: LocalSandbox, task: str, source: str, told: str
) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(task, source))
    assert isinstance(verdict.outcome, WrongResult), verdict.outcome
    assert told in verdict.outcome.reason
    assert "e+0" not in verdict.outcome.reason.partition("elements")[2]
    assert ("earlier call" in verdict.outcome.reason) == ("earlier call" in told)
