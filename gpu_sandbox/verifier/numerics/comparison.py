"""One output beside what is expected of it: what rules read, and where the output is wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

import msgspec
import torch

from events.figures import percent
from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.tensors.chunked import distance, pieces
from gpu_sandbox.verifier.numerics.error_report import ErrorReport

if TYPE_CHECKING:  # ``Expected`` takes its bounds from the rules, which read this module
    from gpu_sandbox.verifier.numerics.expected import Expected

Wrong: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]
"""Which elements of a piece are wrong: of the reference's own run, the truth, and the output."""


class Violation(msgspec.Struct, frozen=True, kw_only=True):
    """Why a rule rejects an output. Errors are null where they are not finite."""

    reason: str
    wrong: int = 0  # the number of wrong elements
    max_abs_error: float | None = None
    max_rel_error: float | None = None
    detail: str = ""


class Reference:
    """What an output is compared with under one protocol: ``expected``, or its parts if it is
    complex, or what is not filled."""

    def __init__(self, expected: Expected, protocol: Protocol) -> None:
        native = expected.native
        self.expected = expected
        self.tolerance = expected.tolerance + expected.nondeterminism.tolerance
        self.allclose = protocol.allclose
        self.is_floating = native.is_floating_point() or native.is_complex()
        by_norms = protocol.allclose is None and expected.by_dtype is not None
        self.by_norms = self.is_floating and by_norms  # whether strict rules hold


class Comparison:
    """An output of the expected shape and dtype. ``brief``: where it is wrong is looked for no
    further than to the first elements, and is not reported."""

    def __init__(self, reference: Reference, got: torch.Tensor, *, brief: bool = False) -> None:
        self.reference = reference
        self.expected = reference.expected
        self.got = got
        self.brief = brief
        self.max_abs_error: float | None = None  # of an output without violation

    @cached_property
    def distance(self) -> tuple[float, float]:
        """Relative L2 error, and the largest one of an element: one pass for all rules."""
        return distance(self.got, self.expected.truth, self.expected.min_norm)

    def violation(
        self, wrong: Wrong, reason: str, *, brief: bool | None = None
    ) -> Violation | None:
        """Apply ``wrong(native, truth, got)`` piece by piece; say how many, how far, and where.
        None where no element is wrong."""
        brief = self.brief if brief is None else brief
        count, worst, relative, before = 0, 0.0, 0.0, 0
        report = ErrorReport(self.got)
        for native, truth, mine in pieces(self.expected.native, self.expected.truth, self.got):
            bad = wrong(native, truth, mine)
            here = int(bad.sum())
            if here and brief:
                return Violation(wrong=here, reason=reason)
            if here or truth.is_floating_point() or truth.is_complex():
                error, scaled = _errors(truth, mine)
                worst, relative = max(worst, error), max(relative, scaled)
            if here:
                report.add(native, mine, bad, before)
            count += here
            before += native.numel()
        if count == 0:
            self.max_abs_error = finite_or_none(worst)
            return None
        size = self.got.numel()
        return Violation(
            wrong=count,
            reason=f"{reason} ({count} of {size} elements, {percent(count / size)})",
            max_abs_error=finite_or_none(worst),
            max_rel_error=finite_or_none(relative),
            detail=report.text(),
        )


def finite_or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _errors(truth: torch.Tensor, got: torch.Tensor) -> tuple[float, float]:
    """Largest absolute, and largest relative error; infinite where either is not finite."""
    wide = torch.complex128 if got.is_complex() else torch.float64
    error = (got.to(wide) - truth.to(wide)).abs()
    same = got == truth  # infinities, too, whose difference is NaN
    error = error.masked_fill_(same, 0.0).nan_to_num_(math.inf, math.inf)
    size = truth.to(wide).abs()
    scaled = (error / size.clamp(min=1e-300)).masked_fill_(~(size > 0), 0.0)
    return float(error.max()), float(scaled.nan_to_num(math.inf, math.inf).max())
