"""Sorting as PyTorch leaves it open: equal keys in the order in which they came.

``torch.argsort`` puts equal keys in an order of its own, which no other kernel can know, and which
of equals ``torch.topk``, ``torch.kthvalue``, ``torch.median`` and ``torch.mode`` take nobody
says. Whoever keeps them in order is as right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

__all__ = ["Stably"]

_SORTS = (torch.sort, torch.Tensor.sort, torch.argsort, torch.Tensor.argsort)
_TOPK = (torch.topk, torch.Tensor.topk)
_KTH = (torch.kthvalue, torch.Tensor.kthvalue)
_MEDIAN = (torch.median, torch.Tensor.median)
_MODE = (torch.mode, torch.Tensor.mode)
_ENDS = tuple(
    getattr(where, name)
    for where in (torch, torch.Tensor)
    for name in ("argmax", "argmin", "max", "min")
)
_NAMES = ("dim", "descending")


class Stably(TorchFunctionMode):
    """While entered. ``asked``: something was sorted that was not asked to be stable; ``chose``: or
    the largest was taken, or the least, of which there may be two."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = False
        self._took_an_end = False

    @property
    def chose(self) -> bool:
        return self.asked or self._took_an_end

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self._took_an_end |= func in _ENDS
        if kwargs.get("out") is None:
            if func in _SORTS and not kwargs.get("stable"):
                self.asked = True
                named = dict(zip(_NAMES, args[1:], strict=False))
                return func(*args[:1], **{**named, **kwargs, "stable": True})
            if func in _TOPK:
                self.asked = True
                return _topk(*args, **kwargs)
            if func in _KTH:
                self.asked = True
                return _kthvalue(*args, **kwargs)
            if func in _MODE:
                self.asked = True
                return _mode(*args, **kwargs)
            if func in _MEDIAN and (len(args) > 1 or "dim" in kwargs):  # else there is no index
                self.asked = True
                return _median(*args, **kwargs)
        return func(*args, **kwargs)


def _topk(
    input: torch.Tensor,
    k: int,
    dim: int = -1,
    largest: bool = True,
    sorted: bool = True,
) -> Any:
    if input.dim() == 0:
        return torch.topk(input, k, dim, largest, sorted)
    values, indices = torch.sort(input, dim=dim, descending=largest, stable=True)
    first = (values.narrow(dim, 0, k), indices.narrow(dim, 0, k))
    return torch.return_types.topk((first[0].contiguous(), first[1].contiguous()))


def _kthvalue(input: torch.Tensor, k: int, dim: int = -1, keepdim: bool = False) -> Any:
    if input.dim() == 0:
        return torch.kthvalue(input, k, dim, keepdim)
    return torch.return_types.kthvalue(_kth(input, k, dim, keepdim))


def _median(input: torch.Tensor, dim: int, keepdim: bool = False) -> Any:
    """The lower of two. Of what has NaN that is NaN, wherever it is."""
    if input.dim() == 0 or bool(input.isnan().any()):
        return torch.median(input, dim, keepdim)
    return torch.return_types.median(_kth(input, (input.shape[dim] + 1) // 2, dim, keepdim))


def _mode(input: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """The first of those that it is."""
    found = torch.mode(input, dim, keepdim)
    if input.dim() == 0:
        return found
    values = found.values if keepdim else found.values.unsqueeze(dim)
    first = (input == values).byte().argmax(dim, keepdim)
    return torch.return_types.mode((found.values, first))


def _kth(input: torch.Tensor, k: int, dim: int, keepdim: bool) -> tuple[torch.Tensor, torch.Tensor]:
    values, indices = torch.sort(input, dim=dim, stable=True)
    found = values.narrow(dim, k - 1, 1), indices.narrow(dim, k - 1, 1)
    if keepdim:
        return found[0].contiguous(), found[1].contiguous()
    return found[0].squeeze(dim), found[1].squeeze(dim)
