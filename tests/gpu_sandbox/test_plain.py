"""What is right beside its float64 run by few passes over it, and by the strict rule in full."""

from __future__ import annotations

import math

import msgspec
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.tensors import chunked as pieces
from gpu_sandbox.verifier.numerics import compare as comparing
from gpu_sandbox.verifier.numerics.compare import Difference, compare
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.fast_path import surely_right
from gpu_sandbox.verifier.numerics.rules.registry import applying
from gpu_sandbox.verifier.numerics.rules.slices import missing_slices, none_missing
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES
from tests.thorough import examples

STRICT = protocol_named("strict")
SHAPES = [(), (3,), (20, 31), (2, 400, 3), (700, 2)]


class Made(msgspec.Struct, frozen=True):
    """An output that is off as rounding is, and in ``way``, by ``off`` of what its rows are.
    ``skewed``: its columns, and elements, are of many sizes."""

    dtype: torch.dtype
    seed: int
    shape: tuple[int, ...]
    way: str
    off: float
    skewed: bool = False
    ease: float = 1.0
    usual: float = 0.0

    def outputs(self) -> tuple[Expected, torch.Tensor]:
        draw = torch.Generator().manual_seed(self.seed)

        def normal(shape: tuple[int, ...]) -> torch.Tensor:
            return torch.randn(shape, generator=draw, dtype=torch.float64)

        exact = normal(self.shape)
        if self.skewed:
            exact *= (2 * normal(self.shape[-1:])).exp() * (2 * normal(self.shape)).exp()
        eps = torch.finfo(self.dtype).eps
        native, got = (exact * (1 + eps * normal(self.shape)) for _ in range(2))
        match self.way:
            case "column" if self.shape:
                got[..., -1] *= 1 - self.off
            case "element":
                got.view(-1)[-1] += self.off * got.abs().max()
            case "some":
                got.view(-1)[::9] *= 1 - self.off
            case "half":
                got.view(-1)[::2] *= 1 + self.off
            case "all":
                got *= 1 + self.off
            case "infinite":
                native.view(-1)[0] = got.view(-1)[0] = exact.view(-1)[0] = math.inf
            case "overflow":
                native.view(-1)[0] = math.inf
            case "nan":
                got.view(-1)[0] = math.nan
        typical = [torch.full((*exact.shape[:-1], 1), self.usual)] if self.usual else []
        if exact.numel() > 64:
            typical = []  # of few elements only
        (expected,) = expect([native.to(self.dtype)], [exact], usual_rms=typical, factor=self.ease)
        return expected, got.to(self.dtype)


MADE = st.builds(
    Made,
    dtype=st.sampled_from(list(TOLERANCES)),
    seed=st.integers(0, 10**6),
    shape=st.sampled_from(SHAPES),
    way=st.sampled_from(
        ["", "column", "element", "some", "half", "all", "infinite", "overflow", "nan"]
    ),
    off=st.sampled_from([1e-9, 1e-6, 1e-5, 1e-4, 1e-3, 1e-2, 0.1, 0.6, 1.0]),
    skewed=st.booleans(),
    ease=st.sampled_from([1.0, 2.0, 4.0]),
    usual=st.sampled_from([0.0, 0.0, 1.0, 100.0]),
)
COLUMN = Made(torch.bfloat16, seed=0, shape=(700, 2), way="column", off=0.6, skewed=True)


def plainly_right(expected: Expected, got: torch.Tensor) -> float | None:
    """The largest error of what is surely right beside its float64 run."""
    output = Comparison(Reference(expected, STRICT), got)
    figures = surely_right(output, applying(output.reference))
    return figures.max_error if figures is not None and figures.in_float64 else None


def in_full(made: Made) -> Difference:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(comparing, "surely_right", lambda *_: None)
        return compare(*made.outputs(), STRICT)


@pytest.mark.parametrize("piece", [62, 1 << 18])
def test_what_is_plainly_right_is_so_by_the_rule_in_full(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "_PIECE_ON_CPU", piece)
    found: set[tuple[torch.dtype, bool]] = set()

    @given(MADE)
    @example(COLUMN)
    @settings(max_examples=examples(500), deadline=None)
    def implies(made: Made) -> None:
        worst = plainly_right(*made.outputs())
        if worst is not None:
            assert in_full(made) == Difference(ok=True, max_abs_error=worst)
        found.add((made.dtype, worst is not None))

    implies()
    assert found == {(dtype, right) for dtype in TOLERANCES for right in (True, False)}


@pytest.mark.parametrize("dtype", TOLERANCES)
@pytest.mark.parametrize("shape", SHAPES)
def test_what_is_off_by_rounding_alone_needs_no_other_look(
    dtype: torch.dtype, shape: tuple[int, ...]
) -> None:
    """A single number may be nearer in the reference's own run than in any other."""
    made = Made(dtype, seed=3, shape=shape, way="", off=0.0)
    assert plainly_right(*made.outputs()) is not None


def test_an_output_of_the_widest_type_stays_as_it_is() -> None:
    expected, got = Made(torch.float64, seed=3, shape=(20, 31), way="", off=0.0).outputs()
    truth, mine = expected.truth.clone(), got.clone()
    assert plainly_right(expected, got) is not None
    assert missing_slices(expected.truth, expected.native, got) == []
    assert torch.equal(expected.truth, truth)
    assert torch.equal(got, mine)


def test_beside_its_own_run_alone_it_says_nothing() -> None:
    native = torch.rand(4, 3)
    assert plainly_right(Expected(native, None), native) is None
    assert plainly_right(Expected(torch.arange(4), None), torch.arange(4)) is None


@given(st.integers(0, 10**6), st.integers(16, 60), st.integers(2, 30), st.floats(0.0, 1.0))
@settings(max_examples=examples(200), deadline=None)
def test_a_column_that_is_lost_is_never_said_not_to_be(
    seed: int, rows: int, columns: int, empty: float
) -> None:
    """Also where most of the rows that are looked at hold nothing in most columns."""
    draw = torch.Generator().manual_seed(seed)
    truth = torch.randn(rows, columns, generator=draw, dtype=torch.float64)
    truth *= torch.rand(rows, columns, generator=draw) >= empty
    got = truth.clone()
    got[:, int(torch.randint(columns, (), generator=draw))] *= 0.4
    if missing_slices(truth, truth, got):
        assert not none_missing(truth, float((got - truth).norm()))
    assert none_missing(truth, 0.0)


@pytest.mark.parametrize("dtype", TOLERANCES)
def test_what_overflows_in_the_references_own_run_is_to_do_so(dtype: torch.dtype) -> None:
    """Though its float64 run has a number there, which is what was made of it."""
    expected, got = Made(dtype, seed=3, shape=(20, 31), way="overflow", off=0.0).outputs()
    assert plainly_right(expected, got) is None
    assert not compare(expected, got, STRICT).ok
