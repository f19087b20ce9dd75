"""Transforms of a task's inputs: what a candidate has to get right besides inputs as drawn."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch

from gpu_sandbox.verifier.numerics.tolerances import Margin

LARGE_BYTES = 1 << 30

Change: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

Part: TypeAlias = Literal["all", "half", "run", "sparse", "few"]
"""A run is a half: neighbours in each dimension, without the ends. Sparse is one element in 64."""


class Transform(NamedTuple):
    """A change of inputs. ``margins``, ``usual_sizes``: of outputs then, once a trial is passed."""

    name: str
    change: Change
    margins: list[Margin]
    dense: bool = True  # each element that is changed gets another value
    part: Part = "all"
    only: frozenset[int] | None = None  # numbers of distinct inputs; None: all
    allows_half: bool = True
    """Half of an input may be changed, not one element in 64. Not times 64: serial sums lose small
    numbers beside as many large ones."""
    usual_sizes: Sequence[float] = ()  # see `Case`
    keeps_invariants: bool = True

    def on_some_inputs(self, tensors: Sequence[torch.Tensor]) -> Transform:
        """Restrict to a random subset of inputs: the end of an interval depends on its start."""
        count = len({id(t) for t in tensors})
        if self.only is not None or count < 2:
            return self
        chosen = 1 + secrets.randbelow((1 << count) - 2)  # neither none nor all
        return self._replace(only=frozenset(n for n in range(count) if chosen >> n & 1))


def transforms_for(tensors: Sequence[torch.Tensor]) -> tuple[Transform, ...]:
    """Halves of large inputs are changed among timed calls alone: such a trial takes 0.1 s."""
    large = sum(t.nbytes for t in tensors) > LARGE_BYTES
    return tuple(t for t in _TRANSFORMS if t.part == "all") if large else _TRANSFORMS


def _heavy_tailed(tensor: torch.Tensor) -> torch.Tensor:
    """Multiply one element in a thousand by twelve."""
    times = torch.rand(tensor.shape, device=tensor.device).lt_(0.001).mul_(11.0).add_(1.0)
    return times.to(tensor.dtype).mul_(tensor)


def _offset_rows(tensor: torch.Tensor) -> torch.Tensor:
    """Add a random number to each row (the last dimension)."""
    if tensor.dim() == 0:
        return tensor + 2.0
    offset = torch.rand((*tensor.shape[:-1], 1), device=tensor.device) * 8.0 - 4.0
    return tensor + offset.to(tensor.dtype)


def _small_integers(tensor: torch.Tensor) -> torch.Tensor:
    """Draw small integers, whose sums are exact: no error can pass for rounding."""
    return torch.randint_like(tensor, -3, 4)


def _nearer_to_one(tensor: torch.Tensor) -> torch.Tensor:
    """Move each element to an eighth of its distance from one of them: within the input's range."""
    if tensor.numel() == 0:
        return tensor
    place = tuple(secrets.randbelow(count) for count in tensor.shape)
    return tensor[place] + (tensor - tensor[place]) * 0.125


TIES = "small integers"
_TRANSFORMS = (
    Transform("inputs times 64", lambda tensor: tensor * 64.0, [], allows_half=False),
    Transform("inputs with outliers", _heavy_tailed, [], dense=False),
    Transform("each row offset", _offset_rows, []),
    Transform(TIES, _small_integers, []),
    Transform("inputs times 8", lambda tensor: tensor * 8.0, [], part="half"),
    Transform("each row offset", _offset_rows, [], part="half"),
    Transform("numbers nearer to one of them", _nearer_to_one, [], part="run"),
    Transform("numbers nearer to one of them", _nearer_to_one, [], part="run"),
)
"""Of a half the mean differs from that of all. The last one comes twice: one in six gaps that it
leaves in a sorted input lies where a part of the input is as good as all of it."""
MAKES_TIES = ("inputs times 64", TIES)  # may make ties: which of equals comes first is undefined
