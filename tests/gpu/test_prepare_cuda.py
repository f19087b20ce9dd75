"""Triton's compiles and tuning before the lease, on a device.

``pytest tests/gpu/test_prepare_cuda.py -q -s`` prints what each took.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import anyio
import msgspec
import pytest

from events.outcomes import Correct
from gpu_sandbox.api.evaluator import EvaluationRequest, Verdict
from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.gpu_sandbox.sources import ADD_RELU, HONEST, candidate

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.anyio,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

TASK = ADD_RELU.replace("(64, 128)", "(2048, 2048)")
TUNED = """
import os
from pathlib import Path
import triton
import triton.language as tl

CONFIGS = [
    triton.Config({"BLOCK": block}, num_warps=warps)
    for block in (256, 512, 1024, 2048)
    for warps in (2, 4, 8)
]


@triton.autotune(configs=CONFIGS, key=["n"])
@triton.jit
def add_relu(a, b, out, n, BLOCK: tl.constexpr):
    at = tl.program_id(0) * BLOCK + tl.arange(0, BLOCK)
    inside = at < n
    total = tl.load(a + at, mask=inside) + tl.load(b + at, mask=inside)
    tl.store(out + at, tl.maximum(total, 0.0), mask=inside)


def kernels():
    return sorted(str(p) for p in Path(os.environ["TRITON_CACHE_DIR"]).rglob("*.cubin"))


BEFORE = kernels()
JUDGED = Path("extensions/caches.zip").exists()
"""
FORWARD = """
out = torch.empty_like(a)
add_relu[lambda meta: (triton.cdiv(a.numel(), meta["BLOCK"]),)](a, b, out, a.numel())
return out
"""
STRICT = FORWARD.replace(
    "return out",
    """
again = not BEFORE or kernels() != BEFORE or getattr(add_relu, "bench_time", None) is not None
if JUDGED and again:
    raise RuntimeError("compiled or tuned again")
return out
""".strip(),
)


@pytest.fixture
async def sandbox(tmp_path: Path) -> AsyncIterator[LocalSandbox]:
    limits = Limits(bench_s=0.5, autopsy_s=0.0)
    async with LocalSandbox(("cuda:0",), limits=limits, cache=tmp_path) as entered:
        yield entered


def request(source: str) -> EvaluationRequest:
    return EvaluationRequest(
        task_name="add_relu", task_source=TASK, candidate_source=source, device="cuda:0",
        protocol="strict", seed=1,
    )  # fmt: skip


def shown(name: str, verdict: Verdict) -> None:
    timings = {stage: round(s, 2) for stage, s in verdict.timings_s.items()}
    print(f"\n{name}: {timings}; {verdict.notes}")


async def test_nothing_is_compiled_or_tuned_under_the_lease(sandbox: LocalSandbox) -> None:
    pytest.importorskip("triton")
    await sandbox.evaluate(request(HONEST))  # the device's verifier is there
    verdict = await sandbox.evaluate(request(candidate(STRICT.strip(), before=TUNED)))
    shown("tuned", verdict)
    assert isinstance(verdict.outcome, Correct), verdict
    assert verdict.timings_s["lease"] < verdict.timings_s["prepare"]


@pytest.mark.parametrize("mode", ["default", "reduce-overhead"])
async def test_torch_compile_finds_what_it_tuned(sandbox: LocalSandbox, mode: str) -> None:
    """Inductor keeps the path of a kernel, beside which it looks for what was tuned."""
    source = candidate(
        "return self.compiled(a, b).clone()",
        before="def compute(a, b):\n    return torch.softmax(a + b, -1).cumsum(-1)",
        init=f"self.compiled = torch.compile(compute, mode='{mode}')",
    )
    task = TASK.replace("return torch.relu(a + b)", "return torch.softmax(a + b, -1).cumsum(-1)")
    verdict = await sandbox.evaluate(msgspec.structs.replace(request(source), task_source=task))
    shown(f"compile, {mode}", verdict)
    assert isinstance(verdict.outcome, Correct), verdict


async def test_triton_hashes_itself_once_for_all(sandbox: LocalSandbox) -> None:
    pytest.importorskip("triton")
    hashed = "triton.runtime.cache.triton_key.cache_info().currsize"
    before = f"import triton\nif not {hashed}:\n    raise RuntimeError('not hashed yet')"
    verdict = await sandbox.evaluate(request(candidate("return torch.relu(a + b)", before=before)))
    assert isinstance(verdict.outcome, Correct), verdict


async def test_a_plain_candidate_has_the_device_meanwhile(sandbox: LocalSandbox) -> None:
    pytest.importorskip("triton")
    await sandbox.evaluate(request(HONEST))
    ended: list[str] = []

    async def judge(name: str, source: str) -> None:
        verdict = await sandbox.evaluate(request(source))
        shown(name, verdict)
        assert isinstance(verdict.outcome, Correct), verdict
        assert not any("another process" in note for note in verdict.notes), verdict.notes
        ended.append(name)

    async with anyio.create_task_group() as group:
        for number in range(3):
            source = candidate(f"{FORWARD.strip()}  # {number}", before=TUNED)
            group.start_soon(judge, f"tuned {number}", source)
        await judge("plain", HONEST)
    assert ended[0] == "plain"
