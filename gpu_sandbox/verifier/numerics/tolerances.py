"""How exact an output has to be, by its dtype, and how far it may lie from the reference's own."""

from __future__ import annotations

import msgspec
import torch

from gpu_sandbox.verifier.numerics.rules.error_quantiles import Bulk
from gpu_sandbox.verifier.numerics.rules.slices import Columns

__all__ = ["DECLARED", "FULL", "LOWERED", "RULES", "DtypeRule", "Margin"]

_EVENLY, _EVENLY_IN_HALF = (8.0, 50.0), (3.0, 15.0)
"""Tolerances: an error that is spread evenly over normal numbers is one of most of them, and six of
those near zero. In half precision a tolerance is a last place or two."""


class DtypeRule(msgspec.Struct, frozen=True):
    """Of one dtype: multiple of E, least tolerance, tolerance without a float64
    reference, and the E beyond which a float64 run can't be the same computation; and how many
    tolerances half of the elements, and nine in ten, may be off by."""

    k: float
    floor: float
    blind: float
    sane: float
    evenly: tuple[float, float] = _EVENLY

    def of_most(self, tolerance: float) -> tuple[float, float]:
        """Relative errors of half of the elements, and of nine in ten
        (``verifier/numerics/rules/error_quantiles.py``)."""
        half, most = self.evenly
        return half * tolerance, most * tolerance


RULES = {
    torch.float64: DtypeRule(8, 1e-10, 1e-9, 1e-6),
    torch.float32: DtypeRule(8, 2e-5, 1e-4, 1e-3),
    torch.float16: DtypeRule(4, 2e-3, 1e-2, 5e-2, _EVENLY_IN_HALF),
    torch.bfloat16: DtypeRule(4, 1e-2, 3e-2, 1e-1, _EVENLY_IN_HALF),
}
FULL = (RULES[torch.float64], RULES[torch.float32])
DECLARED = {
    "tf32": DtypeRule(4, 1e-3, 1e-2, 5e-2, _EVENLY_IN_HALF),
    "bf16": DtypeRule(4, 1e-2, 3e-2, 1e-1, _EVENLY_IN_HALF),
}
"""Of float32 outputs, where the user declared that this precision will do."""
LOWERED = DtypeRule(4, 4e-3, 1e-2, 1e-1, _EVENLY_IN_HALF)
"""Of float32 outputs that the reference itself computes in 16 bits
(``verifier/numerics/half_precision_reference.py``)."""


class Margin(msgspec.Struct, frozen=True):
    """What may lie between an acceptable output and the reference's own, ``Expected.native``:
    as relative L2 norm, for an element, and for most of them
    (``verifier/numerics/rules/error_quantiles.py``)."""

    tolerance: float
    slack: float
    typical: torch.Tensor | None = None
    loose: int = 0
    """See ``Expected``."""
    bulk: Bulk | None = None
    columns: Columns | None = None
    """Which of them are to be there, in another run of the reference's, too (``columns.sound``)."""
    fill: float | None = None

    def times(self, factor: float) -> Margin:
        bulk = self.bulk and self.bulk.times(factor)
        tolerance, slack = self.tolerance * factor, self.slack * factor
        return msgspec.structs.replace(self, tolerance=tolerance, slack=slack, bulk=bulk)
