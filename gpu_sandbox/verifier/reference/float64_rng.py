"""Draw the same random numbers in float64 as in the reference's own run.

A generator gives others, or in another order, for another dtype. So numbers are drawn in the type
that the reference computes with, as many and laid out alike, and then widened. A dropout mask is
found by dropout of ones.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, TypeAlias

import torch
import torch.nn.functional as F

Draw: TypeAlias = Callable[..., Any]

_LIKE = (
    torch.rand_like,
    torch.randn_like,
    torch.normal,
    torch.bernoulli,
    torch.Tensor.bernoulli,
    torch.multinomial,
    torch.Tensor.multinomial,
)
_IN_PLACE = (
    torch.Tensor.uniform_,
    torch.Tensor.normal_,
    torch.Tensor.bernoulli_,
    torch.Tensor.exponential_,
    torch.Tensor.log_normal_,
    torch.Tensor.cauchy_,
    torch.Tensor.geometric_,
)
_DROPOUTS = (
    F.dropout,
    F.dropout1d,
    F.dropout2d,
    F.dropout3d,
    torch.dropout,
    torch.feature_dropout,
)
_GUMBEL = (F.gumbel_softmax,)


def _like(func: Draw, narrow: torch.dtype, *args: Any, **given: Any) -> Any:
    mine = [_narrowed(value, narrow) for value in args]
    found = func(*mine, **{name: _narrowed(value, narrow) for name, value in given.items()})
    return found.double() if found.dtype == narrow else found


def _in_place(
    func: Draw, narrow: torch.dtype, tensor: torch.Tensor, *args: Any, **given: Any
) -> torch.Tensor:
    if tensor.dtype != torch.float64:
        return func(tensor, *args, **given)  # type: ignore[no-any-return]
    drawn = torch.empty_like(tensor, dtype=narrow)
    func(drawn, *(_narrowed(value, narrow) for value in args), **given)
    return tensor.copy_(drawn)


def _dropout(
    func: Draw,
    narrow: torch.dtype,
    input: torch.Tensor,
    p: float = 0.5,
    training: bool = True,
    inplace: bool = False,
    *,
    train: bool | None = None,
) -> torch.Tensor:
    """Some name ``training`` ``train``. A device draws other numbers in place."""
    ones = torch.ones_like(input, dtype=narrow)
    place = {"inplace": True} if inplace else {}
    kept = func(ones, p, training if train is None else train, **place)
    return input.mul_(kept) if inplace else input * kept


def _gumbel(
    func: Draw,
    narrow: torch.dtype,
    logits: torch.Tensor,
    tau: float = 1,
    hard: bool = False,
    eps: float = 1e-10,
    dim: int = -1,
) -> torch.Tensor:
    """As torch does it in Python, where its calls are not intercepted; ``eps`` is unused."""
    drawn = torch.empty_like(logits, dtype=narrow, memory_format=torch.legacy_contiguous_format)
    soft = ((logits - drawn.exponential_().double().log()) / tau).softmax(dim)
    if not hard:
        return soft
    highest = soft.max(dim, keepdim=True)[1]
    return torch.zeros_like(logits).scatter_(dim, highest, 1.0) - soft.detach() + soft


def _narrowed(value: Any, narrow: torch.dtype) -> Any:
    wide = isinstance(value, torch.Tensor) and value.dtype == torch.float64
    return value.to(narrow) if wide else value


DRAWS: dict[Any, Callable[..., Any]] = {
    func: partial(way, func)
    for way, funcs in (
        (_like, _LIKE),
        (_in_place, _IN_PLACE),
        (_dropout, _DROPOUTS),
        (_gumbel, _GUMBEL),
    )
    for func in funcs
}
"""By torch's function: the same, with the type to draw in before its own arguments."""
