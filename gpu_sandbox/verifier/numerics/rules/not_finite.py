"""NaN and infinities: NaN never passes, infinities are where the reference's are."""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch

from gpu_sandbox.tensors.chunked import pieces
from gpu_sandbox.verifier.numerics.comparison import Comparison, Reference, Violation
from gpu_sandbox.verifier.numerics.rules.rule import Figures, Rule

_SUBTRACTED = (
    "-inf minus -inf is NaN, as in a softmax whose whole row is masked, or whose running maximum"
    " begins at -inf"
)


class NotFinite(Rule[bool, None]):
    """Nothing is bounded: the bound says that the rule applies."""

    def prepare(self, reference: Reference) -> bool | None:
        return True if reference.is_floating else None

    def check(self, bound: bool, output: Comparison) -> Violation | None:
        each = pieces(output.expected.native, output.expected.truth, output.got)
        if not any(bool(_unlike(*piece).any()) for piece in each):
            return None
        return output.violation(_unlike, "NaN, or infinities that differ")

    def surely_ok(self, bound: bool, figures: Figures) -> bool:
        return figures.is_same or (figures.is_finite and math.isfinite(figures.error_norm))


def _unlike(native: torch.Tensor, _: torch.Tensor, got: torch.Tensor) -> torch.Tensor:
    """Where ``got`` is NaN, or infinite unlike the reference, or finite where that is not."""
    infinite = torch.isinf(native) | torch.isinf(got)
    return torch.isnan(got) | torch.isnan(native) | (infinite & (native != got))


def nan_hint(inputs: Sequence[torch.Tensor], native: torch.Tensor, got: torch.Tensor) -> str:
    """Explain NaN where an input or the reference's output holds -inf; nothing otherwise, or where
    the reference is NaN, too."""
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
    """Whether all of ``lost`` lies in rows (of the last dimension) that hold -inf."""
    if tensor.dim() == 0 or tensor.shape[:-1] != lost.shape[:-1]:
        return False
    rows = torch.isneginf(tensor).any(-1)
    return not bool((lost.any(-1) & ~rows).any())
