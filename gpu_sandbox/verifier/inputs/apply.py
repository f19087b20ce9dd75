"""Apply a transform to inputs: each keeps its invariants (``invariants.py``) and its layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpu_sandbox.tensors.memory_layout import overlapping
from gpu_sandbox.verifier.inputs.invariants import Invariants
from gpu_sandbox.verifier.inputs.matrix_invariants import (
    another_definite,
    another_orthogonal,
    another_rotation,
    symmetrized,
)
from gpu_sandbox.verifier.inputs.row_invariants import (
    another_with_equal_sums,
    with_ordered_columns,
    with_repeats,
)
from gpu_sandbox.verifier.inputs.subsets import random_subset
from gpu_sandbox.verifier.inputs.transforms import Change, Part


class InputTransform:
    """``change`` of one input after the other, for ``pytree.mapped``.

    Each keeps its invariants, its layout and what it shares of its own elements. ``part``: a random
    part of it only; ``only``: some inputs, by number. ``slightly``: by a few ulp, which keep
    positive definite matrices, rotations and sums as they are.
    """

    def __init__(
        self,
        change: Change,
        invariants: Sequence[Invariants],
        *,
        part: Part = "all",
        only: frozenset[int] | None = None,
        slightly: bool = False,
    ) -> None:
        self._change = change
        self._invariants = iter(invariants)
        self._part = part
        self._only = only
        self._slightly = slightly
        self._number = -1

    def __call__(self, tensor: torch.Tensor) -> Any:
        invariants = next(self._invariants, Invariants())
        self._number += 1
        if not (tensor.is_floating_point() or tensor.is_complex()) or invariants.whole:
            return tensor
        if self._only is not None and self._number not in self._only:
            return tensor
        once = tensor
        for dimension, stride in enumerate(tensor.stride()):
            if stride == 0 and tensor.shape[dimension] > 1:
                once = once.narrow(dimension, 0, 1)
        changed = _changed(self._change, once)
        if self._part != "all" and once.dim() > 0:
            changed = torch.where(random_subset(once, self._part), changed, once)
        if not self._slightly:
            changed = _another_matrix(invariants, once, changed)
        changed = _restored(invariants, once, changed, slightly=self._slightly)
        return _laid_out(changed, once).expand(tensor.shape)


def _changed(change: Change, tensor: torch.Tensor) -> torch.Tensor:
    """Change a complex tensor by its parts."""
    if not tensor.is_complex():
        return change(tensor)
    parts = torch.view_as_real(tensor.detach().resolve_conj().resolve_neg())
    return torch.complex(change(parts[..., 0]), change(parts[..., 1]))


def _another_matrix(
    invariants: Invariants, tensor: torch.Tensor, changed: torch.Tensor
) -> torch.Tensor:
    """Replace what is changed of matrices and rows by another with the same invariants."""
    if invariants.definite:
        rows, full = (changed != tensor).any(dim=-1), not invariants.zeros
        changed = another_definite(tensor, rows, full=full, ones=invariants.ones)
    elif invariants.symmetric or invariants.skew:
        changed = symmetrized(changed, 1 if invariants.symmetric else -1)
    if invariants.rotation:
        zeros, symmetric = invariants.zeros, invariants.symmetric
        flat = invariants.flat
        shape = tensor.shape if flat is None else (*tensor.shape[:-1], *flat)
        mine, other = tensor.reshape(shape), changed.reshape(shape)
        other = another_rotation(invariants.rotation, mine, other, zeros=zeros, symmetric=symmetric)
        changed = other.reshape(tensor.shape)
    if invariants.orthogonal:
        changed = another_orthogonal(invariants.orthogonal, tensor, changed)
    if invariants.equal_sums:
        changed = another_with_equal_sums(invariants.equal_sums, tensor, changed)
    return changed


def _restored(
    invariants: Invariants, tensor: torch.Tensor, changed: torch.Tensor, *, slightly: bool
) -> torch.Tensor:
    """Restore order, repeats, zeros and ones."""
    if slightly and (invariants.symmetric or invariants.skew):
        changed = symmetrized(changed, 1 if invariants.symmetric else -1)
    if invariants.order:
        changed = changed.sort(dim=-1, descending=invariants.order < 0).values
    if invariants.columns:
        changed = with_ordered_columns(changed, invariants.columns)
    if invariants.repeats:
        changed = with_repeats(changed, invariants.repeats)
    if invariants.zeros:
        changed = changed.masked_fill(tensor == 0, 0.0)
    return changed.masked_fill(tensor == 1, 1.0) if invariants.ones else changed


def _laid_out(changed: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if changed.stride() == like.stride() or overlapping(like):
        return changed
    found = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    return found.copy_(changed)
