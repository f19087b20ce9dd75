"""Changing what is too large to be copied: a block of each input, or some elements, in place.

So it takes next to no time, and how long the verifier takes before a release does not tell whether
its inputs are changed (``surprises.py``). Of such inputs no form is known (``forms.py``).
"""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from gpu_sandbox.child.cases import Change, Part
from gpu_sandbox.child.extents import overlapping
from gpu_sandbox.child.forms import some
from gpu_sandbox.child.held import is_among

__all__ = ["change_in_place"]


def change_in_place(
    tensors: Sequence[torch.Tensor], kept: Sequence[torch.Tensor], change: Change, part: Part
) -> bool:
    """Half of each dimension, or a few elements of each that is floating point. False, and nothing
    is changed, where one is the memory of what is ``kept``, or of another, or overlaps itself."""
    mine = [t.detach() for t in tensors if t.is_floating_point() and t.numel()]
    rest = [*kept, *(t for t in tensors if not t.is_floating_point())]
    for number, tensor in enumerate(mine):
        if overlapping(tensor) or is_among(tensor, [*rest, *mine[:number]]):
            return False
    for tensor in mine:
        if tensor.dim() == 0 or part == "all":
            tensor.copy_(change(tensor))
        elif part == "half":
            block = tensor[tuple(_half_of(count) for count in tensor.shape)]
            block.copy_(change(block))
        else:
            places = torch.unravel_index(some(tensor.numel()).to(tensor.device), tensor.shape)
            tensor[places] = change(tensor[places])
    return bool(mine)


def _half_of(count: int) -> slice:
    """Next to each other, one at least."""
    length = max(1, count // 2)
    begin = secrets.randbelow(count - length + 1)
    return slice(begin, begin + length)
