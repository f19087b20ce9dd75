"""What becomes of candidates that leave parameters out which a new module holds as ones or zeros,
and of those that hold them in another way."""

from __future__ import annotations

import pytest

from events.outcomes import Correct, WrongResult
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.conftest import evaluation

pytestmark = [pytest.mark.anyio, pytest.mark.process]

HEAD = "import torch\nimport torch.nn as nn\nimport torch.nn.functional as F\n\n\n"
INIT = "    def __init__(self):\n        super().__init__()\n"

LAYER_NORM = ("self.norm = nn.LayerNorm(48)", "return self.norm(x)", "32, 48")
GROUP_NORM = ("self.norm = nn.GroupNorm(4, 16)", "return self.norm(x)", "4, 16, 9")
BATCH_NORM = (
    "self.conv = nn.Conv2d(4, 8, 3)\nself.norm = nn.BatchNorm2d(8).eval()",
    "return self.norm(self.conv(x))",
    "2, 4, 9, 9",
)
TEMPERED = ("self.temperature = nn.Parameter(torch.ones(1))", "return x * self.temperature", "9, 7")
SCALED = (
    "self.linear = nn.Linear(24, 24)\nself.scale = nn.Parameter(torch.full((24,), 0.1))",
    "return self.linear(x) * self.scale",
    "16, 24",
)
TWO_NORMS = (
    "self.a = nn.LayerNorm(24)\nself.linear = nn.Linear(24, 24)\nself.b = nn.LayerNorm(24)",
    "return self.b(self.linear(self.a(x)))",
    "16, 24",
)
RUNNING = "self.norm = nn.BatchNorm2d(8)", "return self.norm(x)", "4, 8, 6, 6"


def module(name: str, init: str, forward: str) -> str:
    def lines(text: str) -> str:
        return "".join(f"        {line}\n" for line in text.splitlines())

    head = f"class {name}(nn.Module):\n{INIT}"
    return f"{head}{lines(init)}\n    def forward(self, x):\n{lines(forward)}"


def task_of(init: str, forward: str, shape: str) -> str:
    made = f"\n\ndef get_inputs():\n    return [torch.randn({shape})]\n"
    return HEAD + module("Model", init, forward) + made


def new(init: str, forward: str) -> str:
    return HEAD + module("ModelNew", init, forward)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.mark.parametrize(
    ("task", "init", "forward", "named"),
    [
        (
            LAYER_NORM,
            "self.n = 48",
            "return F.layer_norm(x, (48,))",
            "s `norm.weight`, `norm.bias`",
        ),
        (
            LAYER_NORM,
            "self.bias = nn.Parameter(torch.zeros(48))",
            "return F.layer_norm(x, (48,), None, self.bias)",
            " `norm.weight`",
        ),
        (
            LAYER_NORM,
            "self.norm = nn.LayerNorm(48)",
            "return F.layer_norm(x, (48,), torch.ones(48), self.norm.bias)",
            " `norm.weight`",
        ),
        (
            GROUP_NORM,
            "self.w = nn.Parameter(torch.ones(16))",
            "return F.group_norm(x, 4, self.w)",
            " `norm.bias`",
        ),
        (
            BATCH_NORM,
            "self.conv = nn.Conv2d(4, 8, 3)\nself.norm = nn.BatchNorm2d(8).eval()",
            "y = self.conv(x) / (1 + 1e-5) ** 0.5\n"
            "return y * self.norm.weight[:, None, None] + self.norm.bias[:, None, None]",
            "s `norm.running_mean`, `norm.running_var`",
        ),
        (TEMPERED, "pass", "return x.clone()", " `temperature`"),
        (SCALED, "self.linear = nn.Linear(24, 24)", "return self.linear(x) * 0.1", " `scale`"),
        (
            TWO_NORMS,
            "self.a = nn.LayerNorm(24)\nself.linear = nn.Linear(24, 24)\nself.b = nn.LayerNorm(24)",
            "y = self.linear(F.layer_norm(x, (24,), None, self.a.bias))\n"
            "return F.layer_norm(y, (24,), self.b.weight, None)",
            "s `a.weight`, `b.bias`",
        ),
    ],
    ids=["both", "weight", "ones", "bias", "statistics", "scalar", "scale", "two of four"],
)
async def test_what_leaves_a_parameter_out_is_wrong(
    shared_sandbox: LocalSandbox, task: tuple[str, str, str], init: str, forward: str, named: str
) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(task_of(*task), new(init, forward)))
    assert isinstance(verdict.outcome, WrongResult), verdict
    reason = verdict.outcome.reason
    assert reason.startswith(f"does not use parameter{named}: "), reason
    assert "parameters as a trained module holds them" in reason


FOLDED = """self.conv = nn.Conv2d(4, 8, 3)
norm = nn.BatchNorm2d(8)
scale = norm.weight / (norm.running_var + norm.eps).sqrt()
with torch.no_grad():
    self.conv.weight.mul_(scale[:, None, None, None])
    self.conv.bias.copy_((self.conv.bias - norm.running_mean) * scale + norm.bias)"""


@pytest.mark.parametrize(
    ("task", "init", "forward"),
    [
        (LAYER_NORM, "self.ln = nn.LayerNorm(48)", "return self.ln(x)"),
        (
            LAYER_NORM,
            "self.b = nn.Parameter(torch.zeros(1, 48))\nself.w = nn.Parameter(torch.ones(1, 48))",
            "return F.layer_norm(x, (48,)) * self.w + self.b",
        ),
        (
            LAYER_NORM,
            "norm = nn.LayerNorm(48)\n"
            "self.register_buffer('packed', torch.stack([norm.weight, norm.bias]).detach())",
            "return F.layer_norm(x, (48,), self.packed[0], self.packed[1])",
        ),
        (
            LAYER_NORM,
            "self.register_buffer('w', torch.ones(48))\nself.b = torch.zeros(48)",
            "return F.layer_norm(x, (48,), self.w, self.b)",
        ),
        (
            LAYER_NORM,
            "self.norm = nn.LayerNorm(48)\nself.register_buffer('ones', torch.ones(48))",
            "return self.norm(x * self.ones)",
        ),
        (
            GROUP_NORM,
            "self.scale = nn.Parameter(torch.empty(16))\n"
            "self.shift = nn.Parameter(torch.empty(16))\n"
            "nn.init.ones_(self.scale)\nnn.init.zeros_(self.shift)",
            "return F.group_norm(x, 4, self.scale, self.shift)",
        ),
        (BATCH_NORM, FOLDED, "return self.conv(x)"),
        (
            SCALED,
            "linear = nn.Linear(24, 24)\nscale = nn.Parameter(torch.ones(24) * 0.1)\n"
            "self.w = (linear.weight * scale[:, None]).detach()\n"
            "self.b = (linear.bias * scale).detach()",
            "return F.linear(x, self.w, self.b)",
        ),
        (
            TWO_NORMS,
            "self.last = nn.LayerNorm(24)\nself.linear = nn.Linear(24, 24)\n"
            "self.first = nn.LayerNorm(24)",
            "return self.last(self.linear(self.first(x)))",
        ),
        (TEMPERED, "self.t = float(nn.Parameter(torch.ones(1)))", "return x * self.t"),
        (RUNNING, "self.bn = nn.BatchNorm2d(8)", "return self.bn(x)"),
        (
            RUNNING,
            "self.w, self.b = nn.Parameter(torch.ones(8)), nn.Parameter(torch.zeros(8))",
            "return F.batch_norm(x, None, None, self.w, self.b, training=True)",
        ),
    ],
    ids=[
        "renamed", "other shape", "packed", "buffers", "ones of its own", "init", "folded",
        "scale folded", "another order", "scalar", "training", "no running statistics",
    ],
)  # fmt: skip
async def test_who_holds_them_otherwise_is_correct(
    shared_sandbox: LocalSandbox, task: tuple[str, str, str], init: str, forward: str
) -> None:
    verdict = await shared_sandbox.evaluate(evaluation(task_of(*task), new(init, forward)))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "constant-parameters" not in verdict.outcome.labels


async def test_where_it_can_not_be_arranged_a_label_says_so(shared_sandbox: LocalSandbox) -> None:
    once = "assert not made, 'once only'\nmade.append(1)\nself.norm = nn.LayerNorm(48)"
    source = "made = []\n" + new(once, "return self.norm(x)")
    verdict = await shared_sandbox.evaluate(evaluation(task_of(*LAYER_NORM), source))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "constant-parameters" in verdict.outcome.labels
    (why,) = [note for note in verdict.notes if note.startswith("constant-parameters: ")]
    assert why.startswith("constant-parameters: `norm.weight`, `norm.bias`: ")
    assert "a second ModelNew(...) fails: AssertionError: once only" in why


@pytest.mark.parametrize("protocol", ["kernelbench", "paper"])
async def test_other_protocols_have_no_such_trial(
    shared_sandbox: LocalSandbox, protocol: str
) -> None:
    source = new("pass", "return F.layer_norm(x, (48,))")
    asked = evaluation(task_of(*LAYER_NORM), source, protocol=protocol)
    outcome = (await shared_sandbox.evaluate(asked)).outcome
    assert isinstance(outcome, Correct)
    assert "constant-parameters" not in outcome.labels


async def test_where_the_reference_is_not_finite_with_others_a_label_says_so(
    shared_sandbox: LocalSandbox,
) -> None:
    # A trained module's weights are of either sign; of 64 not all are positive.
    task = ("self.w = nn.Parameter(torch.zeros(64))", "return x + self.w.sqrt() * 0", "9, 64")
    verdict = await shared_sandbox.evaluate(evaluation(task_of(*task), new(*task[:2])))
    assert isinstance(verdict.outcome, Correct), verdict
    assert "constant-parameters" in verdict.outcome.labels


async def test_what_is_wrong_with_others_alone_is_said_to_be_so(
    shared_sandbox: LocalSandbox,
) -> None:
    source = new("self.norm = nn.LayerNorm(48)", "return self.norm(x) + self.norm.weight - 1")
    outcome = (await shared_sandbox.evaluate(evaluation(task_of(*LAYER_NORM), source))).outcome
    assert isinstance(outcome, WrongResult)
    assert "it was right with parameters as a new module holds them" in outcome.reason
    assert "(trial 14: parameters as a trained module holds them)" in outcome.reason
