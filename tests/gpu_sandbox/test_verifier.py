"""What a verifier keeps of a job: nothing."""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpu_sandbox.runtime.module_loader import import_file
from gpu_sandbox.tensors.pytree import TASK_MODULE
from gpu_sandbox.verifier.main import Garbage

TASK = """
import torch

LARGE = torch.zeros(1000)

class Model(torch.nn.Module):
    def forward(self, x):
        return LARGE + x
"""


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    yield
    sys.modules.pop(TASK_MODULE, None)
    gc.unfreeze()


@pytest.mark.parametrize("slow", [True, False])
def test_a_task_and_its_tensors_are_given_back(slow: bool, tmp_path: Path) -> None:
    """Also where what else there is, is not looked through again."""
    garbage = Garbage(slow_s=0.0 if slow else 60.0)
    file = tmp_path / "task.py"
    file.write_text(TASK)
    for _ in range(2):
        module = import_file(TASK_MODULE, str(file))
        held = weakref.ref(module.LARGE)
        model = module.Model()
        model(1)
        del model, module
        garbage.collect()
        assert held() is None
    assert bool(gc.get_freeze_count()) is slow
