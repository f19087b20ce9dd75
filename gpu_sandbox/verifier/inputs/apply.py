"""Inputs of a task, changed: each keeps its form (``invariants.py``) and its layout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from gpu_sandbox.tensors.memory_layout import overlapping
from gpu_sandbox.verifier.inputs.altered import Change, Part
from gpu_sandbox.verifier.inputs.invariants import Form
from gpu_sandbox.verifier.inputs.matrix_invariants import (
    mirrored,
    still_definite,
    still_frame,
    still_turning,
)
from gpu_sandbox.verifier.inputs.row_invariants import put_in_order, still_even, still_twice
from gpu_sandbox.verifier.inputs.subsets import chosen_of

__all__ = ["Changed"]


class Changed:
    """``change`` of one input after the other, each of which keeps its form, its layout and what it
    shares of its own elements. For ``values.mapped``. ``part``: of it only, nobody knows which: who
    works with some elements in place of all is wrong where half of them are changed, and who looks
    at some, to tell changed inputs, does not meet a few. ``only``: some inputs, by number.
    ``slightly``: by rounding, which leaves what is positive definite so."""

    def __init__(
        self,
        change: Change,
        forms: Sequence[Form],
        *,
        part: Part = "all",
        only: frozenset[int] | None = None,
        slightly: bool = False,
    ) -> None:
        self._change = change
        self._forms = iter(forms)
        self._part = part
        self._only = only
        self._slightly = slightly
        self._number = -1

    def __call__(self, tensor: torch.Tensor) -> Any:
        form = next(self._forms, Form())
        self._number += 1
        if not (tensor.is_floating_point() or tensor.is_complex()) or form.whole:
            return tensor
        if self._only is not None and self._number not in self._only:
            return tensor
        once = tensor
        for dimension, stride in enumerate(tensor.stride()):
            if stride == 0 and tensor.shape[dimension] > 1:
                once = once.narrow(dimension, 0, 1)
        changed = _by_parts(self._change, once)
        if self._part != "all" and once.dim() > 0:
            changed = torch.where(chosen_of(once, self._part), changed, once)
        changed = _kept(form, once, changed, slightly=self._slightly)
        return _laid_out(changed, once).expand(tensor.shape)


def _by_parts(change: Change, tensor: torch.Tensor) -> torch.Tensor:
    """Of a complex one both, each for itself."""
    if not tensor.is_complex():
        return change(tensor)
    parts = torch.view_as_real(tensor.detach().resolve_conj().resolve_neg())
    return torch.complex(change(parts[..., 0]), change(parts[..., 1]))


def _kept(
    form: Form, tensor: torch.Tensor, changed: torch.Tensor, *, slightly: bool
) -> torch.Tensor:
    if form.definite and not slightly:
        rows = (changed != tensor).any(dim=-1)
        changed = still_definite(tensor, rows, full=not form.zeros, ones=form.ones)
    elif form.symmetric or form.skew:
        changed = mirrored(changed, 1 if form.symmetric else -1)
    if form.turns and not slightly:
        zeros, symmetric = form.zeros, form.symmetric
        shape = tensor.shape if form.flat is None else (*tensor.shape[:-1], *form.flat)
        mine, other = tensor.reshape(shape), changed.reshape(shape)
        other = still_turning(form.turns, mine, other, zeros=zeros, symmetric=symmetric)
        changed = other.reshape(tensor.shape)
    if form.frame and not slightly:
        changed = still_frame(form.frame, tensor, changed)
    if form.even and not slightly:
        changed = still_even(form.even, tensor, changed)
    if form.order:
        changed = changed.sort(dim=-1, descending=form.order < 0).values
    if form.columns:
        changed = put_in_order(changed, form.columns)
    if form.twice:
        changed = still_twice(changed, form.twice)
    if form.zeros:
        changed = changed.masked_fill(tensor == 0, 0.0)
    return changed.masked_fill(tensor == 1, 1.0) if form.ones else changed


def _laid_out(changed: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if changed.stride() == like.stride() or overlapping(like):
        return changed
    found = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    return found.copy_(changed)
