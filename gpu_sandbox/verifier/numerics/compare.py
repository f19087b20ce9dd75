"""Is this output the reference's? Per protocol, per tensor, with the first differences.

The strict rule: with r the reference in float64 on the same inputs and n the reference
in its own dtype, the problem's own error is E = |n − r| / |r| (L2 norms). A candidate c
passes iff |c − r| / |r| ≤ max(k·E, floor) and no element is further off than
max(8·max|n − r|, 50 tolerances of its row's RMS plus its own size, 8 of the RMS of a row
that nine in ten do not exceed), and most elements are near to what they are themselves
(``error_quantiles.py``). Of outputs of few elements, no norm counts for less than it
usually is (``verifier/reference/output_scale.py``). Without a float64 reference, r is n and a fixed
tolerance applies. NaN never passes; infinities must agree. Where a candidate is wrong by that, TF32
in the reference's convolutions may be granted (``verifier/trials/convolution_recheck.py``). Where
less precision than float32 was declared, E is also that of r on rounded inputs and weights
(``runtime/precision.py``), whichever is larger, with that precision's numbers."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeAlias

import msgspec
import torch

from events.figures import beside, percent
from gpu_sandbox.api.protocols import Protocol
from gpu_sandbox.tensors.chunked import as_real, distance, pieces
from gpu_sandbox.verifier.numerics.error_quantiles import SHARES, shares_off
from gpu_sandbox.verifier.numerics.error_report import Differences
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.fast_path import (
    anywhere_of,
    close_by,
    lacks_column,
    plainly_right,
    rms_of,
)
from gpu_sandbox.verifier.numerics.slices import flipped, lost
from gpu_sandbox.verifier.numerics.tolerances import ELEMENT

__all__ = ["Difference", "compare", "error_and_bound"]


_HALF = (torch.float16, torch.bfloat16)
Wrong: TypeAlias = Callable[[torch.Tensor, torch.Tensor, torch.Tensor], torch.Tensor]


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
    native = expected.native
    if native.numel() == 0:
        return Difference(ok=True, max_abs_error=0.0)
    if native.is_complex() and protocol.allclose is None:
        return compare(expected.parts(), as_real(got), protocol, brief=brief)
    if protocol.allclose is None:
        expected, got = expected.beside_fill(got)
        native = expected.native
    verdict = partial(_verdict, expected, got, brief=brief)
    if not (native.is_floating_point() or native.is_complex()):
        brief = brief and (protocol.allclose is not None or not expected.loose)  # or all count
        found = verdict(lambda n, t, g: n != g, "values differ", brief=brief)
        if protocol.allclose is None and _let_off(expected, got, found.wrong):
            return Difference(ok=True, max_abs_error=found.max_abs_error)
        return found
    if protocol.allclose is None:
        (by,) = close_by([(expected, got)])
        if by is not None and not lacks_column(expected, got, by):
            return Difference(ok=True)
    if protocol.allclose is None and (worst := plainly_right(expected, got)) is not None:
        return Difference(ok=True, max_abs_error=worst)
    each = pieces(native, expected.truth, got)
    if any(bool(_non_finite_unlike(*piece).any()) for piece in each):
        return verdict(_non_finite_unlike, "NaN, or infinities that differ")
    if protocol.allclose is not None or expected.rule is None:
        rtol = _allclose(protocol, native.dtype)
        reason = f"differs by more than atol = rtol = {rtol:g}"
        return verdict(lambda n, t, g: ~torch.isclose(g, n, atol=rtol, rtol=rtol), reason)
    return _strict(expected, got, verdict)


def error_and_bound(
    expected: Expected, got: torch.Tensor, protocol: Protocol
) -> tuple[float, float] | None:
    """Of an acceptable output the error that the protocol bounds, and that bound: by the strict
    rule the relative L2 error, else the largest one of an element beside one plus its size. None
    where values have to be equal, or are not finite."""
    native = expected.native
    if native.numel() == 0 or not (native.is_floating_point() or native.is_complex()):
        return None
    if protocol.allclose is not None or expected.rule is None:
        error = 0.0
        for theirs, mine in pieces(native, got):
            off = ((mine - theirs).abs().double() / (1 + theirs.abs().double())).max()
            error = max(error, float(off))
        bound = _allclose(protocol, native.dtype)
    elif native.is_complex():
        return error_and_bound(expected.parts(), as_real(got), protocol)
    else:
        rest, mine = expected.beside_fill(got)
        error, _ = distance(mine, rest.truth, rest.least)
        bound = rest.allowed.tolerance
    return (error, bound) if math.isfinite(error) and math.isfinite(bound) else None


def _let_off(expected: Expected, got: torch.Tensor, wrong: int) -> bool:
    """Integers that rounding may have flipped."""
    if expected.seldom is not None:
        expected.seldom.looked()
    if not 0 < wrong <= expected.loose or flipped(expected.native, got):
        return False
    return wrong <= expected.flips or expected.seldom is None or expected.seldom.lets_off()


def _strict(
    expected: Expected, got: torch.Tensor, verdict: Callable[[Wrong, str], Difference]
) -> Difference:
    relative, worst = distance(got, expected.truth, expected.least)
    typical = expected.typical
    most, anywhere = expected.allowed, anywhere_of(expected)

    def off(_: torch.Tensor, truth: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
        """Elements beyond ``times`` the tolerance of their row (the last dimension)."""
        finite = truth.double().nan_to_num(0.0, 0.0, 0.0)
        error = (got.double() - truth.double()).nan_to_num(0.0, 0.0, 0.0).abs()
        rms = rms_of(truth, typical)
        bound = times * most.tolerance * (rms + finite.abs())
        return error > bound.clamp(min=anywhere * times / ELEMENT)

    times = 1.0  # what of a tensor that is wrong as a whole to show
    if relative > most.tolerance:
        error, bound = beside(relative, most.tolerance)
        reason = f"relative L2 error {error}, allowed {bound}"
        reason += f", the reference's own {expected.own:.1e}" if expected.own else ""
        if expected.granted:
            reason += f", with TF32 in its convolutions {expected.granted:.1e}"
        found = verdict(off, reason)
        if not found.ok:
            return found
        return Difference(ok=False, reason=reason, max_abs_error=_or_none(worst))
    columns: list[tuple[int, int]] = []
    if expected.drawn:
        beside_own = expected.truth is expected.native or expected.granted
        among = expected.columns if beside_own else None
        columns = lost(expected.truth, expected.native, got, among)
    if columns:
        return Difference(ok=False, reason=_told_of(columns), max_abs_error=_or_none(worst))
    if most_are := _bulk_off(expected, got, verdict):
        return most_are
    times = ELEMENT
    return verdict(off, "single elements are off")


def _told_of(columns: Sequence[tuple[int, int]]) -> str:
    some = ", ".join(str(index) for _, index in columns)
    where = f"at these indices of dimension {columns[0][0]}"
    return f"nothing is as it should be {where}, or others: {some}"


def _bulk_off(
    expected: Expected, got: torch.Tensor, verdict: Callable[[Wrong, str], Difference]
) -> Difference | None:
    """If too many elements are too far from what they are themselves."""
    bulk = expected.allowed.bulk
    if bulk is None:
        return None
    truth, mine = (as_real(t.detach()).reshape(1, -1) for t in (expected.truth, got))
    for error, allowed in zip((bulk.half, bulk.most), SHARES, strict=True):
        share = float(shares_off(bulk, truth, mine, error, torch.float64))
        if share > allowed:

            def off(
                _: torch.Tensor, truth: torch.Tensor, got: torch.Tensor, error: float = error
            ) -> torch.Tensor:
                size = truth.double().abs()
                far = (got.double() - truth.double()).abs() > error * size
                return far & (size > bulk.least) & size.isfinite()

            told = f"{percent(allowed)} of elements may be off by more than {error:.1e} of "
            return verdict(off, told + "what they are")
    return None


def _non_finite_unlike(native: torch.Tensor, _: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Where ``got`` is NaN, or infinite unlike the reference, or finite where that is not."""
    infinite = torch.isinf(native) | torch.isinf(got)
    return torch.isnan(got) | torch.isnan(native) | (infinite & (native != got))


def _allclose(protocol: Protocol, dtype: torch.dtype) -> float:
    full, half = protocol.allclose or (1e-4, 1e-2)
    return half if dtype in _HALF else full


def _verdict(
    expected: Expected, got: torch.Tensor, wrong: Wrong, reason: str, *, brief: bool
) -> Difference:
    """Apply ``wrong(native, truth, got)`` piece by piece; say how many, how far, and where."""
    count, worst, relative, before = 0, 0.0, 0.0, 0
    shown = Differences(got)
    for native, truth, mine in pieces(expected.native, expected.truth, got):
        bad = wrong(native, truth, mine)
        here = int(bad.sum())
        if here and brief:
            return Difference(ok=False, wrong=here, reason=reason)
        if here or truth.is_floating_point() or truth.is_complex():
            error, scaled = _errors(truth, mine)
            worst, relative = max(worst, error), max(relative, scaled)
        if here:
            shown.add(native, mine, bad, before)
        count += here
        before += native.numel()
    if count == 0:
        return Difference(ok=True, max_abs_error=_or_none(worst))
    return Difference(
        ok=False,
        wrong=count,
        reason=f"{reason} ({count} of {got.numel()} elements, {percent(count / got.numel())})",
        max_abs_error=_or_none(worst),
        max_rel_error=_or_none(relative),
        detail=shown.told(),
    )


def _errors(truth: torch.Tensor, got: torch.Tensor) -> tuple[float, float]:
    """Largest absolute, and largest relative error; infinite where either is not finite."""
    wide = torch.complex128 if got.is_complex() else torch.float64
    error = (got.to(wide) - truth.to(wide)).abs()
    same = got == truth  # infinities, too, whose difference is NaN
    error = error.masked_fill_(same, 0.0).nan_to_num_(math.inf, math.inf)
    size = truth.to(wide).abs()
    scaled = (error / size.clamp(min=1e-300)).masked_fill_(~(size > 0), 0.0)
    return float(error.max()), float(scaled.nan_to_num(math.inf, math.inf).max())


def _or_none(value: float) -> float | None:
    return value if math.isfinite(value) else None
