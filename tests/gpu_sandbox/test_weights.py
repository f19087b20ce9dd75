"""Parameters that are not the reference's: named in the reason, and loaded under ``strict``."""

from __future__ import annotations

import pytest

from events.outcomes import Correct, WrongResult
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation

pytestmark = pytest.mark.anyio

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.bias = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.bias


def get_inputs():
    return [torch.randn(16, 24)]


def get_init_inputs():
    return [24]
"""
AS_IT_IS = TASK.replace("class Model(", "class ModelNew(")
DRAWS_MORE = AS_IT_IS.replace("self.bias =", "torch.rand(3)\n        self.bias =")
PACKS = DRAWS_MORE.replace(
    "\n\n    def forward",
    "\n        self.register_buffer('packed', self.bias.detach() * 1.0)\n\n    def forward",
).replace("+ self.bias", "+ self.packed")
PACKS_LATER = DRAWS_MORE.replace(
    "        return",
    "        if not hasattr(self, 'packed'):\n"
    "            self.packed = self.bias.detach() * 1.0\n        return",
).replace("+ self.bias", "+ self.packed")
FOLDS_IN_PLACE = AS_IT_IS.replace(
    "\n\n    def forward",
    "\n        with torch.no_grad():\n            self.linear.weight.mul_(2.0)\n"
    "            self.linear.bias.mul_(2.0)\n\n    def forward",
).replace("+ self.bias", "* 0.5 + self.bias")
HALF = DRAWS_MORE.replace("+ self.bias", "+ self.bias.half()")
NAMED = "parameter `bias` differs from the reference's: values, relative difference "
CAUSE = "__init__ must make the same random draws in the same order"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("source", [DRAWS_MORE, PACKS_LATER], ids=["draws", "packs later"])
@pytest.mark.parametrize("protocol", ["strict", "strict-bf16"])
async def test_the_references_values_are_loaded(
    shared_sandbox: LocalSandbox, source: str, protocol: str
) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(TASK, source, protocol=protocol))
    assert isinstance(verdict.outcome, Correct), verdict
    (note,) = [note for note in verdict.notes if "differs" in note]
    assert note.startswith(NAMED)
    assert CAUSE in note
    assert note.endswith("the reference's values were loaded into the candidate")


@pytest.mark.parametrize("source", [PACKS, HALF], ids=["packs", "wrong besides"])
async def test_what_is_wrong_with_them_names_the_parameter(
    shared_sandbox: LocalSandbox, source: str
) -> None:
    outcome = (await shared_sandbox.evaluate(evaluation(TASK, source))).outcome
    assert isinstance(outcome, WrongResult)
    assert outcome.reason.startswith(NAMED)
    assert "with the reference's values loaded it is wrong, too" in outcome.reason
    assert "relative L2 error" in outcome.reason
    assert outcome.trial == 1


@pytest.mark.parametrize("protocol", ["kernelbench", "paper"])
async def test_other_protocols_load_nothing_and_name_it(
    shared_sandbox: LocalSandbox, protocol: str
) -> None:
    outcome = (
        await shared_sandbox.evaluate(evaluation(TASK, DRAWS_MORE, protocol=protocol))
    ).outcome
    assert isinstance(outcome, WrongResult)
    assert outcome.reason.startswith(NAMED)
    assert CAUSE in outcome.reason
    assert "loaded" not in outcome.reason


async def test_what_is_folded_in_place_is_no_difference(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(TASK, FOLDS_IN_PLACE))
    assert isinstance(verdict.outcome, Correct), verdict
    assert not [note for note in verdict.notes if "differs" in note]


async def test_an_ordinary_mistake_names_no_parameter(shared_sandbox: LocalSandbox) -> None:
    source = AS_IT_IS.replace("torch.relu", "torch.tanh")
    outcome = (await shared_sandbox.evaluate(evaluation(TASK, source))).outcome
    assert isinstance(outcome, WrongResult)
    assert outcome.reason.startswith("relative L2 error")


NORM = TASK.replace(
    "self.bias = nn", "self.norm = nn.LayerNorm(n)\n        self.bias = nn"
).replace("torch.relu(self.linear(x))", "self.norm(self.linear(x))")


async def test_what_was_loaded_is_loaded_for_trained_parameters_too(
    shared_sandbox: LocalSandbox,
) -> None:
    source = NORM.replace("class Model(", "class ModelNew(").replace(
        "self.bias =", "torch.rand(3)\n        self.bias ="
    )
    verdict = await shared_sandbox.evaluate(evaluation(NORM, source))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "constant-parameters" not in verdict.outcome.labels


@pytest.mark.parametrize("protocol", ["strict", "kernelbench"])
async def test_what_was_changed_on_purpose_is_not_loaded(
    shared_sandbox: LocalSandbox, protocol: str
) -> None:
    source = AS_IT_IS.replace(
        "\n\n    def forward",
        "\n        with torch.no_grad():\n"
        "            self.bias[self.bias.abs() < 1] = 0\n\n    def forward",
    )
    outcome = (await shared_sandbox.evaluate(evaluation(TASK, source, protocol=protocol))).outcome
    assert isinstance(outcome, WrongResult)
    assert "; parameter `bias` differs from the reference's: values, relative" in outcome.reason
    assert "__init__ has changed what it drew" in outcome.reason
