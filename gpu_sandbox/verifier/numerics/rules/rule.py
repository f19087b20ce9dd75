"""The base of correctness rules.

A rule is a module of this folder and an entry of ``registry.REGISTRY``. ``compare.py``,
``fast_path.py`` and ``expected.py`` go over the registry alone, so a rule in it holds in each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar, Generic, NamedTuple, TypeVar

import torch

from gpu_sandbox.tensors.chunked import distance
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation
from gpu_sandbox.verifier.numerics.tolerances import DtypeTolerance

if TYPE_CHECKING:  # ``Expected`` keeps the bounds of rules
    from gpu_sandbox.verifier.numerics.expected import Expected

B = TypeVar("B")  # what `check` compares with
C = TypeVar("C")  # A calibrated bound, which `Expected` keeps by rule


class Figures(NamedTuple):
    """Figures of one output that the fast path takes in one pass, for all rules."""

    output: Comparison
    is_same: bool = False  # as the reference's own run, bit by bit: no other figure is taken
    max_error: float = 0.0  # absolute, of an element
    error_norm: float = 0.0
    norm: float = 0.0  # the L2 norm that errors are relative to
    is_finite: bool = True  # whether the reference's own run is
    in_float64: bool = False
    """Taken in float64, beside the float64 run. Else beside the reference's own run, in float32
    for outputs of no wider type."""
    measured: Mapping[Rule[Any, Any], float] = {}  # not in float64

    @property
    def relative(self) -> float:
        return 0.0 if self.is_same else self.error_norm / self.norm


def is_discrete(output: torch.Tensor) -> bool:
    """Whether values are integers or booleans."""
    return not (output.is_floating_point() or output.is_complex())


class RunPair:
    """Two runs of the reference, without a fill value; ``truth`` is in float64 if one is."""

    def __init__(self, truth: torch.Tensor, other: torch.Tensor, min_norm: float = 0.0) -> None:
        self.truth = truth
        self.other = other
        self._min_norm = min_norm

    @cached_property
    def distance(self) -> tuple[float, float]:
        """Relative L2 distance, and the largest one of an element."""
        return distance(self.other, self.truth, self._min_norm)


class Calibration(NamedTuple):
    """Runs of the reference on one input set, from which rules take their bounds."""

    pairs: Sequence[RunPair]
    """float64 with each run in less precision; else the own run with itself"""
    by_dtype: DtypeTolerance
    min_quantiles: tuple[float, float]  # relative errors that are always allowed
    in_float64: bool
    as_drawn: bool  # inputs are as the task draws them, and outputs few
    factor: float = 1.0  # how much more is allowed, on transformed inputs


class Rule(ABC, Generic[B, C]):
    """A correctness rule. All but ``prepare`` and ``check`` is optional."""

    is_quick: ClassVar[bool]  # the fast path can ask it; else it is closed where the rule applies
    is_measuring: ClassVar[bool]  # it has a figure of its own in the fast path
    is_rated: ClassVar[bool]  # verdicts report its bound, a number, beside the error

    def __init_subclass__(cls) -> None:
        cls.is_quick = cls.surely_ok is not Rule.surely_ok
        cls.is_measuring = cls.measure is not Rule.measure
        cls.is_rated = cls.error is not Rule.error

    @abstractmethod
    def prepare(self, reference: Reference) -> B | None:
        """Return the bound of a comparison; None where the rule does not apply. This reads
        ``Expected`` before each comparison, and looks at no elements."""

    @abstractmethod
    def check(self, bound: B, output: Comparison) -> Violation | None:
        """Find what is wrong. Earlier rules of the registry have found nothing."""

    def surely_ok(self, bound: B, figures: Figures) -> bool:
        """True only if ``check`` would find nothing. Earlier rules are sure already."""
        raise NotImplementedError

    def measure(
        self, bound: B, native: torch.Tensor, got: torch.Tensor, dtype: torch.dtype
    ) -> torch.Tensor:
        """Measure outputs, one a row, beside the reference's own run, computing in ``dtype``:
        (outputs,), on the device, so that it is waited for once. Outputs are grouped by dtype,
        size, and the bound, which is hashable."""
        raise NotImplementedError

    def error(self, output: Comparison) -> float:
        """Return the error that is bounded."""
        raise NotImplementedError

    # Bounds that follow from runs of the reference: ``Expected.bounds`` keeps them by rule.

    def calibrate(self, runs: Calibration) -> C | None:
        """Take the bound on one input set. None: nothing is bounded there."""
        return None

    def spread(self, pair: RunPair) -> Any:
        """Measure how far apart two runs are, the second on inputs moved by a few ulp."""
        return None

    def larger(self, spread: Any, other: Any) -> Any:
        return max(spread, other)

    def widen(self, bound: C | None, spread: Any, expected: Expected) -> C | None:
        """Allow for the largest ``spread`` that was measured; None if none was."""
        return bound

    def grant(self, bound: C | None, pair: RunPair, by: DtypeTolerance) -> C | None:
        """Allow for a run of the reference in a precision that is granted."""
        return bound

    def for_timed(self, bound: C) -> C:
        """Return the bound beside the reference's own run, on other inputs of the task."""
        return bound

    def scale(self, bound: C, factor: float) -> C:
        return bound

    def wants_full_check(
        self, bound: C, expected: Expected, got: torch.Tensor, error: float | None
    ) -> bool:
        """Whether a cheap look at a timed call's output finds it suspicious. ``error``: in relative
        L2, if the fast path took it."""
        return False
