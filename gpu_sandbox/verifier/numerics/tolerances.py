"""Tolerances by dtype, and the margin that timed calls inherit from trials."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import torch

from gpu_sandbox.api.protocols import Precision

if TYPE_CHECKING:  # rules read this module
    from gpu_sandbox.verifier.numerics.rules.rule import Rule

_FACTORS, _FACTORS_IN_HALF = (8.0, 50.0), (3.0, 15.0)
"""Tolerances: an error that is spread evenly over normal numbers is one of most of them, and six of
those near zero. In half precision a tolerance is a last place or two."""


class DtypeTolerance(msgspec.Struct, frozen=True):
    """Relative L2 errors of one dtype. E is the reference's own error against float64."""

    k: float  # tolerance as a multiple of E, if that is above `floor`
    floor: float
    without_float64: float
    max_own_error: float  # A larger E means that the float64 run is another computation
    quantile_factors: tuple[float, float] = _FACTORS  # for half of elements, nine in ten

    def quantiles(self, tolerance: float) -> tuple[float, float]:
        half, most = self.quantile_factors
        return half * tolerance, most * tolerance


TOLERANCES = {
    torch.float64: DtypeTolerance(8, 1e-10, 1e-9, 1e-6),
    torch.float32: DtypeTolerance(8, 2e-5, 1e-4, 1e-3),
    torch.float16: DtypeTolerance(4, 2e-3, 1e-2, 5e-2, _FACTORS_IN_HALF),
    torch.bfloat16: DtypeTolerance(4, 1e-2, 3e-2, 1e-1, _FACTORS_IN_HALF),
}
FULL_PRECISION = (TOLERANCES[torch.float64], TOLERANCES[torch.float32])
DECLARED = {
    "tf32": DtypeTolerance(4, 1e-3, 1e-2, 5e-2, _FACTORS_IN_HALF),
    "bf16": DtypeTolerance(4, 1e-2, 3e-2, 1e-1, _FACTORS_IN_HALF),
}
"""Of float32 outputs, where the user declared this precision."""
HALF_PRECISION = DtypeTolerance(4, 4e-3, 1e-2, 1e-1, _FACTORS_IN_HALF)
"""Of float32 outputs that the reference computes in 16 bits (``half_precision_reference.py``)."""


def tolerance_of(output: torch.Tensor, precision: Precision = "float32") -> DtypeTolerance | None:
    """Look up the tolerance of an output, a complex one as its parts. None: values are equal."""
    dtype = output.dtype.to_real() if output.is_complex() else output.dtype
    found = TOLERANCES.get(dtype)
    return DECLARED.get(precision, found) if dtype == torch.float32 else found


class Nondeterminism(NamedTuple):
    """What two runs of the reference on the same inputs may differ by."""

    tolerance: float = 0.0  # relative L2
    max_error: float = 0.0  # absolute, of an element


class Margin(msgspec.Struct, frozen=True):
    """What may lie between an acceptable output and the reference's own, on other inputs."""

    tolerance: float  # relative L2
    bounds: Mapping[Rule[Any, Any], Any] = {}
    usual_rms: torch.Tensor | None = None
    fill: float | None = None

    def times(self, factor: float) -> Margin:
        bounds = {rule: rule.scale(bound, factor) for rule, bound in self.bounds.items()}
        return msgspec.structs.replace(self, tolerance=self.tolerance * factor, bounds=bounds)
