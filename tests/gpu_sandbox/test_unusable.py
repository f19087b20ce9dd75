"""Tasks that nothing can be held against: refused with the reason, wherever they show up first,
and never taken for a device that fails."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
import torch

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import SandboxFault, TaskUnusable
from gpu_sandbox.runtime.task_errors import Broken
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.task_checks import check_reference
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, as_candidate

pytestmark = pytest.mark.anyio


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


def returning(expression: str) -> str:
    return ADD_RELU.replace("return torch.relu(a + b)", f"return {expression}")


def given(inputs: str, expression: str = "a + b") -> str:
    before = "[torch.randn(64, 128), torch.randn(64, 128)]"
    return returning(expression).replace(before, f"[{inputs}]")


CONFIG = ADD_RELU.replace("return []", "return [Config()]").replace(
    "class Model", "class Config:\n    size = 3\n\n\nclass Model"
)
ACCOUNT = ADD_RELU.replace(
    "    def forward(self, a, b):\n",
    "    seen = 0\n\n    def forward(self, a, b):\n        Model.seen += 1\n",
).replace("torch.relu(a + b)", "torch.relu(a + b) + Model.seen")

ONE_IN_THREE = given("torch.full((64, 128), float(next(DRAWN) % 3 == 2)), torch.ones(64, 128)")
ONE_IN_THREE = ONE_IN_THREE.replace(
    "class Model", "DRAWN = __import__('itertools').count()\n\n\nclass Model"
)

ONE_IN_TEN = ONE_IN_THREE.replace("% 3 == 2", "% 10 == 9")
OWN_ACCOUNT = ACCOUNT.replace("Model.seen", "self.seen")

TASKS = {
    "returns-float8": (returning("a.to(torch.float8_e4m3fn)"), "output 0 is float8_e4m3fn"),
    "returns-nested": (
        returning("torch.nested.nested_tensor([a, b], layout=torch.jagged)"),
        "output 0 is nested",
    ),
    "returns-nothing-real": (returning("a.to('meta')"), "output 0 is on the meta device"),
    "takes-sparse": (given("torch.eye(64).to_sparse(), torch.eye(64)"), "input 0 is laid out as"),
    "takes-a-generator": (
        given("torch.eye(3), (i for i in 'ab')", "a"),
        "get_inputs() gives a value of type builtins.generator, which can't be handed on",
    ),
    "takes-its-own-type": (CONFIG, "task.Config, which the task file defines"),
    "shape-by-value": (
        returning("a.flatten()[: int(a.abs().sum() * 10_000) % 8191]"),
        "the shape of the reference's output 0 depends on its inputs' values",
    ),
    "shape-by-value-now-and-then": (
        ONE_IN_THREE.replace("return a + b", "return a[: 64 - int(a[0, 0])] + 1"),
        "the shape of the reference's output 0 depends on its inputs' values: [64, 128], then [63",
    ),
    "shape-by-value-seldom": (
        ONE_IN_TEN.replace("return a + b", "return a[: 64 - int(a[0, 0])] + 1"),
        "the shape of the reference's output 0 depends on its inputs' values: [64, 128], then [63",
    ),
    "structure-by-value": (
        returning("{str(float(a.sum())): a + b}"),
        "what the reference returns depends on its inputs' values: expected",
    ),
    "leaves": (returning("__import__('sys').exit(3)"), "the reference failed: SystemExit: 3"),
    "holds-nan": (returning("(a + b) * float('nan')"), "holds NaN"),
    "returns-none": (returning("None"), "returns no tensor"),
    "remembers": (ACCOUNT, "not deterministic"),
    "remembers-its-calls": (OWN_ACCOUNT, "its earlier calls (what it keeps should be an input)"),
}


@pytest.mark.process
@pytest.mark.parametrize(("task", "reason"), TASKS.values(), ids=TASKS)
async def test_it_is_refused_when_a_candidate_is_the_first_to_meet_it(
    shared_sandbox: LocalSandbox, task: str, reason: str
) -> None:
    with pytest.raises(SandboxFault) as fault:
        await shared_sandbox.evaluate(evaluation(task, as_candidate(task)))
    assert reason in str(fault.value)
    assert shared_sandbox.load().quarantined == {}


@pytest.mark.process
@pytest.mark.parametrize("name", ["takes-sparse", "shape-by-value", "takes-its-own-type"])
async def test_and_when_it_is_measured(shared_sandbox: LocalSandbox, name: str) -> None:
    task, reason = TASKS[name]
    with pytest.raises(TaskUnusable) as refused:
        await shared_sandbox.baseline(baseline(task))
    assert reason in refused.value.reason


@pytest.mark.process
async def test_one_that_leaves_with_its_judge_costs_no_device(
    shared_sandbox: LocalSandbox,
) -> None:
    task = returning("__import__('os')._exit(3)")
    with pytest.raises(SandboxFault, match="the task can't be judged: the verifier exited"):
        await shared_sandbox.evaluate(evaluation(task, HONEST))
    assert shared_sandbox.load().quarantined == {}
    verdict = await shared_sandbox.evaluate(evaluation(ADD_RELU, HONEST))
    assert isinstance(verdict.outcome, Correct)


@pytest.mark.process
@pytest.mark.parametrize(
    "task",
    [
        given("*[torch.randn(64, 64).to(torch.float8_e4m3fn) for _ in 'ab']", "a.float() + 1"),
        returning("a.add_(b)"),
        returning("a.add_(b).t()"),
        returning("torch.dot(a.flatten(), b.flatten())"),
        returning("(a + b, a.mean().item())"),
        returning("(a + b, torch.relu(a + b).mean().item())"),
    ],
    ids=[
        "takes-float8",
        "returns-its-input",
        "returns-a-view-of-it",
        "one-element",
        "a-number",
        "a-number-that-may-be-nan",
    ],
)
async def test_what_is_unusual_and_sound_is_judged(shared_sandbox: LocalSandbox, task: str) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(task, as_candidate(task)))
    assert isinstance(verdict.outcome, Correct), verdict
    assert not any("degenerate" in note for note in verdict.notes)


KEEPS = """
import torch


class Model(torch.nn.Module):
    seen = 0.0

    def forward(self, x):
        self.seen = max(self.seen, float(x[0]))
        return x[: 3 if x[1] < 0 else 2] + self.seen


def get_inputs():
    return [torch.zeros(3)]


def get_init_inputs():
    return []
"""


@pytest.fixture
def keeps(tmp_path: Path) -> tuple[Task, Case]:
    """What keeps something, and its first inputs, solved."""
    path = tmp_path / "task.py"
    path.write_text(KEEPS)
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=False)
    return task, first


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        ([[0.0, 0.0, 1.0]], ""),
        ([[5.0, 0.0, 1.0], [1.0, 0.0, 1.0]], "depends on its earlier calls"),
        ([[0.0, -1.0, 1.0]], "depends on its inputs' values"),
    ],
)
def test_nobody_is_blamed_for_what_the_reference_seldom_does(
    keeps: tuple[Task, Case], given: list[list[float]], reason: str
) -> None:
    task, first = keeps
    for number, values in enumerate(given):
        case = task.draw("trial", 1 + number)
        case.tensors[0].copy_(torch.tensor(values))
        task.solve(case, exact=False)
    with pytest.raises(Broken, match=reason) if reason else nullcontext():
        check_reference(task, first, case)


def test_who_has_taken_all_memory_is_to_blame_nevertheless(
    keeps: tuple[Task, Case], monkeypatch: pytest.MonkeyPatch
) -> None:
    task, first = keeps

    def no_memory() -> None:
        raise Broken("constructing the reference failed", memory=True)

    monkeypatch.setattr(task, "new_model", no_memory)
    check_reference(task, first, first)
