"""References that do not repeat themselves: what is compared all the same, and what is said."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import NamedTuple

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.evaluator import SandboxFault, TaskUnusable
from gpu_sandbox.api.protocols import PROTOCOLS, Precision
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.verifier.numerics.compare import compare
from gpu_sandbox.verifier.numerics.comparison import Reference
from gpu_sandbox.verifier.numerics.expected import Expected, expect
from gpu_sandbox.verifier.numerics.rules.elements import ELEMENTS, ElementBound
from gpu_sandbox.verifier.numerics.tolerances import TOLERANCES
from gpu_sandbox.verifier.reference.determinism import Repeatability, compare_runs
from tests.gpu_sandbox.conftest import baseline, evaluation
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, as_candidate

pytestmark = pytest.mark.anyio

ANY_ORDER = '''
import random

import torch
import torch.nn as nn


class Model(nn.Module):
    """Sums as atomics do, in any order: what cancels is left with another rounding error."""

    def forward(self, x):
        assert x.dtype == torch.float32, "there is no float64 truth"
        parts = list(x.unbind(0))
        random.SystemRandom().shuffle(parts)
        total = torch.zeros(256)
        for part in parts:
            total = total + part
        return total


def get_inputs():
    large = torch.randn(8, 256) * 600
    return [torch.cat([large, -large, torch.randn(8, 256)])]


def get_init_inputs():
    return []
'''
APART = ANY_ORDER.replace("600", "750")
"""By nearly 1e-4: as much as is ever allowed for."""
FAR_APART = ANY_ORDER.replace("600", "3000")
AGAIN = ADD_RELU.replace(
    "return torch.relu(a + b)",
    """again = torch.equal(a, getattr(self, "last", a[:1]))
        self.last = a.clone()
        return torch.relu(a + b), RETURNED""",
)
"""Right in every trial; no run on inputs that it had before is like the first one."""
ONCE_ONLY = AGAIN.replace("RETURNED", "torch.sum(a) + again")
TYPE_OF_ITS_OWN = AGAIN.replace("RETURNED", "a.double() if again else a.clone()")
ONE_MORE = AGAIN.replace("RETURNED", "*[a.clone() for _ in range(1 + again)]")
COUNTS = AGAIN.replace("RETURNED", "torch.full((4,), int(again))")
NO_TENSOR = AGAIN.replace("RETURNED", "a.clone() if not again else 3j")
AT_RANDOM = ADD_RELU.replace("a + b)", "a + b + torch.rand(a.shape))")
SPARSE = ADD_RELU.replace("torch.relu(a + b)", "torch.relu(a + b).to_sparse()")
LATER = """
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls > 120:
            {wrong}
"""
"""Right in the trials, which are fewer: thirteen, with eight others after each at most, and one."""


def careless(task: str, wrong: str) -> str:
    """The reference, until it is surely timed."""
    head, body = as_candidate(task).split("    def forward", 1)
    signature, rest = body.split("\n", 1)
    return f"{head}    def forward{signature}{LATER.format(wrong=wrong)}{rest}"


NOISE = torch.linspace(1, 2, 64)
MANY = torch.randn(1 << 18, generator=torch.Generator().manual_seed(1))
FLIPPED = torch.cat([-MANY[:1], MANY[1:]])
PERTURBED_DTYPES = torch.cat([MANY[:1] + 4e-3, MANY[1:]])
RUNS = {
    "equal": (NOISE, NOISE.clone(), 0.0, "", ""),
    "rounding": (NOISE, NOISE * (1 + 1e-6), 1e-6, "", ""),
    "beside infinity": (torch.cat([NOISE, torch.tensor([math.inf])]),
                        torch.cat([NOISE * (1 + 5e-5), torch.tensor([math.inf])]), 5e-5, "", ""),
    "half": (NOISE.half(), (NOISE * 1.005).half(), 5e-3, "", ""),
    "TF32": (NOISE, NOISE * (1 + 3e-4), 3e-4, "relative L2 error 3.0", ""),
    "an element": (MANY, PERTURBED_DTYPES, 8e-6, "", ""),
    "an element's sign": (MANY, FLIPPED, None, "relative L2 error", ""),
    "too far": (NOISE, NOISE * 1.01, 1e-2, "relative L2 error 1.0", ""),
    "infinite in one": (NOISE, NOISE / torch.tensor([0.0] + 63 * [1.0]), None, "infinities", ""),
    "NaN": (NOISE * math.nan, NOISE * math.nan, 0.0, "NaN", ""),
    "an integer": (torch.arange(64), torch.arange(1, 65), 0.0, "", "values differ"),
    "nothing but zeros": (torch.zeros(64), torch.zeros(64) + 1e-3, math.inf, "error inf", ""),
    "empty": (torch.zeros(0), torch.zeros(0), 0.0, "", ""),
    "another shape": (NOISE, NOISE[:3], 0.0, "", "another shape"),
}  # fmt: skip


class Allowed(NamedTuple):
    tolerance: float
    slack: float


def allowed(expected: Expected) -> Allowed:
    reference = Reference(expected, PROTOCOLS["strict"])
    return Allowed(reference.tolerance, ELEMENTS.prepare(reference) or 0.0)


@pytest.mark.parametrize("name", RUNS)
def test_how_far_two_runs_are_apart(name: str) -> None:
    first, again, relative, far, unlike = RUNS[name]
    (expected,) = expect([first], None)
    (found,) = compare_runs([expected], [again])
    assert relative is None or found.relative == pytest.approx(relative, rel=0.2)
    assert far in found.far
    assert bool(far) == bool(found.far)
    assert unlike in found.unlike
    assert bool(unlike) == bool(found.unlike)
    before = allowed(expected)
    found.allow(expected)
    after = allowed(expected)
    assert after.tolerance == pytest.approx(before.tolerance + found.allowed)
    assert math.isfinite(after.slack)
    assert after.slack >= before.slack
    assert (after == before) == (found.relative == 0.0)
    if relative and not far:
        assert compare(expected, again, PROTOCOLS["strict"]).ok


@given(relative=st.floats(0, math.inf), worst=st.floats(0, math.inf), double=st.booleans())
def test_no_more_is_allowed_for_than_where_there_is_no_float64(
    relative: float, worst: float, double: bool
) -> None:
    exact = MANY[:64].double() if double else None
    (expected,) = expect([MANY[:64]], [exact])
    rule = TOLERANCES[torch.float32]
    margin = expected.margin
    Repeatability(rule, relative, worst).allow(expected)
    rms = float(MANY[:64].norm()) / 8
    assert allowed(expected).tolerance <= margin.tolerance + rule.without_float64
    assert (
        allowed(expected).slack
        <= margin.bounds.get(ELEMENTS, ElementBound()).max_error
        + 1.001 * 50 * rule.without_float64 * rms
    )
    assert expected.margin == margin, "which is multiplied for calls on changed inputs"


@pytest.mark.parametrize(("precision", "far"), [("float32", True), ("tf32", False)])
def test_runs_are_as_far_apart_as_the_declared_precision_lets_them(
    precision: Precision, far: bool
) -> None:
    (expected,) = expect([MANY], None, precision=precision)
    (found,) = compare_runs([expected], [MANY * (1 + 5e-3)])
    assert bool(found.far) == far


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "trio"


async def test_sums_in_any_order_are_compared_by_how_far_they_are_apart(
    shared_sandbox: LocalSandbox,
) -> None:
    measured = await shared_sandbox.baseline(baseline(ANY_ORDER))
    (told,) = measured.audit
    assert told.startswith("the reference does not repeat itself: output 0 of two runs differs by")
    verdict = await shared_sandbox.evaluate(evaluation(ANY_ORDER, as_candidate(ANY_ORDER)))
    assert isinstance(verdict.outcome, Correct), verdict
    assert any("does not repeat itself" in note for note in verdict.notes)


@pytest.mark.parametrize(
    ("task", "wrong"),
    [
        (ANY_ORDER, "return torch.zeros(256)"),
        (ANY_ORDER, "return 1.02 * x.sum(0)"),
        (APART, "return 1.0003 * x.double().sum(0).float()"),
        (AT_RANDOM, "return torch.relu(a + b + 0.5)"),
    ],
    ids=["nothing", "by-two-percent", "like-tf32", "expected-value"],
)
async def test_who_is_careless_while_it_is_timed_is_wrong(
    shared_sandbox: LocalSandbox, task: str, wrong: str
) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(task, careless(task, wrong)))
    assert isinstance(verdict.outcome, WrongResult), verdict
    assert verdict.outcome.trial is None, "it was right in the trials"


async def test_what_is_drawn_under_the_seed_of_a_call_repeats_itself(
    shared_sandbox: LocalSandbox,
) -> None:
    assert (await shared_sandbox.baseline(baseline(AT_RANDOM))).audit == []
    verdict = await shared_sandbox.evaluate(evaluation(AT_RANDOM, as_candidate(AT_RANDOM)))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "repeat itself" not in str(verdict.notes)


async def test_whose_runs_are_too_far_apart_is_refused_with_the_figures(
    shared_sandbox: LocalSandbox,
) -> None:
    for task in FAR_APART, ONCE_ONLY:
        with pytest.raises(TaskUnusable, match=r"output \d of two runs: relative L2 error \d"):
            await shared_sandbox.baseline(baseline(task))
        with pytest.raises(SandboxFault, match=r"output \d of two runs: relative L2 error \d"):
            await shared_sandbox.evaluate(evaluation(task, as_candidate(task)))


@pytest.mark.parametrize(
    ("task", "reason"),
    [
        (TYPE_OF_ITS_OWN, "output 1 of two runs: another shape or dtype"),
        (ONE_MORE, "output 0 of two runs: another number of outputs"),
        (COUNTS, "output 1 of two runs: values differ"),
        (NO_TENSOR, "running the reference again failed: "),
        (SPARSE, "output 0 is laid out as sparse_coo"),
    ],
    ids=["dtype", "number", "integers", "no-tensor", "sparse"],
)
async def test_runs_that_nothing_can_be_held_against_are_no_task(
    shared_sandbox: LocalSandbox, task: str, reason: str
) -> None:
    with pytest.raises(TaskUnusable) as refused:
        await shared_sandbox.baseline(baseline(task))
    assert reason in refused.value.reason
    with pytest.raises(SandboxFault, match="the task itself failed: ") as fault:
        await shared_sandbox.evaluate(evaluation(task, as_candidate(task)))
    assert reason in str(fault.value)


async def test_a_verifier_looks_once_how_far_the_reference_is_from_itself(
    shared_sandbox: LocalSandbox, tmp_path: Path
) -> None:
    seen = tmp_path / "seen"
    task = ADD_RELU.replace(
        "return torch.relu",
        f"""
        from zlib import crc32  # of sums some nudged inputs have the same

        try:  # its worker may not write
            with open({str(seen)!r}, "a") as log:
                print(a.dtype, "nan" if a.isnan().any() else crc32(a.numpy()), file=log)
        except OSError:
            pass
        return torch.relu""",
    )
    for _ in range(2):
        verdict = await shared_sandbox.evaluate(evaluation(task, HONEST))
        assert isinstance(verdict.outcome, Correct), verdict
    drawn = [line for line in seen.read_text().splitlines() if "nan" not in line]
    often = [inputs for inputs, times in Counter(drawn).items() if times >= 4]
    assert len(often) == 1, "NaNs look alike in each verdict, and one in doubt is judged again"
