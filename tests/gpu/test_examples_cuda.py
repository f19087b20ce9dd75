"""Every CUDA and Triton kernel that the project ships, on a real device."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpu_sandbox.api.limits import Limits
from gpu_sandbox.sandbox import LocalSandbox
from tests.examples.kernels import expectations, outcomes


@pytest.mark.gpu
@pytest.mark.anyio
@pytest.mark.parametrize("anyio_backend", ["asyncio"], indirect=True)
@pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device")
async def test_all_cuda_kernels_do_what_they_say(tmp_path: Path) -> None:
    chosen = [expected for expected in expectations() if expected.language != "cpp"]
    async with LocalSandbox(("cuda:0",), limits=Limits(bench_s=0.5), cache=tmp_path) as sandbox:
        found = await outcomes(sandbox, chosen, "cuda:0")
    assert all(expected == real for expected, real in found.values()), found
