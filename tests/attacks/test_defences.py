"""The corpus bites: without a defence, the attack that it is for succeeds.

An attack that names something of the sandbox attacks nothing when that is renamed, and is
withstood; so is one whose target is gone. Here each succeeds where its defence is switched off.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import gpu_sandbox
from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.patching import Patch, target_of
from tests.attacks.defences.table import DEFENCES
from tests.attacks.defences.zygote import defenceless
from tests.attacks.judging import Rests, Twins, gains
from tests.attacks.table import ATTACKS
from tests.attacks.world import World

pytestmark = pytest.mark.anyio

PACKAGE = Path(gpu_sandbox.__file__ or "").parent
_TRIES = 3
"""What is drawn by chance may stop an attack once."""


def _cases(device: str) -> list[object]:
    """On a GPU only what needs one: the rest is the same code."""
    return [
        pytest.param(defence, bite, id=f"{defence.name}-{bite.attack}".replace(" ", "_"))
        for defence in DEFENCES.values()
        for bite in defence.bites
        if (ATTACKS[bite.attack].device == "cuda") == (device == "cuda")
    ]


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("defence", "bite"), _cases("cpu"))
async def test_attack_succeeds_without_defence(
    defence: Defence, bite: Bite, world: World, sandbox_cache: Path
) -> None:
    await _succeeds(defence, bite, "cpu", world, sandbox_cache)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("defence", "bite"), _cases("cuda"))
async def test_attack_succeeds_without_defence_cuda(
    defence: Defence, bite: Bite, world: World, sandbox_cache: Path
) -> None:
    await _succeeds(defence, bite, "cuda:0", world, sandbox_cache)


async def _succeeds(defence: Defence, bite: Bite, device: str, world: World, cache: Path) -> None:
    attack = ATTACKS[bite.attack]
    told: list[str] = []
    async with defenceless(defence, bite, device, cache) as sandboxes:
        twins, rests = Twins(sandboxes), Rests(sandboxes)
        for _ in range(_TRIES):
            sandbox = sandboxes[device, attack.limits]
            gained = await gains(attack, device, sandbox, world, twins, rests)
            told += [*gained.harm, *gained.verdict] or [f"{attack.name}: nothing"]
            if any(bite.gain in each for each in told):
                return
    raise AssertionError(f"without {defence.name}: " + "\n".join(told))


@pytest.mark.parametrize(
    "patch",
    [patch for defence in DEFENCES.values() for patch in defence.patches],
    ids=lambda patch: patch.target,
)
def test_what_is_switched_off_exists(patch: Patch) -> None:
    target_of(patch)


@pytest.mark.parametrize("defence", DEFENCES.values(), ids=lambda defence: defence.name)
def test_each_defence_is_switched_off_or_says_why_not(defence: Defence) -> None:
    assert bool(defence.kept) != bool(defence.bites)
    assert bool(defence.bites) == bool(defence.patches or defence.without)
    assert (PACKAGE / defence.module).exists()
    for bite in defence.bites:
        assert bite.attack in ATTACKS
        assert set(bite.also_off) <= set(DEFENCES)
