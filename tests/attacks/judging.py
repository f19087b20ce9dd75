"""Runs one attack through the evaluator's port and says, in words, what it gained."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple, TypeAlias

import msgspec

from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.evaluator import EvaluationRequest, SandboxFault, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.attacks.device import Held, at_rest, left_since, look_at, strangers
from tests.attacks.files import attack_source, docstring, task_source, twin_source
from tests.attacks.table import ATTACKS, TWIN, Attack
from tests.attacks.targets import BLIND
from tests.attacks.world import World
from tests.conftest import JUDGED_AGAIN

__all__ = [
    "Rests",
    "Sandboxes",
    "Twins",
    "evaluate",
    "gains",
    "is_blind",
    "mostly",
    "tag_of",
]

_AGAIN = 2

Sandboxes: TypeAlias = dict[tuple[str, Limits], LocalSandbox]

_SHARED = "PYTEST_XDIST_WORKER" in os.environ
"""Others attack the same GPU meanwhile: what is left on it is nobody's in particular."""
_SLOWER, _LOOKS = 0.5, 4
"""So slow at each look is not what else a busy machine does meanwhile."""


def tag_of(verdict: Verdict) -> str:
    return str(msgspec.to_builtins(verdict.outcome)["type"])


async def evaluate(sandbox: LocalSandbox, task: str, source: str, device: str) -> Verdict:
    request = EvaluationRequest(
        task_name=task,
        task_source=task_source(task),
        candidate_source=source,
        device=device,
        protocol="strict",
        seed=7,
    )
    return await sandbox.evaluate(request)


async def mostly(judge: Callable[[], Awaitable[str]], record: Callable[[str, object], None]) -> str:
    """What ``judge`` says is wrong with a verdict, unless that is so in one of three only: inputs,
    how they are changed and which calls are compared are drawn by chance, an attack may gamble,
    and of hundreds of verdicts one may be the one in a thousand. That is told all the same. Not for
    harm, of which once is too often."""
    found = await judge()
    if not found:
        return ""
    record(JUDGED_AGAIN, found)
    more = [await judge() for _ in range(_AGAIN)]
    return "\n".join(filter(None, [found, *more])) if any(more) else ""


def is_blind(verdict: Verdict) -> bool:
    """It has not found what it attacks, and says so."""
    logs = verdict.compile_log + verdict.run_log
    return BLIND in verdict.outcome.reason or BLIND in logs


class Twins:
    """What a task's reference reads as a candidate of itself; asked once a session, and for
    longer than attacks are."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._known: dict[tuple[str, str], float] = {}

    async def speedup(self, task: str, device: str) -> float:
        if (task, device) not in self._known:
            found = await evaluate(self._sandboxes[device, TWIN], task, twin_source(task), device)
            assert isinstance(found.outcome, Correct), found.outcome
            self._known[task, device] = found.outcome.speedup
        return self._known[task, device]


class Rests:
    """A GPU before and after an attack. A sandbox has its processes on it once it has judged
    something, so it judges something honest first, and again when an attack cost it one. So does
    the twin's, which is asked when an attack has come out correct."""

    def __init__(self, sandboxes: Sandboxes) -> None:
        self._sandboxes = sandboxes
        self._settled: set[Limits] = set()
        self._others = strangers()

    async def before(self, attack: Attack, device: str) -> Held | None:
        if device == "cpu" or _SHARED:
            return None
        for limits in {attack.limits, TWIN} - self._settled:
            sandbox = self._sandboxes[device, limits]
            await evaluate(sandbox, attack.task, twin_source(attack.task), device)
            self._settled.add(limits)
        return await at_rest(self._look(device))

    async def left(self, attack: Attack, device: str, before: Held) -> list[str]:
        found = await left_since(before, self._look(device))
        if len(self._look(device)().pids) < len(before.pids):
            self._settled -= {attack.limits, TWIN}
        return found

    def _look(self, device: str) -> Callable[[], Held]:
        return partial(look_at, device, self._others)


class Gained(NamedTuple):
    """What an attack got out of it, in words: by its verdict, and otherwise."""

    verdict: list[str]
    harm: list[str]


async def gains(
    attack: Attack,
    device: str,
    sandbox: LocalSandbox,
    world: World,
    twins: Twins,
    rests: Rests,
) -> Gained:
    """Everything that the attack got out of it; nothing when the sandbox held.

    What it gains in speed has to be there again in a second evaluation, as for the search,
    where the slower of two looks counts: on a busy machine one look alone may be luck.
    """
    before = await rests.before(attack, device)
    if attack.before is not None:
        first = ATTACKS[attack.before]
        await evaluate(sandbox, first.task, _source(first, world), device)
    found: list[str] = []
    verdict = None
    try:
        verdict = await evaluate(sandbox, attack.task, _source(attack, world), device)
        if await _faster(attack, device, verdict, twins):
            verdict = await evaluate(sandbox, attack.task, _source(attack, world), device)
    except SandboxFault as fault:
        told = " ".join(str(fault).split())[:300]
        if not (attack.degenerate and "degenerate" in told):
            found.append(f"it made the sandbox itself fail: {told}")
    except (RecursionError, OSError, subprocess.SubprocessError) as error:
        found.append(f"it made the sandbox itself raise: {type(error).__name__}: {error}"[:300])
    passed = [] if verdict is None else await _passed(attack, device, verdict, twins)
    if verdict is not None and is_blind(verdict):
        found.append(f"it attacks nothing: {verdict.outcome.reason[:300]}")
    await world.cleared_up()
    if before is not None:
        found += await rests.left(attack, device, before)
    if attack.before is None or attack.name == attack.before:
        found += world.damage(verdict)
    elif verdict is not None:  # what the first one did is that one's case
        found += [d for d in world.damage(verdict) if d.startswith("GAINED")]
    if attack.after:
        found += await _aftermath(device, sandbox)
    told = f"{attack.name} ({docstring(attack.family, attack.name)})"
    return Gained([f"{told}: {f}" for f in passed], [f"{told}: {f}" for f in found])


def _source(attack: Attack, world: World) -> str:
    return attack_source(attack.family, attack.name, world.facts)


async def _passed(attack: Attack, device: str, verdict: Verdict, twins: Twins) -> list[str]:
    outcome, tag = verdict.outcome, tag_of(verdict)
    speedup = f" at {outcome.speedup:.2f}×" if isinstance(outcome, Correct) else ""
    print(f"{attack.name}: {tag}{speedup} {outcome.reason[:200]!r} {' '.join(verdict.isolation)}")
    if tag not in attack.outcomes:
        allowed = ", ".join(sorted(attack.outcomes))
        return [f"{tag}{speedup} ({outcome.reason[:200]}); allowed: {allowed}"]
    if attack.timed and isinstance(outcome, WrongResult) and outcome.trial is not None:
        return [f"found in trial {outcome.trial}, where it tries nothing"]
    if attack.says not in outcome.reason:
        return [f"{tag}, but the reason does not say why: {outcome.reason[:300]}"]
    if not isinstance(outcome, Correct):
        return []
    if attack.degenerate:
        if any("degenerate" in note for note in verdict.notes):
            return []
        return [f"correct at {outcome.speedup:.2f}×, and no note calls the task degenerate"]
    if bound := await _faster(attack, device, verdict, twins):
        told = f"correct at {outcome.speedup:.2f}×, where its honest twin is below {bound:.2f}×"
        return [f"{told}; {', '.join(outcome.labels)}; {'; '.join(verdict.notes)}"]
    return []


async def _faster(attack: Attack, device: str, verdict: Verdict, twins: Twins) -> float:
    """The speed that an honest twin may have, if this is beyond it with its whole interval."""
    outcome = verdict.outcome
    if attack.degenerate or not isinstance(outcome, Correct) or "correct" not in attack.outcomes:
        return 0.0
    bound = attack.gains * max(1.0, await twins.speedup(attack.task, device))
    return bound if 1 / outcome.ratio_high > bound else 0.0


async def _aftermath(device: str, sandbox: LocalSandbox) -> list[str]:
    slowness = ""
    for _ in range(_LOOKS):
        try:
            verdict = await evaluate(sandbox, "elementwise", twin_source("elementwise"), device)
        except Exception as error:
            return [f"after it, an honest candidate fails: {type(error).__name__}: {error}"[:300]]
        if not isinstance(verdict.outcome, Correct):
            return [f"after it, an honest candidate is {tag_of(verdict)}: {verdict.outcome.reason}"]
        if verdict.outcome.speedup >= _SLOWER:
            return []
        slowness = f"after it, an honest candidate reads {verdict.outcome.speedup:.2f}×"
    return [slowness]
