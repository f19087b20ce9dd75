"""Change inputs that are too large to be copied in place: a block of each, or some elements.

That takes next to no time, so the time before a batch does not tell whether its inputs are changed
(``verifier/trials/hidden_cases.py``). Whole numbers and sorted inputs are left alone, and zeros
where some are zero each time: of such inputs no more is known (``invariants.py``).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from gpu_sandbox.tensors.chunked import indices_of
from gpu_sandbox.tensors.memory_layout import is_among, overlapping
from gpu_sandbox.verifier.inputs.invariants import Invariants
from gpu_sandbox.verifier.inputs.subsets import ONE_IN, random_places
from gpu_sandbox.verifier.inputs.transforms import Change, Part


def change_in_place(
    tensors: Sequence[tuple[torch.Tensor, Invariants]],
    kept: Sequence[torch.Tensor],
    change: Change,
    part: Part,
) -> bool:
    """Change a part of each floating point tensor; False if there was none. Tensors that share
    memory with ``kept``, with one before or within themselves stay."""
    before = [*kept, *(t for t, _ in tensors if not t.is_floating_point())]
    mine: list[tuple[torch.Tensor, Invariants]] = []
    for tensor, invariants in tensors:
        free = tensor.is_floating_point() and tensor.numel() > 0 and not overlapping(tensor)
        if free and not (invariants.whole or invariants.order or is_among(tensor, before)):
            mine.append((tensor.detach(), invariants))
        before.append(tensor)
    for tensor, invariants in mine:
        if part == "few" and tensor.dim() > 0:
            places = indices_of(random_places(tensor.numel()).to(tensor.device), tensor.shape)
            tensor[places] = _changed(tensor[places], change, invariants)
        else:
            block = _block(tensor, part)
            block.copy_(_changed(block, change, invariants))
    return bool(mine)


def _changed(block: torch.Tensor, change: Change, invariants: Invariants) -> torch.Tensor:
    return change(block).masked_fill_(block == 0, 0.0) if invariants.zeros else change(block)


def _block(tensor: torch.Tensor, part: Part) -> torch.Tensor:
    """View a random part: of sparse ones one slice in so many of the largest dimension."""
    if tensor.dim() == 0 or part == "all":
        return tensor
    if part == "sparse":
        dimension = max(range(tensor.dim()), key=lambda d: tensor.shape[d])
        begin = secrets.randbelow(min(ONE_IN, tensor.shape[dimension]))
        return tensor.movedim(dimension, 0)[begin::ONE_IN]
    return tensor[tuple(_half_of(count) for count in tensor.shape)]


def _half_of(count: int) -> slice:
    """Adjacent indices, or each second one; one at least."""
    if count > 1 and secrets.choice((True, False)):
        return slice(secrets.randbelow(2), None, 2)
    length = max(1, count // 2)
    begin = secrets.randbelow(count - length + 1)
    return slice(begin, begin + length)
