"""The cases that a candidate has to get right: which, and how many there are at a time."""

from __future__ import annotations

import gc
import weakref
from pathlib import Path

import pytest
import torch

from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck
from gpu_sandbox.verifier.trials.trial_cases import trial_cases

CPU = torch.device("cpu")
TASK = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {outputs}

def get_inputs():
    return [{drawn}]
"""
CHANGED = [
    "inputs times 64",
    "inputs with outliers",
    "each row offset",
    "small integers",
    "inputs times 8, half of it",
    "each row offset, half of it",
    "numbers nearer to one of them, half of it",
    "numbers nearer to one of them, half of it",
]


@pytest.fixture
def task(tmp_path: Path, request: pytest.FixtureRequest) -> Task:
    outputs, drawn = getattr(request, "param", ("torch.relu(x)", "torch.randn(8, 6)"))
    path = tmp_path / "task.py"
    path.write_text(TASK.format(outputs=outputs, drawn=drawn))
    return Task(str(path), CPU, Seeds(3))


def cases_of(task: Task) -> list[Case]:
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    return list(trial_cases(task, first, PROTOCOLS["strict"], []))


@pytest.mark.parametrize(
    ("task", "changed"),
    [
        (("torch.relu(x)", "torch.randn(8, 6)"), CHANGED),
        (("torch.relu(x)", "torch.randn(8, 6).half()"), CHANGED),
        (("x + 1", "torch.randint(9, (8, 6))"), []),
        (("x, x[:, :0], x[:0]", "torch.randn(8, 6)"), CHANGED),
        (("torch.relu(x)", "torch.randn(8, 0)"), CHANGED),
        (("x.exp()", "7.0 + 0.3 * torch.rand(8, 6)"), CHANGED[1:]),
        (
            ("(1 / x.abs().floor().clamp(max=1) - 1).sum()", "torch.randn(8, 6) + 9"),
            [*CHANGED[:3], *CHANGED[4:]],
        ),
    ],
    ids=["floats", "halves", "integers", "empty outputs", "empty inputs", "overflow", "infinite"],
    indirect=["task"],
)
def test_inputs_are_changed_where_the_reference_stays_finite(
    task: Task, changed: list[str]
) -> None:
    found = cases_of(task)
    assert [case.description for case in found if case.description] == changed
    assert len(found) == PROTOCOLS["strict"].trials + len(changed)


@pytest.mark.parametrize("task", [("torch.relu(x)", "torch.randn(400, 300)")], indirect=True)
def test_outliers_are_a_dozen_times_as_large(task: Task) -> None:
    (before,) = task.draw(f"{CHANGED[1]}/all", 0).tensors
    (case,) = (case for case in cases_of(task) if case.description == CHANGED[1])
    same, larger = case.tensors[0] == before, case.tensors[0] == before * 12.0
    assert bool((same | larger).all())
    assert 60 < int((~same).sum()) < 240


def test_one_case_is_held_at_a_time(task: Task, monkeypatch: pytest.MonkeyPatch) -> None:
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    living: list[weakref.ref[torch.Tensor]] = []
    draw = Task.draw

    def noted(self: Task, *arguments: object) -> Case:
        assert not [one for one in living if one() is not None]
        return draw(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Task, "draw", noted)
    cases = trial_cases(task, first, PROTOCOLS["strict"], [])
    next(cases)
    seen = 0
    gc.disable()  # what waits for it is held, too
    try:
        while case := next(cases, None):
            living.append(weakref.ref(case.tensors[0]))
            seen += 1
            del case
    finally:
        gc.enable()
    assert seen == PROTOCOLS["strict"].trials - 1 + len(CHANGED)


@pytest.mark.parametrize(
    ("task", "lost"),
    [
        (("1 / (x + 1 - 2)", "1 + 1.5e-4 * (1 + torch.rand(900))"), True),
        (("1 / (x + 1 - 2)", "1 + 1e-2 * (1 + torch.rand(900))"), False),
        (("x + 1 - 2", "torch.rand(900)"), False),
    ],
    indirect=["task"],
)
def test_one_run_that_is_near_enough_does_not_say_that_others_are(task: Task, lost: bool) -> None:
    case = task.draw("trial", 0)
    task.solve(case, exact=True)
    assert not case.expected[0].is_unsound
    assert RoundingRecheck(task).ill_conditioned(case, case.expected) == [lost]
