"""A run in float64 draws the numbers that the reference's own does, on a device, too: there the
order in which a generator gives them goes by the type, and by how many of it a thread takes."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from gpu_sandbox.verifier.reference.float64_casts import Float64Casts
from tests.gpu_sandbox.test_drawn import DRAWS

pytestmark = [
    pytest.mark.gpu,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no CUDA device"),
]


@pytest.mark.parametrize("shape", [(8, 16, 10, 12), (4, 32, 31, 33)])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("name", sorted(set(DRAWS) - {"rand"}))
def test_it_draws_the_same_numbers(name: str, dtype: torch.dtype, shape: tuple[int, ...]) -> None:
    rounded = name in ("bernoulli", "bernoulli_ of each") or "gumbel_softmax" in name
    if dtype != torch.float32 and rounded:
        pytest.skip("what it draws by is rounded")
    torch.manual_seed(1)
    given = torch.rand(shape, dtype=dtype, device="cuda")
    torch.manual_seed(2)
    own = DRAWS[name](given)
    after = torch.rand(3, device="cuda")
    torch.manual_seed(2)
    with Float64Casts(torch.device("cuda"), dtype):
        wide = DRAWS[name](given.double())
    assert torch.equal(torch.rand(3, device="cuda"), after), "as many"
    eps = torch.finfo(dtype).eps if own.is_floating_point() else 0.0
    near = torch.isclose(wide, own.to(wide.dtype), atol=16 * eps, rtol=16 * eps)
    assert near.float().mean() > 0.999
