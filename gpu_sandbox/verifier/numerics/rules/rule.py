"""The protocol of a correctness rule, and the figures that the fast path takes for it.

A rule is a module of this folder and an entry of ``registry.REGISTRY``. ``compare.py`` and
``fast_path.py`` go over the registry alone, so a rule that is in it holds in both.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, Protocol, TypeGuard, TypeVar

import torch

from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation

__all__ = [
    "Figures",
    "MeasuringRule",
    "QuickRule",
    "RatedRule",
    "Rule",
    "is_measuring",
    "is_quick",
    "is_rated",
]

B = TypeVar("B")
"""A rule's bound: what it allows, as it is read off the reference."""


class Figures(NamedTuple):
    """Of one output, taken by the fast path in one pass, for all rules."""

    output: Comparison
    is_same: bool = False
    """Equal to the reference's own run in each element. No other figure is taken then."""
    largest: float = 0.0
    """Absolute error of an element."""
    off: float = 0.0
    """L2 norm of the error."""
    size: float = 0.0
    """L2 norm that errors are relative to."""
    is_finite: bool = True
    """Whether the reference's own run is."""
    in_float64: bool = False
    """Taken in float64, beside the float64 run. Else beside the reference's own run, in float32
    for outputs of no wider type."""
    measured: Mapping[MeasuringRule[Any], float] = {}
    """By rule, its own figure (``MeasuringRule``). None beside the float64 run."""

    @property
    def relative(self) -> float:
        return 0.0 if self.is_same else self.off / self.size


class Rule(Protocol[B]):
    """``prepare`` is asked before each comparison, so it reads what ``Expected`` holds and looks at
    no elements."""

    def prepare(self, reference: Reference) -> B | None:
        """None where the rule does not apply."""

    def check(self, bound: B, output: Comparison) -> Violation | None:
        """What is wrong. Rules that come earlier in the registry have found nothing."""


class QuickRule(Rule[B], Protocol[B]):
    """A rule that the fast path can ask. Without ``surely_ok`` a rule that applies closes it."""

    def surely_ok(self, bound: B, figures: Figures) -> bool:
        """True only if ``check`` would find nothing. Rules that come earlier are sure already."""


class MeasuringRule(QuickRule[B], Protocol[B]):
    """A rule with a figure of its own beside the reference's own run. That is taken of many outputs
    at once, so that a device is waited for once. Outputs go together by dtype, size, and this
    rule's bound, which is hashable."""

    def measure(
        self, bound: B, native: torch.Tensor, got: torch.Tensor, dtype: torch.dtype
    ) -> torch.Tensor:
        """Of outputs that are a row each: (outputs,), on the device. ``dtype``: what is computed
        in."""


class RatedRule(Rule[float], Protocol):
    """A rule whose bound is a number, which verdicts report beside the error of an output."""

    def error(self, output: Comparison) -> float:
        """The error that is bounded."""


def is_quick(rule: Rule[B]) -> TypeGuard[QuickRule[B]]:
    return hasattr(rule, "surely_ok")


def is_measuring(rule: Rule[B]) -> TypeGuard[MeasuringRule[B]]:
    return hasattr(rule, "measure")


def is_rated(rule: Rule[Any]) -> TypeGuard[RatedRule]:
    return hasattr(rule, "error")
