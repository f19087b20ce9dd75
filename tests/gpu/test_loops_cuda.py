"""The two times of a verdict on a device: run ``pytest tests/gpu -q -s`` there, it prints them."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.sources import ADD_RELU, as_candidate, candidate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

LARGE = ADD_RELU.replace("(64, 128)", "(8192, 8192)")
CHAIN = ADD_RELU.replace(
    "return torch.relu(a + b)", "return torch.relu(a + b).sin().cos().exp().tanh().sigmoid()"
)
SLEEPS = candidate(
    "time.sleep(0.0005)\nreturn (a + b).relu_().sin_().cos_().exp_().tanh_().sigmoid_()",
    before="import time",
)
COMPILED_ONCE = candidate(
    "if not self.warm:\n    time.sleep(0.4)\n    self.warm = True\nreturn torch.relu(a + b)",
    before="import time",
    init="self.warm = False",
)
GRAPHED = candidate(
    """\
if self.graph is None:
    self.a, self.b = a.clone(), b.clone()
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        torch.relu(self.a + self.b).sin().cos().exp().tanh().sigmoid()
    torch.cuda.current_stream().wait_stream(stream)
    self.graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(self.graph):
        self.out = torch.relu(self.a + self.b).sin().cos().exp().tanh().sigmoid()
self.a.copy_(a)
self.b.copy_(b)
self.graph.replay()
return self.out.clone()""",
    init="self.graph = None",
)
"""Two copies more and a few launches less: faster in a loop, and hardly on the device."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalSandbox]:
    cache = tmp_path_factory.getbasetemp() / "loops-cache"
    async with LocalSandbox(("cuda:0",), limits=Limits(bench_s=1.0), cache=cache) as entered:
        yield entered


async def judge(
    sandbox: LocalSandbox, task: str, source: str, protocol: str = "strict"
) -> tuple[Correct, Verdict]:
    request = EvaluationRequest(
        task_name="t", task_source=task, candidate_source=source, device="cuda:0",
        protocol=protocol, seed=3,
    )  # fmt: skip
    verdict = await sandbox.evaluate(request)
    found = verdict.outcome
    print(f"\n{found}\n{verdict.notes}\n{verdict.timings_s}")
    assert isinstance(found, Correct), found
    assert found.eager_speedup is not None
    assert found.eager_low is not None
    assert found.eager_high is not None
    assert found.eager_low <= found.eager_speedup <= found.eager_high
    return found, verdict


async def test_a_host_that_sleeps_is_seen_in_a_loop_alone(sandbox: LocalSandbox) -> None:
    outcome, verdict = await judge(sandbox, CHAIN, SLEEPS)
    assert outcome.speedup == pytest.approx(1.0, abs=0.35), "six kernels on both sides"
    assert outcome.eager_speedup is not None
    assert outcome.eager_speedup < 0.3
    assert outcome.eager_ms is not None
    assert outcome.eager_ms > 0.5
    assert ("host-bound" in outcome.labels) == (outcome.ratio_high < 1), verdict.notes


async def test_a_kernel_that_saves_a_little_and_sleeps_is_host_bound(
    sandbox: LocalSandbox,
) -> None:
    """In place: less memory to pass than the reference's, so certainly faster on the device."""
    source = candidate("time.sleep(0.001)\nreturn (a + b).relu_()", before="import time")
    task = LARGE.replace("torch.relu(a + b)", "torch.relu(a + b).clone()")
    outcome, verdict = await judge(sandbox, task, source)
    assert outcome.ratio_high < 1
    assert "host-bound" in outcome.labels
    assert any(note.startswith("host-bound: ") for note in verdict.notes)


@pytest.mark.parametrize("protocol", ["strict", "kernelbench", "paper"])
async def test_the_reference_itself_is_as_fast_in_a_loop(
    sandbox: LocalSandbox, protocol: str
) -> None:
    outcome, _ = await judge(sandbox, CHAIN, as_candidate(CHAIN), protocol)
    assert outcome.eager_speedup == pytest.approx(1.0, abs=0.15)
    assert "host-bound" not in outcome.labels


async def test_calls_that_last_take_the_same_in_both(sandbox: LocalSandbox) -> None:
    outcome, _ = await judge(sandbox, LARGE, candidate("return (a + b).relu_()"))
    assert outcome.eager_speedup == pytest.approx(outcome.speedup, rel=0.1)


async def test_a_graph_is_faster_in_a_loop(sandbox: LocalSandbox) -> None:
    outcome, _ = await judge(sandbox, CHAIN, GRAPHED)
    assert outcome.eager_speedup is not None
    assert outcome.eager_speedup > outcome.speedup


async def test_a_first_call_that_compiles_is_told(sandbox: LocalSandbox) -> None:
    outcome, verdict = await judge(sandbox, ADD_RELU, COMPILED_ONCE)
    assert outcome.first_call_ms is not None
    assert outcome.first_call_ms > 400
    assert any(note.startswith("its first call took ") for note in verdict.notes)


async def test_loops_take_little_of_the_lease(sandbox: LocalSandbox) -> None:
    """A fifth of a second, and what comparing their outputs takes."""
    _, verdict = await judge(sandbox, ADD_RELU, candidate("return torch.relu(a + b)"))
    assert verdict.timings_s["bench"] < 3.0
