"""Compare one output with the reference's, by the rules of ``rules/registry.py`` in order.

The strict rules, where E is the reference's own relative L2 error against float64: an output's is
at most ``max(k * E, floor)``, single elements, slices and most elements are bounded beside it, NaN
never passes, and infinities agree. docs/sandbox/correctness.md has all of it.
"""

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


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """``ok`` or why not. Errors are null where they are not finite."""

    ok: bool
    wrong: int = 0  # the number of wrong elements
    reason: str = ""
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    detail: str = ""


def compare(
    expected: Expected, got: torch.Tensor, protocol: Protocol, *, brief: bool = False
) -> Difference:
    """Compare ``got``, which has the expected shape and dtype. ``brief``: stop at the first wrong
    elements, without details."""
    if expected.native.numel() == 0:
        return Difference(ok=True, max_abs_error=0.0)
    output = _comparison(expected, got, protocol, brief=brief)
    rules = applying(output.reference)
    if (figures := surely_right(output, rules)) is not None:
        return Difference(ok=True, max_abs_error=figures.max_error if figures.in_float64 else None)
    for rule, bound in rules:
        if (found := rule.check(bound, output)) is not None:
            return Difference(ok=False, **msgspec.structs.asdict(found))
    return Difference(ok=True, max_abs_error=output.max_abs_error)


def error_and_bound(
    expected: Expected, got: torch.Tensor, protocol: Protocol
) -> tuple[float, float] | None:
    """Return the error of an acceptable output that the protocol bounds, and the bound: the
    relative L2 error by the strict rules, else the largest one of an element beside one plus its
    size. None where values have to be equal, or are not finite."""
    if expected.native.numel() == 0:
        return None
    output = _comparison(expected, got, protocol)
    for rule, bound in applying(output.reference):
        if rule.is_rated:
            error = rule.error(output)
            return (error, bound) if math.isfinite(error) and math.isfinite(bound) else None
    return None


def _comparison(
    expected: Expected, got: torch.Tensor, protocol: Protocol, *, brief: bool = False
) -> Comparison:
    """By the strict rules the parts of a complex output, and what is not filled."""
    if protocol.allclose is None:
        if expected.native.is_complex():
            expected, got = expected.parts(), as_real(got)
        expected, got = expected.without_fill(got)
    return Comparison(Reference(expected, protocol), got, brief=brief)
