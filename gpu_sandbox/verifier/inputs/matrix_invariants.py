"""Invariants of matrices, found and kept: symmetry, definiteness, rotations, orthogonality."""

from __future__ import annotations

import math
import secrets

import torch

FACTORED = (torch.float32, torch.float64, torch.complex64, torch.complex128)
"""Dtypes in which matrices are factored, and equalities hold but for rounding."""
FLAT = {4: (2, 2), 9: (3, 3), 12: (3, 4), 16: (4, 4)}  # rotations, poses in rows
_MAX_ROWS = 64  # of a rotation, or of orthogonal rows or columns
_ROUNDED = 64  # ulp that orthogonal rows may be off by: long random rows nearly are
_AT_A_TIME = 1 << 16  # columns: in float64 they take twice as much memory
_POWER = 1 << 18  # the least power of a rotation: it turns any angle above 1e-5 full circle
_NOTHING = 1e-6  # A smaller number is a zero that rounding has moved


def is_symmetric(tensor: torch.Tensor, sign: int = 1) -> bool:
    """Whether matrices are symmetric but for rounding, as of ``torch.cdist``; complex ones are
    Hermitian then. ``sign`` -1: skew."""
    if tensor.dim() < 2 or tensor.shape[-1] != tensor.shape[-2]:
        return False
    other = tensor.mH if sign > 0 else -tensor.mH
    if torch.equal(tensor, other):
        return True
    if tensor.dtype not in FACTORED:
        return False
    most = math.sqrt(torch.finfo(tensor.dtype).eps) * float(tensor.abs().max())
    return float((tensor - other).abs().max()) <= most


def symmetrized(changed: torch.Tensor, sign: int = 1) -> torch.Tensor:
    """Mirror what is above the diagonal, conjugate and times ``sign``."""
    upper, diagonal = torch.triu(changed, 1), changed.diagonal(dim1=-2, dim2=-1)
    kept = (diagonal + sign * diagonal.conj()) / 2
    return upper + sign * upper.mH + torch.diag_embed(kept)


def is_definite(tensor: torch.Tensor) -> bool:
    """Whether symmetric matrices are positive definite."""
    if tensor.dtype not in FACTORED:
        return False
    return bool((torch.linalg.cholesky_ex(tensor).info == 0).all())


def another_definite(
    tensor: torch.Tensor, rows: torch.Tensor, *, full: bool, ones: bool
) -> torch.Tensor:
    """Scale these rows and columns, and, if it is ``full``, add a positive semidefinite matrix of
    them and one more: the sum is no diagonal plus an outer product. Half of the time the diagonal
    stays, and always if it is of ``ones``: a look at it alone tells nothing."""
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
    """Shrink what is off the diagonal."""
    each = torch.eye(tensor.shape[-1], dtype=tensor.dtype, device=tensor.device)
    return each + secrets.randbelow(90) / 100 * (tensor - each)


def rotation_sizes(tensor: torch.Tensor) -> list[int]:
    """List sizes of rotations that its matrices may hold."""
    if tensor.dim() < 2 or tensor.dtype not in FACTORED:
        return []
    rows, columns = tensor.shape[-2:]
    found = {rows: (rows, rows - 1), rows + 1: (rows,)}.get(columns, ())
    return [n for n in found if 2 <= n <= _MAX_ROWS]


def is_rotation(tensor: torch.Tensor, count: int) -> bool:
    rows, columns = tensor.shape[-2:]
    if rows < count or columns < count:
        return False
    last = torch.eye(columns, dtype=tensor.dtype, device=tensor.device)[-1]
    if rows > count and not bool((tensor[..., count:, :] == last).all()):
        return False
    block = tensor[..., :count, :count]
    return _are_orthogonal(block, math.sqrt(torch.finfo(tensor.dtype).eps))


def orthogonal_side(tensor: torch.Tensor) -> int:
    """Return 1 if the columns of each matrix are orthogonal and of one length, -1 if its rows are,
    the fewer of both; 0 if neither is."""
    if tensor.dim() < 2 or tensor.dtype not in FACTORED:
        return 0
    rows, columns = tensor.shape[-2:]
    if rows == columns or not 2 <= min(rows, columns) <= _MAX_ROWS or tensor.numel() == 0:
        return 0
    few = tensor if rows < columns else tensor.mH
    some = few[(0,) * (few.dim() - 2)][:2]  # of one matrix, to exclude most inputs
    most = _ROUNDED * torch.finfo(tensor.dtype).eps
    if not (_are_orthogonal(some, most) and _are_orthogonal(few, most)):
        return 0
    return 1 if rows > columns else -1


def _are_orthogonal(rows: torch.Tensor, most: float) -> bool:
    """Whether rows are orthogonal and of one length, but for so much."""
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
    """Length of each matrix's rows, if they are of one length."""
    size: torch.Tensor = torch.linalg.matrix_norm(block, keepdim=True)
    return size / math.sqrt(block.shape[-2])


def another_rotation(
    count: int, tensor: torch.Tensor, changed: torch.Tensor, *, zeros: bool, symmetric: bool
) -> torch.Tensor:
    """Replace each rotation of which something is changed by another: any, or, if its zeros are to
    stay, one about the same axis by a multiple of the angle. If they are scaled, the scale is
    another, too. What lies beside it, a translation, is as it was changed; what lies below is
    not."""
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


def another_orthogonal(side: int, tensor: torch.Tensor, changed: torch.Tensor) -> torch.Tensor:
    """Replace each matrix of which something is changed by another, of another scale where they
    are scaled. ``side``: see ``orthogonal_side``."""
    few = tensor if side < 0 else tensor.mH
    order = torch.randperm(few.shape[-1], device=few.device)
    signs = torch.randint_like(few.real[..., :1, :], 2) * 2.0 - 1.0
    turned = _other_scale(_size_of(few)) * _mirrored_twice(few[..., order] * signs, both=False)
    mine = (changed != tensor).flatten(-2).any(-1)[..., None, None]
    return torch.where(mine, turned if side < 0 else turned.mH, tensor)


def _other_scale(size: torch.Tensor) -> torch.Tensor:
    """A random factor for each of these sizes, if they are not all one."""
    if float((size - 1.0).abs().max()) > math.sqrt(torch.finfo(size.dtype).eps):
        return torch.exp(torch.randn_like(size))
    return torch.ones_like(size)


def _mirrored_twice(block: torch.Tensor, *, both: bool) -> torch.Tensor:
    """Reflect twice, which keeps the determinant; from ``both`` sides it stays symmetric."""
    for _ in range(2):
        mirror = torch.randn_like(block[..., :1, :]).mH
        mirror = mirror / torch.linalg.vector_norm(mirror, dim=-2, keepdim=True)
        block = block - 2.0 * (block @ mirror) @ mirror.mH
        if both:
            block = block - 2.0 * mirror @ (mirror.mH @ block)
    return (block + block.mH) / 2 if both else block


def _to_some_power(block: torch.Tensor) -> torch.Tensor:
    """Raise to a large power, since angles may be small, and an odd one: symmetric rotations stay,
    and those whose power lacks their zeros, as of an exchange of axes."""
    exact = block.to(torch.complex128 if block.is_complex() else torch.float64)
    for _ in range(3):  # orthonormal to rounding first
        exact = 1.5 * exact - 0.5 * exact @ exact.mH @ exact
    power = torch.linalg.matrix_power(exact, _POWER + 2 * secrets.randbelow(_POWER) + 1)
    empty = block == 0
    kept = ((power.abs() < _NOTHING) | ~empty).flatten(-2).all(-1)
    power = power.masked_fill(empty, 0.0).to(block.dtype)
    return torch.where(kept[..., None, None], power, block)
