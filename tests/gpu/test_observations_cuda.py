"""What is observed of CUDA candidates on a device: kernels, rates, counters.

``pytest tests/gpu/test_observations_cuda.py -q -s`` prints what an agent would read, and what
looking cost.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.observations import MEASURED
from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.cuda import CUDA
from gpu_sandbox.backends.nsight_compute import refusal
from gpu_sandbox.diagnose.tool_run import unconnected
from gpu_sandbox.sandbox import LocalSandbox
from projections.candidate.roofline import roofline
from projections.candidate.sections import Attempt, sections_of
from tests.gpu_sandbox.sources import ADD_RELU, LINEAR, as_candidate, candidate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

LARGE = ADD_RELU.replace("(64, 128)", "(8192, 8192)")
MATMUL = LINEAR.replace("torch.rand(64, 128)", "torch.rand(8192, 4096)").replace(
    "return [128]", "return [4096]"
)
SHARE = 1.0
"""Of the lease: how much a first profile takes is printed, not what is tested."""


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalSandbox]:
    limits = Limits(bench_s=1.0, observe_share=SHARE, counters_s=60.0)
    cache = tmp_path_factory.getbasetemp() / "observing-cache"
    async with LocalSandbox(("cuda:0",), limits=limits, cache=cache) as entered:
        yield entered


async def judge(sandbox: LocalSandbox, task: str, source: str, number: int = 0) -> Verdict:
    request = EvaluationRequest(
        task_name="t",
        task_source=task,
        candidate_source=source,
        device="cuda:0",
        protocol="strict",
        seed=number,
        observe=MEASURED,
    )
    verdict = await sandbox.evaluate(request)
    outcome = verdict.outcome
    runtime_ms = outcome.runtime_ms if isinstance(outcome, Correct) else None
    attempt = Attempt(
        outcome=outcome, runtime_ms=runtime_ms, observations=verdict.observations,
        run_log=verdict.run_log,
    )  # fmt: skip
    print(f"\n{verdict.timings_s}")
    for section in sections_of(attempt):
        print(f"--- {section.name} ---\n{section.said}\n{section.quoted}")
    assert isinstance(outcome, Correct), outcome
    return verdict


async def test_kernels_and_bandwidth_of_an_elementwise_module(sandbox: LocalSandbox) -> None:
    verdict = await judge(sandbox, LARGE, candidate("return torch.relu(a + b)"))
    seen, outcome = verdict.observations, verdict.outcome
    assert seen is not None
    assert seen.work is not None
    assert seen.work.moved_bytes == 3 * 4 * 8192**2
    assert seen.profile is not None, seen.missing
    assert seen.profile.what == "kernels"
    assert sum(row.count for row in seen.profile.rows) == 2 * seen.profile.calls
    assert seen.ceilings is not None, seen.missing
    assert isinstance(outcome, Correct)
    # It moves five thirds of what is counted, and no kernel is faster than the memory.
    share = roofline(seen.work, seen.ceilings, outcome.runtime_ms).bytes_share
    assert share is not None
    assert 0.2 < share < 0.75


async def test_operations_of_a_matrix_product(sandbox: LocalSandbox) -> None:
    verdict = await judge(sandbox, MATMUL, as_candidate(MATMUL))
    seen, outcome = verdict.observations, verdict.outcome
    assert seen is not None
    assert seen.work is not None
    assert seen.work.flops == 2 * 8192 * 4096**2
    assert seen.ceilings is not None, seen.missing
    assert set(seen.ceilings.flops_per_s) == {"float32", "tf32", "float16", "bfloat16"}
    assert isinstance(outcome, Correct)
    found = roofline(seen.work, seen.ceilings, outcome.runtime_ms)
    assert found.bound == "compute"
    assert found.flops_share is not None
    assert 0.4 < found.flops_share < 1.1


async def test_what_looking_takes_of_a_short_lease(sandbox: LocalSandbox) -> None:
    """Printed, for docs/observations.md: the first profile of a process loads CUPTI."""
    for number in range(3):
        verdict = await judge(sandbox, ADD_RELU, candidate("return torch.relu(a + b)"), number)
        timings = verdict.timings_s
        judged = timings["check"] + timings["bench"]
        print(f"observe {timings['observe']:.3f} s, {timings['observe'] / judged:.0%} of judging")
        seen = verdict.observations
        assert seen is not None
        assert (seen.profile is None) == ("profile" in seen.missing)


async def _meeting(sandbox: LocalSandbox) -> str:
    return "" if await sandbox._open.extra_run.can_meet() else unconnected(CUDA.tools.connect)


async def test_counters_or_why_there_are_none(sandbox: LocalSandbox) -> None:
    verdict = await judge(sandbox, LARGE, candidate("return torch.relu(a + b)"))
    seen = verdict.observations
    assert seen is not None
    refused = await _meeting(sandbox) or refusal()
    if refused:
        assert seen.counters is None
        assert seen.missing["counters"] == refused
        pytest.skip(refused)
    assert seen.counters is not None, seen.missing
    names = {counter.name for counter in seen.counters.counters}
    assert {"dram throughput", "sm throughput", "achieved occupancy", "top stall"} <= names
