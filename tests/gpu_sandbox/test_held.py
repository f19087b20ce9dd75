"""What a reference's forward changes besides its output: of its inputs, and of its buffers."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from events.outcomes import Correct
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.reference import module_state as held
from gpu_sandbox.verifier.reference.cases import Seeds
from gpu_sandbox.verifier.reference.task import Task
from tests.gpu_sandbox.conftest import evaluation
from tests.gpu_sandbox.sources import LINEAR, as_candidate

TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(4))
        self.register_buffer("constant", torch.ones(4))
        self.register_buffer("nothing", None)

    def forward(self, x, y):
        {forward}
        return x + self.constant

def get_inputs():
    return [torch.randn(3, 4), torch.zeros(4)]
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def probed(tmp_path: Path, forward: str) -> Task:
    path = tmp_path / "task.py"
    path.write_text(TASK.format(forward=forward))
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    task.solve(task.draw("trial", 0), exact=False)
    return task


@pytest.mark.parametrize(
    ("forward", "mutates", "updates"),
    [
        ("pass", False, []),
        ("y.add_(1)", True, []),
        ("y.data.add_(1)", True, []),
        ("y.relu_()", True, []),  # the same numbers, but it has written them
        ("torch.batch_norm(x, None, None, y, y + 1, True, 0.1, 1e-5, False)", True, []),
        ("self.seen += 1", False, ["seen"]),
        ("self.seen.data.copy_(x[0])", False, ["seen"]),
        ("self.seen = x[0]", False, ["seen"]),
        ("self.seen = x", False, ["seen"]),
        ("self.seen = None", False, ["seen"]),
        ("self.constant.mul_(1)", False, []),
    ],
)
def test_what_its_first_forward_changes(
    tmp_path: Path, forward: str, mutates: bool, updates: list[str]
) -> None:
    task = probed(tmp_path, forward)
    assert (task.mutates, task.updates) == (mutates, updates)


def test_inputs_that_it_changes_stay_as_they_were_drawn(tmp_path: Path) -> None:
    task = probed(tmp_path, "torch.batch_norm(x, None, None, y, y + 1, True, 0.1, 1e-5, False)")
    case = task.draw("trial", 1)
    task.solve(case, exact=False)
    assert not bool(case.tensors[1].any())
    assert bool(case.mutated[1].native.any())


def test_what_is_updated_is_told_in_a_line() -> None:
    assert held.state_notes([]) == []
    (said,) = held.state_notes(["a", "b", "c", "d", "e"])
    assert "a, b, c and 2 more" in said


@pytest.mark.process
@pytest.mark.anyio
async def test_that_nobody_compares_it_is_noted(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(LINEAR, as_candidate(LINEAR)))
    assert isinstance(verdict.outcome, Correct)
    (said,) = (note for note in verdict.notes if note.startswith("the reference updates"))
    assert "norm.running_mean" in said
