"""What the inputs of a task have in common, whatever is drawn: changed ones have it, too.

That a matrix is triangular, or symmetric, that edges are sorted, that a mask is zero or one, or
that a tensor lies transposed, is the task's as much as a shape is, and kernels go by it. Signs,
sizes and sums are not: a kernel that leaves out a rectifier, since the task draws no negative
numbers, is to be found out.
"""

from __future__ import annotations

import itertools
import math
import secrets
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from gpu_sandbox.child.cases import Part
from gpu_sandbox.child.expected import RULES, pieces
from gpu_sandbox.child.extents import overlapping

__all__ = ["Changed", "Form", "Forms", "form_of", "some"]

_DRAWS = 3
_LARGEST_BYTES = 1 << 30
"""Of inputs that are larger nothing is found out: that would take as much more memory."""
_FACTORED = (torch.float32, torch.float64, torch.complex64, torch.complex128)
_FEW = 64
"""One in so many, at most."""
_FEWEST = 3
"""Elements in a row that are sorted by no chance, if all rows are."""
_COLUMNS, _ROWS = 8, 64
"""So many at most, and so many rows at least: that one is below the other in each is no chance."""


class Form(NamedTuple):
    """Of one input. ``whole``: several values, all of them whole numbers. ``zeros``: some, at the
    same places each time. ``symmetric``: Hermitian, if it is complex. ``order``: each row (the last
    dimension) rises (1) or falls (-1). ``definite``: a symmetric one is positive definite.
    ``columns``: of a few, those of which one is never beyond the other: a box ends after it
    begins."""

    whole: bool = False
    zeros: bool = False
    symmetric: bool = False
    definite: bool = False
    order: int = 0
    columns: tuple[tuple[int, int], ...] = ()


def form_of(draws: Sequence[torch.Tensor]) -> Form:
    """Of several draws of the same input."""
    if not draws or any(not _is_changed(t) or t.numel() < 2 for t in draws):
        return Form()
    if any(bool((t == t.flatten()[0]).all()) for t in draws):
        return Form()  # nothing but a size
    symmetric, order = all(map(_is_symmetric, draws)), _order(draws)
    return Form(
        whole=not draws[0].is_complex() and all(map(_is_whole, draws)),
        zeros=_same_zeros(draws),
        symmetric=symmetric,
        definite=symmetric and all(map(_is_definite, draws)),
        order=order,
        columns=() if order else _columns(draws),
    )


class Forms:
    """Of all inputs of a task, each that is there twice once; found out when first asked for."""

    def __init__(self) -> None:
        self._known: list[Form] | None = None

    def of(
        self, tensors: Sequence[torch.Tensor], draw: Callable[[int], Sequence[torch.Tensor]]
    ) -> list[Form]:
        """``draw`` gives more inputs like these, by number."""
        if self._known is None:
            self._known = []
            if sum(t.nbytes for t in tensors) <= _LARGEST_BYTES:
                draws = [list({id(t): t for t in draw(n)}.values()) for n in range(_DRAWS)]
                if len({len(each) for each in draws}) == 1:
                    self._known = [form_of(alike) for alike in zip(*draws, strict=True)]
        return self._known


class Changed:
    """``change`` of one input after the other, each of which keeps its form, its layout and what it
    shares of its own elements. For ``values.mapped``. ``part``: of it only, nobody knows which: who
    works with some elements in place of all is wrong where half of them are changed, and who looks
    at some, to tell changed inputs, does not meet a few. ``only``: some inputs, by number.
    ``slightly``: by rounding, which leaves what is positive definite so."""

    def __init__(
        self,
        change: Callable[[torch.Tensor], torch.Tensor],
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
            changed = torch.where(_chosen(once, self._part), changed, once)
        changed = _kept(form, once, changed, slightly=self._slightly)
        return _laid_out(changed, once).expand(tensor.shape)


def _by_parts(change: Callable[[torch.Tensor], torch.Tensor], tensor: torch.Tensor) -> torch.Tensor:
    """Of a complex one both, each for itself."""
    if not tensor.is_complex():
        return change(tensor)
    parts = torch.view_as_real(tensor.detach().resolve_conj().resolve_neg())
    return torch.complex(change(parts[..., 0]), change(parts[..., 1]))


def some(count: int) -> torch.Tensor:
    """Places of so many: one half of the time, else more, as often two as ten thousand."""
    number = 1
    if secrets.choice((True, False)):
        number = 1 << secrets.randbelow(max(1, (count // _FEW).bit_length()))
    seed = int.from_bytes(secrets.token_bytes(4), "big")
    return torch.randint(max(1, count), (number,), generator=torch.Generator().manual_seed(seed))


def _chosen(tensor: torch.Tensor, part: Part) -> torch.Tensor:
    if part == "few":
        return _few(tensor)
    if part == "sparse":
        return _sparse(tensor)
    return _half(tensor, run=part == "run")


def _few(tensor: torch.Tensor) -> torch.Tensor:
    chosen = torch.zeros(tensor.numel(), dtype=torch.bool, device=tensor.device)
    if tensor.numel():
        chosen[some(tensor.numel()).to(tensor.device)] = True
    return chosen.view(tensor.shape)


def _sparse(tensor: torch.Tensor) -> torch.Tensor:
    """Scattered, one at least."""
    chosen = torch.rand(tensor.numel(), device=tensor.device) < 1 / _FEW
    if tensor.numel():
        chosen[secrets.randbelow(tensor.numel())] = True
    return chosen.view(tensor.shape)


def _half(tensor: torch.Tensor, *, run: bool) -> torch.Tensor:
    """The elements that are in half of the slices of each dimension, which are next to each other
    or scattered. So who reads a part of any dimension reads another share of them. Of a run they
    are next to each other, and neither the first nor the last."""
    chosen = torch.ones((), dtype=torch.bool, device=tensor.device)
    for dimension, count in enumerate(tensor.shape):
        shape = [1] * tensor.dim()
        shape[dimension] = count
        half = _inner_half_of(count) if run else _half_of(count)
        chosen = chosen & half.to(tensor.device).view(shape)
    return chosen


def _half_of(count: int) -> torch.Tensor:
    """Of so many, one of them at least: (count,)."""
    order = torch.arange(count)
    if secrets.choice((True, False)):
        bits = int.from_bytes(secrets.token_bytes(4), "big")
        order = torch.randperm(count, generator=torch.Generator().manual_seed(bits))
    begin = secrets.randbelow(max(count, 1))
    return (order - begin) % max(count, 1) < max(1, count // 2)


def _inner_half_of(count: int) -> torch.Tensor:
    length, order = max(1, count // 2), torch.arange(count)
    begin = secrets.randbelow(max(1, count - length - 1)) + (count - length > 1)
    return (begin <= order) & (order < begin + length)


def _kept(
    form: Form, tensor: torch.Tensor, changed: torch.Tensor, *, slightly: bool
) -> torch.Tensor:
    if form.definite and not slightly:
        changed = _still_definite(tensor, (changed != tensor).any(dim=-1), full=not form.zeros)
    elif form.symmetric:
        upper, diagonal = torch.triu(changed, 1), changed.diagonal(dim1=-2, dim2=-1)
        real = diagonal.real.to(changed.dtype) if changed.is_complex() else diagonal
        changed = upper + upper.mH + torch.diag_embed(real)
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


def _is_changed(tensor: torch.Tensor) -> bool:
    return tensor.dtype in RULES or tensor.is_complex()


def _is_whole(tensor: torch.Tensor) -> bool:
    return all(bool((piece == piece.round()).all()) for (piece,) in pieces(tensor))


def _same_zeros(draws: Sequence[torch.Tensor]) -> bool:
    first = draws[0]
    if any(t.shape != first.shape or int(torch.count_nonzero(t)) == t.numel() for t in draws):
        return False
    return len(draws) > 1 and all(torch.equal(first == 0, t == 0) for t in draws[1:])


def _is_symmetric(tensor: torch.Tensor) -> bool:
    """But for rounding: ``torch.cdist`` is not as far from a to b as from b to a."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
        return False
    if torch.equal(tensor, tensor.mH):
        return True
    if tensor.dtype not in _FACTORED:
        return False
    most = math.sqrt(torch.finfo(tensor.dtype).eps) * float(tensor.abs().max())
    return float((tensor - tensor.mH).abs().max()) <= most


def _is_definite(tensor: torch.Tensor) -> bool:
    if tensor.dtype not in _FACTORED:
        return False
    return bool((torch.linalg.cholesky_ex(tensor).info == 0).all())


def _order(draws: Sequence[torch.Tensor]) -> int:
    if any(t.is_complex() or t.dim() == 0 or t.shape[-1] < _FEWEST for t in draws):
        return 0
    return next((sign for sign in (1, -1) if all(_rises(t, sign) for t in draws)), 0)


def _columns(draws: Sequence[torch.Tensor]) -> tuple[tuple[int, int], ...]:
    first = draws[0]
    if first.is_complex() or first.dim() < 2 or not 2 <= first.shape[-1] <= _COLUMNS:
        return ()
    if any(t.shape != first.shape for t in draws) or first.numel() < _ROWS * first.shape[-1]:
        return ()
    found = list(itertools.permutations(range(first.shape[-1]), 2))
    for rows in (first.flatten(0, -2)[:_ROWS], *(t.flatten(0, -2) for t in draws)):
        found = [(a, b) for a, b in found if bool((rows[:, a] <= rows[:, b]).all())]
    return tuple((a, b) for a, b in found if (b, a) not in found)


def _rises(tensor: torch.Tensor, sign: int) -> bool:
    return all(
        bool((sign * (piece[:, 1:] - piece[:, :-1]) >= 0).all()) for (piece,) in pieces(tensor)
    )
