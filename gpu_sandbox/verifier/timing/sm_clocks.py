"""The SM clock, and what lowers it, while a device is timed: read by the verifier, of the driver.

A reading costs some tens of microseconds to a millisecond, and is taken when a release is over:
no clock of ours runs then. It says how a release ended, for a clock takes milliseconds to
recover. Where the driver is slow to answer, it is asked before and after all pairs only.
"""

from __future__ import annotations

import time
from typing import Any, Literal, TypeAlias

import msgspec

from gpu_sandbox.accelerator.driver_account import DriverAccount, describe_slowdowns

__all__ = ["HARD", "Clocks", "Reading", "Side", "slower_side"]

Side: TypeAlias = Literal["candidate", "baseline"]

HARD = 0x8 | 0x20 | 0x40 | 0x80
"""Of NVML's reasons those that come and go with heat and supply: slowdowns, and the power
brake. A cap of power is a condition of the card, and counts by what it does to the clock."""
_ALIKE = 0.97
"""Clocks that differ by less do so all the time."""
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
        self.reasons = 0
        """All that were seen."""
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
        """Between releases: only where that takes no time worth speaking of."""
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
        """Of a reading, which is not kept: nothing is timed yet."""
        assert self._driver is not None
        began = time.perf_counter()
        self._driver.sm_mhz()
        self._driver.slowdowns()
        return time.perf_counter() - began


def slower_side(candidate: Reading | None, baseline: Reading | None) -> Side | None:
    """Which side of a pair the device did more slowly, by how each one's release ended. Pure."""
    if candidate is None or baseline is None:
        return None
    mine, theirs = candidate.reasons & HARD, baseline.reasons & HARD
    if mine != theirs and mine | theirs in (mine, theirs):  # one has all of the other's
        return "candidate" if mine > theirs else "baseline"
    low, high = sorted((candidate.sm_mhz, baseline.sm_mhz))
    if low >= _ALIKE * high:  # if slowdowns differ, who can say which one is worse?
        return None
    return "candidate" if candidate.sm_mhz < baseline.sm_mhz else "baseline"
