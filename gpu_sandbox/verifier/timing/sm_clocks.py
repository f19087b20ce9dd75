"""SM clock and slowdowns of a device while it is timed, read by the verifier from the driver.

A reading takes up to a millisecond and comes when a batch is over: no clock of the verifier runs
then. It shows how the batch ended, since a clock needs milliseconds to recover.
"""

from __future__ import annotations

import time
from typing import Any, Literal, TypeAlias

import msgspec

from gpu_sandbox.accelerator.driver_account import DriverAccount, describe_slowdowns

Side: TypeAlias = Literal["candidate", "baseline"]

HARD = 0x8 | 0x20 | 0x40 | 0x80
"""``SLOWDOWNS`` that come and go with heat and supply. A power cap is a condition of the card, and
counts by what it does to the clock."""
_ALIKE = 0.97  # ratio of clocks; they always differ by less
_QUICK_S = 0.002


class Reading(msgspec.Struct, frozen=True):
    """``reasons``: NVML's bits, as ``SLOWDOWNS`` has them."""

    sm_mhz: int
    reasons: int = 0


class Clocks:
    """Readings of one device and their extremes; none without ``driver``."""

    def __init__(self, driver: DriverAccount | None) -> None:
        self._driver = driver
        self._lowest_mhz, self._highest_mhz = 1 << 31, 0
        self.reasons = 0  # all that were seen
        self._quick = driver is not None and min(self._cost_s() for _ in range(3)) <= _QUICK_S

    def read(self) -> Reading | None:
        if self._driver is None:
            return None
        mhz, reasons = self._driver.sm_mhz(), self._driver.slowdowns()
        if mhz is None:
            return None
        reading = Reading(mhz, reasons or 0)
        self._lowest_mhz = min(self._lowest_mhz, mhz)
        self._highest_mhz = max(self._highest_mhz, mhz)
        self.reasons |= reading.reasons
        return reading

    def read_between(self) -> Reading | None:
        """Between batches: a reading only where that is quick."""
        return self.read() if self._quick else None

    def conditions(self) -> dict[str, Any]:
        """For a figure's conditions."""
        if not self._highest_mhz:
            return {}
        return {
            "clocks.sm.timed": [self._lowest_mhz, self._highest_mhz],
            "clocks.lowered_by": describe_slowdowns(self.reasons),
        }

    def _cost_s(self) -> float:
        """Seconds that a reading takes."""
        assert self._driver is not None
        began = time.perf_counter()
        self._driver.sm_mhz()
        self._driver.slowdowns()
        return time.perf_counter() - began


def slower_side(candidate: Reading | None, baseline: Reading | None) -> Side | None:
    """The side of a pair that ran at the lower clock, by the readings at its end. Pure."""
    if candidate is None or baseline is None:
        return None
    mine, theirs = candidate.reasons & HARD, baseline.reasons & HARD
    if mine != theirs and mine | theirs in (mine, theirs):  # one has all of the other's
        return "candidate" if mine > theirs else "baseline"
    low, high = sorted((candidate.sm_mhz, baseline.sm_mhz))
    if low >= _ALIKE * high:  # if slowdowns differ, who can say which one is worse?
        return None
    return "candidate" if candidate.sm_mhz < baseline.sm_mhz else "baseline"
