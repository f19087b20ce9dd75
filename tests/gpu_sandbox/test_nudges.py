"""How far a reference is from itself on inputs that differ by rounding, and what that allows."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
import torch.nn.functional as F

from gpu_sandbox.api.protocols import PROTOCOLS
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.expected import Expected
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS
from gpu_sandbox.verifier.numerics.rules.integers import INTEGERS
from gpu_sandbox.verifier.numerics.sentinel_values import sentinel_mask
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES, Margin
from gpu_sandbox.verifier.reference.cases import Seeds
from gpu_sandbox.verifier.reference.task import Task
from gpu_sandbox.verifier.reference.ulp_perturbation import (
    UlpSensitivity,
    measure_sensitivity,
    perturb,
    perturbed,
)
from gpu_sandbox.verifier.trials.rounding_flips import (
    is_unstable,
    with_flips_accepted,
    with_float64_integers,
    without_nan,
)
from gpu_sandbox.verifier.trials.rounding_recheck import RoundingRecheck

STRICT = PROTOCOLS["strict"]


def measure(reference: Callable[[torch.Tensor], torch.Tensor]) -> UlpSensitivity:
    def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        x = torch.randn(100_000, generator=torch.Generator().manual_seed(number))
        return [reference(x)], [reference(perturb(x))]

    return measure_sensitivity(1, pair, 0.001)[0]


def test_a_nudge_is_a_few_last_places() -> None:
    x = torch.randn(1000)
    off = ((perturb(x) - x) / x).abs()
    assert 0 < off.max() < 6e-7
    for other in (torch.arange(5), x.half(), x > 0):
        assert perturb(other) is other


def test_smooth_ones_are_as_near_as_rounding() -> None:
    found = measure(torch.tanh)
    assert INTEGERS not in found.spreads
    assert 0 < found.relative < 1e-6
    expected = Expected(torch.ones(5000), None)
    found.allow(expected)
    assert expected.tolerance == TOLERANCES[torch.float32].without_float64
    assert expected.bounds == {}


def test_integers_that_flip_may_be_others_within_a_thousandth() -> None:
    found = measure(lambda x: torch.round(x * 500).int())
    assert 0 < found.spreads[INTEGERS] < 1000
    native = torch.arange(5000)
    for allowed, elements in ((5, 5000), (0, 900)):
        expected = Expected(native[:elements], None)
        found.allow(expected)
        assert expected.bounds[INTEGERS].limit == allowed
        for wrong, ok in ((allowed, True), (allowed + 1, False)):
            got = native[:elements].clone()
            got[:wrong] += 1
            assert compare(expected, got, STRICT).ok == ok
            by_element = compare(expected, got, PROTOCOLS["kernelbench"])
            assert by_element.ok == (wrong == 0)
    again = Expected.within(native, expected.margin)
    assert again.bounds[INTEGERS].limit == expected.bounds[INTEGERS].limit, "as in timed calls"


def test_integers_that_never_flip_have_to_be_exact() -> None:
    found = measure(lambda x: torch.arange(len(x)))
    expected = Expected(torch.arange(5000), None)
    found.allow(expected)
    got = torch.arange(5000)
    got[7] += 1
    assert not compare(expected, got, STRICT).ok


def test_steps_are_allowed_for_no_further_than_without_a_float64_reference() -> None:
    found = measure(lambda x: torch.round(x / 0.002) * 0.002)
    assert found.spreads[ELEMENTS] == pytest.approx(0.002, rel=1e-2)
    native = torch.randn(100_000)
    expected = Expected(native, native.double())
    assert expected.tolerance == TOLERANCES[torch.float32].floor
    found.allow(expected)
    assert (
        TOLERANCES[torch.float32].floor
        <= expected.tolerance
        <= TOLERANCES[torch.float32].without_float64
    )
    far = UlpSensitivity(relative=0.5, spreads={ELEMENTS: 9.0})
    far.allow(expected)
    assert expected.tolerance == TOLERANCES[torch.float32].without_float64


def test_of_slow_ones_nothing_is_measured() -> None:
    def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        raise AssertionError(number)

    assert measure_sensitivity(2, pair, 3.0, rounds=False) == [UlpSensitivity(), UlpSensitivity()]
    assert measure_sensitivity(1, pair, 0.001, rounds=False) == [UlpSensitivity()], "nothing moves"
    assert measure_sensitivity(1, pair, 3.0) == [UlpSensitivity(rounds=True)]


def test_of_many_integers_that_rounding_may_reach_a_few_may_flip_unseen() -> None:
    native = torch.zeros(300_000, dtype=torch.bool)
    got = native.clone()
    got[:3] = True
    for sensitivity, ok in ((UlpSensitivity(rounds=True), True), (UlpSensitivity(), False)):
        expected = Expected(native, None)
        sensitivity.allow(expected)
        assert compare(expected, got, STRICT).ok == ok
    got[3] = True
    expected = Expected(native, None)
    UlpSensitivity(rounds=True).allow(expected)
    assert not compare(expected, got, STRICT).ok


def test_a_reference_that_wants_its_own_inputs_is_no_broken_task() -> None:
    def pair(number: int) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        if number == 2:
            raise ValueError("not symmetric")
        return [torch.tensor([1, 2])], [torch.tensor([1, 3])]

    assert measure_sensitivity(1, pair, 0.001) == [
        UlpSensitivity(rounds=True, spreads={INTEGERS: 1})
    ]


CODES = torch.tensor([0.0, 1.0, 2.0, 3.0])


def nearest(x: torch.Tensor) -> torch.Tensor:
    """Of each row the code that its first number is nearest to, four times."""
    return CODES.to(x.dtype)[(x[:, :1] - CODES).abs().argmin(dim=1)][:, None].repeat(1, 4)


def between(edges: int) -> torch.Tensor:
    """Rows, some of which are as near to one code as to the next."""
    x = torch.full((100, 3), 1.2)
    x[:edges, 0] = 1.5
    return x


def looked_at(x: torch.Tensor, got: torch.Tensor) -> list[torch.Tensor] | None:
    def run(steps: int) -> list[torch.Tensor]:
        return [nearest(perturbed(x, steps) if steps else x)]

    return with_flips_accepted(
        [Expected(nearest(x), None)], [got], run, lambda: [nearest(x.double())]
    )


def test_what_the_reference_turns_itself_is_no_mistake() -> None:
    x = between(2)
    other = nearest(x)
    other[0] = 3.0 - other[0]
    found = looked_at(x, other)
    assert found is not None
    assert torch.equal(found[0], nearest(x))


def test_what_lies_nowhere_near_an_edge_is_one() -> None:
    x = between(2)
    wrong = nearest(x)
    wrong[5] = 2.0
    assert looked_at(x, wrong) is None
    wrong[0] = 3.0 - wrong[0]
    found = looked_at(x, wrong)
    assert found is not None, "the rest is looked at again"
    assert torch.equal(found[0][0], nearest(x)[0])
    assert torch.equal(found[0][5], wrong[5])
    wrong[5] = math.nan
    found = looked_at(x, wrong)
    assert found is not None
    assert bool(found[0][5].isnan().all())


def test_where_much_is_wrong_nobody_looks() -> None:
    x = between(20)
    assert looked_at(x, 3.0 - nearest(x)) is None


@pytest.mark.parametrize(
    ("dtype", "looks"),
    [
        (torch.float32, True),
        (torch.complex64, True),
        (torch.float16, False),
        (torch.bfloat16, False),
    ],
)
def test_a_single_number_is_not_turned_by_the_rounding_of_half_precision(
    dtype: torch.dtype, *, looks: bool
) -> None:
    native, got, exact = (torch.tensor(n, dtype=dtype) for n in (2.0, 2.125, 2.0625))
    found = with_flips_accepted(
        [Expected(native, None)], [got], lambda steps: [native], lambda: [exact]
    )
    assert (found is not None) == looks


def roots(x: torch.Tensor) -> torch.Tensor:
    """Of what is next to nothing, in some rows."""
    return torch.sqrt((1.0 + x) - 1.0)


def test_nan_that_rounding_brings_about_is_no_mistake() -> None:
    x = torch.full((300,), 0.5)
    x[:2] = torch.tensor([1.2e-7, -1.2e-7])
    mine = roots(x)
    assert mine.isnan().tolist() == [False, True] + 298 * [False]
    mine[:2] = torch.tensor([math.nan, 0.0])

    def run(steps: int) -> list[torch.Tensor]:
        return [roots(x - 2e-7 if steps % 8 else x + 2e-7) if steps else roots(x)]

    expected = [Expected(roots(x), None)]
    found = with_flips_accepted(expected, [mine], run, lambda: None)
    assert found is not None
    (rest,) = found
    assert torch.equal(rest.isnan(), roots(x).isnan())
    (one,), (rest,) = without_nan(expected, found)
    assert torch.equal(one.native, rest)
    assert not rest.isnan().any()
    mine[2] = math.nan
    found = with_flips_accepted(expected, [mine], run, lambda: None)
    assert found is not None
    assert bool(found[0][2].isnan()), "there is no reason for that one"
    (one,), _ = without_nan(
        [Expected(torch.full((9,), math.nan), None)], [torch.full((9,), math.nan)]
    )
    assert bool(one.native.isnan().all()), "nor for so many"


def test_a_reference_that_draws_its_own_numbers_turns_nothing() -> None:
    x = between(2)
    other = nearest(x)
    other[0] = 3.0 - other[0]
    expected = [Expected(nearest(x), None)]
    assert (
        with_flips_accepted(expected, [other], lambda steps: [torch.rand(100, 4)], lambda: None)
        is None
    )


@pytest.mark.parametrize(("edges", "many"), [(0, False), (50, True)])
def test_it_is_undecided_where_nudges_turn_much(edges: int, *, many: bool) -> None:
    x = between(edges)
    expected = [Expected(nearest(x), None)]
    assert is_unstable(expected, lambda steps: [nearest(perturbed(x, steps))]) == many


def test_zeros_are_moved_by_what_is_usual() -> None:
    x = torch.tensor([0.0, 0.0, 3.0, -4.0])
    off = perturbed(x, 4) - x
    assert bool((off != 0).any())
    largest = 4 * torch.finfo(x.dtype).eps  # of rounding, in what is as large as the largest
    assert float(off.abs().max()) <= (4 + 1) * largest
    assert perturbed(torch.arange(3), 4).tolist() == [0, 1, 2]
    assert perturbed(torch.empty(0), 4).numel() == 0


EDGES = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return torch.round(x)

def get_inputs():
    return [torch.where(torch.rand(1000) < 0.08, 1.5, 3.0 * torch.rand(1000))]
"""
LONG_SUM = """
import torch

class Model(torch.nn.Module):
    def forward(self, f):
        return torch.cumsum(f / 16000.0, -1) % 1.0

def get_inputs():
    return [torch.rand(32, 4000) * 400 + 100]
"""
COUNT = """
import torch

class Model(torch.nn.Module):
    def forward(self, x, y):
        return (x * x + y * y < 1.0).sum(), x

def get_inputs():
    return [torch.rand(1 << 21), torch.rand(1 << 21)]
"""
UNSTABLE = """
import torch

class Model(torch.nn.Module):
    def forward(self, keys, x):
        {how}
        return x[order] if order.dim() < 2 else order

def get_inputs():
    return [torch.randint(0, 9, {shape}), torch.randn(4096, 3)]
"""


def rounding_of(tmp_path: Path, source: str) -> tuple[Task, RoundingRecheck]:
    path = tmp_path / "task.py"
    path.write_text(source)
    task = Task(str(path), torch.device("cpu"), Seeds(3))
    task.forward_s = 1e-3  # slow ones are not nudged, and a machine may stand still for a second
    return task, RoundingRecheck(task)


def test_each_look_nudges_in_other_directions(tmp_path: Path) -> None:
    """The reference's own seed must not be that of the nudges."""
    task, rounding = rounding_of(tmp_path, EDGES)
    case = task.draw("trial", 0)
    task.solve(case, exact=True)
    (x,) = case.tensors
    got = torch.where(x == 1.5, torch.ones(()), x.round())
    assert not compare(case.expected[0], got, STRICT).ok
    ((expected, rest), *_) = rounding.rechecks(case, case.expected, [got])
    assert compare(expected[0], rest[0], STRICT).ok


def test_what_is_there_often_and_exactly_marks_something() -> None:
    x = torch.randn(64, 64)
    assert sentinel_mask(x) is None
    assert sentinel_mask(x.clamp(max=4.5)) is None, "once is an accident"
    for marked, where in (
        (F.dropout(x, 0.1), lambda y: y == 0.0),
        (x.clamp(-1.0, 1.5), lambda y: (y == -1.0) | (y == 1.5)),
        (x.masked_fill(x > 2.0, -math.inf).half(), lambda y: y == -math.inf),
    ):
        found = sentinel_mask(marked)
        assert found is not None
        assert torch.equal(found, where(marked))
        for steps in (4, -64):
            assert torch.equal(perturbed(marked, steps, keeps_sentinels=True)[found], marked[found])
        assert not torch.equal(perturbed(marked, 64, keeps_sentinels=True), marked)


MARKED = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, x, seen):
        there = (x != 0).any(-1, keepdim=True).to(x.dtype)
        return (x * there).sum(1) / there.sum(1), (x >= 2.0).any(-1), seen.argmax(1)


def get_inputs():
    length = torch.arange(32) % 3 + torch.where(torch.arange(32) % 5 == 0, 10, 14)
    x = (torch.rand(32, 16, 32) * 1.9 + 0.5).clamp(max=2.0)
    seen = torch.relu(torch.randn(200, 4) - 0.5)
    return [x * (torch.arange(16)[None, :, None] < length[:, None, None]), seen]
"""


def test_rounding_excuses_nobody_who_takes_no_notice_of_such_marks(tmp_path: Path) -> None:
    """But of equals, such as zeros are, anyone may be the largest."""
    task, rounding = rounding_of(tmp_path, MARKED)
    case = task.draw("trial", 0)
    task.solve(case, exact=True)
    x, seen = case.tensors
    means, reached, largest = (expected.native for expected in case.expected)

    def passes(*got: torch.Tensor) -> bool:
        looks = rounding.rechecks(case, case.expected, list(got))
        return any(all(map(_fits, *look)) for look in looks)

    last = 3 - seen.flip(1).argmax(1)
    assert 0 < int((last != largest).sum()) < 66
    assert any(passes(means, reached, last) for _ in range(3))
    assert not passes(means, reached, torch.zeros_like(last))
    assert not passes(x.mean(1), reached, largest)
    assert not passes(means, reached ^ (torch.rand(reached.shape) < 0.1), largest)


@pytest.mark.slow
def test_a_count_of_millions_may_be_off_by_what_nudges_move_it(tmp_path: Path) -> None:
    """And not by anything, because they move it."""
    task, rounding = rounding_of(tmp_path, COUNT)
    case = task.draw("trial", 0)
    task.solve(case, exact=True)
    count, x = (expected.native for expected in case.expected)
    sensitivity = [rounding._run(case, 64)[0] for _ in range(20)]
    least, most = min(sensitivity), max(sensitivity)
    assert int(least) < int(most)

    def passes(count: torch.Tensor) -> bool:
        looks = rounding.rechecks(case, case.expected, [count, x])
        return any(all(map(_fits, *look)) for look in looks)

    other = next(value for value in sensitivity if value != count)
    assert any(passes(other) for _ in range(4))
    assert not passes(count + 1000)
    assert not passes(torch.zeros_like(count))


def _fits(expected: Expected, got: torch.Tensor) -> bool:
    return compare(expected, got, STRICT).ok


def test_an_index_is_the_one_that_a_nudge_makes_of_it() -> None:
    x = torch.rand(200, 8)
    x[:50, 3] = x[:50, 6] = 2.0
    expected = [Expected(x.argmax(-1), None)]

    def run(steps: int) -> list[torch.Tensor]:
        return [perturbed(x, steps).argmax(-1) if steps else x.argmax(-1)]

    right, wrong = x.argmax(-1), x.argmax(-1)
    right[:50], wrong[:50] = 6, 5
    for got, fits in ((right, True), (wrong, False)):
        rest = with_flips_accepted(expected, [got], run, lambda: None)
        assert (rest is not None and _fits(expected[0], rest[0])) == fits


def test_who_is_a_little_off_is_looked_at_as_well() -> None:
    """Of a single number: by one tolerance and a half, where the reference is moved by more."""
    expected = [Expected.within(torch.tensor(1.0), Margin(1e-4))]

    def run(steps: int) -> list[torch.Tensor]:
        return [torch.tensor(1.0 + 2e-4 * bool(steps))]

    for off in (1.1e-4, 1.5e-4, 4e-4):
        got = torch.tensor(1.0 + off)
        assert not compare(expected[0], got, STRICT).ok
        rest = with_flips_accepted(expected, [got], run, lambda: None)
        assert rest is not None
        assert _fits(expected[0], rest[0])


def test_a_long_sum_is_nudged_as_a_whole(tmp_path: Path) -> None:
    """What lies at the edge, where it wraps around, is elsewhere in every other order of adding."""
    task, rounding = rounding_of(tmp_path, LONG_SUM)
    for number in range(50):
        case = task.draw("trial", number)
        task.solve(case, exact=True)
        (f,) = case.tensors
        phase = torch.cumsum(f.double() / 16000.0, -1)
        edge = (phase - phase.round()).abs() < 4e-7 * phase
        native = case.expected[0].native
        got = torch.where(edge, 1.0 - native, native)
        if not compare(case.expected[0], got, STRICT).ok:
            break

    def passes(got: torch.Tensor) -> bool:
        looks = rounding.rechecks(case, case.expected, [got])
        return any(compare(expected[0], rest[0], STRICT).ok for expected, rest in looks)

    assert any(passes(got) for _ in range(3))  # ten nudges of all go one way once in a thousand
    far = int(((phase[3] - phase[3].round()).abs() - 0.25).abs().argmin())  # from edge and middle
    got[3, far] = 1.0 - got[3, far]
    assert not passes(got)


@pytest.mark.parametrize(
    ("shape", "how", "stably"),
    [
        ("(4096,)", "order = torch.argsort(keys)", lambda k: k.argsort(stable=True)),
        ("(4096,)", "order = keys.sort(-1).indices", lambda k: k.sort(stable=True).indices),
        (
            "(4096,)",
            "order = torch.sort(keys, 0, True)[1]",
            lambda k: k.sort(descending=True, stable=True)[1],
        ),
        (
            "(64, 512)",
            "order = keys.topk(30, dim=1).indices",
            lambda k: k.sort(descending=True, stable=True)[1][:, :30],
        ),
        (
            "(64, 512)",
            "order = torch.topk(keys, k=30, largest=False)[1]",
            lambda k: k.sort(stable=True)[1][:, :30],
        ),
    ],
)
def test_of_equal_keys_the_first_may_come_first(
    tmp_path: Path, shape: str, how: str, stably: Callable[[torch.Tensor], torch.Tensor]
) -> None:
    task, rounding = rounding_of(tmp_path, UNSTABLE.format(shape=shape, how=how))
    case = task.draw("trial", 0)
    task.solve(case, exact=True)
    keys, x = case.tensors
    order = stably(keys)

    def passes(order: torch.Tensor) -> bool:
        got = [x[order] if order.dim() < 2 else order]
        looks = rounding.rechecks(case, case.expected, got)
        return any(compare(expected[0], mine[0], STRICT).ok for expected, mine in looks)

    assert passes(order)
    assert not passes(order.flip(0))


@pytest.mark.parametrize(
    "how", ["order = torch.argsort(keys, stable=True)", "order = keys.cumsum(0) % 7"]
)
def test_who_asks_for_the_first_gets_it(tmp_path: Path, how: str) -> None:
    task, rounding = rounding_of(tmp_path, UNSTABLE.format(shape="(4096,)", how=how))
    case = task.draw("trial", 0)
    task.solve(case, exact=True)
    got = [case.expected[0].native.flip(0)]
    assert not list(rounding.rechecks(case, case.expected, got))


READINGS = """
import torch

class Model(torch.nn.Module):
    def forward(self, x):
        return {what}

def get_inputs():
    return [50.0 + 0.02 * torch.randn(1 << 18)]
"""


@pytest.mark.parametrize("what", ["(x > 50.0).sum()", "(x - 50.0).mean()"])
def test_what_64_last_places_turn_excuses_no_sample(tmp_path: Path, what: str) -> None:
    """Of numbers that differ by little beside what they are."""
    task, rounding = rounding_of(tmp_path, READINGS.format(what=what))
    passed = 0
    for number in range(12):
        case = task.draw("trial", number)
        task.solve(case, exact=True)
        (x,) = case.tensors
        part = x[::64]
        got = (part > 50.0).sum() * 64 if "sum" in what else (part - 50.0).mean()
        looks = rounding.rechecks(case, case.expected, [got])
        passed += any(all(map(_fits, *look)) for look in looks)
    assert passed < 9


def test_chaos_excuses_nobody() -> None:
    def turned(steps: int) -> list[torch.Tensor]:
        return [torch.rand(300) if steps else torch.full((300,), 0.5)]

    expected = [Expected(turned(0)[0], None)]
    got = turned(0)
    got[0][:90] = 0.25
    assert with_flips_accepted(expected, got, turned, lambda: None) is None

    def some(steps: int) -> list[torch.Tensor]:
        others = turned(0)
        others[0][: 150 if steps else 0] = 0.25
        return others

    assert with_flips_accepted(expected, got, some, lambda: None) is not None


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
@pytest.mark.parametrize("steps", [4, -4, 64, -64])
def test_half_precision_is_moved_by_a_last_place_or_two(dtype: torch.dtype, steps: int) -> None:
    torch.manual_seed(0)
    tensor = torch.randn(4096).to(dtype)
    tensor[7] = 0.0
    other = perturbed(tensor, steps)
    assert other.dtype == dtype
    off = (other.float() - tensor.float()).abs() / tensor.float().abs().clamp(min=1.0)
    most = 2 if abs(steps) == 64 else 1
    assert 0.0 < float(off.max()) <= (most + 0.5) * torch.finfo(dtype).eps
    assert perturb(tensor) is tensor


def test_integers_are_right_that_are_what_they_are_in_float64() -> None:
    """A running count has all that follows a flip otherwise."""
    native, exact = torch.tensor([1, 2, 3, 4]), torch.tensor([1, 1, 2, 3])
    reals = Expected(torch.ones(3), None), torch.zeros(3)
    expected = [Expected(native, None), reals[0]]
    found = with_float64_integers(
        expected, [exact.clone(), reals[1]], lambda: [exact, torch.ones(3)]
    )
    assert found is not None
    assert torch.equal(found[0], native)
    assert torch.equal(found[1], reals[1])
    wrong = with_float64_integers(
        expected, [torch.tensor([1, 9, 2, 3]), reals[1]], lambda: [exact, reals[0].native]
    )
    assert wrong is not None
    assert wrong[0].tolist() == [1, 9, 3, 4]
    assert with_float64_integers(expected, [native, reals[1]], lambda: [exact, reals[1]]) is None
    assert with_float64_integers(expected, [exact, reals[1]], lambda: None) is None

    def never() -> None:
        raise AssertionError("nothing is counted")

    assert with_float64_integers([reals[0]], [reals[1]], never) is None
