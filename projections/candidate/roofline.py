"""Where a candidate stands under its device's roof: arithmetic on counted work. Pure.

The least bytes and operations of the reference, over the time that the candidate takes, are
rates that it achieves at least; beside the ceilings that the device reaches they say how
much faster it could become, and what would have to be faster.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from events.observations import Ceilings, Work

__all__ = ["Roofline", "roofline"]


class Roofline(msgspec.Struct, frozen=True, kw_only=True):
    """Rates are a second. Shares are of the ceilings, and may exceed 1: data that fits a cache
    moves faster than the probe's. ``least_ms`` is the time under this roof, ``bound`` what
    makes it so long; null without ceilings. ``flops_share`` is null where the dtype has no
    ceiling, and then operations have no part in ``least_ms``."""

    bytes_per_s: float
    flops_per_s: float
    bytes_share: float | None = None
    flops_share: float | None = None
    least_ms: float | None = None
    bound: Literal["memory", "compute"] | None = None


def roofline(work: Work, ceilings: Ceilings | None, runtime_ms: float) -> Roofline:
    """Raises ``ValueError`` for a time that is not positive."""
    if not runtime_ms > 0:
        raise ValueError(f"a runtime of {runtime_ms} ms")
    seconds = runtime_ms / 1e3
    bytes_per_s, flops_per_s = work.moved_bytes / seconds, work.flops / seconds
    if ceilings is None:
        return Roofline(bytes_per_s=bytes_per_s, flops_per_s=flops_per_s)
    top = ceilings.flops_per_s.get(work.dtype)
    memory_ms = 1e3 * work.moved_bytes / ceilings.bytes_per_s
    compute_ms = 1e3 * work.flops / top if top else 0.0
    return Roofline(
        bytes_per_s=bytes_per_s,
        flops_per_s=flops_per_s,
        bytes_share=bytes_per_s / ceilings.bytes_per_s,
        flops_share=flops_per_s / top if top else None,
        least_ms=max(memory_ms, compute_ms),
        bound="compute" if compute_ms > memory_ms else "memory",
    )
