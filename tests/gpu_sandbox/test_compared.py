"""Which calls of a release are compared, and what needs no more than a look at its norms."""

from __future__ import annotations

import math
from functools import partial
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st

from gpu_sandbox.api.protocols import protocol_named
from gpu_sandbox.ipc.values import Plain, Sequence, TensorAt, Tree
from gpu_sandbox.ipc.verifier_messages import Differs
from gpu_sandbox.ipc.worker_messages import Ran
from gpu_sandbox.tensors import chunked as pieces
from gpu_sandbox.verifier.inputs.transforms import Transform
from gpu_sandbox.verifier.numerics import compare as comparing
from gpu_sandbox.verifier.numerics import fast_path as looking
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.fast_path import surely_right_errors
from gpu_sandbox.verifier.numerics.mutated_inputs import expect_mutated
from gpu_sandbox.verifier.numerics.rules import registry
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS, ElementBound
from gpu_sandbox.verifier.numerics.rules.error_quantiles import QUANTILES, QuantileBound
from gpu_sandbox.verifier.numerics.rules.integers import INTEGERS, FlipBound
from gpu_sandbox.verifier.numerics.rules.rule import Rule
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES, Margin
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.timing import pairing
from gpu_sandbox.verifier.timing.batches import TimedBatch
from gpu_sandbox.verifier.timing.event_batches import EventBatches
from gpu_sandbox.verifier.timing.pairing import Pairing
from gpu_sandbox.verifier.timing.pairs import Pair, whole_wall_ratio
from gpu_sandbox.verifier.trials import checks as judge
from gpu_sandbox.verifier.worker_link.requests import Ended
from tests.thorough import examples

CPU = torch.device("cpu")
STRICT = protocol_named("strict")
CALLS = 16
MEGABYTE = 1 << 20


def batch(calls: int, output_bytes: int, changed: tuple[int, ...] = ()) -> EventBatches:
    """Batches of calls that all put out so much, some of them on changed inputs."""
    native = torch.empty(output_bytes, dtype=torch.uint8, device="meta")
    first: Any = SimpleNamespace(tensors=[torch.rand(3)], expected=[SimpleNamespace(native=native)])
    made = EventBatches(
        SimpleNamespace(passed_transforms=[], has_second_place=True), first, CPU, calls
    )  # type: ignore[arg-type]
    pairs = [object() if number in changed else None for number in range(calls)]
    made.cases = [SimpleNamespace(transform=way) for way in pairs]  # type: ignore[misc]
    return made


@pytest.mark.parametrize(
    ("calls", "output_bytes", "compared"),
    [
        (1, 4, 1),
        (CALLS, 4, CALLS),
        (CALLS, 0, CALLS),
        (CALLS, 8 * MEGABYTE, CALLS),
        (CALLS, 9 * MEGABYTE, 14),
        (CALLS, 1 << 30, 2),
        (48, 8 * MEGABYTE, 16),
    ],
)
def test_as_many_calls_are_compared_as_memory_allows(
    calls: int, output_bytes: int, compared: int
) -> None:
    chosen = batch(calls, output_bytes).choose()
    assert len(chosen) == len(set(chosen)) == compared
    assert set(chosen) <= set(range(calls))


def test_those_compared_differ_from_release_to_release_and_so_does_their_order() -> None:
    """Of the first few the inputs are looked at, too."""
    few, all_of_them = batch(CALLS, 128 * MEGABYTE), batch(CALLS, 4)
    assert {number for _ in range(400) for number in few.choose()} == set(range(CALLS))
    assert {all_of_them.choose()[0] for _ in range(400)} == set(range(CALLS))


@given(st.integers(1, 48), st.sampled_from([4, 40 * MEGABYTE, 1 << 30]), st.data())
@settings(deadline=None)
def test_a_call_on_changed_inputs_is_always_compared(
    calls: int, output_bytes: int, data: st.DataObject
) -> None:
    changed = data.draw(st.sets(st.integers(0, calls - 1), min_size=1, max_size=3))
    chosen = batch(calls, output_bytes, tuple(changed)).choose()
    assert set(chosen) & changed
    assert len(chosen) == len(set(chosen)) == len(batch(calls, output_bytes).choose())


# --- a bound that is tighter than the rule


class Made(msgspec.Struct, frozen=True):
    """An output that is off, and by how many times more than it is it may be: ``tolerance`` and
    ``slack``. ``odd`` is put into one of its elements, or the truth's, or both."""

    dtype: torch.dtype
    seed: int
    scale: int
    tolerance: float
    slack: float
    single: bool = False
    off: float = 0.1
    odd: float = 0.0
    odd_in: str = ""

    def outputs(self) -> tuple[Expected, torch.Tensor]:
        """One row holds what there is, so that little but ``slack`` decides on an error in
        another; where it is not a single one it is spread."""
        draw = torch.Generator().manual_seed(self.seed)
        exact = torch.randn(20, 31, generator=draw, dtype=torch.float64)
        if self.single:
            exact[1:] = 0.0
        error = torch.randn(exact.shape, generator=draw, dtype=torch.float64)
        error *= self.off * float(exact.norm()) / float(error.norm())
        if self.single:
            one = float(error.norm())
            error = torch.zeros_like(exact)
            error[7, 3] = one
            exact[7, 3] = -one * float(torch.rand((), generator=draw))
        scale = 10.0**self.scale
        native = (exact * scale).to(self.dtype)
        got = (native.double() + error * scale).to(self.dtype)
        relative, worst = _distance(native, got)
        if "expected" in self.odd_in:
            native[2, 2] = self.odd
        if "got" in self.odd_in:
            got[2, 2] = self.odd
        tolerance = max(self.tolerance * relative, TOLERANCES[self.dtype].floor)
        return Expected.within(native, margin_of(tolerance, self.slack * worst)), got


def margin_of(tolerance: float, slack: float, bulk: QuantileBound | None = None) -> Margin:
    bounds: dict[Any, Any] = {ELEMENTS: ElementBound(slack)}
    return Margin(tolerance, bounds if bulk is None else {**bounds, QUANTILES: bulk})


def _distance(native: torch.Tensor, got: torch.Tensor) -> tuple[float, float]:
    error = (got.double() - native.double()).nan_to_num(0.0, 0.0, 0.0)
    size = float(native.double().nan_to_num(0.0, 0.0, 0.0).norm())
    return (float(error.norm()) / size if size else 1.0), float(error.abs().max())


MADE = st.builds(
    Made,
    dtype=st.sampled_from(list(TOLERANCES)),
    seed=st.integers(0, 10**6),
    scale=st.one_of(st.integers(-3, 3), st.integers(-40, 38)),
    tolerance=st.sampled_from([0.5, 0.99, 1.01, 1.9, 2.0, 2.1, 4.0]),
    slack=st.sampled_from([0.0, 0.5, 0.998, 0.9999, 1 - 2e-8, 1.0, 1 + 1e-7, 1.1, 4.0]),
    single=st.booleans(),
    off=st.sampled_from([0.0, 1e-9, 1e-5, 1e-3, 0.1, 1.0]),
    odd=st.sampled_from([math.nan, math.inf, -math.inf]),
    odd_in=st.sampled_from(["", "", "", "", "got", "expected", "expected and got"]),
)
TOO_LARGE = Made(torch.float32, seed=0, scale=25, tolerance=0.5, slack=4.0)
TOO_SMALL = Made(torch.float32, seed=0, scale=-28, tolerance=0.5, slack=4.0)
ROUNDED = [
    Made(torch.bfloat16, seed=22, scale=0, tolerance=4.0, slack=0.998, single=True),
    Made(torch.float32, seed=342, scale=0, tolerance=4.0, slack=1 - 2e-8, single=True),
]
"""Not further off than allowed where differences are taken in the outputs' own dtype."""


def plainly_close(outputs: list[tuple[Expected, torch.Tensor]]) -> list[bool]:
    return [by is not None for by in surely_right_errors(outputs)]


def strictly_right(made: Made) -> bool:
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(comparing, "surely_right", lambda *_: None)
        return compare(*made.outputs(), STRICT).ok


@pytest.mark.parametrize("large", [1, 1 << 24])
def test_what_is_plainly_close_is_right_by_the_strict_rule(
    large: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(looking, "_LARGE", large)
    found: set[tuple[torch.dtype, bool]] = set()

    @given(MADE)
    @example(TOO_LARGE)
    @example(TOO_SMALL)
    @example(ROUNDED[0])
    @example(ROUNDED[1])
    @settings(max_examples=400, deadline=None)
    def implies(made: Made) -> None:
        (close,) = plainly_close([made.outputs()])
        assert not close or strictly_right(made)
        found.add((made.dtype, close))

    implies()
    assert found == {(dtype, close) for dtype in TOLERANCES for close in (True, False)}


@pytest.mark.parametrize("piece", [100, 300, 1 << 18])
def test_each_of_many_outputs_is_told_of_by_itself(
    piece: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also of those that are looked at in one go, which are as many as make a piece."""
    monkeypatch.setattr(pieces, "_PIECE_ON_CPU", piece)
    loose = QuantileBound(half=0.5, most=0.9, min_size=0.0, share=1.0)
    margins = [margin_of(1e-3, 1e-2, bulk) for bulk in (None, loose.times(1e-3), loose)]
    outputs, right = [], list[bool]()
    for number in range(72):
        dtype = (torch.float32, torch.bfloat16, torch.float64)[number % 3]
        native = torch.randn((8, 16) if number % 2 else (128, 2)).to(dtype)
        got, margin = native.clone(), margins[number // 3 % 3]
        match number % 7:
            case 0:
                got.zero_()
            case 1:
                got[native.abs() < 1e-4 * native.abs().max()] *= 2  # no norm tells, nor most
            case 2:
                got[3, 1] += 1
        outputs.append((Expected.within(native.t(), margin), got.t()))
        right.append(number % 7 not in (0, 2))
    outputs.insert(7, (Expected.within(torch.arange(3), margin), torch.arange(3)))
    right.insert(7, False)  # no norm tells of integers
    assert plainly_close(outputs) == right


def test_most_elements_of_each_of_many_outputs_count() -> None:
    """By the bulk of its own margin. One large element has most of the norm."""
    loose = QuantileBound(half=0.5, most=0.9, min_size=0.0, share=1.0)
    native = torch.rand(500) + 1
    native[7] = 1e5
    got = native * 1.01
    got[7] = 1e5
    outputs = [
        (Expected.within(native, margin_of(1e-3, 1e3, bulk)), one)
        for bulk in (loose, loose.times(0.01))
        for one in (got, native.clone(), got)
    ]
    assert plainly_close(outputs) == [True, True, True, False, True, False]


def test_where_no_float64_run_tells_of_errors_rows_do() -> None:
    """Of a slow or a large reference, and of inputs that it changes."""
    native = torch.randn(100, 31)
    slow, left = Expected(native, None), expect_mutated(native, native + 1).expected
    assert slow.bounds == left.bounds == {}
    near, far = native * (1 + 1e-7), native.clone()
    far[7, 7] += 0.1
    assert plainly_close([(slow, near), (left, near)]) == [True, True]
    assert plainly_close([(slow, far), (left, far)]) == [False, False]


def test_norms_of_many_elements_are_added_up_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A CPU that has added up a large square and then millions of small ones has lost these."""
    made = Made(torch.float32, seed=0, scale=0, tolerance=2.1, slack=4.0)
    monkeypatch.setattr(pieces, "_PIECE_ON_CPU", 100)
    assert plainly_close([made.outputs()]) == [True]
    assert plainly_close([msgspec.structs.replace(made, tolerance=1.9).outputs()]) == [False]


@given(MADE)
@example(Made(torch.float64, seed=1, scale=0, tolerance=0.99, slack=0.0, off=1e-5))
@settings(max_examples=examples(200), deadline=None)
def test_in_pieces_or_briefly_the_verdict_is_the_same(made: Made) -> None:
    whole = compare(*made.outputs(), STRICT)
    assert compare(*made.outputs(), STRICT, brief=True).ok == whole.ok
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(pieces, "_PIECE_ON_CPU", 62)  # two rows
        found = compare(*made.outputs(), STRICT)
        assert found == whole or found.ok  # what is plainly close is told no error of
        assert found.ok == whole.ok
        assert compare(*made.outputs(), STRICT, brief=True).ok == whole.ok


def test_so_many_integers_may_differ_and_all_are_counted() -> None:
    native = torch.arange(100)
    expected, got = Expected(native, None), native.clone()
    got[:3] += 1
    for loose, right in ((3, True), (2, False), (0, False)):
        expected.bounds[INTEGERS] = FlipBound(loose)
        for brief in (True, False):
            assert compare(expected, got, STRICT, brief=brief).ok == right


def test_outputs_that_no_norm_tells_of_go_the_usual_way() -> None:
    native = torch.rand(4, 3)
    others = [torch.arange(4), torch.rand(0, 3), torch.rand(3).to(torch.complex64)]
    outputs = [(Expected.within(t, margin_of(1e-3, 1e-3)), t.clone()) for t in (native, *others)]
    exact = Expected(native, native.double())
    assert plainly_close([*outputs, (exact, native.clone())]) == [True, *[False] * 4]
    assert plainly_close([]) == []


# --- what is compared of a pair


class Compared:
    """A release's check: calls of one output each, of which some are ``wrong``, in memory only."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype) -> None:
        self.looked_at: list[int] = []
        self.asked: list[int] = []
        self.strictly = 0
        self.off: float = 1
        self.truths = [[torch.arange(1, 13).reshape(4, 3).to(dtype)] for _ in range(CALLS)]
        monkeypatch.setattr(pairing, "check_shape", lambda *_, **__: None)
        monkeypatch.setattr(pairing, "surely_right_errors", self._close_by)
        monkeypatch.setattr(pairing, "check_call", self._check_call)

    def check(
        self,
        wrong: tuple[int, ...] = (),
        protocol: str = "strict",
        exact: torch.Tensor | None = None,
        transform: Transform | None = None,
        plain: tuple[list[Tree], list[Tree]] = ([], []),
    ) -> None:
        """``exact``: what float64 makes of the inputs of each call, which are changed; ``plain``:
        the baseline's and the candidate's, call by call."""
        expected = Expected.within(self.truths[0][0], margin_of(1e-4, 1e-3))
        first: Any = SimpleNamespace(margins=[expected.margin], usual_sizes=())
        task: Any = SimpleNamespace(
            mutates=False, allow=lambda outputs: None, forward_s=2.0, grants_tf32=False
        )
        task.precision = "float32"
        task.float64_outputs = lambda case: (None if exact is None else [exact], None)
        task.float64 = SimpleNamespace(failed=False, half_precision=False)
        task.expect = partial(Task.expect, task)
        task.leave_out = ()
        case = SimpleNamespace(
            transform=transform, description="", tensors=[], tolerance_factor=1.0
        )
        releases: Any = SimpleNamespace(device=torch.device("cuda"), cases=[case] * CALLS)
        releases.intact = lambda peer, number: self.looked_at.append(number) or True
        got = [
            [t + self.off * (number in wrong) for t in ts] for number, ts in enumerate(self.truths)
        ]
        chosen = list(reversed(range(CALLS)))
        outputs = [got[number] for number in chosen]
        trees = [[side[number] for number in chosen if number < len(side)] for side in plain]
        candidate = SimpleNamespace(last=None, outputs=outputs, intact=None, trees=trees[1])
        last, truths = SimpleNamespace(tree=None), [self.truths[number] for number in chosen]
        baseline = SimpleNamespace(last=last, outputs=truths, trees=trees[0])
        pair: Any = SimpleNamespace(candidate=candidate, baseline=baseline, first=True)
        none: Any = None
        made = Pairing(task, none, none, protocol_named(protocol), first, none)
        made._check(releases, pair, chosen)

    def _close_by(self, outputs: Any) -> list[float | None]:
        self.asked.append(len(outputs))
        return surely_right_errors(outputs)

    def _check_call(self, *asked: Any) -> float:
        self.strictly += 1
        return judge.check_call(*asked)


def test_all_outputs_are_looked_at_in_one_go_and_some_inputs(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    compared = Compared(monkeypatch, torch.float32)
    compared.check()
    assert (compared.asked, compared.strictly) == ([CALLS], 0)
    assert compared.looked_at == [15, 14]


class NoSeven(Rule[float, None]):
    """A rule that the fast path knows nothing of."""

    def prepare(self, reference: Reference) -> float | None:
        return 7.0

    def check(self, bound: float, output: Comparison) -> Violation | None:
        return Violation(reason="holds a seven") if bool((output.got == bound).any()) else None


@pytest.mark.parametrize("dtype", [torch.float32, torch.int64])
def test_a_rule_that_is_added_to_the_registry_is_enforced_while_calls_are_timed(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype
) -> None:
    monkeypatch.setattr(registry, "REGISTRY", (*registry.REGISTRY, NoSeven()))
    with pytest.raises(Ended) as ended:
        Compared(monkeypatch, dtype).check()
    assert "holds a seven" in str(ended.value.finding)


def numbered(*wrong: int, off: float = 0.1) -> list[Tree]:
    """The output of each call: a tensor, and a number."""
    told = [2.0 + number + off * (number in wrong) for number in range(CALLS)]
    return [Sequence(kind="tuple", items=[TensorAt(index=0), Plain(value=n)]) for n in told]


@pytest.mark.parametrize("wrong", [0, 7, 15])
def test_plain_values_of_every_call_are_compared(
    monkeypatch: pytest.MonkeyPatch, wrong: int
) -> None:
    compared = Compared(monkeypatch, torch.float32)
    compared.check(plain=(numbered(), numbered(wrong, off=1e-7)))
    text = Sequence(kind="tuple", items=[TensorAt(index=0), Plain(value="2")])
    for unlike, told in (
        (numbered(wrong), "a plain value of the output differs: expected"),
        ([], "structure differs: plain values in some calls only"),
        ([text] * CALLS, "structure differs: expected"),
    ):
        with pytest.raises(Ended) as raised:
            compared.check(plain=(numbered(), unlike))
        assert isinstance(raised.value.finding, Differs)
        assert told in raised.value.finding.reason


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int64])
@pytest.mark.parametrize("wrong", [0, 7, 15])
def test_one_wrong_call_of_a_release_is_enough(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, wrong: int
) -> None:
    with pytest.raises(Ended):
        Compared(monkeypatch, dtype).check((wrong,))


def test_inputs_that_are_harder_than_others_are_judged_by_their_own_errors(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Where the reference makes something else of them than float64 does, it has no say: of its
    own inputs it has, and of others' errors nothing is believed where these tell."""
    compared = Compared(monkeypatch, torch.float32)
    native = compared.truths[0][0]
    for truth in compared.truths[1:]:
        truth[0] = native
    way = Transform("changed", torch.neg, [Expected.within(native, margin_of(1e-4, 1e-3)).margin])

    def wrong_by(off: float, exact: torch.Tensor | None, transform: Transform | None) -> None:
        compared.off = off
        compared.check((3,), exact=exact, transform=transform)

    near, far = native.double() * (1 + 1e-4), native.double() * 1.5
    wrong_by(3e-3, near, way)
    wrong_by(3e-3, near, None)
    wrong_by(1.0, far, way)
    for off, exact, transform in (
        (3e-3, None, way), (1.0, near, way), (3e-3, native.double(), way), (1.0, far, None),
    ):  # fmt: skip
        with pytest.raises(Ended) as ended:
            wrong_by(off, exact, transform)
        assert "allowed 1.00e-04" in str(ended.value.finding)


@pytest.mark.parametrize(
    ("dtype", "protocol", "asked"),
    [(torch.int64, "strict", [CALLS]), (torch.float32, "kernelbench", [])],
)
def test_where_no_norm_decides_each_call_is_compared_by_itself(
    monkeypatch: pytest.MonkeyPatch, dtype: torch.dtype, protocol: str, asked: list[int]
) -> None:
    compared = Compared(monkeypatch, dtype)
    compared.check(protocol=protocol)
    assert (compared.asked, compared.strictly) == (asked, CALLS)


def test_what_we_wait_for_a_workers_device_is_no_time_of_ours() -> None:
    """It answers at once, and has its outputs copied when they are done."""
    ran = Ran(tree=None, leaves=[])

    def pair(wall_us: int, own_us: int) -> Pair:
        sides = [
            TimedBatch(claim * 1000, wall * 1000, own * 1000, [], ran)
            for claim, wall, own in ((300, wall_us, own_us), (1000, 2000, 400))
        ]
        return Pair(*sides, first=True)

    honest, early = (
        whole_wall_ratio([pair(2000, 400)] * 8),
        whole_wall_ratio([pair(2000, 1700)] * 8),
    )
    assert honest.ratio == early.ratio == pytest.approx(1.6)
    assert whole_wall_ratio([pair(1900, 300)] * 8).ratio == pytest.approx(1.6)
