"""What overwrites the cache, as it is in memory. That no line stays is shown by an attack
(``cuda_persisting_l2``) and measured by ``benchmarks/kept_lines.py``."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpu_sandbox.cuda.nvrtc import OwnKernels, compiled
from gpu_sandbox.worker.backends.cuda_cold_cache import CudaColdCache

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]

_DEVICE = torch.device("cuda:0")


@pytest.mark.parametrize("size", [1 << 20, 100 << 20])
def test_it_writes_all_that_it_is_to_and_nothing_else(size: int) -> None:
    memory = torch.full((3 * size,), 7, dtype=torch.uint8, device=_DEVICE)
    kernels, stream = OwnKernels(compiled(_DEVICE)), torch.cuda.current_stream(_DEVICE).cuda_stream
    for name in ("overwrite", "let_go"):
        kernels.launch(name, stream, (132, 1, 256), memory.data_ptr() + size, size)
        assert memory.view(3, size).sum(dim=1).tolist() == [7 * size, 0, 7 * size]


@pytest.mark.parametrize("size", [64 << 20, (64 << 20) + 2])
def test_before_a_call_both_halves_are_written(size: int) -> None:
    cold, kernels = CudaColdCache(_DEVICE), OwnKernels(compiled(_DEVICE))
    cold.events(size, 20, kernels)
    assert cold._scratch is not None
    cold._scratch.fill_(7)
    cold.events(size, 20, kernels)
    assert not cold._scratch.any()
