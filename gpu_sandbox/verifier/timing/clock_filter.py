"""Pairs whose sides the device did at different clocks are set aside, and drawn anew.

Pairs, never sides: who could have a side dropped would have the slower ones dropped. And a pair
in which the candidate was slowed goes only together with one in which the baseline was. The
order within a pair is drawn, so what happens to the machine meets either side as often as the
other; of what meets one side more often, the excess is that kernel's own doing (it draws more
power, say) and counts. So a candidate that throttles the device on purpose has little to gain.
It knows its own times before it answers, and could load the device then, to have a pair that is
bad for it read as slowed; but a clock needs many milliseconds to follow, each pair that goes takes
one along in which the baseline was slow, so that the median loses as many on its other side, and
the excess stays. Nor can it starve the measurement: at most half of the pairs go. The readings
are the verifier's, of the driver; no worker has a word in them.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_sandbox.accelerator.driver_account import describe_slowdowns
from gpu_sandbox.verifier.timing.pairs import Pair
from gpu_sandbox.verifier.timing.sm_clocks import HARD, Clocks, Reading, Side

__all__ = ["notes", "sifted"]

_SIDES: tuple[Side, ...] = ("candidate", "baseline")
_WORTH_TELLING = 0.1
"""Of the pairs: fewer that count although one side was slowed don't move a median."""


def sifted(taken: Sequence[Pair]) -> list[Pair]:
    """The pairs that count, in order. Pure."""
    spoiled = {side: [p for p in taken if p.slowed == side] for side in _SIDES}
    couples = min(len(taken) // 4, *map(len, spoiled.values()))
    dropped = {id(pair) for pairs in spoiled.values() for pair in pairs[:couples]}
    return [pair for pair in taken if id(pair) not in dropped]


def notes(taken: Sequence[Pair], counted: Sequence[Pair], clocks: Clocks) -> list[str]:
    """What a verdict's reader should know of the clock. Pure."""
    told = []
    kept = {id(pair) for pair in counted}
    dropped = [pair for pair in taken if id(pair) not in kept]
    if dropped:
        told.append(
            f"{len(dropped)} pairs of {len(taken)} were set aside: the device did their sides "
            f"at different clocks ({_seen_in(dropped)})"
        )
    for side in _SIDES:
        slower = [pair for pair in counted if pair.slowed == side]
        if len(slower) > _WORTH_TELLING * len(counted):
            told.append(
                f"{len(slower)} pairs of {len(counted)} count though the device did the "
                f"{side}'s side at a lower clock ({_seen_in(slower)})"
            )
    if clocks.reasons & HARD:
        told.append(
            f"the device was slowed while timed: {describe_slowdowns(clocks.reasons & HARD)}"
        )
    return told


def _seen_in(pairs: Sequence[Pair]) -> str:
    readings: list[Reading] = [r for pair in pairs for r in pair.readings if r is not None]
    clocks = sorted(reading.sm_mhz for reading in readings)
    reasons = 0
    for reading in readings:
        reasons |= reading.reasons
    told = f"{clocks[0]} to {clocks[-1]} MHz"
    return f"{told}, {describe_slowdowns(reasons)}" if reasons else told
