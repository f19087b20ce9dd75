"""The forward in float64: what is had of it after it failed once."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpu_sandbox.verifier.inputs.transforms import Transform
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck

TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        if x.dtype == torch.float64 and x.max() > 50.0:
            raise {error}("not in float64")
        return x + 1.0

def get_inputs():
    return [torch.rand(8, 6)]
"""


def solved(tmp_path: Path, error: str) -> tuple[Task, Case]:
    """And the first case."""
    path = tmp_path / "task.py"
    path.write_text(TASK.format(error=error))
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    return task, first


def large(task: Task) -> Case:
    transform = Transform("times 64", lambda t: (t + 1.0) * 64.0, [])
    return task.draw("large", 0, transform)


@pytest.mark.parametrize(
    ("error", "taken"), [("torch.linalg.LinAlgError", False), ("RuntimeError", True)]
)
def test_what_a_matrix_has_not_got_in_float64_nobody_is_held_to(
    tmp_path: Path, error: str, *, taken: bool
) -> None:
    task, _ = solved(tmp_path, error)
    assert task.accepts(large(task)), "in its own precision"
    assert task.accepts(large(task), exact=True) == taken


@pytest.mark.parametrize("error", ["torch.linalg.LinAlgError", "RuntimeError"])
def test_it_is_asked_again_for_other_inputs(tmp_path: Path, error: str) -> None:
    task, first = solved(tmp_path, error)
    task.accepts(large(task), exact=True)
    task.solve(first, exact=True)
    assert first.expected[0].truth.dtype == torch.float64


@pytest.mark.parametrize(
    ("error", "passed"), [("torch.linalg.LinAlgError", True), ("RuntimeError", False)]
)
def test_a_timed_call_passes_where_float64_has_no_answer(
    tmp_path: Path, error: str, *, passed: bool
) -> None:
    task, first = solved(tmp_path, error)
    case = large(task)
    task.solve(case, exact=False)
    wrong = [torch.zeros(8, 6)]
    looks = list(RoundingRecheck(task).timed_rechecks(case, case.expected, wrong))
    assert any(torch.equal(got[0], case.expected[0].native) for _, got in looks) == passed
    looks = list(RoundingRecheck(task).timed_rechecks(first, first.expected, wrong))
    assert not any(torch.equal(got[0], first.expected[0].native) for _, got in looks)
