"""Matrices that are symmetric, skew, positive definite, rotations, or orthogonal in their rows or
columns: seen, and changed ones."""

from __future__ import annotations

import math
import secrets

import torch

__all__ = [
    "FACTORED",
    "FLAT",
    "frame",
    "is_definite",
    "is_symmetric",
    "mirrored",
    "sizes",
    "still_definite",
    "still_frame",
    "still_turning",
    "turns",
]

FACTORED = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""What matrices are taken apart in, and equalities seen but for rounding."""
FLAT = {4: (2, 2), 9: (3, 3), 12: (3, 4), 16: (4, 4)}
"""Rotations and poses lie in rows of so many numbers, too."""
_TURNS = 64
"""Rows of what may be a rotation, at most, and of a frame, where there are fewer of these."""
_ROUNDED = 64
"""So many last places a frame may be off by: long rows of random numbers are nearly orthogonal."""
_AT_A_TIME = 1 << 16
"""Columns: in float64 they take twice as much memory."""
_POWER = 1 << 18
"""A rotation's least: times that any angle above 1e-5 goes round."""
_NOTHING = 1e-6
"""What is below it is a zero that rounding has moved."""


def is_symmetric(tensor: torch.Tensor, sign: int = 1) -> bool:
    """But for rounding: ``torch.cdist`` is not as far from a to b as from b to a. Hermitian, if it
    is complex. ``sign`` -1: skew."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
        return False
    other = tensor.mH if sign > 0 else -tensor.mH
    if torch.equal(tensor, other):
        return True
    if tensor.dtype not in FACTORED:
        return False
    most = math.sqrt(torch.finfo(tensor.dtype).eps) * float(tensor.abs().max())
    return float((tensor - other).abs().max()) <= most


def mirrored(changed: torch.Tensor, sign: int = 1) -> torch.Tensor:
    """With what is above the diagonal below it, too, conjugate and times ``sign``."""
    upper, diagonal = torch.triu(changed, 1), changed.diagonal(dim1=-2, dim2=-1)
    kept = (diagonal + sign * diagonal.conj()) / 2
    return upper + sign * upper.mH + torch.diag_embed(kept)


def is_definite(tensor: torch.Tensor) -> bool:
    """Of a symmetric one."""
    if tensor.dtype not in FACTORED:
        return False
    return bool((torch.linalg.cholesky_ex(tensor).info == 0).all())


def still_definite(
    tensor: torch.Tensor, rows: torch.Tensor, *, full: bool, ones: bool
) -> torch.Tensor:
    """With these rows and columns scaled, and, if it is ``full``, what they have to do with each
    other, and with one more, changed, too: by something that is positive semidefinite. Who takes it
    for a diagonal and a product of two vectors is wrong then. Half of the time the diagonal is what
    it was, and always if it is of ``ones``: who looks at that alone learns nothing."""
    count, real = rows.shape[-1], tensor.real.dtype
    scale = torch.where(rows, 1.0 + 7.0 * torch.rand(rows.shape, device=rows.device), 1.0)
    scale = torch.ones_like(scale) if ones else scale
    changed = tensor * (scale.unsqueeze(-1) * scale.unsqueeze(-2)).to(tensor.dtype)
    if not full:
        return _nearer_to_none(tensor) if ones and bool(rows.any()) else changed
    other = torch.arange(count, device=rows.device) == secrets.randbelow(max(count, 1))
    size = tensor.diagonal(dim1=-2, dim2=-1).real.sqrt()
    signs = torch.randn(rows.shape, device=rows.device).to(real)
    vector = torch.where(rows | (other & rows.any(-1, keepdim=True)), signs * scale * size, 0.0)
    changed = changed + (vector.unsqueeze(-1) * vector.unsqueeze(-2)).to(tensor.dtype)
    if ones or secrets.choice((True, False)):
        back = size / changed.diagonal(dim1=-2, dim2=-1).real.sqrt()
        changed = changed * (back.unsqueeze(-1) * back.unsqueeze(-2)).to(tensor.dtype)
    return changed


def _nearer_to_none(tensor: torch.Tensor) -> torch.Tensor:
    """Whose rows have less to do with each other."""
    each = torch.eye(tensor.shape[-1], dtype=tensor.dtype, device=tensor.device)
    return each + secrets.randbelow(90) / 100 * (tensor - each)


def sizes(tensor: torch.Tensor) -> list[int]:
    """Of the rotation that its matrices may hold."""
    if tensor.dim() < 2 or tensor.dtype not in FACTORED:
        return []
    rows, columns = tensor.shape[-2:]
    found = {rows: (rows, rows - 1), rows + 1: (rows,)}.get(columns, ())
    return [n for n in found if 2 <= n <= _TURNS]


def turns(tensor: torch.Tensor, count: int) -> bool:
    rows, columns = tensor.shape[-2:]
    if rows < count or columns < count:
        return False
    last = torch.eye(columns, dtype=tensor.dtype, device=tensor.device)[-1]
    if rows > count and not bool((tensor[..., count:, :] == last).all()):
        return False
    block = tensor[..., :count, :count]
    return _are_orthogonal(block, math.sqrt(torch.finfo(tensor.dtype).eps))


def frame(tensor: torch.Tensor) -> int:
    """1 if the columns of each matrix, which has more rows, are orthogonal and of one length, -1 if
    its rows are, of which there are fewer; 0 if neither is."""
    if tensor.dim() < 2 or tensor.dtype not in FACTORED:
        return 0
    rows, columns = tensor.shape[-2:]
    if rows == columns or not 2 <= min(rows, columns) <= _TURNS or tensor.numel() == 0:
        return 0
    few = tensor if rows < columns else tensor.mH
    some = few[(0,) * (few.dim() - 2)][:2]  # which tell of most
    most = _ROUNDED * torch.finfo(tensor.dtype).eps
    if not (_are_orthogonal(some, most) and _are_orthogonal(few, most)):
        return 0
    return 1 if rows > columns else -1


def _are_orthogonal(rows: torch.Tensor, most: float) -> bool:
    """And of one length, but for so much."""
    exact = torch.complex128 if rows.is_complex() else torch.float64
    starts = range(0, rows.shape[-1], _AT_A_TIME)
    parts = (rows[..., start : start + _AT_A_TIME].to(exact) for start in starts)
    products = torch.stack([part @ part.mH for part in parts]).sum(0)
    square = products.diagonal(dim1=-2, dim2=-1).real.mean(-1)[..., None, None]
    if not bool((square > 0).all()):
        return False
    off = products / square - torch.eye(rows.shape[-2], device=rows.device)
    return float(off.abs().max()) <= most


def _size_of(block: torch.Tensor) -> torch.Tensor:
    """Of the rows of each, if they are of one length."""
    size: torch.Tensor = torch.linalg.matrix_norm(block, keepdim=True)
    return size / math.sqrt(block.shape[-2])


def still_turning(
    count: int, tensor: torch.Tensor, changed: torch.Tensor, *, zeros: bool, symmetric: bool
) -> torch.Tensor:
    """With each rotation of which something is changed turned to another, any, or, if zeros are to
    stay in it, as one about an axis has, by so many times its angle. Where they are scaled it is of
    another scale, too. What lies beside it, where something is moved to, is as it was changed; what
    lies below it is not."""
    found = changed.clone()
    block = tensor[..., :count, :count]
    size = _size_of(block)
    turned = _mirrored_twice(block, both=symmetric)
    if zeros:
        full = (block != 0).flatten(-2).all(-1)
        turned = torch.where(full[..., None, None], turned, size * _to_some_power(block / size))
    turned = _other_scale(size) * turned
    mine = (changed != tensor)[..., :count, :count].flatten(-2).any(-1)
    found[..., :count, :count] = torch.where(mine[..., None, None], turned, block)
    found[..., count:, :] = tensor[..., count:, :]
    return found


def still_frame(side: int, tensor: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """With each matrix of which something is changed turned to another, any, and of another scale
    where they are scaled. ``side``: as ``frame`` tells."""
    few = tensor if side < 0 else tensor.mH
    order = torch.randperm(few.shape[-1], device=few.device)
    signs = torch.randint_like(few.real[..., :1, :], 2) * 2.0 - 1.0
    turned = _other_scale(_size_of(few)) * _mirrored_twice(few[..., order] * signs, both=False)
    mine = (changed != tensor).flatten(-2).any(-1)[..., None, None]
    return torch.where(mine, turned if side < 0 else turned.mH, tensor)


def _other_scale(size: torch.Tensor) -> torch.Tensor:
    """Of what has these sizes: any, if they are not all one."""
    if float((size - 1.0).abs().max()) > math.sqrt(torch.finfo(size.dtype).eps):
        return torch.exp(torch.randn_like(size))
    return torch.ones_like(size)


def _mirrored_twice(block: torch.Tensor, *, both: bool) -> torch.Tensor:
    """Its determinant stays; from ``both`` sides it is as symmetric as it was."""
    for _ in range(2):
        mirror = torch.randn_like(block[..., :1, :]).mH
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
