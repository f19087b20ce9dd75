"""What an output should be, and how far a candidate's may lie from it (``compare.py`` holds the
rule): the truth, the problem's own error, and for outputs of few elements their usual size."""

from __future__ import annotations

import copy
import math
from collections.abc import Sequence
from typing import Any

import torch

from gpu_sandbox.api.protocols import Precision
from gpu_sandbox.tensors.chunked import as_real, distance
from gpu_sandbox.verifier.numerics.fill_value import fill_of, filled_alike, without_fill
from gpu_sandbox.verifier.numerics.half_precision_reference import MOSTLY, lowered
from gpu_sandbox.verifier.numerics.rules.elements import slack_of
from gpu_sandbox.verifier.numerics.rules.error_quantiles import Bulk, bulk_of
from gpu_sandbox.verifier.numerics.rules.integers import Seldom
from gpu_sandbox.verifier.numerics.rules.slices import Columns, sound
from gpu_sandbox.verifier.numerics.tolerances import DECLARED, FULL, LOWERED, RULES, Margin

__all__ = ["Expected", "expect"]

_AND_ITS_OWN = 9 / 8
"""What is allowed is some eight times what the reference itself is off by."""
_FEW_OUTPUTS = 64
"""Of more, norms alone are looked at: each takes as long as a large one."""
_FILL = 16.0
"""Tolerances that what an output is filled with may be off by: it is a constant."""


class Expected:
    """One output tensor's truth and tolerance, worked out once per input set.

    ``typical``: what the RMS of each of its rows usually is
    (``verifier/reference/output_scale.py``), where it has few elements: a sum that comes out next
    to nothing is not to be as exact as it is small. ``fill``: the large number that it is in many
    places, without which errors count (``verifier/numerics/fill_value.py``). Where no float64 run
    is sound beside it that is to be borne out by ``vouched`` or given up."""

    def __init__(
        self,
        native: torch.Tensor,
        exact: torch.Tensor | None,
        rough: torch.Tensor | None = None,
        precision: Precision = "float32",
        typical: torch.Tensor | None = None,
        *,
        few: bool = True,
        fill: float | None = None,
        lowers: bool = False,
    ) -> None:
        self.native = native
        self._lowers = lowers
        self.fill = fill
        self.truth = native
        self.typical = typical
        dtype = native.dtype.to_real() if native.is_complex() else native.dtype
        self.rule = RULES.get(dtype)
        if dtype == torch.float32:
            self.rule = DECLARED.get(precision, self.rule)
        self.tolerance = 0.0
        self.slack = 0.0
        self.unsound = False
        """Whether its own precision makes something else of these inputs than float64 does."""
        self.loose = 0
        """Integers or booleans that may be others: more than ``flips`` of them ``seldom``."""
        self.flips = 0
        self.seldom: Seldom | None = None
        self.bulk: Bulk | None = None
        """Of inputs as the task draws them: what is changed has its errors elsewhere."""
        self.drawn = False
        """Whether columns are to be there: on inputs as the task draws them, beside its float64
        run, or where one of ``columns`` seems not to be."""
        self.columns: Columns | None = None
        """Those that are sound beside what it is held to, its own or another output's."""
        self._to_itself = False
        self._unsure: tuple[torch.Tensor, list[torch.Tensor]] | None = None
        """The float64 run, and the reference's own, without the fill: beside it they differ."""
        self._eased = 1.0
        self._worst = 0.0
        self.own = 0.0
        """How far the reference in its own precision is from the truth, in relative L2."""
        self.granted = 0.0
        """The same of a run whose convolutions took TF32, where that is allowed."""
        self._varied = Margin(0.0, 0.0)
        if self.rule is None or native.numel() == 0:
            return
        self.tolerance = self.rule.blind
        if (
            exact is None
            or exact.shape != native.shape
            or exact.is_complex() != native.is_complex()
        ):
            return
        if not (exact.is_floating_point() or exact.is_complex()):
            return
        others = [native] if rough is None or rough.shape != exact.shape else [native, rough]
        self.fill = fill_of(native) if few else None
        if self.fill is None:
            self._hold(exact, others, few=few)
        elif not self._hold(filled_alike(self.fill, native, exact), others, few=few):
            self._unsure = exact, others
            self._beside_itself()

    def _hold(self, exact: torch.Tensor, others: list[torch.Tensor], *, few: bool) -> bool:
        """To ``exact``, from which ``others`` are the reference's own runs; False if these are
        something else."""
        assert self.rule is not None
        rest, *others = self._beside_fill(exact, *others)
        each = [distance(other, rest, self.least) for other in others]
        own, worst = (max(found) for found in zip(*each, strict=True))
        floor = self.rule
        if self._lowers and (share := lowered(rest, others[0], own)):
            self.rule = LOWERED
            floor = LOWERED if share > MOSTLY else floor  # or all might be in 16 bits
        self.unsound = not own <= self.rule.sane  # nor if it is no number
        if self.unsound:
            return False
        self.truth = exact
        self.tolerance = max(self.rule.k * own, self.rule.floor)
        self.slack = slack_of(worst)
        self.own, self._worst = own, worst
        least = floor.of_most(floor.floor)
        self.bulk = bulk_of(rest, others, self.rule.k, *least) if few else None
        return True

    def hold_to_itself(self) -> None:
        """Most elements, and columns, where there is no float64 run: as near as an output is to be
        then."""
        if self.rule is None or self.unsound or self.truth is not self.native:
            return
        if self.native.numel() and not self._to_itself:
            self.fill = fill_of(self.native)
            self._beside_itself()

    def _beside_itself(self) -> None:
        assert self.rule is not None
        self._to_itself = True
        (rest,) = self._beside_fill(self.native)
        self.bulk = bulk_of(rest, [rest], self.rule.k, *self.rule.of_most(self.rule.blind))

    def vouched(self, *, steady: bool) -> None:
        """Whether the rest is ``steady`` where inputs are moved by rounding. It is not where it is
        rounding beside ones, as of a matrix times its inverse: then there is no such number."""
        if steady or not self._to_itself or self.fill is None:
            self._unsure = None
            return
        self.fill, unsure, self._unsure = None, self._unsure, None
        if unsure is None:
            self._beside_itself()
        else:
            self._to_itself = False
            self._hold(*unsure, few=True)
            self.ease(self._eased)
        if self.drawn:
            self.columns = sound(self.truth, self.native)

    @property
    def least(self) -> float:
        """The L2 norm that errors are relative to, where the truth's own is smaller."""
        if self.typical is None:
            return 0.0
        each = self.native.numel() // self.typical.numel()
        return math.sqrt(each * float(self.typical.square().sum()))

    @property
    def margin(self) -> Margin:
        """For another call of the same task, whose truth is known in its own dtype only:
        this one's tolerance and own error, without what it was let vary by."""
        own, worst = (0.0, 0.0) if self.truth is self.native else (self.own, self._worst)
        bulk = self.bulk and self.bulk.times(_AND_ITS_OWN)
        tolerance, slack = self.tolerance + own, self.slack + worst
        return Margin(tolerance, slack, self.typical, self.loose, bulk, self.columns, self.fill)

    @property
    def allowed(self) -> Margin:
        """What may lie between an output and ``truth``."""
        by = self._varied if self.truth is self.native else Margin(0.0, 0.0)
        bulk = self.bulk
        if bulk is not None and self.rule is not None:
            bulk = bulk.plus(*self.rule.of_most(by.tolerance))
        return Margin(self.tolerance + by.tolerance, self.slack + by.slack, bulk=bulk)

    def loosen(self, tolerance: float, worst: float, bulk: Bulk | None) -> None:
        """What the reference differs from itself by, where its inputs differ by rounding."""
        self.tolerance = max(self.tolerance, tolerance)
        self.slack = max(self.slack, 2 * worst)
        if self.bulk is not None and bulk is not None:
            self.bulk = self.bulk.at_least(bulk)

    def ease(self, times: float) -> None:
        """Of full precision, on changed inputs: they may be where the computation is touchy, and
        how large its errors are there is known from a single one."""
        self._eased = times
        self.drawn = times == 1.0 and (self._to_itself or self.truth is not self.native)
        if times != 1.0:
            self.bulk = None
        if self.truth is not self.native and self.rule in FULL:
            self.tolerance *= times
            self.slack *= times

    def vary(self, by: Margin) -> None:
        """Let so much more lie between an output and the reference's own, whose runs differ.
        The float64 run has nothing to do with that."""
        self._varied = by

    def parts(self) -> Expected:
        """Of a complex one the same of its parts: what is off is so in one of them."""
        found = copy.copy(self)
        found.native = as_real(self.native)
        found.truth = found.native if self.truth is self.native else as_real(self.truth)
        return found

    def beside_fill(self, got: torch.Tensor) -> tuple[Expected, torch.Tensor]:
        """The same of what is not filled, and ``got`` as it is to be compared with that."""
        if self.fill is None:
            return self, got
        found = copy.copy(self)
        if self.truth is self.native:
            found.native, got = self._beside_fill(self.native, got)
            found.truth = found.native
        else:
            found.native, found.truth, got = self._beside_fill(self.native, self.truth, got)
        found.fill = None
        return found, got

    def _beside_fill(self, *outputs: torch.Tensor) -> list[torch.Tensor]:
        if self.fill is None or self.rule is None:
            return list(outputs)
        return without_fill(self.fill, self.native, outputs, _FILL * self.rule.floor)

    def without(self, places: torch.Tensor) -> Expected:
        """The same where nothing is expected of these places: zero, as they are to be made of what
        is compared with it."""
        found = copy.copy(self)
        found.native = self.native.masked_fill(places, 0.0)
        own = self.truth is self.native
        found.truth = found.native if own else self.truth.masked_fill(places, 0.0)
        return found

    @staticmethod
    def within(native: torch.Tensor, margin: Margin) -> Expected:
        """The truth of a call that was not made in float64."""
        expected = Expected(native, None, typical=margin.typical, fill=margin.fill)
        expected.tolerance, expected.slack = margin.tolerance, margin.slack
        expected.loose, expected.bulk = margin.loose, margin.bulk
        expected.columns = margin.columns
        return expected


def expect(
    native: list[torch.Tensor],
    exact: list[Any] | None,
    rough: list[Any] | None = None,
    precision: Precision = "float32",
    typical: Sequence[torch.Tensor | None] = (),
    *,
    ease: float = 1.0,
    alone: bool = False,
    lowers: bool = False,
) -> list[Expected]:
    """``exact`` holds the float64 run's tensors in the same order, if there was one, and
    ``rough`` those of one on what was rounded to ``precision``; ``ease``: see ``Expected``;
    ``alone``: without such a run as much as can be is held to the reference's own; ``lowers``:
    it computes in 16 bits what comes in more (``verifier/reference/float64_casts.py``)."""
    none, few = [None] * len(native), len(native) <= _FEW_OUTPUTS
    exact = exact if exact is not None and len(exact) == len(native) else none
    rough = rough if rough is not None and len(rough) == len(native) else none
    found = [
        Expected(n, e, r, precision, t, few=few, lowers=lowers)
        for n, e, r, t in zip(native, exact, rough, typical or none, strict=True)
    ]
    for one in found:
        if alone and few and ease == 1.0:
            one.hold_to_itself()
        one.ease(ease)
        one.drawn = one.drawn and few
        if one.drawn:
            rest, _ = one.beside_fill(one.native)
            one.columns = sound(rest.truth, rest.native)
    return found
