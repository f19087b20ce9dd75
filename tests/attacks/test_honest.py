"""Every honest candidate must be accepted, and charged nothing that it has not cost: what is built
against attacks must not cost them."""

from __future__ import annotations

import importlib.util
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from events.outcomes import Correct
from tests.attacks.files import honest_source
from tests.attacks.honest_table import HONEST, OF_PLACES, Honest
from tests.attacks.judging import Sandboxes, evaluate, mostly
from tests.attacks.short import SHORT_HONEST
from tests.attacks.table import BUILDS_IN_FORWARD

pytestmark = pytest.mark.anyio

_CHARGED = ("mapped, not written", "what writing its outputs takes")

_NO_CUDA = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device")


def _cases(device: str) -> list[object]:
    def marks(honest: Honest) -> list[pytest.MarkDecorator]:
        found = [pytest.mark.compiles] if honest.compiles else []
        found += [pytest.mark.places] if honest.name in OF_PLACES else []
        short = honest.name in SHORT_HONEST and not honest.slow
        return found if short else [*found, pytest.mark.slow]

    return [
        pytest.param(honest, id=honest.name, marks=marks(honest))
        for honest in HONEST.values()
        if honest.device in (device, "both")
    ]


Accepted: TypeAlias = Callable[[Honest, str], Awaitable[None]]


@pytest.fixture
def accepted(sandboxes: Sandboxes, record_property: Callable[[str, object], None]) -> Accepted:
    async def judged(honest: Honest, device: str) -> None:
        async def judge() -> str:
            sandbox = sandboxes[device, BUILDS_IN_FORWARD]
            verdict = await evaluate(sandbox, honest.task, honest_source(honest.name), device)
            charged = any(told in note for note in verdict.notes for told in _CHARGED)
            if isinstance(verdict.outcome, Correct) and not charged:
                return ""
            told = (verdict.notes, verdict.compile_log[-2000:], verdict.run_log[-2000:])
            return f"{verdict.outcome} {told}"

        found = await mostly(judge, record_property)
        assert not found, found

    return judged


@pytest.mark.parametrize("honest", _cases("cpu"))
async def test_honest(honest: Honest, accepted: Accepted) -> None:
    await accepted(honest, "cpu")


@pytest.mark.gpu
@_NO_CUDA
@pytest.mark.parametrize("honest", _cases("cuda"))
async def test_honest_cuda(honest: Honest, accepted: Accepted) -> None:
    if "triton" in honest.name and importlib.util.find_spec("triton") is None:
        pytest.skip("no triton")
    await accepted(honest, "cuda:0")
