"""Whether inputs are what was put there: by their bits, whatever they are and however they lie."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
import torch

from gpu_sandbox.tensors.bitwise import same_bits

DTYPES = (
    torch.uint8,
    torch.int16,
    torch.int32,
    torch.int64,
    torch.float16,
    torch.bfloat16,
    torch.float32,
    torch.float64,
    torch.complex64,
    torch.complex128,
    torch.float8_e4m3fn,
)
LAID: dict[str, Callable[[torch.Tensor], torch.Tensor]] = {
    "as it comes": lambda t: t,
    "transposed": lambda t: t.t(),
    "strided": lambda t: t[:, ::2],
    "from an odd place": lambda t: t.flatten()[1:],
    "an odd number": lambda t: t.flatten()[:15],
    "one": lambda t: t[1, 2],
    "none": lambda t: t.flatten()[1:1],
    "expanded": lambda t: t[:1].expand(5, -1),
}


@pytest.mark.parametrize("how", LAID)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
def test_a_copy_is_the_same_and_one_changed_bit_is_not(dtype: torch.dtype, how: str) -> None:
    drawn = torch.randint(0, 100, (8, 6)).to(dtype)
    tensor = LAID[how](drawn)
    copy = tensor.clone(memory_format=torch.contiguous_format)
    assert same_bits(tensor, copy)
    if copy.numel():
        copy.view(-1).view(torch.uint8)[-1] ^= 1
        assert not same_bits(tensor, copy)


@pytest.mark.parametrize(
    "tensor",
    [
        torch.randn(4, 6, dtype=torch.complex64).conj(),
        torch.randn(4, 6, dtype=torch.complex64).mH,
        torch.randn(4, 6, dtype=torch.complex64).conj().imag,
        torch.randn(4, 6, requires_grad=True),
        torch.frombuffer(bytearray(44), dtype=torch.float32, offset=4)[1:9],
        torch.tensor([1, 0, 2], dtype=torch.uint8).view(torch.bool),
    ],
    ids=["conjugated", "adjoint", "negated", "with a graph", "off by four", "odd booleans"],
)
def test_what_torch_sees_in_another_way_is_the_same_as_its_copy(tensor: torch.Tensor) -> None:
    copy = torch.empty(tensor.shape, dtype=tensor.dtype)
    copy.copy_(tensor.detach())
    assert same_bits(copy, tensor)
    assert not same_bits(torch.zeros_like(copy) if copy.any() else torch.ones_like(copy), tensor)


def test_signs_of_zero_differ_and_one_nan_is_itself() -> None:
    assert same_bits(torch.tensor([math.nan, 0.0]), torch.tensor([math.nan, 0.0]))
    assert not same_bits(torch.tensor([1.0, 0.0]), torch.tensor([1.0, -0.0]))
