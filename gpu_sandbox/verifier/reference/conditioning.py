"""Outputs that are rounding more than anything else: what to tell of them.

The mean of what was normalized, a deep network that normalizes by two samples: where inputs move
by rounding such an output becomes another one, and its run in float64 is none of these. Then there
is nothing to hold a candidate to but the reference's own run, and who adds up in another order is
wrong. That is the task's fault, and its readers are told so.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.reference.degenerate_task import degenerate
from gpu_sandbox.verifier.reference.ulp_perturbation import Nudged

__all__ = ["told"]

_WORTH_TELLING = 1e-3


def told(nudged: Sequence[Nudged], expected: Sequence[Expected]) -> list[str]:
    """What the reader of a verdict should know of these outputs of the task's own inputs: a number
    that is chaos has few digits."""
    found = []
    for number, (one, output) in enumerate(zip(nudged, expected, strict=False)):
        moves = (
            f"output {number} of the reference moves by {one.relative:.1e} (relative L2) where its "
            "inputs do by rounding"
        )
        if _is_noise(one, output):
            why = "is something else in float64: who computes it in another order is wrong"
            found.append(degenerate(f"{moves}, and {why}"))
        elif one.relative > _WORTH_TELLING:
            found.append(moves)
    return found


def _is_noise(nudged: Nudged, expected: Expected) -> bool:
    """What draws other random numbers in float64 is something else there, too, but stays as it is
    where its inputs move."""
    rule = expected.rule
    return expected.unsound and rule is not None and nudged.relative > rule.blind
