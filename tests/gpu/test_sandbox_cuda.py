"""The sandbox on a real CUDA device: run ``pytest tests/gpu -q -s`` there, it prints figures."""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import anyio
import msgspec
import pytest

from events.outcomes import CompileFailed, Correct, Crashed, TimedOut, WrongResult
from gpu_sandbox.api.evaluator import (
    BaselineRequest,
    EvaluationRequest,
    SandboxFault,
    TaskUnusable,
    Verdict,
)
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.doctor.checks import examine
from gpu_sandbox.sandbox import LocalSandbox

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

TASK = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def forward(self, a, b):
        return torch.relu(a + b)


def get_inputs():
    return [torch.randn(SIZE, 4096), torch.randn(SIZE, 4096)]


def get_init_inputs():
    return []
"""
SMALL = TASK.replace("SIZE", "1024")
LARGE = TASK.replace("SIZE", "16384")

MATMUL = """
import torch
import torch.nn as nn


class Model(nn.Module):
    def __init__(self, n):
        super().__init__()
        self.linear = nn.Linear(n, n)
        self.drop = nn.Dropout(0.1)

    def forward(self, x, index):
        return {"y": self.drop(self.linear(x)), "rows": (x[index], index + 1)}


def get_inputs():
    return [torch.rand(512, 1024), torch.randint(0, 512, (7,))]


def get_init_inputs():
    return [1024]
"""

CUDA = r"""
#include <torch/extension.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/cuda/CUDAException.h>

__global__ void add_relu_kernel(const float4* a, const float4* b, float4* out, int64_t n) {
  int64_t i = blockIdx.x * int64_t(blockDim.x) + threadIdx.x;
  if (i < n) {
    float4 x = a[i], y = b[i];
    out[i] = make_float4(fmaxf(x.x + y.x, 0.f), fmaxf(x.y + y.y, 0.f),
                         fmaxf(x.z + y.z, 0.f), fmaxf(x.w + y.w, 0.f));
  }
}

torch::Tensor add_relu(torch::Tensor a, torch::Tensor b) {
  TORCH_CHECK(a.is_cuda() && a.is_contiguous(), "a must be contiguous on CUDA");
  auto out = torch::empty_like(a);
  int64_t n = a.numel() / 4;
  auto stream = c10::cuda::getCurrentCUDAStream();
  add_relu_kernel<<<(n + 255) / 256, 256, 0, stream>>>(
      reinterpret_cast<const float4*>(a.data_ptr<float>()),
      reinterpret_cast<const float4*>(b.data_ptr<float>()),
      reinterpret_cast<float4*>(out.data_ptr<float>()), n);
  C10_CUDA_KERNEL_LAUNCH_CHECK();
  return out;
}
"""


def candidate(forward: str, before: str = "") -> str:
    body = "\n".join(f"        {line}" for line in forward.splitlines())
    return (
        f"import torch\nimport torch.nn as nn\n{before}\n\n\n"
        f"class ModelNew(nn.Module):\n    def forward(self, a, b):\n{body}\n"
    )


def inline(cuda: str) -> str:
    build = (
        "from torch.utils.cpp_extension import load_inline\n\n"
        f'CUDA = r"""{cuda}"""\n'
        'CPP = "torch::Tensor add_relu(torch::Tensor a, torch::Tensor b);"\n'
        'EXT = load_inline(name="add_relu", cpp_sources=CPP, cuda_sources=CUDA,\n'
        '                  functions=["add_relu"])\n'
    )
    return candidate("return EXT.add_relu(a, b)", build)


ENDLESS = CUDA.replace(
    "int64_t i =", "while (a[0].x < 1e30f) { __nanosleep(1000); }\n  int64_t i ="
)
ILLEGAL = CUDA.replace("out[i] = make", "out[i + (int64_t(1) << 40)] = make")

TRITON = candidate(
    "out = torch.empty_like(a)\n"
    "n = a.numel()\n"
    "kernel[(triton.cdiv(n, 1024),)](a, b, out, n, BLOCK=1024)\n"
    "return out",
    before="""
import triton
import triton.language as tl


@triton.jit
def kernel(a, b, out, n, BLOCK: tl.constexpr):
    where = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = where < n
    x = tl.load(a + where, mask=inside) + tl.load(b + where, mask=inside)
    tl.store(out + where, tl.maximum(x, 0.0), mask=inside)
""",
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def cuda_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda-cache")


@pytest.fixture
def make_sandbox(cuda_cache: Path) -> Callable[[Limits], LocalSandbox]:
    return lambda limits: LocalSandbox(("cuda:0",), limits=limits, cache=cuda_cache)


@pytest.fixture
async def sandbox(make_sandbox: Callable[[Limits], LocalSandbox]) -> AsyncIterator[LocalSandbox]:
    async with make_sandbox(Limits(bench_s=1.0)) as entered:
        yield entered


def request(task: str, source: str, protocol: str = "strict", seed: int = 5) -> EvaluationRequest:
    return EvaluationRequest(
        task_name="t",
        task_source=task,
        candidate_source=source,
        device="cuda:0",
        protocol=protocol,
        seed=seed,
    )


def tell(name: str, verdict: Verdict, began: float) -> None:
    timings = {k: round(v, 2) for k, v in verdict.timings_s.items()}
    print(f"\n{name}: {time.monotonic() - began:.1f} s {timings} {verdict.notes}")
    print(f"  {verdict.outcome}")
    for log in (verdict.compile_log, verdict.run_log):
        if log:
            print("  | " + log[:1500].replace("\n", "\n  | "))


async def judge(sandbox: LocalSandbox, name: str, asked: EvaluationRequest) -> Verdict:
    began = time.monotonic()
    verdict = await sandbox.evaluate(asked)
    tell(name, verdict, began)
    return verdict


async def test_the_doctor_and_the_fingerprint(sandbox: LocalSandbox) -> None:
    checks = await examine(("cuda:0",))
    for check in checks:
        print(f"\n{'ok ' if check.ok else 'NO '} {check.name}: {check.detail}", end="")
    assert [check.ok for check in checks if check.name == "gates cuda:0"] == [True]
    facts = await sandbox.fingerprint("cuda:0")
    print(f"\n{facts}")
    assert facts["kind"] == "cuda"
    assert facts["sm_count"] > 0
    assert facts["l2_bytes"] > 0
    assert facts["memory_bytes"] > 0
    assert facts["driver"]


@pytest.mark.parametrize("task", [SMALL, LARGE, MATMUL], ids=["small", "large", "matmul"])
async def test_a_baseline(sandbox: LocalSandbox, task: str) -> None:
    found = await sandbox.baseline(
        BaselineRequest(task_name="t", task_source=task, device="cuda:0", protocol="strict", seed=1)
    )
    print(f"\n{found}")
    assert found.runtime_ms > 0
    assert found.spread < (2.0 if task is MATMUL else 0.5)  # five launches: the host's, too


@pytest.mark.parametrize("protocol", ["strict", "kernelbench", "paper"])
async def test_the_reference_against_itself(sandbox: LocalSandbox, protocol: str) -> None:
    """A/A: the ratio must be one. The other protocols take means, and the mean of 100 launches of
    some microseconds is whatever the host did meanwhile: theirs may be one, for all they know."""
    for name, task in (("small", SMALL), ("large", LARGE), ("matmul", MATMUL)):
        source = task.replace("class Model(", "class ModelNew(")
        verdict = await judge(sandbox, f"A/A {protocol} {name}", request(task, source, protocol))
        found = verdict.outcome
        assert isinstance(found, Correct)
        if protocol == "strict":
            assert found.ratio == pytest.approx(1.0, abs=0.1)
        else:
            assert found.ratio_low < 1.25
            assert found.ratio_high > 0.8


async def test_a_a_error_repeats(sandbox: LocalSandbox) -> None:
    source = LARGE.replace("class Model(", "class ModelNew(")
    ratios = []
    for seed in range(5):
        outcome = (await sandbox.evaluate(request(LARGE, source, seed=seed))).outcome
        assert isinstance(outcome, Correct)
        ratios.append(outcome.ratio)
    print(f"\nA/A ratios of 256 MB add+relu: {[round(r, 4) for r in ratios]}")
    assert abs(statistics.median(ratios) - 1) < 0.02


async def test_inline_cuda_is_built_with_the_slim_headers_and_cached(
    sandbox: LocalSandbox,
) -> None:
    verdict = await judge(sandbox, "inline CUDA", request(LARGE, inline(CUDA)))
    assert isinstance(verdict.outcome, Correct)
    assert not any("full torch headers" in note for note in verdict.notes)
    assert not any("under the lease" in note for note in verdict.notes)
    assert verdict.outcome.ratio < 0.85
    again = await judge(sandbox, "inline CUDA again", request(LARGE, inline(CUDA)))
    assert isinstance(again.outcome, Correct)
    assert again.timings_s["compile"] < 1.0


async def test_a_cuda_error_names_the_candidates_line(sandbox: LocalSandbox) -> None:
    source = inline(CUDA.replace("blockDim.x", "blockDimm.x"))
    verdict = await judge(sandbox, "CUDA error", request(SMALL, source))
    assert isinstance(verdict.outcome, CompileFailed)
    assert "blockDimm" in verdict.outcome.reason
    assert "candidate.py:" in verdict.outcome.reason


@pytest.mark.skipif(importlib.util.find_spec("triton") is None, reason="no triton")
async def test_triton(sandbox: LocalSandbox) -> None:
    verdict = await judge(sandbox, "triton", request(LARGE, TRITON))
    assert isinstance(verdict.outcome, Correct)
    assert verdict.outcome.ratio < 0.85


async def test_torch_compile(sandbox: LocalSandbox) -> None:
    source = candidate("return fast(a, b)", "fast = torch.compile(lambda a, b: torch.relu(a + b))")
    verdict = await judge(sandbox, "torch.compile", request(LARGE, source))
    assert isinstance(verdict.outcome, Correct)


async def test_wrong_results(sandbox: LocalSandbox) -> None:
    for forward, reason in (
        ("return a + b", "relative L2"),
        ("return torch.relu(a + b).cpu()", "it lies on cpu"),
        ("return a.add_(b).relu_()", "shares memory"),
        ("return torch.relu(a.bfloat16() + b.bfloat16()).float()", "relative L2"),
        ("return torch.empty_like(a)", ""),
        ("return KEPT.setdefault(a.shape, torch.relu(a + b))", "the output of an earlier call"),
    ):
        source = candidate(forward, "KEPT = {}")
        verdict = await judge(sandbox, forward, request(SMALL, source))
        assert isinstance(verdict.outcome, WrongResult)
        assert reason in verdict.outcome.reason


async def test_a_correct_verdict_says_its_error_and_its_bound(sandbox: LocalSandbox) -> None:
    forward = "return torch.relu(a + b) * (1 + 1e-6)"
    verdict = await judge(sandbox, forward, request(SMALL, candidate(forward)))
    assert isinstance(verdict.outcome, Correct)
    assert verdict.outcome.error is not None
    assert verdict.outcome.error_bound is not None
    assert 0 < verdict.outcome.error < verdict.outcome.error_bound
    assert verdict.outcome.trial is not None


async def test_a_type_error_in_cuda_is_reported_at_once(sandbox: LocalSandbox) -> None:
    """Torch's own headers, which can't cure it, would take a minute."""
    source = inline(CUDA.replace("  return out;", "  torch::Tensor* other = out;\n  return out;"))
    verdict = await judge(sandbox, "missing &", request(SMALL, source))
    assert isinstance(verdict.outcome, CompileFailed)
    assert "candidate.py:" in verdict.outcome.reason
    assert verdict.timings_s["compile"] < 20


PRODUCT = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(4096, 4096))

    def forward(self, x):
        return x @ self.weight

def get_inputs():
    return [torch.randn(4096, 4096)]
"""
TF32 = PRODUCT.replace("class", "torch.backends.cuda.matmul.allow_tf32 = True\n\nclass", 1)
HALF = PRODUCT.replace("x @ self.weight", "(x.bfloat16() @ self.weight.bfloat16()).float()")
CONVOLUTION = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(8, 64, 3)
        self.norm = torch.nn.GroupNorm(16, 64)

    def forward(self, x):
        return self.norm(self.conv(x))

def get_inputs():
    return [torch.rand(32, 8, 128, 128)]
"""


@pytest.mark.parametrize(
    ("protocol", "tf32", "half"),
    [
        ("strict", False, False),
        ("strict-tf32", True, False),
        ("verified", True, False),
        ("strict-bf16", True, True),
    ],
)
async def test_how_precise_is_as_declared(
    sandbox: LocalSandbox, protocol: str, tf32: bool, half: bool
) -> None:
    for task, right in ((TF32, tf32), (HALF, half)):
        source = task.replace("class Model(", "class ModelNew(")
        verdict = await judge(sandbox, protocol, request(PRODUCT, source, protocol))
        assert isinstance(verdict.outcome, Correct if right else WrongResult)


async def test_the_baseline_of_declared_precision_is_faster(sandbox: LocalSandbox) -> None:
    """Or a candidate's speedup would be the precision's, and not its own."""
    times = {}
    for protocol in ("strict", "strict-tf32", "strict-bf16"):
        asked = BaselineRequest(
            task_name="t", task_source=PRODUCT, device="cuda:0", protocol=protocol, seed=1
        )
        times[protocol] = (await sandbox.baseline(asked)).runtime_ms
    print(f"\neager, a product of 4096 x 4096: {times}")
    assert times["strict-bf16"] < times["strict"] / 2
    assert times["strict-tf32"] < times["strict"] / 2


async def test_a_compiled_convolution_is_as_precise_as_eager(sandbox: LocalSandbox) -> None:
    """The compiler's layout has cuDNN use TF32 where eager's has not."""
    found = await sandbox.baseline(
        BaselineRequest(
            task_name="t", task_source=CONVOLUTION, device="cuda:0", protocol="strict", seed=1,
            kind="compile",
        )
    )  # fmt: skip
    print(f"\n{found}")
    assert isinstance(found.outcome, Correct)


async def test_after_an_illegal_access_the_device_still_works(sandbox: LocalSandbox) -> None:
    verdict = await judge(sandbox, "illegal access", request(SMALL, inline(ILLEGAL)))
    assert isinstance(verdict.outcome, Crashed)
    after = await judge(sandbox, "after it", request(SMALL, candidate("return torch.relu(a+b)")))
    assert isinstance(after.outcome, Correct)


async def test_after_an_endless_kernel_the_device_still_works(
    make_sandbox: Callable[[Limits], LocalSandbox],
) -> None:
    async with make_sandbox(Limits(bench_s=1.0, call_s=15.0)) as sandbox:
        verdict = await judge(sandbox, "endless kernel", request(SMALL, inline(ENDLESS)))
        assert isinstance(verdict.outcome, TimedOut)
        source = candidate("return torch.relu(a+b)")
        after = await judge(sandbox, "after it", request(SMALL, source))
    assert isinstance(after.outcome, Correct)


async def test_a_task_that_does_not_fit_is_unusable(sandbox: LocalSandbox) -> None:
    task = TASK.replace("SIZE", str(1 << 24))
    with pytest.raises(TaskUnusable) as refused:
        await sandbox.baseline(
            BaselineRequest(
                task_name="t", task_source=task, device="cuda:0", protocol="strict", seed=1
            )
        )
    print(f"\n{refused.value.reason}")


async def test_one_that_fits_and_can_not_be_judged_costs_no_device(sandbox: LocalSandbox) -> None:
    total = int((await sandbox.fingerprint("cuda:0"))["memory_bytes"])
    task = TASK.replace("SIZE", str(total // 9 // (4096 * 4)))
    source = candidate("return torch.relu(a + b)")
    with pytest.raises(SandboxFault, match="memory") as refused:
        await sandbox.evaluate(request(task, source))
    print(f"\n{refused.value}")
    assert isinstance((await judge(sandbox, "after", request(SMALL, source))).outcome, Correct)


async def test_a_second_look_has_new_workers_on_both_sides(sandbox: LocalSandbox) -> None:
    source = candidate("return torch.relu(a + b)")
    await sandbox.evaluate(request(SMALL, source))
    verifier = sandbox._open.devices._sessions["cuda:0"]._verifier
    assert verifier is not None
    assert verifier.reference is not None
    before = verifier.reference.process.pid
    asked = msgspec.structs.replace(request(SMALL, source), root_ms=1.0, incumbent_ms=1e9)
    verdict = await judge(sandbox, "twice", asked)
    assert isinstance(verdict.outcome, Correct)
    assert any(note.startswith("judged twice") for note in verdict.notes)
    assert verifier.reference is not None
    assert verifier.reference.process.pid != before


async def test_a_large_task_leaves_its_candidates_their_memory(sandbox: LocalSandbox) -> None:
    """A third of the device's for the baseline, the candidate and their judge; the first verdict
    comes with an audit, and what that needed is kept here. So is what the task before needed."""
    total = int((await sandbox.fingerprint("cuda:0"))["memory_bytes"])
    source = candidate("return torch.relu(a + b)")
    for share in (33, 40):
        task = TASK.replace("SIZE", str(total // share // (4096 * 4)))
        for seed in range(2):
            verdict = await judge(sandbox, "large", request(task, source, seed=seed))
            assert isinstance(verdict.outcome, Correct), verdict.outcome


async def test_several_at_once_take_turns(sandbox: LocalSandbox) -> None:
    found: list[Verdict] = []

    async def one(seed: int) -> None:
        source = candidate("return torch.relu(a + b)")
        found.append(await sandbox.evaluate(request(SMALL, source, seed=seed)))

    began = time.monotonic()
    async with anyio.create_task_group() as group:
        for seed in range(4):
            group.start_soon(one, seed)
    print(f"\nfour at once: {time.monotonic() - began:.1f} s")
    for verdict in found:
        print(f"  lease {verdict.timings_s['lease']:.2f} s, queued {verdict.queue_s:.2f} s")
    assert all(isinstance(verdict.outcome, Correct) for verdict in found)
