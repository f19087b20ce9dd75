"""Why an output is NaN, as far as inputs and the reference's output show it."""

from __future__ import annotations

from collections.abc import Sequence

import torch

__all__ = ["of_infinities"]

_SUBTRACTED = (
    "-inf minus -inf is NaN, as in a softmax whose whole row is masked, or whose running maximum"
    " begins at -inf"
)


def of_infinities(inputs: Sequence[torch.Tensor], native: torch.Tensor, got: torch.Tensor) -> str:
    """What to say of elements that are NaN, where an input or the reference's output holds -inf;
    nothing otherwise, or where the reference is NaN, too."""
    if not got.is_floating_point() or not native.is_floating_point():
        return ""
    lost = got.isnan()
    if not bool(lost.any()) or bool(native.isnan().any()):
        return ""
    holders = [(f"input {number}", tensor) for number, tensor in enumerate(inputs)]
    for name, tensor in [*holders, ("the reference's output", native)]:
        if not tensor.is_floating_point() or not bool(torch.isneginf(tensor).any()):
            continue
        where = "in rows in which" if _same_rows(tensor, lost) else "and"
        return f"; {where} {name} holds -inf: {_SUBTRACTED}"
    return ""


def _same_rows(tensor: torch.Tensor, lost: torch.Tensor) -> bool:
    """Whether all that is lost lies in rows (of the last dimension) that hold -inf."""
    if tensor.dim() == 0 or tensor.shape[:-1] != lost.shape[:-1]:
        return False
    rows = torch.isneginf(tensor).any(-1)
    return not bool((lost.any(-1) & ~rows).any())
