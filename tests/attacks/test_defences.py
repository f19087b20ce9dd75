"""The corpus bites: without a defence, the attack that it is for succeeds.

An attack that names something of the sandbox attacks nothing when that is renamed, and is
withstood; so is one whose target is gone. Here each succeeds where its defence is switched off.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

import pytest

import gpu_sandbox
from gpu_sandbox.confine import Layer
from tests.attacks.defences.defence import Bite, Defence
from tests.attacks.defences.page import PAGE, page
from tests.attacks.defences.patching import Patch, target_of
from tests.attacks.defences.table import DEFENCES
from tests.attacks.defences.zygote import defenceless
from tests.attacks.judging import Rests, Sandboxes, Twins, gains
from tests.attacks.table import ATTACKS, Attack
from tests.attacks.world import World

pytestmark = pytest.mark.anyio

PACKAGE = Path(gpu_sandbox.__file__ or "").parent
THREATS = PAGE.with_name("threat-model.md")
_TRIES = 3
"""What is drawn by chance may stop an attack once."""


def _cases(device: str) -> list[object]:
    """What is switched off, and what is tried then. On a GPU only what needs one: the rest is the
    same code."""
    return [
        pytest.param(
            off, tried, id="-".join([off[0].replace(" ", "_"), *(b.attack for b in tried)])
        )
        for defence in DEFENCES.values()
        for off, bites in defence.tries().items()
        if (tried := [bite for bite in bites if _is_for(device, ATTACKS[bite.attack])])
    ]


def _is_for(device: str, attack: Attack) -> bool:
    return (attack.device == "cuda") == (device == "cuda")


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("off", "bites"), _cases("cpu"))
async def test_attacks_succeed_without_defence(
    off: Sequence[str],
    bites: Sequence[Bite],
    tmp_path: Path,
    private_temp: Path,
    sandbox_cache: Path,
) -> None:
    await _succeed(off, bites, "cpu", tmp_path, sandbox_cache)


@pytest.mark.gpu
@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize(("off", "bites"), _cases("cuda"))
async def test_attacks_succeed_without_defence_cuda(
    off: Sequence[str],
    bites: Sequence[Bite],
    tmp_path: Path,
    private_temp: Path,
    sandbox_cache: Path,
) -> None:
    await _succeed(off, bites, "cuda:0", tmp_path, sandbox_cache)


async def _succeed(
    off: Sequence[str], bites: Sequence[Bite], device: str, directory: Path, cache: Path
) -> None:
    """Each in a world of its own: what one has done must not count as another's."""
    limits = {ATTACKS[bite.attack].limits for bite in bites}
    async with defenceless(off, limits, device, cache) as sandboxes:
        twins, rests = Twins(sandboxes), Rests(sandboxes)
        failed = []
        for bite in bites:
            with World(directory / bite.attack, cache) as world:
                failed.append(await _withstood(bite, device, sandboxes, world, twins, rests))
    told = [each for each in failed if each]
    assert not told, f"without {', '.join(off)}:\n" + "\n".join(told)


async def _withstood(
    bite: Bite, device: str, sandboxes: Sandboxes, world: World, twins: Twins, rests: Rests
) -> str:
    """What the attack gains instead; empty if it gains what it should."""
    attack = ATTACKS[bite.attack]
    told: list[str] = []
    for _ in range(_TRIES):
        sandbox = sandboxes[device, attack.limits]
        gained = await gains(attack, device, sandbox, world, twins, rests)
        told += [*gained.harm, *gained.verdict] or [f"{attack.name}: nothing"]
        if any(bite.gain in each for each in told):
            return ""
    return "\n".join(told)


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
    assert set(defence.without) <= set(Layer)
    assert (PACKAGE / defence.module).exists()
    for bite in defence.bites:
        assert bite.attack in ATTACKS
        assert set(bite.also_off) <= set(DEFENCES)


def test_each_threat_has_a_defence() -> None:
    """But for those that no attack of the corpus tries (X)."""
    told = THREATS.read_text().splitlines()
    threats = {found[1] for line in told if (found := re.match(r"\| ([CAKH]\d+) \|", line))}
    assert threats == {threat for defence in DEFENCES.values() for threat in defence.threats}


def test_tests_that_are_named_exist() -> None:
    for defence in DEFENCES.values():
        for path in re.findall(r"tests/[\w/]+\.py", defence.kept):
            assert (THREATS.parents[2] / path).exists(), path


def test_the_page_shows_the_table() -> None:
    assert PAGE.read_text() == page(), "run python -m tests.attacks.defences.page"
