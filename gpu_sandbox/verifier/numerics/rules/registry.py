"""All correctness rules, and which of them apply to an output."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpu_sandbox.verifier.numerics.comparison import Reference
from gpu_sandbox.verifier.numerics.rules.allclose import Allclose
from gpu_sandbox.verifier.numerics.rules.elements import Elements
from gpu_sandbox.verifier.numerics.rules.error_quantiles import ErrorQuantiles
from gpu_sandbox.verifier.numerics.rules.integers import Integers
from gpu_sandbox.verifier.numerics.rules.not_finite import NotFinite
from gpu_sandbox.verifier.numerics.rules.relative_l2 import RelativeL2
from gpu_sandbox.verifier.numerics.rules.rule import Rule
from gpu_sandbox.verifier.numerics.rules.slices import Slices

__all__ = ["REGISTRY", "Applied", "applying"]

REGISTRY: tuple[Rule[Any], ...] = (
    Integers(),
    NotFinite(),
    Allclose(),
    RelativeL2(),
    Slices(),
    ErrorQuantiles(),
    Elements(),
)
"""In the order in which reasons are given: the first that is violated is the verdict's."""


class Applied(NamedTuple):
    """A rule that applies, with what it allows."""

    rule: Rule[Any]
    bound: Any


def applying(reference: Reference) -> list[Applied]:
    bounds = ((rule, rule.prepare(reference)) for rule in REGISTRY)
    return [Applied(rule, bound) for rule, bound in bounds if bound is not None]
