"""TF32 in convolutions: granted where PyTorch's default flags grant it, and to nothing else."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.runtime.precision import grants_tf32, in_tf32
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.reference.cases import Case, Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.checks import check_call, check_values
from gpu_sandbox.verifier.trials.convolution_recheck import RoundedConvolutions
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck
from gpu_sandbox.verifier.trials.trial_cases import trial_cases
from gpu_sandbox.verifier.worker_link.requests import Ended

CPU = torch.device("cpu")
STRICT = PROTOCOLS["strict"]
TASK = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        {layer}

    def forward(self, x):
        return {forward}

def get_inputs():
    return [{drawn}]
"""
CONVOLUTION = TASK.format(
    layer="self.conv = torch.nn.Conv3d(8, 16, (3, 3, 1))",
    forward="torch.relu(self.conv(x))",
    drawn="torch.randn(4, 8, 12, 12, 5)",
)
TRANSPOSED = TASK.format(
    layer="self.conv = torch.nn.ConvTranspose2d(8, 16, 3)",
    forward="self.conv(x)",
    drawn="torch.randn(4, 8, 12, 12)",
)
PRODUCT = TASK.format(
    layer="self.weight = torch.nn.Parameter(torch.randn(96, 64))",
    forward="x @ self.weight",
    drawn="torch.randn(48, 96)",
)
IN_HALF = CONVOLUTION.replace(
    "self.conv(x)", "torch.conv3d(x.half(), self.conv.weight.half()).float()"
)


def task_of(tmp_path: Path, source: str, *, grants: bool = True) -> tuple[Task, Case]:
    """``grants``: as on a GPU."""
    path = tmp_path / "task.py"
    path.write_text(source)
    task = Task(str(path), CPU, Seeds(3))
    task.grants_tf32 = grants
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    return task, first


def in_tf32_convolutions(task: Task, case: Case) -> list[torch.Tensor]:
    """What cuDNN makes of it where it takes TF32."""
    with RoundedConvolutions():
        return [t.detach() for t in task.results(task.model, case.arguments, case)]


def in_bf16(task: Task, case: Case) -> list[torch.Tensor]:
    (x,), conv = case.arguments, task.model.conv
    cut = [t.bfloat16().float() for t in (x, conv.weight)]
    return [torch.relu(torch.conv3d(*cut, conv.bias)).detach()]


def judged(task: Task, case: Case, got: list[torch.Tensor]) -> str | None:
    """Why it is wrong, as a trial says."""
    try:
        check_call(case, case.expected, got, STRICT, 1, RoundingRecheck(task).rechecks)
    except Ended as ended:
        return str(ended.finding)
    return None


def test_who_grants_it() -> None:
    cuda = torch.device("cuda")
    assert grants_tf32(cuda, "float32")
    assert not grants_tf32(CPU, "float32")
    assert not grants_tf32(cuda, "tf32")
    assert not grants_tf32(cuda, "bf16")


@pytest.mark.parametrize("source", [CONVOLUTION, TRANSPOSED], ids=["3d", "transposed"])
def test_a_convolution_in_tf32_is_right_where_it_is_granted(tmp_path: Path, source: str) -> None:
    task, first = task_of(tmp_path, source, grants=False)
    wrong = judged(task, first, in_tf32_convolutions(task, first))
    assert wrong is not None
    assert "allowed 2.00e-05" in wrong
    task, first = task_of(tmp_path, source)
    for case in trial_cases(task, first, STRICT, []):
        assert judged(task, case, in_tf32_convolutions(task, case)) is None, case.description


def test_bfloat16_is_not_and_the_reason_says_what_is(tmp_path: Path) -> None:
    task, first = task_of(tmp_path, CONVOLUTION)
    wrong = judged(task, first, in_bf16(task, first))
    assert wrong is not None
    assert "with TF32 in its convolutions" in wrong


@pytest.mark.parametrize("off", [in_tf32_convolutions, in_bf16])
def test_timed_calls_are_held_to_what_the_trial_was(
    tmp_path: Path, off: Callable[[Task, Case], list[torch.Tensor]]
) -> None:
    task, first = task_of(tmp_path, CONVOLUTION)
    assert judged(task, first, in_tf32_convolutions(task, first)) is None
    timed = task.draw("timed", 0)
    task.solve(timed, exact=False)
    pairs = zip(timed.expected, first.margins, strict=True)
    expected = [Expected.within(one.native, margin) for one, margin in pairs]
    if off is in_bf16:
        with pytest.raises(Ended):
            check_values(expected, off(task, timed), STRICT, None)
    else:
        check_values(expected, off(task, timed), STRICT, None)


def test_a_product_in_tf32_is_as_wrong_as_before(tmp_path: Path) -> None:
    reasons = []
    for grants in (False, True):
        task, first = task_of(tmp_path, PRODUCT, grants=grants)
        before = [(one.tolerance, dict(one.bounds)) for one in first.expected]
        product = in_tf32(first.tensors[0]) @ in_tf32(task.model.weight.detach())
        wrong = judged(task, first, [product])
        assert wrong is not None
        assert [(one.tolerance, dict(one.bounds)) for one in first.expected] == before
        reasons.append(wrong.partition(", the")[0].partition("error ")[2])
        assert not task.grants_tf32  # it is asked once
    assert all("allowed 2.00e-05" in reason for reason in reasons)


def test_what_is_right_by_the_strict_rule_is_granted_nothing(tmp_path: Path) -> None:
    task, first = task_of(tmp_path, CONVOLUTION)
    assert judged(task, first, task.results(task.model, first.arguments, first)) is None
    assert [one.tf32_error for one in first.expected] == [0.0]


def test_a_convolution_in_half_precision_is_none(tmp_path: Path) -> None:
    task, first = task_of(tmp_path, IN_HALF)
    assert judged(task, first, [first.expected[0].native * 1.1]) is not None
    assert not task.grants_tf32


def test_a_slow_reference_is_not_run_once_more(tmp_path: Path) -> None:
    task, first = task_of(tmp_path, CONVOLUTION)
    got = in_tf32_convolutions(task, first)
    task.forward_s = 3.0
    assert judged(task, first, got) is not None


def test_without_float64_it_is_granted_beside_the_references_own_run(tmp_path: Path) -> None:
    task, _ = task_of(tmp_path, CONVOLUTION)
    case = task.draw("trial", 1)
    task.forward_s = 1.5  # too slow for a run in float64
    truth, rough = task.float64_outputs(case)
    assert truth is None
    case.expected = task.expect(case, task.rerun(case), truth, rough, use_own_run=True)
    assert case.expected[0].truth is case.expected[0].native
    assert judged(task, case, in_tf32_convolutions(task, case)) is None
