"""The protocol ``verified``: all inputs times 3, 0.01 and -1, whatever their form."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.dry_run import DryRun
from gpu_sandbox.verifier.trials.trial_cases import trial_cases
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import as_candidate

CPU = torch.device("cpu")
SCALED = ["inputs times 3", "inputs times 0.01", "inputs times -1"]
GRADES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.relu(x) * 2 + x.abs()

def get_inputs():
    return [torch.randint(0, 10, (64, 128)).float()]

def get_init_inputs():
    return []
"""
"""Numbers that are all whole: the changed inputs of strict leave them as they are."""
RIGHT = as_candidate(GRADES)
FOR_POSITIVE = RIGHT.replace("torch.relu(x) * 2 + x.abs()", "x * 3")
CLAMPED = RIGHT.replace("torch.relu(x)", "x.clamp(0, 9)")
WHOLE_ONLY = RIGHT.replace("torch.relu(x)", "torch.relu(x.round())")
ROOT = GRADES.replace("torch.relu(x) * 2 + x.abs()", "x.sqrt() + 1")
MASKED = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, mask):
        return x * mask

def get_inputs():
    return [torch.randn(8, 6), (torch.rand(8, 6) > 0.5).float()]
"""


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.anyio
@pytest.mark.parametrize(
    ("source", "told"),
    [
        (RIGHT, None),
        (CLAMPED, "inputs times 3"),
        (WHOLE_ONLY, "inputs times 3|inputs times 0.01"),
        (FOR_POSITIVE, "inputs times -1"),
    ],
    ids=["right", "clamps at a threshold", "for whole numbers", "for positive numbers"],
)
async def test_what_is_right_for_the_drawn_distribution_only_fails(
    shared_sandbox: LocalSandbox, source: str, told: str | None
) -> None:
    strict = await shared_sandbox.evaluate(evaluation(GRADES, source))
    assert isinstance(strict.outcome, Correct), strict.outcome
    found = await shared_sandbox.evaluate(evaluation(GRADES, source, protocol="verified"))
    assert found.protocol == "verified"
    if told is None:
        assert isinstance(found.outcome, Correct), found.outcome
        assert not [note for note in found.notes if "skipped" in note]
    else:
        assert isinstance(found.outcome, WrongResult), found.outcome
        assert any(f": {one})" in found.outcome.reason for one in told.split("|"))


@pytest.mark.anyio
async def test_where_the_reference_is_not_finite_a_note_names_the_transform(
    shared_sandbox: LocalSandbox,
) -> None:
    found = await shared_sandbox.evaluate(evaluation(ROOT, as_candidate(ROOT), protocol="verified"))
    assert isinstance(found.outcome, Correct), found.outcome
    (told,) = (note for note in found.notes if note.startswith("skipped "))
    assert told.startswith("skipped inputs times -1: ")


@pytest.mark.anyio
async def test_on_the_cpu_the_baseline_is_float32(shared_sandbox: LocalSandbox) -> None:
    found = await shared_sandbox.baseline(baseline(GRADES, protocol="verified"))
    assert found.conditions["precision"] == "float32"


def task_of(tmp_path: Path, source: str) -> Task:
    path = tmp_path / "task.py"
    path.write_text(source)
    return Task(str(path), CPU, Seeds(3))


def cases_of(tmp_path: Path, source: str) -> tuple[Case, list[Case], list[str]]:
    task, notes = task_of(tmp_path, source), list[str]()
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    return first, list(trial_cases(task, first, PROTOCOLS["verified"], notes)), notes


def test_verified_has_all_cases_of_strict_and_three_more(tmp_path: Path) -> None:
    _, cases, notes = cases_of(tmp_path, MASKED)
    assert [case.description for case in cases if case.description][-3:] == SCALED
    assert len(cases) > PROTOCOLS["strict"].trials + 3
    assert not notes


def test_a_mask_is_multiplied_as_well(tmp_path: Path) -> None:
    _, cases, _ = cases_of(tmp_path, MASKED)
    for case, factor in zip(cases[-3:], PROTOCOLS["verified"].scaled, strict=True):
        assert case.transform is not None
        assert set(case.tensors[1].unique().tolist()) == {
            0.0,
            torch.tensor(factor).item(),
        }


def test_inputs_without_floating_point_numbers_are_named(tmp_path: Path) -> None:
    source = GRADES.replace(".float()", "")
    _, cases, notes = cases_of(tmp_path, source)
    assert not [case for case in cases if case.description]
    assert notes == ["inputs are not multiplied: none is of floating point numbers"]


def test_the_reference_is_tried_on_them_before_there_is_a_candidate(tmp_path: Path) -> None:
    said: list[str] = []
    task = task_of(tmp_path, MASKED)
    DryRun(task, CPU, said.append).scaled(PROTOCOLS["verified"])
    assert [told for told in said if told] == SCALED
    said.clear()
    DryRun(task, CPU, said.append).scaled(PROTOCOLS["strict"])
    assert not said


def test_what_the_reference_did_not_survive_is_left_out(tmp_path: Path) -> None:
    task = task_of(tmp_path, MASKED)
    task.leave_out = ["inputs times -1"]
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    cases = list(trial_cases(task, first, PROTOCOLS["verified"], []))
    assert [case.description for case in cases][-2:] == SCALED[:2]
