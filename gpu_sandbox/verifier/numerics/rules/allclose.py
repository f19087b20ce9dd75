"""A fixed tolerance for each element: a protocol's ``allclose``, or of dtypes without another."""

from __future__ import annotations

import torch

from gpu_sandbox.tensors.chunked import pieces
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation
from gpu_sandbox.verifier.numerics.rules.rule import Rule

_HALF = (torch.float16, torch.bfloat16)
_FULL_TOLERANCE, _HALF_TOLERANCE = 1e-4, 1e-2  # atol = rtol, where a protocol has none


class Allclose(Rule[float, None]):
    """The bound is atol and rtol."""

    def prepare(self, reference: Reference) -> float | None:
        if not reference.is_floating or reference.by_norms:
            return None
        full, half = reference.allclose or (_FULL_TOLERANCE, _HALF_TOLERANCE)
        return half if reference.expected.native.dtype in _HALF else full

    def check(self, bound: float, output: Comparison) -> Violation | None:
        reason = f"differs by more than atol = rtol = {bound:g}"
        return output.violation(
            lambda n, t, g: ~torch.isclose(g, n, atol=bound, rtol=bound), reason
        )

    def error(self, output: Comparison) -> float:
        """Return the largest error of an element, beside one plus its size."""
        error = 0.0
        for theirs, mine in pieces(output.expected.native, output.got):
            off = ((mine - theirs).abs().double() / (1 + theirs.abs().double())).max()
            error = max(error, float(off))
        return error
