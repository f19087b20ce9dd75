"""Is this output the reference's? Per protocol, per tensor, with the first differences.

The strict rules (``rules/registry.py`` has them in order): with r the reference in float64 on the
same inputs and n the reference in its own dtype, the problem's own error is E = |n − r| / |r| (L2
norms). A candidate c passes iff |c − r| / |r| ≤ max(k·E, floor) and no element is further off than
max(8·max|n − r|, 50 tolerances of its row's RMS plus its own size, 8 of the RMS of a row
that nine in ten do not exceed), and most elements are near to what they are themselves
(``rules/error_quantiles.py``). Of outputs of few elements, no norm counts for less than it
usually is (``verifier/reference/output_scale.py``). Without a float64 reference, r is n and a fixed
tolerance applies. NaN never passes; infinities must agree. Where a candidate is wrong by that, TF32
in the reference's convolutions may be granted (``verifier/trials/convolution_recheck.py``). Where
less precision than float32 was declared, E is also that of r on rounded inputs and weights
(``runtime/precision.py``), whichever is larger, with that precision's numbers."""

from __future__ import annotations

import math

import msgspec
import torch

from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.tensors.chunked import as_real
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.fast_path import surely_right
from gpu_sandbox.verifier.numerics.rules.registry import applying
from gpu_sandbox.verifier.numerics.rules.rule import is_rated

__all__ = ["Difference", "compare", "error_and_bound"]


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """``ok`` or why not. Errors are null where they are not finite."""

    ok: bool
    wrong: int = 0
    """Elements that are not as they should be."""
    reason: str = ""
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    detail: str = ""


def compare(
    expected: Expected, got: torch.Tensor, protocol: Protocol, *, brief: bool = False
) -> Difference:
    """``got`` has the expected shape and dtype already. ``brief``: what differs is looked at no
    further than to the first differences, and they are not told."""
    if expected.native.numel() == 0:
        return Difference(ok=True, max_abs_error=0.0)
    output = _comparison(expected, got, protocol, brief=brief)
    rules = applying(output.reference)
    if (figures := surely_right(output, rules)) is not None:
        return Difference(ok=True, max_abs_error=figures.largest if figures.in_float64 else None)
    for rule, bound in rules:
        if (found := rule.check(bound, output)) is not None:
            return Difference(ok=False, **msgspec.structs.asdict(found))
    return Difference(ok=True, max_abs_error=output.max_abs_error)


def error_and_bound(
    expected: Expected, got: torch.Tensor, protocol: Protocol
) -> tuple[float, float] | None:
    """Of an acceptable output the error that the protocol bounds, and that bound: by the strict
    rules the relative L2 error, else the largest one of an element beside one plus its size. None
    where values have to be equal, or are not finite."""
    if expected.native.numel() == 0:
        return None
    output = _comparison(expected, got, protocol)
    for rule, bound in applying(output.reference):
        if is_rated(rule):
            error = rule.error(output)
            return (error, bound) if math.isfinite(error) and math.isfinite(bound) else None
    return None


def _comparison(
    expected: Expected, got: torch.Tensor, protocol: Protocol, *, brief: bool = False
) -> Comparison:
    """By the strict rules of a complex output the parts, and of one with a fill the rest."""
    if protocol.allclose is None:
        if expected.native.is_complex():
            expected, got = expected.parts(), as_real(got)
        expected, got = expected.beside_fill(got)
    return Comparison(Reference(expected, protocol), got, brief=brief)
