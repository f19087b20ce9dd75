"""Inputs of a task, changed: each keeps its form (``forms.py``) and its layout."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from typing import Any

import torch

from gpu_sandbox.child.cases import Change, Part
from gpu_sandbox.child.extents import overlapping
from gpu_sandbox.child.forms import Form
from gpu_sandbox.child.parts import chosen_of

__all__ = ["Changed"]

_POWER = 1 << 18
"""A rotation's least: times that any angle above 1e-5 goes round."""
_NOTHING = 1e-6
"""What is below it is a zero that rounding has moved."""


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
        changed = _still_definite(tensor, (changed != tensor).any(dim=-1), full=not form.zeros)
    elif form.symmetric:
        upper, diagonal = torch.triu(changed, 1), changed.diagonal(dim1=-2, dim2=-1)
        real = diagonal.real.to(changed.dtype) if changed.is_complex() else diagonal
        changed = upper + upper.mH + torch.diag_embed(real)
    if form.turns and not slightly:
        changed = _still_turning(form, tensor, changed)
    if form.order:
        changed = changed.sort(dim=-1, descending=form.order < 0).values
    if form.columns:
        changed = _put_in_order(changed, form.columns)
    return changed.masked_fill(tensor == 0, 0.0) if form.zeros else changed


def _still_definite(tensor: torch.Tensor, rows: torch.Tensor, *, full: bool) -> torch.Tensor:
    """With these rows and columns scaled, and, if it is ``full``, what they have to do with each
    other, and with one more, changed, too: by something that is positive semidefinite. Who takes it
    for a diagonal and a product of two vectors is wrong then. Half of the time the diagonal is what
    it was: who looks at that alone learns nothing."""
    count, real = rows.shape[-1], tensor.real.dtype
    scale = torch.where(rows, 1.0 + 7.0 * torch.rand(rows.shape, device=rows.device), 1.0)
    changed = tensor * (scale.unsqueeze(-1) * scale.unsqueeze(-2)).to(tensor.dtype)
    if not full:
        return changed
    other = torch.arange(count, device=rows.device) == secrets.randbelow(max(count, 1))
    size = tensor.diagonal(dim1=-2, dim2=-1).real.sqrt()
    signs = torch.randn(rows.shape, device=rows.device).to(real)
    vector = torch.where(rows | (other & rows.any(-1, keepdim=True)), signs * scale * size, 0.0)
    changed = changed + (vector.unsqueeze(-1) * vector.unsqueeze(-2)).to(tensor.dtype)
    if secrets.choice((True, False)):
        back = size / changed.diagonal(dim1=-2, dim2=-1).real.sqrt()
        changed = changed * (back.unsqueeze(-1) * back.unsqueeze(-2)).to(tensor.dtype)
    return changed


def _still_turning(form: Form, tensor: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """With each rotation of which something is changed turned to another, any, or, if zeros are to
    stay in it, as one about an axis has, by so many times its angle. What lies beside it, where
    something is moved to, is as it was changed; what lies below it is not."""
    count, found = form.turns, changed.clone()
    block = tensor[..., :count, :count]
    turned = _mirrored_twice(block, both=form.symmetric)
    if form.zeros:
        full = (block != 0).flatten(-2).all(-1)
        turned = torch.where(full[..., None, None], turned, _to_some_power(block))
    mine = (changed != tensor)[..., :count, :count].flatten(-2).any(-1)
    found[..., :count, :count] = torch.where(mine[..., None, None], turned, block)
    found[..., count:, :] = tensor[..., count:, :]
    return found


def _mirrored_twice(block: torch.Tensor, *, both: bool) -> torch.Tensor:
    """Its determinant stays; from ``both`` sides it is as symmetric as it was."""
    for _ in range(2):
        mirror = torch.randn_like(block[..., :1])
        mirror = mirror / torch.linalg.vector_norm(mirror, dim=-2, keepdim=True)
        block = block - 2.0 * (block @ mirror) @ mirror.mH
        if both:
            block = block - 2.0 * mirror @ (mirror.mH @ block)
    return (block + block.mH) / 2 if both else block


def _to_some_power(block: torch.Tensor) -> torch.Tensor:
    """Angles may be small, so it is a large one, and odd: what is symmetric is its own. As it is
    where that has no zeros where this has, as of an exchange of axes."""
    exact = block.to(torch.complex128 if block.is_complex() else torch.float64)
    for _ in range(3):  # orthonormal to rounding first
        exact = 1.5 * exact - 0.5 * exact @ exact.mH @ exact
    power = torch.linalg.matrix_power(exact, _POWER + 2 * secrets.randbelow(_POWER) + 1)
    empty = block == 0
    kept = ((power.abs() < _NOTHING) | ~empty).flatten(-2).all(-1)
    power = power.masked_fill(empty, 0.0).to(block.dtype)
    return torch.where(kept[..., None, None], power, block)


def _put_in_order(tensor: torch.Tensor, columns: Sequence[tuple[int, int]]) -> torch.Tensor:
    """Whose later ones are not below the earlier ones: in as many rounds as that takes at most."""
    columns_of = list(tensor.unbind(-1))
    for _ in columns_of:
        for low, high in columns:
            a, b = columns_of[low], columns_of[high]
            columns_of[low], columns_of[high] = torch.minimum(a, b), torch.maximum(a, b)
    return torch.stack(columns_of, dim=-1)


def _laid_out(changed: torch.Tensor, like: torch.Tensor) -> torch.Tensor:
    if changed.stride() == like.stride() or overlapping(like):
        return changed
    found = torch.empty_strided(like.shape, like.stride(), dtype=like.dtype, device=like.device)
    return found.copy_(changed)
