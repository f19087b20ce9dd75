"""Facts that a device's driver reports of it: clock, slowdowns, utilization, memory, processes.

Only trusted processes ask. The driver answers, not a process, so no worker has a part in it; no
verdict depends on an answer.
"""

from __future__ import annotations

from typing import Protocol

import msgspec

SLOWDOWNS = {
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x20: "thermal slowdown by software",
    0x40: "thermal slowdown by hardware",
    0x80: "power brake",
}
"""What lowers a busy device's clock, by bit, numbered as NVML's ``nvmlClocksEventReason…``."""


class DeviceProcess(msgspec.Struct, frozen=True):
    """A process that computes on the device. ``used_bytes``: of its memory, None if not reported.
    ``pid`` is in the numbering of the asking process, or of the host."""

    pid: int
    used_bytes: int | None


class DriverAccount(Protocol):
    """One device's. Each answer is None where the driver gives none."""

    def processes(self) -> list[DeviceProcess] | None:
        """All processes that have a context, ours too."""

    def used_bytes(self) -> int | None:
        """Memory that all processes use together, listed or not."""

    def sm_mhz(self) -> int | None: ...

    def slowdowns(self) -> int | None:
        """Bits of ``SLOWDOWNS``."""

    def utilization(self) -> int | None:
        """Percent of the last second, or less, in which any kernel ran."""


def describe_slowdowns(bits: int) -> str:
    """Their names; empty for none."""
    return ", ".join(name for bit, name in SLOWDOWNS.items() if bits & bit)
