"""The truth of one output, its tolerance, and the bounds of each rule beside it."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.tensors.chunked import as_real
from gpu_sandbox.verifier.numerics.fill_value import fill_value_of, with_fill_of, without_fill
from gpu_sandbox.verifier.numerics.half_precision_reference import MOSTLY, half_precision_share
from gpu_sandbox.verifier.numerics.rules import registry
from gpu_sandbox.verifier.numerics.rules.integers import FlipBudget
from gpu_sandbox.verifier.numerics.rules.rule import Calibration, Rule, RunPair
from gpu_sandbox.verifier.numerics.tolerances import (
    FULL_PRECISION,
    HALF_PRECISION,
    DtypeTolerance,
    Margin,
    Nondeterminism,
    tolerance_of,
)

_FEW_OUTPUTS = 64  # of more, norms alone are checked: each takes as long as a large one
_FILL = 16.0  # tolerances that a fill value may be off by: it is a constant


class Expected:
    """One output tensor's truth and bounds, worked out once per input set.

    ``truth`` is the float64 run, or ``native``, the reference's own run. ``usual_rms`` is the usual
    RMS of each row of a small output (``verifier/reference/output_scale.py``), below which errors
    are not relative. ``fill``: see ``fill_value.py``; where float64 says nothing beside it, the
    fill is kept only if ``confirm_fill`` finds the rest stable.
    """

    def __init__(
        self,
        native: torch.Tensor,
        exact: torch.Tensor | None = None,
        rough: torch.Tensor | None = None,
        precision: Precision = "float32",
        usual_rms: torch.Tensor | None = None,
        *,
        factor: float = 1.0,
        norms_only: bool = False,
        fill: float | None = None,
        half_precision: bool = False,
    ) -> None:
        """See ``expect``. ``norms_only``: it is one of many outputs."""
        self.native = self.truth = native
        self.usual_rms = usual_rms
        self.fill = fill
        self.by_dtype = tolerance_of(native, precision)  # none for integers and booleans
        self.tolerance = 0.0  # relative L2
        self.bounds: dict[Rule[Any, Any], Any] = {}
        self.full_check = False
        """Whether rules apply that hold on inputs as drawn alone, or in a timed call that one of
        them found suspicious."""
        self.is_unsound = False  # float64 computes something else
        self.own_error = 0.0  # relative L2 error of the reference's own run
        self.tf32_error = 0.0  # the same with TF32 in convolutions, if granted
        self.flip_budget: FlipBudget | None = None
        self._nondeterminism = Nondeterminism()
        self._factor = factor
        self._as_drawn = factor == 1.0 and not norms_only
        self._half_precision = half_precision
        self._is_own_run = False
        self._unsure: tuple[torch.Tensor, list[torch.Tensor]] | None = None
        """The float64 run, and the reference's own, which differ beside the fill."""
        if self.by_dtype is None or native.numel() == 0:
            return
        self.tolerance = self.by_dtype.without_float64
        if exact is None or not _is_comparable(native, exact):
            return
        others = [native] if rough is None or rough.shape != exact.shape else [native, rough]
        self.fill = None if norms_only else fill_value_of(native)
        if self.fill is None:
            self._use_float64(exact, others)
        elif not self._use_float64(with_fill_of(self.fill, native, exact), others):
            self._unsure = exact, others
            self._use_own_run()

    def _use_float64(self, exact: torch.Tensor, others: list[torch.Tensor]) -> bool:
        """Compare with ``exact``; False if the reference's own runs compute something else."""
        assert self.by_dtype is not None
        rest, *others = self._without_fill(exact, *others)
        pairs = [RunPair(rest, other, self.min_norm) for other in others]
        own, floor = max(pair.distance[0] for pair in pairs), self.by_dtype
        if self._half_precision and (share := half_precision_share(rest, others[0], own)):
            self.by_dtype = HALF_PRECISION
            floor = HALF_PRECISION if share > MOSTLY else floor  # or all might be in 16 bits
        self.is_unsound = not own <= self.by_dtype.max_own_error  # nor if it is no number
        if self.is_unsound:
            self.full_check = False
            return False
        self.truth, self.own_error = exact, own
        factor = self._factor if self.by_dtype in FULL_PRECISION else 1.0
        self.tolerance = factor * max(self.by_dtype.k * own, self.by_dtype.floor)
        self._calibrate(pairs, floor, floor.floor, factor)
        return True

    def _use_own_run(self) -> None:
        """Compare with the reference's own run, by all rules: there is no float64 run."""
        assert self.by_dtype is not None
        self._is_own_run = True
        (rest,) = self._without_fill(self.native)
        by = self.by_dtype
        self._calibrate([RunPair(rest, rest)], by, by.without_float64, 1.0)

    def _calibrate(
        self, pairs: list[RunPair], floor: DtypeTolerance, tolerance: float, factor: float
    ) -> None:
        assert self.by_dtype is not None
        runs = Calibration(
            pairs,
            self.by_dtype,
            floor.quantiles(tolerance),
            in_float64=self.truth is not self.native,
            as_drawn=self._as_drawn,
            factor=factor,
        )
        self.bounds = {}
        self._update_bounds(lambda rule, _: rule.calibrate(runs))
        self.full_check = self._as_drawn

    def _update_bounds(self, new: Callable[[Rule[Any, Any], Any], Any]) -> None:
        for rule in registry.REGISTRY:
            bound = new(rule, self.bounds.get(rule))
            if bound is not None:
                self.bounds[rule] = bound

    def use_own_run(self) -> None:
        """Apply all rules beside the reference's own run, where there is no float64 run."""
        if self.by_dtype is None or self.is_unsound or self.truth is not self.native:
            return
        if self.native.numel() and not self._is_own_run:
            self.fill = fill_value_of(self.native)
            self._use_own_run()

    def confirm_fill(self, *, is_stable: bool) -> None:
        """Drop a doubtful fill value unless the rest is stable where inputs move by a few ulp. It
        is not where it is rounding beside ones, as of a matrix times its inverse."""
        unsure, self._unsure = self._unsure, None
        if is_stable or not self._is_own_run or self.fill is None:
            return
        self.fill = None
        if unsure is None:
            self._use_own_run()
        else:
            self._is_own_run = False
            self._use_float64(*unsure)

    @property
    def min_norm(self) -> float:
        """The L2 norm that errors are relative to, where the truth's own is smaller."""
        if self.usual_rms is None:
            return 0.0
        each = self.native.numel() // self.usual_rms.numel()
        return math.sqrt(each * float(self.usual_rms.square().sum()))

    @property
    def margin(self) -> Margin:
        """The margin of another call of the same task, without a float64 run."""
        own = 0.0 if self.truth is self.native else self.own_error
        bounds = {rule: rule.for_timed(bound) for rule, bound in self.bounds.items()}
        return Margin(self.tolerance + own, bounds, self.usual_rms, self.fill)

    @property
    def nondeterminism(self) -> Nondeterminism:
        """What own runs of the reference differ by; nothing beside the float64 run."""
        return self._nondeterminism if self.truth is self.native else Nondeterminism()

    def allow_nondeterminism(self, by: Nondeterminism) -> None:
        self._nondeterminism = by

    def widen(
        self,
        relative: float,
        spreads: Mapping[Rule[Any, Any], Any],
        flip_budget: FlipBudget | None,
    ) -> None:
        """Allow for what the reference's outputs move by where its inputs move by a few ulp: in
        relative L2, and by what rules measured (``Rule.spread``)."""
        self.flip_budget = flip_budget
        if self.by_dtype is not None:
            by = min(self.by_dtype.k * relative, self.by_dtype.without_float64)
            self.tolerance = max(self.tolerance, by)
        self._update_bounds(lambda rule, bound: rule.widen(bound, spreads.get(rule), self))

    def grant_tf32(self, run: torch.Tensor, by: DtypeTolerance) -> bool:
        """Allow for the error of ``run``, of the reference with TF32 in its convolutions. False if
        that is nothing, or something else."""
        rest, run = self.without_fill(run)
        pair = RunPair(rest.truth, run, rest.min_norm)
        error = pair.distance[0]
        if not 0.0 < error <= by.max_own_error:
            return False
        self.tf32_error = error
        self.tolerance = max(self.tolerance, by.k * error)
        self._update_bounds(lambda rule, bound: rule.grant(bound, pair, by))
        return True

    def check_in_full_if_suspicious(self, got: torch.Tensor, error: float | None) -> None:
        """Let rules look at a part of a timed call's output, whose relative L2 error is known if
        the fast path took it."""
        looks = (r.wants_full_check(bound, self, got, error) for r, bound in self.bounds.items())
        self.full_check = any(looks)

    def parts(self) -> Expected:
        """The real and imaginary parts of a complex output."""
        return self._mapped(as_real)

    def without(self, places: torch.Tensor) -> Expected:
        """Expect zeros at these places, where an output that is compared gets zeros, too."""
        return self._mapped(lambda tensor: tensor.masked_fill(places, 0.0))

    def _mapped(self, function: Callable[[torch.Tensor], torch.Tensor]) -> Expected:
        found = copy.copy(self)
        found.native = function(self.native)
        found.truth = found.native if self.truth is self.native else function(self.truth)
        return found

    def without_fill(self, got: torch.Tensor) -> tuple[Expected, torch.Tensor]:
        """What is not filled, and ``got`` as it is to be compared with that."""
        if self.fill is None:
            return self, got
        found = copy.copy(self)
        if self.truth is self.native:
            found.native, got = self._without_fill(self.native, got)
            found.truth = found.native
        else:
            found.native, found.truth, got = self._without_fill(self.native, self.truth, got)
        found.fill = None
        return found, got

    def _without_fill(self, *outputs: torch.Tensor) -> list[torch.Tensor]:
        if self.fill is None or self.by_dtype is None:
            return list(outputs)
        return without_fill(self.fill, self.native, outputs, _FILL * self.by_dtype.floor)

    @staticmethod
    def within(native: torch.Tensor, margin: Margin) -> Expected:
        """Expect the output of a call that was not made in float64."""
        expected = Expected(native, usual_rms=margin.usual_rms, fill=margin.fill)
        expected.tolerance, expected.bounds = margin.tolerance, dict(margin.bounds)
        return expected


def expect(
    native: list[torch.Tensor],
    exact: list[Any] | None,
    rough: list[Any] | None = None,
    precision: Precision = "float32",
    usual_rms: Sequence[torch.Tensor | None] = (),
    *,
    factor: float = 1.0,
    use_own_run: bool = False,
    half_precision: bool = False,
) -> list[Expected]:
    """Expect the outputs ``native``.

    ``exact``: tensors of the float64 run in the same order, if there was one; ``rough``: of one on
    what was rounded to ``precision``. ``factor``: how much more is allowed in full precision, on
    transformed inputs. ``use_own_run``: without a float64 run all rules apply beside the
    reference's own. ``half_precision``: the reference computes in 16 bits what comes in more.
    """
    none, few = [None] * len(native), len(native) <= _FEW_OUTPUTS
    exact = exact if exact is not None and len(exact) == len(native) else none
    rough = rough if rough is not None and len(rough) == len(native) else none
    options: dict[str, Any] = {"factor": factor, "norms_only": not few}
    found = [
        Expected(n, e, r, precision, u, half_precision=half_precision, **options)
        for n, e, r, u in zip(native, exact, rough, usual_rms or none, strict=True)
    ]
    if use_own_run and few and factor == 1.0:
        for one in found:
            one.use_own_run()
    return found


def _is_comparable(native: torch.Tensor, exact: torch.Tensor) -> bool:
    if exact.shape != native.shape or exact.is_complex() != native.is_complex():
        return False
    return exact.is_floating_point() or exact.is_complex()
