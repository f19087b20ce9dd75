"""Outputs that are surely right, found in few passes: most outputs of timed calls.

An output is so if each rule that applies to it says so of the same few figures (``rules/rule.py``).
Where a rule that applies is not asked about figures, there is no fast path.
Outputs that are alike, as those of the calls of a release are, are looked at in one go: a pass over
a small one takes less than to ask for it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import torch

from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.tensors.chunked import at_a_time, largest_of, pieces
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.rules import registry
from gpu_sandbox.verifier.numerics.rules.registry import Applied, applying
from gpu_sandbox.verifier.numerics.rules.rule import (
    Figures,
    MeasuringRule,
    is_measuring,
    is_quick,
)

__all__ = ["close_by", "surely_right"]

_WIDE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
"""What norms are taken in, by dtype."""
_LEAST_SIZE = 1e-6
"""The L2 norm below which squares of errors that count may be nothing in float32."""
_LARGE = 1 << 24
"""Elements. Fewer are copied next to each other, to be looked at together."""


class _Output(NamedTuple):
    comparison: Comparison
    rules: Sequence[Applied]


def close_by(outputs: Sequence[tuple[Expected, torch.Tensor]]) -> list[float | None]:
    """By how much each is off, in relative L2, where all strict rules are sure of it: in few
    passes, and with one wait for the device. None says nothing, and is said of what isn't finite,
    and of what is held to a float64 run."""
    strict = PROTOCOLS["strict"]
    asked: dict[int, _Output] = {}
    for number, (expected, got) in enumerate(outputs):
        if _is_plain(expected):
            comparison = Comparison(Reference(expected, strict), got)
            one = _Output(comparison, applying(comparison.reference))
            if _are_quick(one.rules):
                asked[number] = one
    close: list[float | None] = [None] * len(outputs)
    for number, figures in _beside_own(asked).items():
        if _are_sure(asked[number].rules, figures):
            close[number] = figures.relative
    return close


def surely_right(output: Comparison, rules: Sequence[Applied]) -> Figures | None:
    """The figures by which ``rules``, all that apply, are sure of it. None says nothing."""
    if not _are_quick(rules):
        return None
    expected = output.expected
    if _is_plain(expected):
        figures = _beside_own({0: _Output(output, rules)}).get(0)
    elif expected.rule is None or expected.truth is expected.native:
        return None
    else:
        figures = _in_float64(output)
    return figures if figures is not None and _are_sure(rules, figures) else None


def _are_quick(rules: Sequence[Applied]) -> bool:
    return all(is_quick(rule) for rule, _ in rules)


def _are_sure(rules: Sequence[Applied], figures: Figures) -> bool:
    return all(is_quick(rule) and rule.surely_ok(bound, figures) for rule, bound in rules)


def _in_float64(output: Comparison) -> Figures:
    """Beside its float64 run."""
    expected, found = output.expected, []
    for mine, truth, native in pieces(output.got, expected.truth, expected.native):
        wide = truth.double().flatten()
        error = mine.double().flatten() - wide
        most_of = [largest_of(t.reshape(1, -1))[0].double() for t in (error, native)]
        found.append(torch.stack([*most_of, error.dot(error), wide.dot(wide)]))
    worst, natives, errors, sizes = torch.stack(found).unbind(1)
    largest = float(worst.amax())
    is_finite = math.isfinite(float(natives.amax()))
    off, size = math.sqrt(float(errors.sum())), math.sqrt(float(sizes.sum()))
    return Figures(
        output, False, largest, off, max(size, expected.least), is_finite, in_float64=True
    )


def _beside_own(outputs: Mapping[int, _Output]) -> dict[int, Figures]:
    """Beside the reference's own run; without those of which float32 says too little."""
    found: dict[int, Figures] = {}
    rest: dict[int, _Output] = {}
    for number, one in outputs.items():
        if _is_same(one.comparison):
            found[number] = Figures(one.comparison, is_same=True)
        else:
            rest[number] = one
    groups = list(_alike(rest))
    if not groups:
        return found
    measuring = [rule for rule in registry.REGISTRY if is_measuring(rule)]
    rows = [_rows_of_figures([rest[number] for number in group], measuring) for group in groups]
    numbers = (number for group in groups for number in group)
    for number, (worst, off, size, *more) in zip(numbers, torch.cat(rows).tolist(), strict=True):
        if size >= _LEAST_SIZE:
            output, measured = rest[number].comparison, dict(zip(measuring, more, strict=True))
            is_finite = math.isfinite(size)
            found[number] = Figures(output, False, worst, off, size, is_finite, measured=measured)
    return found


def _is_same(output: Comparison) -> bool:
    """Not asked of small ones: their norms take no longer."""
    native = output.expected.native
    return native.numel() >= _LARGE and torch.equal(native, output.got)


def _is_plain(expected: Expected) -> bool:
    native = expected.native
    own = expected.truth is native and expected.fill is None
    return own and native.dtype in _WIDE and native.numel() > 0


def _alike(outputs: Mapping[int, _Output]) -> Iterator[list[int]]:
    """Numbers of outputs that fit together into one piece, by what is asked of them."""
    groups: dict[Hashable, list[int]] = {}
    for number, one in outputs.items():
        native = one.comparison.expected.native
        bounds = tuple(_measured_by(one).items())
        groups.setdefault((native.dtype, native.numel(), bounds), []).append(number)
    for group in groups.values():
        got = outputs[group[0]].comparison.got
        most = max(1, min(at_a_time(got), _LARGE) // got.numel())
        for start in range(0, len(group), most):
            yield group[start : start + most]


def _measured_by(output: _Output) -> dict[MeasuringRule[Any], Any]:
    """Bounds of rules with figures of their own."""
    return {rule: bound for rule, bound in output.rules if is_measuring(rule)}


def _rows_of_figures(
    alike: Sequence[_Output], measuring: Sequence[MeasuringRule[Any]]
) -> torch.Tensor:
    """Of each the largest error, the error's L2 norm, that of what is expected, and what the rules
    measure, zero where one doesn't apply: (outputs, 3 + rules)."""
    norm: Callable[..., torch.Tensor] = torch.linalg.vector_norm
    all_native = _rows([one.comparison.expected.native for one in alike])
    all_got = _rows([one.comparison.got for one in alike])
    wide, step, found = _WIDE[all_native.dtype], at_a_time(all_got), []
    for start in range(0, all_got.shape[1], step):
        native = all_native[:, start : start + step].to(wide)
        off = all_got[:, start : start + step].to(wide) - native
        found.append((largest_of(off), norm(off, 2, 1), norm(native, 2, 1)))
    worst, errors, sizes = (torch.stack(each) for each in zip(*found, strict=True))
    bounds = _measured_by(alike[0])
    more = [
        rule.measure(bounds[rule], all_native, all_got, wide)
        if rule in bounds
        else worst.new_zeros(len(alike))
        for rule in measuring
    ]
    return torch.stack([worst.amax(0), norm(errors, 2, 0), norm(sizes, 2, 0), *more], dim=1)


def _rows(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One each. A single one is not copied."""
    flat = [tensor.detach().reshape(1, -1) for tensor in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
