"""Comparison of a candidate's parameters with the reference's, in the worker."""

from __future__ import annotations

from typing import Any

import torch

from gpu_sandbox.ipc.model_messages import Compared, CompareWeights, Unlike
from gpu_sandbox.tensors.parameters import held_by
from gpu_sandbox.tensors.shared_arena import Arena


def compare_weights(model: Any, request: CompareWeights, arena: Arena) -> Compared:
    """Weights that differ. A tensor of another dtype is compared in that dtype: weights in half
    precision differ by no more than their rounding."""
    held, unlike = held_by(model), list[Unlike]()
    for number, weight in enumerate(request.weights):
        tensor, theirs = held.get(weight.name), arena.view(weight.spot)
        if tensor is None or tuple(tensor.shape) != weight.shape:
            continue
        if tensor.is_complex() != theirs.is_complex():
            continue
        own = tensor[weight.start : weight.start + theirs.shape[0]] if theirs.dim() else tensor
        wanted = theirs.to(own.dtype)
        if wanted.device != own.device or _same(own, wanted):
            continue
        off, size = _squares(own, theirs), _squares(torch.zeros_like(theirs), theirs)
        unlike.append(Unlike(number, off, size, int((own == wanted).sum())))
        if request.load:
            own.copy_(wanted)
    return Compared(unlike=unlike)


def _squares(a: torch.Tensor, b: torch.Tensor) -> float:
    wide = torch.complex128 if b.is_complex() else torch.float64
    return float((a.to(wide) - b.to(wide)).abs().square().sum())


def _same(own: torch.Tensor, wanted: torch.Tensor) -> bool:
    same = (own == wanted) | ((own != own) & (wanted != wanted))
    return bool(same.all())
