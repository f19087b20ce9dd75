"""The ways in which inputs are changed: to what a candidate has to get right, too."""

from __future__ import annotations

import secrets
from collections.abc import Sequence

import torch

from gpu_sandbox.verifier.inputs.altered import Altered

__all__ = ["LARGE_BYTES", "MAKES_TIES", "TIES", "ways"]

LARGE_BYTES = 1 << 30
TIES = "small integers"
"""Of which many are the same."""


def ways(tensors: Sequence[torch.Tensor]) -> tuple[Altered, ...]:
    """In which inputs like these are changed."""
    large = sum(t.nbytes for t in tensors) > LARGE_BYTES
    return _WHERE_LARGE if large else _ALTERED


def _scaled(tensor: torch.Tensor) -> torch.Tensor:
    """Large enough that what overflows does: a naive exponential, say."""
    return tensor * 64.0


def _scaled_less(tensor: torch.Tensor) -> torch.Tensor:
    return tensor * 8.0


def _heavy_tailed(tensor: torch.Tensor) -> torch.Tensor:
    """A few elements a dozen times as large as the rest."""
    times = torch.rand(tensor.shape, device=tensor.device).lt_(0.001).mul_(11.0).add_(1.0)
    return times.to(tensor.dtype).mul_(tensor)


def _offset_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Each row (of the last dimension) moved as a whole."""
    if tensor.dim() == 0:
        return tensor + 2.0
    offset = torch.rand((*tensor.shape[:-1], 1), device=tensor.device) * 8.0 - 4.0
    return tensor + offset.to(tensor.dtype)


def _small_integers(tensor: torch.Tensor) -> torch.Tensor:
    """Sums of these are exact: there is no rounding to hide behind."""
    return torch.randint_like(tensor, -3, 4)


def _nearer_to_one(tensor: torch.Tensor) -> torch.Tensor:
    """Each an eighth as far from one of them as it was: nothing is out of its range, and no look at
    ends tells. Not the same number: who adds that up one by one rounds the same way each time."""
    if tensor.numel() == 0:
        return tensor
    place = tuple(secrets.randbelow(count) for count in tensor.shape)
    return tensor[place] + (tensor - tensor[place]) * 0.125


_ALTERED = (
    Altered("inputs times 64", _scaled, [], halved=False),
    Altered("inputs with outliers", _heavy_tailed, [], dense=False),
    Altered("each row offset", _offset_rows, []),
    Altered(TIES, _small_integers, []),
    Altered("inputs times 8", _scaled_less, [], part="half"),
    Altered("each row offset", _offset_rows, [], part="half"),
    Altered("numbers nearer to one of them", _nearer_to_one, [], part="run"),
    Altered("numbers nearer to one of them", _nearer_to_one, [], part="run"),
)
"""Half of it: of many numbers a part has the same mean as all, within half precision. A run
that is nearer to one number leaves a gap in what is sorted, of which a part is as good as all
otherwise; twice, since one in six such gaps lies where a part is as good as all, too."""
_WHERE_LARGE = tuple(way for way in _ALTERED if way.part == "all")
"""Half of it among timed calls alone: one trial on gigabytes takes a tenth of a second, or more."""
MAKES_TIES = ("inputs times 64", TIES)
"""Or may: and which of equals comes first, or has the larger index, is nobody's to say."""
