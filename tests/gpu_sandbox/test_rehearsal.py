"""A reference that does not survive changed inputs: judged without those, and a note says so."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec
import pytest
import torch

from events.outcomes import Correct
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.supervise.zygote_client import ForkedProcess, Zygote
from gpu_sandbox.verifier.reference.cases import Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.trials.dry_run import DryRun
from gpu_sandbox.verifier.trials.rounding_recheck import PERTURBED_INPUTS
from tests.gpu_sandbox.conftest import QUICK, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST

pytestmark = pytest.mark.anyio


def touchy(where: Path, what: str) -> str:
    """A task whose reference does that where it is trusted and a number is large."""
    where.touch()
    return ADD_RELU.replace(
        "        return torch.relu",
        f"""        import os, pathlib, time
        if pathlib.Path({str(where)!r}).exists() and a.abs().max() > 60.0:
            {what}
        return torch.relu""",
    )


@pytest.fixture
def roles(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of all processes that were started."""
    started: list[str] = []
    spawn = Zygote.spawn

    async def spawned(self: Zygote, role: str, *args: object, **options: object) -> ForkedProcess:
        started.append(role)
        return await spawn(self, role, *args, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(Zygote, "spawn", spawned)
    return started


@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.parametrize("what", ["os.abort()", "time.sleep(60.0)"])
async def test_what_the_reference_does_not_survive_is_left_out(
    make_sandbox: Callable[..., LocalSandbox], roles: list[str], tmp_path: Path, what: str
) -> None:
    task = touchy(tmp_path / "here", what)
    limits = msgspec.structs.replace(QUICK, call_s=6.0)
    async with make_sandbox(limits) as sandbox:
        for _ in range(2):
            verdict = await sandbox.evaluate(evaluation(task, HONEST))
            assert isinstance(verdict.outcome, Correct)
            (note,) = (note for note in verdict.notes if "left out" in note)
            assert note.endswith("does not survive it: inputs times 64")
            assert not any("broke down" in note for note in verdict.notes)
        assert sandbox.load().quarantined == {}
    assert roles.count("verifier") == 2, "that one knows, and lives on"


def test_half_precision_is_moved_as_far_as_it_ever_is(tmp_path: Path) -> None:
    """What ends a process where a number is above one is met there, and not beside a candidate."""
    path, met = tmp_path / "task.py", tmp_path / "met"
    path.write_text(f"""
import torch
from torch import nn

class Model(nn.Module):
    def forward(self, x):
        if x.max() > 1.0:
            open({str(met)!r}, "w").close()
        return x + 1.0

def get_inputs():
    return [torch.ones(512).half()]

def get_init_inputs():
    return []
""")
    said: list[str] = []
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    first = task.draw("trial", 0)
    task.solve(first, exact=True)
    assert not met.exists()
    DryRun(task, torch.device("cpu"), said.append).perturbed(first)
    assert met.exists()
    assert said == [PERTURBED_INPUTS, ""]
