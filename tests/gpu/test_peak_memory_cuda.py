"""Peak memory on a device, by the driver's account of each worker's processes.

``-s`` prints figures. Skipped where the driver does not show this machine's processes.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu.test_sandbox_cuda import CUDA, LARGE, SMALL, candidate, inline

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

MB = 1 << 20
SLACK = 64 * MB
"""Segments of torch's allocator, and code that is loaded with the first call."""
GRAIN = 4 * MB
"""What the driver gives is a multiple of 2 MB, and so is what is taken off for outputs."""
HONEST = candidate("return torch.relu(a + b)")
KEPT = candidate(
    "if not hasattr(self, 'work'):\n"
    "    self.work = torch.empty(256 << 20, dtype=torch.uint8, device=a.device)\n"
    "return torch.relu(a + b)"
)
HELD = CUDA.replace(
    "  auto out = torch::empty_like(a);",
    "  static void* work = nullptr;\n"
    "  if (!work) C10_CUDA_CHECK(cudaMalloc(&work, 256 << 20));\n"
    "  auto out = torch::empty_like(a);",
)
PASSING = CUDA.replace(
    "  auto out = torch::empty_like(a);",
    "  void* work = nullptr;\n"
    "  C10_CUDA_CHECK(cudaMalloc(&work, 256 << 20));\n"
    "  C10_CUDA_CHECK(cudaFree(work));\n"
    "  auto out = torch::empty_like(a);",
)


@pytest.fixture(scope="module")
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="module")
async def sandbox(
    tmp_path_factory: pytest.TempPathFactory, anyio_backend: str
) -> AsyncIterator[LocalSandbox]:
    cache = tmp_path_factory.getbasetemp() / "memory-cache"
    async with LocalSandbox(("cuda:0",), limits=Limits(bench_s=0.5), cache=cache) as entered:
        yield entered


async def peaks(sandbox: LocalSandbox, told: str, task: str, source: str) -> tuple[int, int]:
    request = EvaluationRequest(
        task_name="t", task_source=task, candidate_source=source, device="cuda:0",
        protocol="strict", seed=7,
    )  # fmt: skip
    began = time.monotonic()
    verdict = await sandbox.evaluate(request)
    outcome = verdict.outcome
    assert isinstance(outcome, Correct), outcome
    print(f"\n{told}: {outcome.peak_bytes}, reference {outcome.reference_peak_bytes};"
          f" {time.monotonic() - began:.1f} s, {verdict.timings_s}")  # fmt: skip
    if outcome.peak_bytes is None or outcome.reference_peak_bytes is None:
        pytest.skip("the driver does not show these processes by this machine's numbers")
    return outcome.peak_bytes, outcome.reference_peak_bytes


async def test_an_honest_twin_needs_what_the_reference_needs(sandbox: LocalSandbox) -> None:
    for task in (SMALL, LARGE):  # the second one in the same worker of the reference
        peak, reference = await peaks(sandbox, "honest", task, HONEST)
        assert abs(peak - reference) < SLACK


async def test_what_the_reference_allocates_within_a_call_is_seen(sandbox: LocalSandbox) -> None:
    peak, reference = await peaks(sandbox, "fused", LARGE, inline(CUDA))
    assert 200 * MB < reference < 256 * MB + SLACK, "the sum, beside the output"
    assert peak < SLACK


@pytest.mark.parametrize("source", [KEPT, inline(HELD)], ids=["torch.empty", "cudaMalloc"])
async def test_a_workspace_since_the_first_call_counts(sandbox: LocalSandbox, source: str) -> None:
    peak, reference = await peaks(sandbox, "kept", SMALL, source)
    assert 256 * MB - GRAIN <= peak < 256 * MB + SLACK
    assert reference < SLACK


async def test_what_is_given_back_within_the_call_is_caught_by_readings(
    sandbox: LocalSandbox,
) -> None:
    """By those that fall between both: most, as the two calls take longest."""
    peak, _ = await peaks(sandbox, "given back", SMALL, inline(PASSING))
    assert peak >= 256 * MB - GRAIN
