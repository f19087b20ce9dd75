"""TF32 in convolutions on a real CUDA device: run ``pytest tests/gpu -q -s`` there."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from events.outcomes import Correct, WrongResult
from gpu_sandbox.api.evaluator import EvaluationRequest
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

CONVOLUTION = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv3d(8, 64, (3, 3, 1))

    def forward(self, x):
        return self.conv(x)

def get_inputs():
    return [torch.randn(8, 8, 64, 64, 16)]
"""
AS_2D = CONVOLUTION.replace("class Model(", "class ModelNew(").replace(
    "return self.conv(x)",
    """n, c, h, w, d = x.shape
        weight = self.conv.weight[..., 0].contiguous(memory_format=torch.channels_last)
        flat = x.permute(0, 4, 1, 2, 3).reshape(n * d, c, h, w)
        flat = flat.contiguous(memory_format=torch.channels_last)
        y = torch.conv2d(flat, weight, self.conv.bias)
        return y.reshape(n, d, *y.shape[1:]).permute(0, 2, 3, 4, 1).contiguous()""",
)
IN_FULL = AS_2D.replace("class", "torch.backends.cudnn.allow_tf32 = False\n\nclass", 1)
IN_BF16 = AS_2D.replace(
    "y = torch.conv2d(flat, weight, self.conv.bias)",
    "y = torch.conv2d(flat.bfloat16(), weight.bfloat16(), self.conv.bias.bfloat16()).float()",
)
PRODUCT = """
import torch

class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.randn(2048, 2048))

    def forward(self, x):
        return x @ self.weight

def get_inputs():
    return [torch.randn(2048, 2048)]
"""
PRODUCT_IN_TF32 = PRODUCT.replace("class Model(", "class ModelNew(").replace(
    "class", "torch.backends.cuda.matmul.allow_tf32 = True\n\nclass", 1
)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture(scope="session")
def cuda_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cuda-cache")


@pytest.fixture
async def sandbox(cuda_cache: Path) -> AsyncIterator[LocalSandbox]:
    limits = Limits(bench_s=1.0, call_s=60.0)
    async with LocalSandbox(("cuda:0",), limits=limits, cache=cuda_cache) as entered:
        yield entered


@pytest.mark.parametrize(
    ("task", "source", "right"),
    [
        (CONVOLUTION, AS_2D, True),
        (CONVOLUTION, IN_FULL, True),
        (CONVOLUTION, IN_BF16, False),
        (PRODUCT, PRODUCT_IN_TF32, False),
    ],
    ids=["as another convolution", "that in full", "that in bfloat16", "a product in TF32"],
)
async def test_tf32_is_granted_to_convolutions_only(
    sandbox: LocalSandbox, task: str, source: str, right: bool
) -> None:
    request = EvaluationRequest(
        task_name="t", task_source=task, candidate_source=source, device="cuda:0",
        protocol="strict", seed=1,
    )  # fmt: skip
    verdict = await sandbox.evaluate(request)
    print(f"\n{verdict.outcome}")
    assert isinstance(verdict.outcome, Correct if right else WrongResult), verdict.outcome
