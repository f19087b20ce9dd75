"""Changing what is too large to be copied: a block of each input, or some elements, in place.

So it takes next to no time, and how long the verifier takes before a release does not tell whether
its inputs are changed (``verifier/trials/hidden_cases.py``). Whole numbers and what is in order are
left alone, and zeros where some are zero each time: of such inputs no more is known
(``invariants.py``)."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from gpu_sandbox.tensors.chunked import indices_of
from gpu_sandbox.tensors.memory_layout import is_among, overlapping
from gpu_sandbox.verifier.inputs.altered import Change, Part
from gpu_sandbox.verifier.inputs.invariants import Form
from gpu_sandbox.verifier.inputs.subsets import ONE_IN, some

__all__ = ["change_in_place"]


def change_in_place(
    tensors: Sequence[tuple[torch.Tensor, Form]],
    kept: Sequence[torch.Tensor],
    change: Change,
    part: Part,
) -> bool:
    """Half of each dimension, or a few elements, of each that is floating point: of one at least.
    None whose memory is that of what is ``kept``, or of one before, or that overlaps itself."""
    before = [*kept, *(t for t, _ in tensors if not t.is_floating_point())]
    mine: list[tuple[torch.Tensor, Form]] = []
    for tensor, form in tensors:
        free = tensor.is_floating_point() and tensor.numel() > 0 and not overlapping(tensor)
        if free and not (form.whole or form.order or is_among(tensor, before)):
            mine.append((tensor.detach(), form))
        before.append(tensor)
    for tensor, form in mine:
        if part == "few" and tensor.dim() > 0:
            places = indices_of(some(tensor.numel()).to(tensor.device), tensor.shape)
            tensor[places] = _changed(tensor[places], change, form)
        else:
            block = _part_of(tensor, part)
            block.copy_(_changed(block, change, form))
    return bool(mine)


def _changed(block: torch.Tensor, change: Change, form: Form) -> torch.Tensor:
    return change(block).masked_fill_(block == 0, 0.0) if form.zeros else change(block)


def _part_of(tensor: torch.Tensor, part: Part) -> torch.Tensor:
    """A view of it."""
    if tensor.dim() == 0 or part == "all":
        return tensor
    if part == "sparse":
        return _one_in(ONE_IN, tensor)
    return tensor[tuple(_half_of(count) for count in tensor.shape)]


def _one_in(step: int, tensor: torch.Tensor) -> torch.Tensor:
    """One slice in so many of its largest dimension: of a few only the first or another."""
    dimension = max(range(tensor.dim()), key=lambda d: tensor.shape[d])
    count = tensor.shape[dimension]
    begin = secrets.randbelow(min(step, count))
    return tensor.movedim(dimension, 0)[begin::step]


def _half_of(count: int) -> slice:
    """Next to each other, or each second one; one at least."""
    if count > 1 and secrets.choice((True, False)):
        return slice(secrets.randbelow(2), None, 2)
    length = max(1, count // 2)
    begin = secrets.randbelow(count - length + 1)
    return slice(begin, begin + length)
