"""How often a verdict goes the other way, since inputs and how they are changed are by chance.

    python -m benchmarks.verdict_rates [--device cpu|cuda:0] [--times 20] [--only PATTERN]
        [--which honest,attacks]

Judges the honest candidates of ``tests/attacks``, and those attacks that must never pass and need
nothing but a task, again and again, through ``LocalSandbox``. Tells what was otherwise and why, and
for each kind the share, with the upper end of its 95 % interval (Clopper and Pearson).
"""

from __future__ import annotations

import argparse
import math
import platform
import re
import time
from collections.abc import Iterator

import anyio
import msgspec

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import SandboxFault
from gpu_sandbox.sandbox import LocalSandbox
from tests.attacks.files import attack_source, honest_source
from tests.attacks.honest_table import HONEST
from tests.attacks.judging import evaluate
from tests.attacks.table import ATTACKS, QUICK


class Judged(msgspec.Struct, frozen=True):
    """A candidate and what must become of it. ``passes``: it is correct."""

    name: str
    task: str
    source: str
    passes: bool


def candidates(device: str, which: list[str], pattern: str) -> Iterator[Judged]:
    fit = (device.partition(":")[0], "both")
    if "honest" in which:
        for one in HONEST.values():
            if one.device in fit and not one.slow and re.search(pattern, one.name):
                yield Judged(one.name, one.task, honest_source(one.name), True)
    if "attacks" in which:
        for attack in ATTACKS.values():
            plain = not (attack.needs or attack.before or attack.degenerate)
            plain = plain and attack.family != "host" and "correct" not in attack.outcomes
            if plain and attack.device in fit and re.search(pattern, attack.name):
                source = attack_source(attack.family, attack.name, {})
                yield Judged(attack.name, attack.task, source, False)


async def otherwise(sandbox: LocalSandbox, one: Judged, device: str) -> str:
    """Than it must be: what, or empty."""
    try:
        verdict = await evaluate(sandbox, one.task, one.source, device)
    except SandboxFault as fault:
        return f"the sandbox fails: {fault}"[:200]
    outcome = verdict.outcome
    if isinstance(outcome, Correct) == one.passes:
        return ""
    told = f"correct at {outcome.speedup:.2f}x" if isinstance(outcome, Correct) else outcome.reason
    return told.splitlines()[0][:200]


def upper_end(count: int, of: int) -> float:
    """Of a share's 95 % interval, by bisection: below it so few come in one of forty cases."""

    def chance(share: float) -> float:
        terms = (math.comb(of, k) * share**k * (1 - share) ** (of - k) for k in range(count + 1))
        return sum(terms)

    low, high = count / max(of, 1), 1.0
    for _ in range(50):
        middle = (low + high) / 2
        low, high = (middle, high) if chance(middle) > 0.025 else (low, middle)
    return high


async def measure(device: str, times: int, which: list[str], pattern: str) -> None:
    seen: dict[bool, list[int]] = {True: [], False: []}
    async with LocalSandbox((device,), limits=QUICK) as sandbox:
        for one in candidates(device, which, pattern):
            began = time.monotonic()
            found = [await otherwise(sandbox, one, device) for _ in range(times)]
            wrong = [why for why in found if why]
            seen[one.passes].append(len(wrong))
            kind = "honest" if one.passes else "attack"
            told = f"; {'; '.join(sorted(set(wrong)))}" if wrong else ""
            took_s = (time.monotonic() - began) / times
            print(
                f"{kind:7} {one.name:40} {len(wrong):3} of {times} {took_s:6.1f} s{told}",
                flush=True,
            )
    for passes, counts in seen.items():
        if counts:
            count, of = sum(counts), times * len(counts)
            kind = "honest rejected" if passes else "attacks correct"
            share = f"{100 * count / of:.2g} %, at most {100 * upper_end(count, of):.2g} %"
            print(f"{kind}: {count} of {of} verdicts on {len(counts)} ({share})")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--times", type=int, default=20)
    parser.add_argument("--only", default="", metavar="PATTERN")
    parser.add_argument("--which", default="honest,attacks")
    asked = parser.parse_args()
    print(f"{asked.device}, {platform.machine()}, Python {platform.python_version()}")
    anyio.run(measure, asked.device, asked.times, asked.which.split(","), asked.only)


if __name__ == "__main__":
    main()
