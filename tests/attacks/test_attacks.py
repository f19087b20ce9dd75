"""Every attack of the corpus against the sandbox of this machine.

A failure says what the attack gained. ``-k clock`` takes one family, ``-k NAME`` one attack.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeAlias

import pytest

from tests.attacks.files import twin_source
from tests.attacks.judging import Rests, Sandboxes, Twins, evaluate, gains, mostly
from tests.attacks.short import SHORT_ATTACKS
from tests.attacks.table import ATTACKS, QUICK, Attack
from tests.attacks.world import World

pytestmark = pytest.mark.anyio

_NO_CUDA = pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device")


def _marks(attack: Attack) -> list[pytest.MarkDecorator]:
    """Alone: what is judged by its speed or by that of others after it, and bombs."""
    timed = attack.family == "clock" and "correct" in attack.outcomes and not attack.degenerate
    marks = [pytest.mark.alone] if timed or attack.needs or attack.after else []
    marks += [pytest.mark.elsewhere] if attack.elsewhere else []
    marks += [] if attack.name in SHORT_ATTACKS else [pytest.mark.slow]
    marks += [pytest.mark.places] if attack.is_of_places else []
    return [*marks, pytest.mark.compiles] if attack.compiles else marks


def _cases(device: str) -> list[object]:
    return [
        pytest.param(
            attack,
            id=f"{attack.family}-{attack.name}",
            marks=_marks(attack),
        )
        for attack in ATTACKS.values()
        if attack.device in (device, "both")
    ]


@pytest.fixture(scope="session")
def layers() -> dict[str, list[str]]:
    """By device: the layers that a verdict named, those that are missing too."""
    return {}


async def _refuse_harm(
    attack: Attack, device: str, sandboxes: Sandboxes, layers: dict[str, list[str]]
) -> None:
    """Bombs are thrown only at a sandbox that says that it can catch them."""
    if not attack.needs:
        return
    if device not in layers:
        verdict = await evaluate(sandboxes[device, QUICK], "small", twin_source("small"), device)
        layers[device] = verdict.isolation
    watched = attack.or_watched and "memory:watched" in layers[device]
    needs = [need for need in attack.needs if need != "cgroup" or not watched]
    lacking = [need for need in needs if f"missing:{need}" in layers[device]]
    if lacking:
        pytest.skip(f"might do harm: this sandbox lacks {', '.join(lacking)}")


Withstood: TypeAlias = Callable[[Attack, str], Awaitable[None]]


@pytest.fixture
def withstood(
    sandboxes: Sandboxes,
    world: World,
    twins: Twins,
    rests: Rests,
    layers: dict[str, list[str]],
    record_property: Callable[[str, object], None],
) -> Withstood:
    async def attacked(attack: Attack, device: str) -> None:
        async def judge() -> str:
            sandbox = sandboxes[device, attack.limits]
            gained = await gains(attack, device, sandbox, world, twins, rests)
            assert not gained.harm, "\n".join([*gained.harm, *gained.verdict])
            return "\n".join(gained.verdict)

        await _refuse_harm(attack, device, sandboxes, layers)
        found = await mostly(judge, record_property)
        assert not found, found

    return attacked


@pytest.mark.parametrize("attack", _cases("cpu"))
async def test_attack(attack: Attack, withstood: Withstood) -> None:
    await withstood(attack, "cpu")


@pytest.mark.gpu
@_NO_CUDA
@pytest.mark.parametrize("attack", _cases("cuda"))
async def test_attack_cuda(attack: Attack, withstood: Withstood) -> None:
    await withstood(attack, "cuda:0")
