"""What a candidate's first call takes: caches that it fills, kernels that it tunes or compiles."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from gpu_sandbox.ipc.verifier_messages import Agreed

__all__ = ["FirstCall", "with_first_call"]

_MIN_TIMES, _MIN_MS = 10.0, 100.0  # of a warm call; both, to be worth a note


class FirstCall(NamedTuple):
    """By the verifier's clock, with a message and ``others``, calls that came right behind it."""

    wall_ms: float
    others: int


def with_first_call(
    agreed: Agreed, first: FirstCall | None, prepared_ms: float, notes: list[str]
) -> Agreed:
    """With what the first call took; a note where that is far more than the rest.

    ``prepared_ms``: what it took in the preparation, where compilers did then what they do not do
    again here; 0 without one."""
    if first is None:
        return agreed
    warm_ms = agreed.looped.candidate_ms if agreed.looped else agreed.candidate_ms
    first_ms = max(first.wall_ms - first.others * warm_ms, prepared_ms, 0.0)
    if first_ms > _MIN_MS and first_ms > _MIN_TIMES * warm_ms:
        notes.append(f"its first call took {first_ms:.4g} ms, a warm one {warm_ms:.4g} ms")
    return msgspec.structs.replace(agreed, first_call_ms=first_ms)
