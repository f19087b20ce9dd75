"""Bitwise equality of tensors: NaNs, and zeros of either sign, included."""

from __future__ import annotations

import torch

_WORD = 8
_INTEGERS = {1: torch.uint8, 2: torch.int16, 4: torch.int32, 8: torch.int64}


def same_bits(a: torch.Tensor, b: torch.Tensor) -> bool:
    """Compare tensors of one shape and dtype as integers, of 8 bytes where both allow that, the
    fastest; booleans by value, since a copy may have another byte."""
    if a.dtype == torch.bool:
        return torch.equal(a, b)
    a, b = _plain(a), _plain(b)
    if _in_words(a) and _in_words(b):
        return torch.equal(a.view(-1).view(torch.int64), b.view(-1).view(torch.int64))
    integer = _INTEGERS[a.element_size()]
    return torch.equal(a.view(integer), b.view(integer))


def _plain(tensor: torch.Tensor) -> torch.Tensor:
    """Real, and with its own bits."""
    tensor = tensor.detach().resolve_conj().resolve_neg()
    return torch.view_as_real(tensor) if tensor.is_complex() else tensor


def _in_words(tensor: torch.Tensor) -> bool:
    begin, offset = tensor.data_ptr(), tensor.storage_offset() * tensor.element_size()
    aligned = all(size % _WORD == 0 for size in (begin, offset, tensor.nbytes))
    return aligned and tensor.nbytes > 0 and tensor.is_contiguous()
