"""Which outputs their caller may write over, by what the reference returns."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpu_sandbox.verifier.reference import determinism as repeating
from gpu_sandbox.verifier.reference.cases import Seeds
from gpu_sandbox.verifier.reference.determinism import measure_repeatability
from gpu_sandbox.verifier.reference.task import Task

TASK = """
from functools import cache

import torch
import torch.nn as nn

@cache
def mask(size):
    return torch.ones(size).tril()

class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.heat = nn.Parameter(torch.randn(4))
        self.seen = None

    def forward(self, x, y):
        return {output}

    def keep(self, x):
        self.seen = x
        return x

def get_inputs():
    return [torch.randn(3, 4), torch.zeros(2)]
"""


def task_that_returns(tmp_path: Path, output: str) -> Task:
    path = tmp_path / "task.py"
    path.write_text(TASK.format(output=output))
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    task.repeatability = measure_repeatability(task, first)
    task.find_owned(first)
    return task


@pytest.mark.parametrize(
    ("output", "owned"),
    [
        ("x + 1", True),
        ("torch.cat([x, self.heat.expand(3, 4)])", True),
        ("x", False),
        ("x[1:]", False),
        ("x.t()", False),
        ("self.heat", False),
        ("self.heat.detach()[1:]", False),
        ("self.keep(x + 1)", False),
        ("mask((4, 4))", False),
        ("self.heat.exp()", False),
        ("y + 1", False),
        ("(x + 1)[:1].expand(3, 4)", False),
    ],
)
def test_an_output(tmp_path: Path, output: str, owned: bool) -> None:
    assert task_that_returns(tmp_path, output).owned == [owned]


def test_each_of_several(tmp_path: Path) -> None:
    task = task_that_returns(tmp_path, "dict(a=x * 2, b=[x, x > 0], c=self.heat.exp())")
    assert task.owned == [True, False, True, False]


def test_another_draw_is_left_out_where_it_takes_too_much(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(repeating, "_MAX_REDRAWN_BYTES", 100)
    assert task_that_returns(tmp_path, "self.heat.exp()").owned == [False]
    assert task_that_returns(tmp_path, "self.heat.exp() + torch.zeros(9, 4)").owned == [True]
