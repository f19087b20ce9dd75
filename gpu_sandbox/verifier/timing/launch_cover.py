"""How long a GPU is kept busy before a timed call: until the host has queued all of it.

What the host does between the readings of two events is in their difference wherever the device
has to wait for it. One launch of Triton takes a slow host 100 µs, of a kernel of 5. And where the
host takes longer for a call with all that is around it than the device does, a release is as long
as the host takes, and the verifier's clock says nothing of the calls.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec

__all__ = ["HostTime", "cover_us", "host_time"]

_CALL_MARGIN, _LOOP_MARGIN = 1.5, 1.25
"""Times what queueing took, which varies."""
_MAX_COVER_US = 2000
_FLUSH_BYTES_PER_NS = 6000.0
"""Of large GPUs, at most: a flush that is shorter hides less."""


class HostTime(msgspec.Struct, frozen=True):
    """Nanoseconds, on average: ``call_ns`` to queue a call, ``loop_ns`` with all that is done
    around it; ``device_ns`` what a call takes the device, as its events say."""

    call_ns: float
    loop_ns: float
    device_ns: float


def host_time(sides: Sequence[HostTime]) -> HostTime:
    """The longest of each, and the shortest of the device's."""
    return HostTime(
        max(side.call_ns for side in sides),
        max(side.loop_ns for side in sides),
        min(side.device_ns for side in sides),
    )


def cover_us(least_us: int, host: HostTime, flush_bytes: int = 0) -> int:
    """Microseconds, ``least_us`` at least; what is flushed before hides the host's work as well.
    A protocol that hides nothing, of zero, hides nothing."""
    if not least_us:
        return 0
    call_ns = _CALL_MARGIN * host.call_ns
    loop_ns = _LOOP_MARGIN * host.loop_ns - host.device_ns
    hidden_us = math.ceil((max(call_ns, loop_ns) - flush_bytes / _FLUSH_BYTES_PER_NS) / 1e3)
    return min(max(least_us, hidden_us), max(least_us, _MAX_COVER_US))
