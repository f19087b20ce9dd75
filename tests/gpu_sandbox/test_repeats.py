"""References that do not repeat themselves: what is compared all the same, and what is said."""

from __future__ import annotations

import math

import pytest
import torch

from events.outcomes import Correct, WrongResult
from gpu_sandbox.child.compare import compare, expect
from gpu_sandbox.child.repeats import apart
from gpu_sandbox.port import TaskUnusable
from gpu_sandbox.protocols import PROTOCOLS
from gpu_sandbox.sandbox import LocalSandbox
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
    large = torch.randn(8, 256) * 1500
    return [torch.cat([large, -large, torch.randn(8, 256)])]


def get_init_inputs():
    return []
'''
ONCE_ONLY = ADD_RELU.replace(
    "return torch.relu(a + b)",
    """again = torch.equal(a, getattr(self, "last", a[:1]))
        self.last = a.clone()
        return torch.relu(a + b), torch.sum(a) + again""",
)
"""Right in every trial; no run on inputs that it had before is like the first one."""
AT_RANDOM = ADD_RELU.replace("a + b)", "a + b + torch.rand(a.shape))")
LATER = """
        self.calls = getattr(self, "calls", 0) + 1
        if self.calls > 40:
            {wrong}
"""
"""Right in the trials, which are fewer."""


def careless(task: str, wrong: str) -> str:
    """The reference, until it is surely timed."""
    head, body = as_candidate(task).split("    def forward", 1)
    signature, rest = body.split("\n", 1)
    return f"{head}    def forward{signature}{LATER.format(wrong=wrong)}{rest}"


NOISE = torch.linspace(1, 2, 64)
RUNS = {
    "equal": (NOISE, NOISE.clone(), 0.0, ""),
    "rounding": (NOISE, NOISE * (1 + 1e-6), 1e-6, ""),
    "beside infinity": (torch.cat([NOISE, torch.tensor([math.inf])]),
                        torch.cat([NOISE * (1 + 1e-4), torch.tensor([math.inf])]), 1e-4, ""),
    "half": (NOISE.half(), (NOISE * 1.02).half(), 2e-2, ""),
    "too far": (NOISE, NOISE * 1.01, 0.0, "relative L2 error 1.0"),
    "infinite in one": (NOISE, NOISE / torch.tensor([0.0] + 63 * [1.0]), 0.0, "infinities"),
    "NaN": (NOISE * math.nan, NOISE * math.nan, 0.0, "NaN"),
    "an integer": (torch.arange(64), torch.arange(1, 65), 0.0, "values differ"),
    "nothing but zeros": (torch.zeros(64), torch.zeros(64) + 1e-3, 0.0, "relative L2 error inf"),
    "next to nothing": (torch.zeros(64), torch.zeros(64) + 1e-30, 0.0, ""),
    "empty": (torch.zeros(0), torch.zeros(0), 0.0, ""),
    "another shape": (NOISE, NOISE[:3], 0.0, "another shape"),
}  # fmt: skip


@pytest.mark.parametrize("name", RUNS)
def test_how_far_two_runs_are_apart(name: str) -> None:
    first, again, relative, unlike = RUNS[name]
    (expected,) = expect([first], None)
    (found,) = apart([expected], [again])
    assert found.relative == pytest.approx(relative, rel=0.2)
    assert unlike in found.unlike
    assert bool(unlike) == bool(found.unlike)
    before = expected.margin
    found.allow(expected)
    after = expected.margin
    assert after.tolerance == pytest.approx(before.tolerance + found.allowed)
    assert math.isfinite(after.slack)
    assert after.slack >= before.slack
    if relative:
        assert compare(expected, again, PROTOCOLS["strict"]).ok


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
        (AT_RANDOM, "return torch.relu(a + b + 0.5)"),
    ],
    ids=["nothing", "by-two-percent", "expected-value"],
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


async def test_an_output_that_can_not_be_compared_is_named_and_the_others_are(
    shared_sandbox: LocalSandbox,
) -> None:
    with pytest.raises(TaskUnusable, match="not deterministic: output 1"):
        await shared_sandbox.baseline(baseline(ONCE_ONLY))
    honest = HONEST.replace(
        "return (a + b).clamp_(min=0)", "return torch.relu(a + b), torch.sum(a)"
    )
    verdict = await shared_sandbox.evaluate(evaluation(ONCE_ONLY, honest))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "output 1 of timed calls is not compared" in str(verdict.notes)
    wrong = careless(honest.replace("ModelNew", "Model"), "return 0 * a, torch.sum(a)")
    verdict = await shared_sandbox.evaluate(evaluation(ONCE_ONLY, wrong))
    assert isinstance(verdict.outcome, WrongResult), verdict
