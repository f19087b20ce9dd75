"""Degenerate tasks: their label, its notes, and outputs that are mostly rounding.

Where inputs move by a few ulp, such an output becomes another, and float64 gives a third. Only the
reference's own run is left to compare with, so another order of summation is wrong.
"""

from __future__ import annotations

from collections.abc import Sequence

from events.outcomes import Label
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.reference.ulp_perturbation import UlpSensitivity

DEGENERATE: Label = "degenerate-task"

_PREFIX = f"{DEGENERATE}: "
_WORTH_A_NOTE = 1e-3


def degenerate(reason: str) -> str:
    """Make the note that is the reason of the label."""
    return f"{_PREFIX}{reason}"


def labels_by(notes: Sequence[str]) -> list[Label]:
    return [DEGENERATE] if any(note.startswith(_PREFIX) for note in notes) else []


def conditioning_notes(
    sensitivity: Sequence[UlpSensitivity], expected: Sequence[Expected]
) -> list[str]:
    """Note outputs, on inputs as drawn, that have few digits."""
    found = []
    for number, (one, output) in enumerate(zip(sensitivity, expected, strict=False)):
        moves = (
            f"output {number} of the reference moves by {one.relative:.1e} (relative L2) where its "
            "inputs do by rounding"
        )
        if _is_noise(one, output):
            why = "is something else in float64: another order of operations is wrong"
            found.append(degenerate(f"{moves}, and {why}"))
        elif one.relative > _WORTH_A_NOTE:
            found.append(moves)
    return found


def _is_noise(sensitivity: UlpSensitivity, expected: Expected) -> bool:
    """Not where the reference draws other random numbers in float64: that is stable."""
    by = expected.by_dtype
    return expected.is_unsound and by is not None and sensitivity.relative > by.without_float64
