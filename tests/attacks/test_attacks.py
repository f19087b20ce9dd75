"""Every attack of the corpus against the sandbox of this machine.

A failure says what the attack gained. ``-k clock`` takes one family, ``-k NAME`` one attack.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.attacks.files import twin_source
from tests.attacks.judging import Sandboxes, Twins, evaluate, gains
from tests.attacks.table import ATTACKS, QUICK, Attack
from tests.attacks.world import World

pytestmark = pytest.mark.anyio

_NO_CUDA = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device")


def _cases(device: str) -> list[object]:
    return [
        pytest.param(
            attack,
            id=f"{attack.family}-{attack.name}",
            marks=[pytest.mark.compiles] if attack.compiles else [],
        )
        for attack in ATTACKS.values()
        if attack.device in (device, "both")
    ]


@pytest.fixture(scope="session")
def layers() -> dict[str, list[str]]:
    """By device: the layers of which a verdict said that they are missing."""
    return {}


async def _refuse_harm(
    attack: Attack, device: str, sandboxes: Sandboxes, layers: dict[str, list[str]]
) -> None:
    """Bombs are thrown only at a sandbox that says that it can catch them."""
    if not attack.needs:
        return
    if device not in layers:
        verdict = await evaluate(
            sandboxes[device, QUICK], "elementwise", twin_source("elementwise"), device
        )
        layers[device] = verdict.isolation
    lacking = [need for need in attack.needs if f"missing:{need}" in layers[device]]
    if lacking:
        pytest.skip(f"might do harm: this sandbox lacks {', '.join(lacking)}")


@pytest.mark.parametrize("attack", _cases("cpu"))
async def test_attack(
    attack: Attack,
    sandboxes: Sandboxes,
    world: World,
    twins: Twins,
    layers: dict[str, list[str]],
) -> None:
    await _refuse_harm(attack, "cpu", sandboxes, layers)
    found = await gains(attack, "cpu", sandboxes["cpu", attack.limits], world, twins)
    assert not found, "\n".join(found)


@pytest.mark.gpu
@_NO_CUDA
@pytest.mark.parametrize("attack", _cases("cuda"))
async def test_attack_cuda(
    attack: Attack,
    sandboxes: Sandboxes,
    world: World,
    twins: Twins,
    layers: dict[str, list[str]],
) -> None:
    await _refuse_harm(attack, "cuda:0", sandboxes, layers)
    found = await gains(attack, "cuda:0", sandboxes["cuda:0", attack.limits], world, twins)
    assert not found, "\n".join(found)
