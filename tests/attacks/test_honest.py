"""Every honest candidate must be accepted: what is built against attacks must not cost them."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

from events.outcomes import Correct
from gpu_sandbox.sandbox import LocalSandbox
from tests.attacks.files import honest_source
from tests.attacks.honest_table import HONEST, Honest
from tests.attacks.judging import Sandboxes, evaluate
from tests.attacks.table import BUILDS_IN_FORWARD

pytestmark = pytest.mark.anyio

_NO_CUDA = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device")


def _cases(device: str) -> list[object]:
    def marks(honest: Honest) -> list[pytest.MarkDecorator]:
        found = [pytest.mark.compiles] if honest.compiles else []
        return [*found, pytest.mark.slow] if honest.slow else found

    return [
        pytest.param(honest, id=honest.name, marks=marks(honest))
        for honest in HONEST.values()
        if honest.device in (device, "both")
    ]


async def _accepted(sandbox: LocalSandbox, honest: Honest, device: str) -> None:
    verdict = await evaluate(sandbox, honest.task, honest_source(honest.name), device)
    told = (verdict.outcome, verdict.notes, verdict.compile_log[-2000:], verdict.run_log[-2000:])
    assert isinstance(verdict.outcome, Correct), told


@pytest.mark.parametrize("honest", _cases("cpu"))
async def test_honest(honest: Honest, sandboxes: Sandboxes) -> None:
    await _accepted(sandboxes["cpu", BUILDS_IN_FORWARD], honest, "cpu")


@pytest.mark.gpu
@_NO_CUDA
@pytest.mark.parametrize("honest", _cases("cuda"))
async def test_honest_cuda(honest: Honest, sandboxes: Sandboxes) -> None:
    if "triton" in honest.name and importlib.util.find_spec("triton") is None:
        pytest.skip("no triton")
    await _accepted(sandboxes["cuda:0", BUILDS_IN_FORWARD], honest, "cuda:0")
