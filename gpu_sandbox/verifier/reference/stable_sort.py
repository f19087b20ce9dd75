"""Stable sorting, where PyTorch leaves the order of equal keys open.

``torch.argsort`` puts equal keys in an order that no other kernel can know, and which of equals
``topk``, ``kthvalue``, ``median`` and ``mode`` take is undefined. A stable order is as right.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

_SORTS = (torch.sort, torch.Tensor.sort, torch.argsort, torch.Tensor.argsort)
_MEDIAN = (torch.median, torch.Tensor.median)
_ENDS = tuple(
    getattr(where, name)
    for where in (torch, torch.Tensor)
    for name in ("argmax", "argmin", "max", "min")
)
_NAMES = ("dim", "descending")


class StableSort(TorchFunctionMode):
    """While entered. ``is_unstable``: something was sorted without ``stable``; ``picks_equals``:
    or the largest was taken, or the least, of which there may be two."""

    def __init__(self) -> None:
        super().__init__()
        self.is_unstable = False
        self._takes_an_end = False

    @property
    def picks_equals(self) -> bool:
        return self.is_unstable or self._takes_an_end

    def __torch_function__(
        self,
        func: Callable[..., Any],
        types: Sequence[type],
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
    ) -> Any:
        kwargs = kwargs or {}
        self._takes_an_end |= func in _ENDS
        if kwargs.get("out") is None:
            if func in _SORTS and not kwargs.get("stable"):
                self.is_unstable = True
                named = dict(zip(_NAMES, args[1:], strict=False))
                return func(*args[:1], **{**named, **kwargs, "stable": True})
            has_index = func not in _MEDIAN or len(args) > 1 or "dim" in kwargs
            if func in _STABLE and has_index:
                self.is_unstable = True
                return _STABLE[func](*args, **kwargs)
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
    """The lower of two; NaN if there is one."""
    if input.dim() == 0 or bool(input.isnan().any()):
        return torch.median(input, dim, keepdim)
    return torch.return_types.median(_kth(input, (input.shape[dim] + 1) // 2, dim, keepdim))


def _mode(input: torch.Tensor, dim: int = -1, keepdim: bool = False) -> Any:
    """With the index of the first element that equals it."""
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


_STABLE: dict[Any, Callable[..., Any]] = {
    func: stable
    for stable, funcs in (
        (_topk, (torch.topk, torch.Tensor.topk)),
        (_kthvalue, (torch.kthvalue, torch.Tensor.kthvalue)),
        (_mode, (torch.mode, torch.Tensor.mode)),
        (_median, _MEDIAN),
    )
    for func in funcs
}
