"""All correctness rules, and which of them apply to an output."""

from __future__ import annotations

from typing import Any, NamedTuple

from gpu_sandbox.verifier.numerics.comparison import Reference
from gpu_sandbox.verifier.numerics.rules.allclose import Allclose
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS
from gpu_sandbox.verifier.numerics.rules.error_quantiles import QUANTILES
from gpu_sandbox.verifier.numerics.rules.integers import INTEGERS
from gpu_sandbox.verifier.numerics.rules.not_finite import NotFinite
from gpu_sandbox.verifier.numerics.rules.relative_l2 import RelativeL2
from gpu_sandbox.verifier.numerics.rules.rule import Rule
from gpu_sandbox.verifier.numerics.rules.slices import SLICES

REGISTRY: tuple[Rule[Any, Any], ...] = (
    INTEGERS,
    NotFinite(),
    Allclose(),
    RelativeL2(),
    SLICES,
    QUANTILES,
    ELEMENTS,
)
"""In the order in which reasons are given: the first that is violated is the verdict's."""


class Applied(NamedTuple):
    rule: Rule[Any, Any]
    bound: Any


def applying(reference: Reference) -> list[Applied]:
    bounds = ((rule, rule.prepare(reference)) for rule in REGISTRY)
    return [Applied(rule, bound) for rule, bound in bounds if bound is not None]
