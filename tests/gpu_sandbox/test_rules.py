"""A correctness rule that is in the registry holds for each output, by whatever path it goes."""

from __future__ import annotations

import math
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.tensors import chunked
from gpu_sandbox.verifier.numerics import fast_path
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.fast_path import surely_right, surely_right_errors
from gpu_sandbox.verifier.numerics.rules import registry
from gpu_sandbox.verifier.numerics.rules.registry import applying
from gpu_sandbox.verifier.numerics.rules.rule import Figures, Rule
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES
from tests.thorough import examples

STRICT = protocol_named("strict")
WAYS = ["", "element", "row", "column", "half", "most", "offset", "scale", "sign"]
WAYS += ["nan", "infinite", "both infinite", "overflow"]
HELD_TO = ["float64", "own", "own, drawn", "timed"]


class Made(msgspec.Struct, frozen=True):
    """An output that is off as rounding is, and in ``way``, by ``off`` of what its elements are.
    ``outliers``: times as large as the others. ``small``: the last row is next to nothing."""

    dtype: torch.dtype
    seed: int
    shape: tuple[int, ...]
    held_to: str
    way: str
    off: float
    outliers: float = 1.0
    scale: int = 0
    small: bool = False

    def expected(self) -> tuple[Expected, torch.Tensor]:
        draw = torch.Generator().manual_seed(self.seed)

        def normal() -> torch.Tensor:
            return torch.randn(self.shape, generator=draw, dtype=torch.float64)

        exact = normal()
        exact.view(-1)[::100] *= self.outliers
        exact *= 10.0**self.scale
        if self.small:
            exact[-1] *= 1e-5
        eps = torch.finfo(self.dtype).eps
        native = (exact * (1 + eps * normal())).to(self.dtype)
        got = native.double() * (1 + eps * normal())
        self._spoil(got, native)
        (expected,) = expect([native], [exact] if self.held_to in ("float64", "timed") else None)
        if self.held_to == "timed":
            expected = Expected.within(native, expected.margin)
        if self.held_to == "own, drawn":
            (expected,) = expect([native], None, use_own_run=True)
        return expected, got.to(self.dtype)

    def _spoil(self, got: torch.Tensor, native: torch.Tensor) -> None:
        flat, rows = got.view(-1), got.view(got.shape[0], -1)
        match self.way:
            case "element":
                flat[-1] += self.off * flat.square().mean().sqrt()
            case "row":
                rows[len(rows) // 2] *= 1 - self.off
            case "column":
                rows[:, -1] *= 1 - self.off
            case "half":
                flat[::2] *= 1 + self.off
            case "most":
                flat[flat.abs() <= flat.abs().quantile(0.9)] *= 1 + self.off
            case "offset":
                flat += self.off * flat.square().mean().sqrt()
            case "scale":
                flat *= 1 + self.off
            case "sign":
                flat.neg_()
            case "nan":
                flat[-1] = math.nan
            case "infinite":
                flat[-1] = math.inf
            case "both infinite":
                flat[-1] = native.view(-1)[-1] = -math.inf
            case "overflow":
                native.view(-1)[-1] = math.inf


MADE = st.builds(
    Made,
    dtype=st.sampled_from(list(TOLERANCES)),
    seed=st.integers(0, 10**6),
    shape=st.sampled_from([(3,), (20, 31), (700, 2), (16, 400), (4, 20, 9)]),
    held_to=st.sampled_from(HELD_TO),
    way=st.sampled_from(WAYS),
    off=st.sampled_from([1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.6, 1.0, 30.0]),
    outliers=st.sampled_from([1.0, 1.0, 1e3, 1e6]),
    scale=st.sampled_from([0, 0, -30, -6, 30]),
    small=st.booleans(),
)
LOST = Made(torch.bfloat16, 0, (16, 400), "own, drawn", "column", off=1.0)
"""That is too little for a norm in half precision."""
SINGLE = Made(torch.float32, 0, (16, 400), "float64", "element", off=1e-3, small=True)
OVERFLOW = Made(torch.float32, 0, (20, 31), "float64", "overflow", off=0.0)
HIDDEN = Made(torch.float32, 0, (700, 2), "timed", "most", off=0.1, outliers=1e6)


def violated(output: Comparison) -> list[str]:
    """By name, the rules that find something, each asked by itself."""
    return [
        type(rule).__name__
        for rule, bound in applying(output.reference)
        if rule.check(bound, output) is not None
    ]


@pytest.mark.parametrize(("large", "piece"), [(1 << 24, 1 << 18), (1, 1 << 18), (1 << 24, 62)])
def test_the_fast_path_accepts_nothing_that_a_rule_rejects(
    large: int, piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fast_path, "_LARGE", large)
    monkeypatch.setattr(chunked, "_PIECE_ON_CPU", piece)
    found: set[tuple[str, bool]] = set()

    @given(MADE)
    @example(LOST)
    @example(HIDDEN)
    @example(SINGLE)
    @example(OVERFLOW)
    @settings(max_examples=200, deadline=None)
    def implies(made: Made) -> None:
        expected, got = made.expected()
        output = Comparison(Reference(expected, STRICT), got)
        sure = surely_right(output, applying(output.reference)) is not None
        (by,) = surely_right_errors([(expected, got)])
        if sure or by is not None:
            assert violated(output) == []
        found.add((made.held_to, sure))

    implies()
    assert found == {(held_to, sure) for held_to in HELD_TO for sure in (True, False)}


@given(MADE)
@example(LOST)
@example(HIDDEN)
@example(SINGLE)
@example(OVERFLOW)
@settings(max_examples=examples(200), deadline=None)
def test_the_first_rule_that_is_violated_gives_the_reason(made: Made) -> None:
    expected, got = made.expected()
    output = Comparison(Reference(expected, STRICT), got)
    found = compare(expected, got, STRICT)
    by_rule = [rule.check(bound, output) for rule, bound in applying(output.reference)]
    reasons = [violation.reason for violation in by_rule if violation is not None]
    assert found.ok is not bool(reasons)
    assert found.reason == (reasons[0] if reasons else "")


# --- a rule that is added

MARKER = 7.0


class Marker(Rule[float, None]):
    """No element is the marker, right or not. Nothing is said of it to the fast path."""

    def __init__(self) -> None:
        self.checked = 0

    def prepare(self, reference: Reference) -> float | None:
        return MARKER

    def check(self, bound: float, output: Comparison) -> Violation | None:
        self.checked += 1
        wrong = int((output.got == bound).sum())
        return Violation(reason="holds the marker", wrong=wrong) if wrong else None


class QuickMarker(Marker):
    """The same, with its share of the fast path."""

    def surely_ok(self, bound: float, figures: Figures) -> bool:
        return not bool((figures.output.got == bound).any())


class MeasuringMarker(QuickMarker):
    """The same, by a figure that is taken of many outputs at once. It applies to large ones."""

    def prepare(self, reference: Reference) -> float | None:
        return MARKER if reference.expected.native.numel() > 9 else None

    def surely_ok(self, bound: float, figures: Figures) -> bool:
        if figures.is_same or figures.in_float64:
            return super().surely_ok(bound, figures)
        return figures.measured[self] == 0.0

    def measure(
        self, bound: float, native: torch.Tensor, got: torch.Tensor, dtype: torch.dtype
    ) -> torch.Tensor:
        return (got == bound).sum(dim=1).to(dtype)


def added(monkeypatch: pytest.MonkeyPatch, rule: Any) -> None:
    monkeypatch.setattr(registry, "REGISTRY", (*registry.REGISTRY, rule))


def outputs(dtype: torch.dtype) -> list[tuple[Expected, torch.Tensor]]:
    """That are right by all other rules, each in another way."""
    native = torch.arange(1, 1025).reshape(32, 32).to(dtype)
    if not dtype.is_floating_point:
        return [(Expected(native, None), native.clone())]
    beside_float64 = expect([native], [native.double()])[0]
    timed = Expected.within(native, beside_float64.margin)
    near = native.clone()
    near[5, 5] *= 1 + torch.finfo(dtype).eps
    return [(one, got) for one in (beside_float64, timed) for got in (native.clone(), near)]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16, torch.int64])
@pytest.mark.parametrize("make", [Marker, QuickMarker, MeasuringMarker])
@pytest.mark.parametrize("large", [1, 1 << 24])
def test_a_rule_that_is_added_to_the_registry_is_enforced(
    dtype: torch.dtype, make: type[Marker], large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of what is the reference's own run, bit by bit."""
    monkeypatch.setattr(fast_path, "_LARGE", large)
    assert all(compare(*one, STRICT).ok for one in outputs(dtype))
    added(monkeypatch, make())
    for expected, got in outputs(dtype):
        for brief in (False, True):
            found = compare(expected, got, STRICT, brief=brief)
            assert not found.ok
            assert "holds the marker" in found.reason
    assert surely_right_errors(outputs(dtype)) == [None] * len(outputs(dtype))


def test_a_figure_of_its_own_is_each_outputs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where some are alike, and the rule does not apply to all."""
    added(monkeypatch, MeasuringMarker())
    natives = [torch.arange(9.0 + 3 * (n % 3)) + 5 * (n % 2) + 100 * (n % 5) for n in range(40)]
    by = surely_right_errors([(Expected(native, None), native.clone()) for native in natives])
    right = [len(native) == 9 or not bool((native == MARKER).any()) for native in natives]
    assert [one is not None for one in by] == right
    assert not all(right)


def test_it_holds_by_each_protocol(monkeypatch: pytest.MonkeyPatch) -> None:
    native = torch.arange(9.0)
    added(monkeypatch, Marker())
    for name in ("kernelbench", "strict-bf16"):
        assert not compare(Expected(native, None), native, protocol_named(name)).ok


def test_a_rule_that_can_be_sure_leaves_the_fast_path_open(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rule = QuickMarker()
    added(monkeypatch, rule)
    without = [(expected, got + 2000) for expected, got in outputs(torch.float64)]
    without = [(Expected.within(got, expected.margin), got.clone()) for expected, got in without]
    assert surely_right_errors(without) == [0.0] * len(without)
    assert all(compare(*one, STRICT).ok for one in without)
    assert rule.checked == 0


def test_a_rule_that_cannot_be_sure_takes_no_figures_in_vain(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    added(monkeypatch, Marker())
    asked: list[torch.Tensor] = []
    monkeypatch.setattr(fast_path, "largest_of", asked.append)
    assert not any(compare(*one, STRICT).ok for one in outputs(torch.float32))
    assert asked == []


def test_by_norms_all_rules_can_be_sure() -> None:
    """Else each timed call of each candidate is looked at in full."""
    (expected,) = expect([torch.rand(400, 3)], [torch.rand(400, 3).double()])
    rules = applying(Reference(Expected(expected.native, None), STRICT))
    assert rules
    assert all(rule.is_quick for rule, _ in rules)
