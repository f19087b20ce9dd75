"""Filter for pairs whose sides ran at different SM clocks: set aside and drawn again.

Whole pairs go, and each pair that slowed the candidate only with one that slowed the baseline:
what slows one side more often is that kernel's own doing and counts. At most half of the pairs go.
A candidate that throttles the device on purpose gains little: clocks follow loads too slowly, and
the median loses as many pairs on its other side.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_sandbox.accelerator.driver_account import describe_slowdowns
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.timing.sm_clocks import HARD, Clocks, Reading, Side

_SIDES: tuple[Side, ...] = ("candidate", "baseline")
_WORTH_NOTING = 0.1  # of the pairs: fewer do not move a median


def counted_pairs(taken: Sequence[Pair]) -> list[Pair]:
    """The pairs that count, in order. Pure."""
    spoiled = {side: [p for p in taken if p.slowed == side] for side in _SIDES}
    couples = min(len(taken) // 4, *map(len, spoiled.values()))
    dropped = {id(pair) for pairs in spoiled.values() for pair in pairs[:couples]}
    return [pair for pair in taken if id(pair) not in dropped]


def notes(taken: Sequence[Pair], counted: Sequence[Pair], clocks: Clocks) -> list[str]:
    """What a verdict's reader should know of the clock. Pure."""
    found = []
    kept = {id(pair) for pair in counted}
    dropped = [pair for pair in taken if id(pair) not in kept]
    if dropped:
        found.append(
            f"{len(dropped)} pairs of {len(taken)} were set aside: the device did their sides "
            f"at different clocks ({_seen_in(dropped)})"
        )
    for side in _SIDES:
        slower = [pair for pair in counted if pair.slowed == side]
        if len(slower) > _WORTH_NOTING * len(counted):
            found.append(
                f"{len(slower)} pairs of {len(counted)} count though the device did the "
                f"{side}'s side at a lower clock ({_seen_in(slower)})"
            )
    if clocks.reasons & HARD:
        found.append(
            f"the device was slowed while timed: {describe_slowdowns(clocks.reasons & HARD)}"
        )
    return found


def _seen_in(pairs: Sequence[Pair]) -> str:
    readings: list[Reading] = [r for pair in pairs for r in pair.readings if r is not None]
    clocks = sorted(reading.sm_mhz for reading in readings)
    reasons = 0
    for reading in readings:
        reasons |= reading.reasons
    text = f"{clocks[0]} to {clocks[-1]} MHz"
    return f"{text}, {describe_slowdowns(reasons)}" if reasons else text
