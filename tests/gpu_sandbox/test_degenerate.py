"""Tasks on which being right says little, and the label that says so under every protocol."""

from __future__ import annotations

import pytest

from events.outcomes import Correct, Refused
from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import ADD_RELU, as_candidate

pytestmark = [pytest.mark.anyio, pytest.mark.process]

LABEL = "degenerate-task"
ON_THE_CPU = [name for name, p in PROTOCOLS.items() if p.precision != "tf32" or p.cpu_precision]
TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {forward}

def get_inputs():
    {inputs}

def get_init_inputs():
    return []
"""
DRAWN = "return [torch.rand(16, 64)]"
ZEROS = TASK.format(forward="torch.relu(-x.abs() - 1)", inputs=DRAWN)
CONSTANT = TASK.format(forward="x.softmax(-1).sum(-1, keepdim=True) * 3", inputs=DRAWN)
ANY_ANSWER = TASK.format(
    forward="torch.linspace(1, 2, 64) + 0 * x.mean(0)", inputs="return [torch.rand(16, 64)]"
)
SEEDED = TASK.format(
    forward="torch.relu(x)", inputs="torch.manual_seed(0); return [torch.randn(16, 64)]"
)
INTEGERS = TASK.format(
    forward="x + 1", inputs="torch.manual_seed(0); return [torch.randint(9, (16, 64))]"
)
NOT_RANDOM = TASK.format(forward="x * 2", inputs="return [torch.arange(64.0).reshape(8, 8)]")
WITHOUT_TENSORS = TASK.format(forward="torch.arange(64.0) * x", inputs="return [3]")
SCALE = TASK.format(
    forward="x[0] * x[1]",
    inputs="return [(torch.arange(1.0, 65.0), 1 + float(torch.rand(())))]",
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize("protocol", ON_THE_CPU)
@pytest.mark.parametrize(
    ("task", "why"),
    [(ZEROS, "zeros pass every trial"), (SEEDED, "every input is the same")],
    ids=["zeros", "seeded"],
)
async def test_every_protocol_labels_it(
    shared_sandbox: LocalSandbox, protocol: str, task: str, why: str
) -> None:
    request = evaluation(task, as_candidate(task), protocol=protocol)
    found = await shared_sandbox.evaluate(request)
    assert isinstance(found.outcome, Correct), found.outcome
    assert found.outcome.labels[0] == LABEL
    assert any(note.startswith(f"{LABEL}: {why}") for note in found.notes)


@pytest.mark.parametrize(
    ("task", "why"),
    [
        (CONSTANT, "the mean of the right answer"),
        (ANY_ANSWER, "the answer to another input"),
        (INTEGERS, "every input is the same"),
        (NOT_RANDOM, "every input is the same"),
        (WITHOUT_TENSORS, "the answer to another input"),
    ],
    ids=["constant", "any answer", "integers", "not random", "without tensors"],
)
async def test_the_reason_is_a_note(shared_sandbox: LocalSandbox, task: str, why: str) -> None:
    found = await shared_sandbox.evaluate(evaluation(task, as_candidate(task)))
    assert isinstance(found.outcome, Correct), found.outcome
    assert LABEL in found.outcome.labels
    assert any(note.startswith(f"{LABEL}: {why}") for note in found.notes), found.notes


@pytest.mark.parametrize("task", [ADD_RELU, SCALE], ids=["sound", "only a number differs"])
async def test_a_sound_task_has_no_label(shared_sandbox: LocalSandbox, task: str) -> None:
    for protocol in ("strict", "verified", "paper"):
        request = evaluation(task, as_candidate(task), protocol=protocol)
        found = await shared_sandbox.evaluate(request)
        assert isinstance(found.outcome, Correct), found.outcome
        assert LABEL not in found.outcome.labels, found.notes


async def test_it_can_be_refused(shared_sandbox: LocalSandbox) -> None:
    request = evaluation(ZEROS, as_candidate(ZEROS), refuse=(LABEL,))
    found = await shared_sandbox.evaluate(request)
    assert isinstance(found.outcome, Refused)
    assert found.outcome.label == LABEL
    assert "zeros pass every trial" in found.outcome.reason
