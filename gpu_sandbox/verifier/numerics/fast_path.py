"""The fast path: outputs that are surely right, found in few passes. Most timed outputs are.

Each rule that applies has to be sure of an output, by the same few figures (``rules/rule.py``).
Outputs of one dtype and size are measured together: a pass over a small one takes less time than
to launch it.
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
from gpu_sandbox.verifier.numerics.rules.rule import Figures, Rule

_WIDE = {
    torch.float16: torch.float32,
    torch.bfloat16: torch.float32,
    torch.float32: torch.float32,
    torch.float64: torch.float64,
}
"""What norms are taken in, by dtype."""
_MIN_NORM = 1e-6  # below this L2 norm, squares of errors that count may be nothing in float32
_LARGE = 1 << 24  # elements. Smaller outputs are copied next to each other, to be measured together


class _Output(NamedTuple):
    comparison: Comparison
    rules: Sequence[Applied]


def surely_right_errors(outputs: Sequence[tuple[Expected, torch.Tensor]]) -> list[float | None]:
    """Return the relative L2 error of each output that all strict rules are sure of, with one wait
    for the device. None says nothing, also of what is not finite or has a float64 run."""
    strict = PROTOCOLS["strict"]
    candidates: dict[int, _Output] = {}
    for number, (expected, got) in enumerate(outputs):
        if _is_beside_own_run(expected):
            comparison = Comparison(Reference(expected, strict), got)
            one = _Output(comparison, applying(comparison.reference))
            if _are_quick(one.rules):
                candidates[number] = one
    errors: list[float | None] = [None] * len(outputs)
    for number, figures in _figures_beside_own_run(candidates).items():
        if _are_sure(candidates[number].rules, figures):
            errors[number] = figures.relative
    return errors


def surely_right(output: Comparison, rules: Sequence[Applied]) -> Figures | None:
    """Return the figures by which ``rules``, all that apply, are sure of it. None says nothing."""
    if not _are_quick(rules):
        return None
    expected = output.expected
    if _is_beside_own_run(expected):
        figures = _figures_beside_own_run({0: _Output(output, rules)}).get(0)
    elif expected.by_dtype is None or expected.truth is expected.native:
        return None
    else:
        figures = _figures_in_float64(output)
    return figures if figures is not None and _are_sure(rules, figures) else None


def _are_quick(rules: Sequence[Applied]) -> bool:
    return all(rule.is_quick for rule, _ in rules)


def _are_sure(rules: Sequence[Applied], figures: Figures) -> bool:
    return all(rule.surely_ok(bound, figures) for rule, bound in rules)


def _figures_in_float64(output: Comparison) -> Figures:
    """Measure beside the float64 run."""
    expected, found = output.expected, []
    for mine, truth, native in pieces(output.got, expected.truth, expected.native):
        wide = truth.double().flatten()
        error = mine.double().flatten() - wide
        most_of = [largest_of(t.reshape(1, -1))[0].double() for t in (error, native)]
        found.append(torch.stack([*most_of, error.dot(error), wide.dot(wide)]))
    worst, natives, errors, sizes = torch.stack(found).unbind(1)
    max_error = float(worst.amax())
    is_finite = math.isfinite(float(natives.amax()))
    error_norm, norm = math.sqrt(float(errors.sum())), math.sqrt(float(sizes.sum()))
    norm = max(norm, expected.min_norm)
    return Figures(output, False, max_error, error_norm, norm, is_finite, in_float64=True)


def _figures_beside_own_run(outputs: Mapping[int, _Output]) -> dict[int, Figures]:
    """Measure beside the reference's own run, but for outputs too small for float32."""
    found: dict[int, Figures] = {}
    rest: dict[int, _Output] = {}
    for number, one in outputs.items():
        if _is_same(one.comparison):
            found[number] = Figures(one.comparison, is_same=True)
        else:
            rest[number] = one
    groups = list(_groups(rest))
    if not groups:
        return found
    measuring = [rule for rule in registry.REGISTRY if rule.is_measuring]
    rows = [_rows_of_figures([rest[number] for number in group], measuring) for group in groups]
    numbers = (number for group in groups for number in group)
    for number, (worst, error, norm, *more) in zip(numbers, torch.cat(rows).tolist(), strict=True):
        if norm >= _MIN_NORM:
            output, measured = rest[number].comparison, dict(zip(measuring, more, strict=True))
            is_finite = math.isfinite(norm)
            found[number] = Figures(output, False, worst, error, norm, is_finite, measured=measured)
    return found


def _is_same(output: Comparison) -> bool:
    """Compare large outputs for equality: norms of small ones take no longer."""
    native = output.expected.native
    return native.numel() >= _LARGE and torch.equal(native, output.got)


def _is_beside_own_run(expected: Expected) -> bool:
    native = expected.native
    own = expected.truth is native and expected.fill is None
    return own and native.dtype in _WIDE and native.numel() > 0


def _groups(outputs: Mapping[int, _Output]) -> Iterator[list[int]]:
    """Numbers of outputs that are measured together."""
    groups: dict[Hashable, list[int]] = {}
    for number, one in outputs.items():
        native = one.comparison.expected.native
        bounds = tuple(_measured_bounds(one).items())
        groups.setdefault((native.dtype, native.numel(), bounds), []).append(number)
    for group in groups.values():
        got = outputs[group[0]].comparison.got
        most = max(1, min(at_a_time(got), _LARGE) // got.numel())
        for start in range(0, len(group), most):
            yield group[start : start + most]


def _measured_bounds(output: _Output) -> dict[Rule[Any, Any], Any]:
    return {rule: bound for rule, bound in output.rules if rule.is_measuring}


def _rows_of_figures(alike: Sequence[_Output], measuring: Sequence[Rule[Any, Any]]) -> torch.Tensor:
    """Of each output the largest error, the error's L2 norm, that of what is expected, and figures
    of rules, zero where one does not apply: (outputs, 3 + rules)."""
    norm: Callable[..., torch.Tensor] = torch.linalg.vector_norm
    all_native = _rows([one.comparison.expected.native for one in alike])
    all_got = _rows([one.comparison.got for one in alike])
    wide, step, found = _WIDE[all_native.dtype], at_a_time(all_got), []
    for start in range(0, all_got.shape[1], step):
        native = all_native[:, start : start + step].to(wide)
        off = all_got[:, start : start + step].to(wide) - native
        found.append((largest_of(off), norm(off, 2, 1), norm(native, 2, 1)))
    worst, errors, sizes = (torch.stack(each) for each in zip(*found, strict=True))
    bounds = _measured_bounds(alike[0])
    more = [
        rule.measure(bounds[rule], all_native, all_got, wide)
        if rule in bounds
        else worst.new_zeros(len(alike))
        for rule in measuring
    ]
    return torch.stack([worst.amax(0), norm(errors, 2, 0), norm(sizes, 2, 0), *more], dim=1)


def _rows(tensors: Sequence[torch.Tensor]) -> torch.Tensor:
    """One row each. A single tensor is not copied."""
    flat = [tensor.detach().reshape(1, -1) for tensor in tensors]
    return flat[0] if len(flat) == 1 else torch.cat(flat)
