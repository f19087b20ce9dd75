"""Declared precision: what is right with less of it, and what still is not."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from agents.templates import load
from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.evaluator import PrerequisiteMissing
from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.runtime.precision import rounded
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.numerics.tolerances import DECLARED, TOLERANCES
from tests.gpu_sandbox.conftest import baseline, evaluation

pytestmark = pytest.mark.anyio

TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(192, 96))

    def forward(self, x):
        y = x @ self.weight
        return y - y.mean(dim=-1, keepdim=True)

def get_inputs():
    return [torch.randn(64, 192)]
"""
CANDIDATE = TASK.replace("Model", "ModelNew").replace("x @ self.weight", "PRODUCT")
IN_BF16 = CANDIDATE.replace("PRODUCT", "(x.bfloat16() @ self.weight.bfloat16()).float()")
IN_FIVE_BITS = (
    CANDIDATE.replace("PRODUCT", "five(x) @ five(self.weight)")
    + """
def five(value):
    fraction, exponent = torch.frexp(value)
    return torch.ldexp((fraction * 32).round() / 32, exponent)
"""
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("protocol", "source", "right"),
    [
        ("strict", IN_BF16, False),
        ("strict-bf16", IN_BF16, True),
        ("strict-bf16", IN_FIVE_BITS, False),
    ],
)
async def test_a_product_in_less_precision(
    shared_sandbox: LocalSandbox, protocol: str, source: str, right: bool
) -> None:
    """Also where most of it cancels: in the trials whose inputs have an offset."""
    verdict = await shared_sandbox.evaluate(evaluation(TASK, source, protocol=protocol))
    assert isinstance(verdict.outcome, Correct if right else WrongResult), verdict.outcome


@pytest.mark.parametrize(("protocol", "autocast"), [("strict", False), ("strict-bf16", True)])
async def test_the_baseline_computes_with_what_was_declared(
    shared_sandbox: LocalSandbox, protocol: str, autocast: bool
) -> None:
    seen = f"assert torch.is_autocast_enabled('cpu') is {autocast}\n        y = x @"
    found = await shared_sandbox.baseline(
        baseline(TASK.replace("y = x @", seen), protocol=protocol)
    )
    assert found.conditions["precision"] == ("bf16" if autocast else "float32")


@pytest.mark.slow
async def test_a_compiled_baseline_too(shared_sandbox: LocalSandbox) -> None:
    found = await shared_sandbox.baseline(baseline(TASK, protocol="strict-bf16", kind="compile"))
    assert isinstance(found.outcome, Correct), found.outcome


async def test_tf32_is_refused_where_there_is_none(shared_sandbox: LocalSandbox) -> None:
    with pytest.raises(PrerequisiteMissing, match="CUDA"):
        await shared_sandbox.baseline(baseline(TASK, protocol="strict-tf32"))


@given(st.floats(width=32, min_value=-(2.0**126), max_value=2.0**126, allow_subnormal=False))
def test_rounding_to_tf32_is_to_the_nearest(value: float) -> None:
    given_, found = torch.tensor([value]), rounded(torch.tensor([value]), "tf32").item()
    assert torch.tensor(found, dtype=torch.float32).view(torch.int32).item() % (1 << 13) == 0
    spacing = max(abs(value) * 2.0**-10, 2.0**-136)
    assert abs(found - given_.double().item()) <= spacing / 2


def test_what_is_not_finite_stays_so() -> None:
    odd = torch.tensor([float("nan"), float("inf"), -float("inf")])
    assert torch.equal(rounded(odd, "tf32").isfinite(), odd.isfinite())


@pytest.mark.parametrize("protocol", ["strict", "strict-tf32", "strict-bf16", "verified"])
def test_agents_are_told_the_numbers_that_count(protocol: str) -> None:
    told = load().text(f"accuracy_{protocol}.md")
    words = {4: "four times", 8: "eight times"}
    declared = DECLARED.get(PROTOCOLS[protocol].precision)
    rules = [declared] if declared else [
        TOLERANCES[torch.float32], TOLERANCES[torch.float16], TOLERANCES[torch.bfloat16]
    ]  # fmt: skip
    floors = [float(number) for number in re.findall(r"\d+e-\d+", told)]
    assert floors == [rule.floor for rule in rules]
    assert re.findall("four times|eight times", told) == [words[int(rule.k)] for rule in rules]
