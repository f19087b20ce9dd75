"""What verifier and worker tell each other while the CPU's one call is timed: a few bytes each.

Frames are for when nobody waits. What a worker does besides its call while the clock runs is in
what the baseline spends besides its own, and whoever does without is credited with it: frames,
decoded and answered by Python that has left the caches, were 0.2 ms. So all that can be done
before or after is (``StandBy``, ``Describe``), and this is what is left.
"""

from __future__ import annotations

__all__ = ["CLAIM_BYTES", "DELIVERED", "FAILED", "PLACE_BYTES", "SEED_BYTES", "claim", "claimed"]

SEED_BYTES, CLAIM_BYTES, PLACE_BYTES = 8, 8, 1
"""To the worker the seed of its call, which is to begin; back the nanoseconds that it took, or
-1; then the number of the place of its outputs, and back ``DELIVERED`` or ``FAILED``. After a
failure its reason comes in a frame."""
DELIVERED, FAILED = b"\x01", b"\x00"


def claim(elapsed_ns: int) -> bytes:
    return elapsed_ns.to_bytes(CLAIM_BYTES, "little", signed=True)


def claimed(said: bytes) -> int:
    return int.from_bytes(said, "little", signed=True)
