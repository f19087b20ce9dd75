"""Length of the cover: how long a GPU is kept busy before a timed call, so that the host queues it.

Host work between the readings of two events counts wherever the device waits for it; a batch whose
host takes longer than its device shows the host's time alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

_CALL_MARGIN, _LOOP_MARGIN = 1.5, 1.25  # times what queueing took, which varies
_MAX_COVER_US = 2000
_FLUSH_BYTES_PER_NS = 6000.0  # of large GPUs, at most: a shorter flush hides less


class HostTime(msgspec.Struct, frozen=True):
    """Mean nanoseconds to queue a call (``call_ns``), with all that is done around it
    (``loop_ns``), and of the call on the device by its events (``device_ns``)."""

    call_ns: float
    loop_ns: float
    device_ns: float


def host_time(sides: Sequence[HostTime]) -> HostTime:
    """The longest of each host time, and the shortest device time."""
    return HostTime(
        max(side.call_ns for side in sides),
        max(side.loop_ns for side in sides),
        min(side.device_ns for side in sides),
    )


def cover_us(least_us: int, host: HostTime, flush_bytes: int = 0) -> int:
    """Microseconds of cover, at least ``least_us``; 0 where the protocol has none. A flush before
    hides host work as well."""
    if not least_us:
        return 0
    call_ns = _CALL_MARGIN * host.call_ns
    loop_ns = _LOOP_MARGIN * host.loop_ns - host.device_ns
    hidden_us = math.ceil((max(call_ns, loop_ns) - flush_bytes / _FLUSH_BYTES_PER_NS) / 1e3)
    return min(max(least_us, hidden_us), max(least_us, _MAX_COVER_US))
