"""Parameters that are not the reference's: named in the reason, and loaded under ``strict``."""

from __future__ import annotations

import math
from typing import Any, cast

import pytest
import torch
from torch import nn

from events.outcomes import Correct, WrongResult
from gpu_sandbox.ipc.model_messages import Compared, CompareWeights, Unlike
from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.tensors.shared_arena import Arena, place
from gpu_sandbox.verifier.trials.weights import Difference, Unequal, described, differing
from gpu_sandbox.worker.compare_weights import compare_weights
from tests.gpu_sandbox.conftest import evaluation

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.bias = nn.Parameter(torch.randn(n))

    def forward(self, x):
        return torch.relu(self.linear(x)) + self.bias


def get_inputs():
    return [torch.randn(16, 24)]


def get_init_inputs():
    return [24]
"""
AS_IT_IS = TASK.replace("class Model(", "class ModelNew(")
DRAWS_MORE = AS_IT_IS.replace("self.bias =", "torch.rand(3)\n        self.bias =")
PACKS = DRAWS_MORE.replace(
    "\n\n    def forward",
    "\n        self.register_buffer('packed', self.bias.detach() * 1.0)\n\n    def forward",
).replace("+ self.bias", "+ self.packed")
PACKS_LATER = DRAWS_MORE.replace(
    "        return",
    "        if not hasattr(self, 'packed'):\n"
    "            self.packed = self.bias.detach() * 1.0\n        return",
).replace("+ self.bias", "+ self.packed")
FOLDS_IN_PLACE = AS_IT_IS.replace(
    "\n\n    def forward",
    "\n        with torch.no_grad():\n            self.linear.weight.mul_(2.0)\n"
    "            self.linear.bias.mul_(2.0)\n\n    def forward",
).replace("+ self.bias", "* 0.5 + self.bias")
HALF = DRAWS_MORE.replace("+ self.bias", "+ self.bias.half()")
NAMED = "parameter `bias` differs from the reference's: values, relative difference "
CAUSE = "__init__ must make the same random draws in the same order"


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.process
@pytest.mark.parametrize("source", [DRAWS_MORE, PACKS_LATER], ids=["draws", "packs later"])
@pytest.mark.parametrize("protocol", ["strict", "strict-bf16"])
@pytest.mark.anyio
async def test_the_references_values_are_loaded(
    shared_sandbox: LocalSandbox, source: str, protocol: str
) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(TASK, source, protocol=protocol))
    assert isinstance(verdict.outcome, Correct), verdict
    (note,) = [note for note in verdict.notes if "differs" in note]
    assert note.startswith(NAMED)
    assert CAUSE in note
    assert note.endswith("the reference's values were loaded into the candidate")


@pytest.mark.process
@pytest.mark.parametrize("source", [PACKS, HALF], ids=["packs", "wrong besides"])
@pytest.mark.anyio
async def test_what_is_wrong_with_them_names_the_parameter(
    shared_sandbox: LocalSandbox, source: str
) -> None:
    outcome = (await shared_sandbox.evaluate(evaluation(TASK, source))).outcome
    assert isinstance(outcome, WrongResult)
    assert outcome.reason.startswith(NAMED)
    assert "with the reference's values loaded it is wrong, too" in outcome.reason
    assert "relative L2 error" in outcome.reason
    assert outcome.trial == 1


@pytest.mark.process
@pytest.mark.parametrize("protocol", ["kernelbench", "paper"])
@pytest.mark.anyio
async def test_other_protocols_load_nothing_and_name_it(
    shared_sandbox: LocalSandbox, protocol: str
) -> None:
    outcome = (
        await shared_sandbox.evaluate(evaluation(TASK, DRAWS_MORE, protocol=protocol))
    ).outcome
    assert isinstance(outcome, WrongResult)
    assert outcome.reason.startswith(NAMED)
    assert CAUSE in outcome.reason
    assert "loaded" not in outcome.reason


@pytest.mark.process
@pytest.mark.anyio
async def test_what_is_folded_in_place_is_no_difference(shared_sandbox: LocalSandbox) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(TASK, FOLDS_IN_PLACE))
    assert isinstance(verdict.outcome, Correct), verdict
    assert not [note for note in verdict.notes if "differs" in note]


@pytest.mark.process
@pytest.mark.anyio
async def test_an_ordinary_mistake_names_no_parameter(shared_sandbox: LocalSandbox) -> None:
    source = AS_IT_IS.replace("torch.relu", "torch.tanh")
    outcome = (await shared_sandbox.evaluate(evaluation(TASK, source))).outcome
    assert isinstance(outcome, WrongResult)
    assert outcome.reason.startswith("relative L2 error")


NORM = TASK.replace(
    "self.bias = nn", "self.norm = nn.LayerNorm(n)\n        self.bias = nn"
).replace("torch.relu(self.linear(x))", "self.norm(self.linear(x))")


@pytest.mark.process
@pytest.mark.anyio
async def test_what_was_loaded_is_loaded_for_trained_parameters_too(
    shared_sandbox: LocalSandbox,
) -> None:
    source = NORM.replace("class Model(", "class ModelNew(").replace(
        "self.bias =", "torch.rand(3)\n        self.bias ="
    )
    verdict = await shared_sandbox.evaluate(evaluation(NORM, source))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "constant-parameters" not in verdict.outcome.labels


@pytest.mark.process
@pytest.mark.parametrize("protocol", ["strict", "kernelbench"])
@pytest.mark.anyio
async def test_what_was_changed_on_purpose_is_not_loaded(
    shared_sandbox: LocalSandbox, protocol: str
) -> None:
    source = AS_IT_IS.replace(
        "\n\n    def forward",
        "\n        with torch.no_grad():\n"
        "            self.bias[self.bias.abs() < 1] = 0\n\n    def forward",
    )
    outcome = (await shared_sandbox.evaluate(evaluation(TASK, source, protocol=protocol))).outcome
    assert isinstance(outcome, WrongResult)
    assert "; parameter `bias` differs from the reference's: values, relative" in outcome.reason
    assert "__init__ has changed what it drew" in outcome.reason


class FakePeer:
    """Lends in an arena of its own, and answers as a worker that holds ``model``."""

    def __init__(self, model: nn.Module) -> None:
        self._model = model
        self._arena = Arena.create(1 << 20, torch.device("cpu"))
        self.largest = 0

    def lend(self, tensors: list[torch.Tensor]) -> list[Spot]:
        self.largest = max(self.largest, sum(t.nbytes for t in tensors))
        spots, _ = place(tensors, 0)
        for tensor, view in zip(tensors, self._arena.views(spots), strict=True):
            view.copy_(tensor)
        return spots

    def ask(self, request: CompareWeights, expected: type[Compared], stage: str) -> Compared:
        return compare_weights(self._model, request, self._arena)


def between(model: nn.Module, other: nn.Module, **options: Any) -> tuple[Unequal, FakePeer]:
    peer = FakePeer(other)
    return differing(model, peer, **{"load": False, **options}), peer  # type: ignore[arg-type]


class Holder(nn.Module):
    def __init__(self, seed: int) -> None:
        super().__init__()
        torch.manual_seed(seed)
        self.weight = nn.Parameter(torch.randn(40, 32))
        self.scalar = nn.Parameter(torch.randn(()))
        self.empty = nn.Parameter(torch.empty(0, 3))
        self.layers = nn.ModuleList([nn.Linear(8, 8)])
        self.tied = self.layers[0].weight
        self.turned = nn.Parameter(torch.randn(6, 5).t())
        self.register_buffer("kept", torch.randn(5, dtype=torch.complex64))
        self.register_buffer("unsaved", torch.randn(5), persistent=False)
        self.register_buffer("count", torch.tensor(seed))


@pytest.fixture
def small_pieces(monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr("gpu_sandbox.verifier.trials.weights._PIECE_BYTES", 512)
    return 512


def test_equal_parameters_do_not_differ(small_pieces: int) -> None:
    found, peer = between(Holder(1), Holder(1))
    assert found == {}
    assert 0 < peer.largest <= small_pieces


def test_each_that_differs_is_named_and_loaded(small_pieces: int) -> None:
    model, other = Holder(1), Holder(2)
    found, _ = between(model, other)
    assert set(found) == {
        "weight", "scalar", "layers.0.weight", "layers.0.bias", "tied", "turned", "kept",
        "unsaved", "count",
    }  # fmt: skip
    assert found["weight"].is_drawn
    assert 1.2 < found["weight"].relative < 1.7
    between(model, other, load=True, only={"weight", "turned", "tied"})
    assert torch.equal(model.weight, other.weight)
    assert torch.equal(model.turned, other.turned)
    assert torch.equal(model.layers[0].weight, other.layers[0].weight)
    assert not torch.equal(model.unsaved, other.unsaved)


def test_what_was_pruned_or_rounded_is_no_other_draw(small_pieces: int) -> None:
    model, pruned, rounded, half = (Holder(1) for _ in range(4))
    with torch.no_grad():
        pruned.weight[20:24] = 0.0
        rounded.weight.copy_(rounded.weight.bfloat16())
    half.weight = nn.Parameter(half.weight.detach().half())
    for other in (pruned, rounded):
        found, _ = between(model, other)
        assert list(found) == ["weight"]
        assert not found["weight"].is_drawn
    assert found["weight"].relative < 0.01
    pruned_found, _ = between(model, pruned)
    assert pruned_found["weight"].same == 36 * 32
    assert between(model, half)[0] == {}


def test_other_shapes_and_names_are_no_difference() -> None:
    other = Holder(1)
    other.weight = nn.Parameter(torch.randn(32, 40))
    del other.turned
    other.extra = nn.Parameter(torch.randn(3))
    assert between(Holder(1), other)[0] == {}
    assert differing(Holder(1), FakePeer(cast("Any", len)), load=False) == {}  # type: ignore[arg-type]


def test_what_a_worker_says_of_others_is_not_heard() -> None:
    class Liar(FakePeer):
        def ask(self, request: CompareWeights, expected: type[Compared], stage: str) -> Compared:
            return Compared(unlike=[Unlike(n, math.nan, -1.0, 1 << 60) for n in (-1, 0, 10**9)])

    found = differing(Holder(1), Liar(Holder(1)), load=False)  # type: ignore[arg-type]
    assert len(found) == 1
    assert "differs from the reference's" in described(found)


def test_many_that_differ_are_counted() -> None:
    one = Difference(elements=4, off=2.0, size=1.0, same=0)
    told = described(dict.fromkeys("abcdef", one))
    assert told.startswith("parameter `a` differs from the reference's: values, relative")
    assert "1.41e+00 (so do `b`, `c`, 3 more); both are constructed under one seed" in told
