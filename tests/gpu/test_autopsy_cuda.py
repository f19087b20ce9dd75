"""What an agent learns of CUDA candidates, on a device: resources, memcheck, racecheck.

``pytest tests/gpu/test_autopsy_cuda.py -q -s`` prints what it would read.
"""

from __future__ import annotations

import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.outcomes import Correct, Crashed
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.backends.cuda import CUDA
from gpu_sandbox.diagnose.tool_run import unconnected
from gpu_sandbox.sandbox import LocalSandbox
from gpu_sandbox.toolchain.prerequisites import cuda_home
from projections.candidate.resources import resources_table
from tests.gpu_sandbox.sources import ADD_RELU, candidate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

KERNEL = """
__global__ void add_relu_kernel(const float* a, const float* b, float* out, int n) {
  __shared__ float tile[256];
  int i = blockIdx.x * blockDim.x + threadIdx.x;
  tile[threadIdx.x] = i < n ? a[i] + b[i] : 0.0f;
  __syncthreads();
  if (i < n) out[i] = fmaxf(tile[threadIdx.x], 0.0f);
}

torch::Tensor add_relu(torch::Tensor a, torch::Tensor b) {
  auto out = torch::empty_like(a);
  int n = a.numel();
  add_relu_kernel<<<(n + 255) / 256, 256>>>(
      a.data_ptr<float>(), b.data_ptr<float>(), out.data_ptr<float>(), n);
  return out;
}
"""
TASK = ADD_RELU.replace("(64, 128)", "(2048, 2048)")


def inline_cuda(kernel: str) -> str:
    return candidate(
        "out = self.ext.add_relu(a, b)\ntorch.cuda.synchronize()\nreturn out",
        before=(
            "from torch.utils.cpp_extension import load_inline\n\n"
            'CPP = "torch::Tensor add_relu(torch::Tensor a, torch::Tensor b);"\n'
            f'CUDA = """{kernel}"""\n'
            'EXT = load_inline(name="add_relu", cpp_sources=CPP, cuda_sources=CUDA,'
            ' functions=["add_relu"])'
        ),
        init="self.ext = EXT",
    )


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
async def sandbox(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[LocalSandbox]:
    limits = Limits(bench_s=0.5, autopsy_s=60.0, sanitize=True)
    cache = tmp_path_factory.getbasetemp() / "autopsy-cache"
    async with LocalSandbox(("cuda:0",), limits=limits, cache=cache) as entered:
        yield entered


async def judge(sandbox: LocalSandbox, source: str) -> Verdict:
    request = EvaluationRequest(
        task_name="t",
        task_source=TASK,
        candidate_source=source,
        device="cuda:0",
        protocol="strict",
        seed=7,
    )
    verdict = await sandbox.evaluate(request)
    print(f"\n{verdict.outcome}\n{verdict.timings_s}\n{verdict.compile_log}\n{verdict.run_log}")
    print(resources_table(verdict.resources), verdict.notes)
    return verdict


def has_sanitizer() -> bool:
    home = cuda_home()
    return bool(
        shutil.which("compute-sanitizer")
        or (home is not None and shutil.which(home / "bin" / "compute-sanitizer"))
    )


needs_sanitizer = pytest.mark.skipif(not has_sanitizer(), reason="no compute-sanitizer")


async def test_a_verdict_says_what_kernels_take_also_when_the_build_is_reused(
    sandbox: LocalSandbox,
) -> None:
    for _ in range(2):
        verdict = await judge(sandbox, inline_cuda(KERNEL))
        assert isinstance(verdict.outcome, Correct), verdict
        (kernel,) = verdict.resources
        assert kernel.kernel == "add_relu_kernel"
        assert 4 < kernel.registers < 64
        assert (kernel.shared_bytes, kernel.spill_bytes, kernel.stack_bytes) == (1024, 0, 0)
        assert not any("not sound" in note for note in verdict.notes)
    assert "compiled before: build reused" in verdict.notes


@needs_sanitizer
async def test_an_illegal_address_is_told_with_its_kernel_and_line(sandbox: LocalSandbox) -> None:
    source = inline_cuda(KERNEL.replace("out[i] =", "out[i + (1 << 30)] ="))
    verdict = await judge(sandbox, source)
    assert isinstance(verdict.outcome, Crashed)
    if not await sandbox._open.extra_run.can_meet():
        assert not verdict.run_log.startswith("memcheck")
        pytest.skip(unconnected(CUDA.tools.connect))
    line = next(n for n, text in enumerate(source.splitlines(), 1) if "1 << 30" in text)
    head, found, *_ = verdict.run_log.splitlines()
    assert head.startswith("memcheck")
    assert "Invalid __global__ write of size 4 bytes" in found
    assert "add_relu_kernel" in found
    assert f"candidate.py:{line}" in found


@needs_sanitizer
async def test_a_race_in_a_new_best_is_noted(sandbox: LocalSandbox) -> None:
    racing = KERNEL.replace("  __syncthreads();\n", "").replace(
        "fmaxf(tile[threadIdx.x], 0.0f)",
        "fmaxf(tile[threadIdx.x] + 0.0f * tile[threadIdx.x ^ 128], 0.0f)",
    )
    verdict = await judge(sandbox, inline_cuda(racing))
    if isinstance(verdict.outcome, Correct) and verdict.outcome.speedup > 1:
        assert any("racecheck" in note for note in verdict.notes), verdict.notes
