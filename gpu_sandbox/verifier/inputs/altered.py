"""Transforms of a task's inputs, as a trial or a timed call applies one."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple, TypeAlias

import torch

from gpu_sandbox.verifier.numerics.tolerances import Margin

__all__ = ["Altered", "Change", "Part"]

Change: TypeAlias = Callable[[torch.Tensor], torch.Tensor]

Part: TypeAlias = Literal["all", "half", "run", "sparse", "few"]
"""A run is a half: neighbours in each dimension, and not the ends. Sparse is one element in 64."""


class Altered(NamedTuple):
    """A way in which a task's inputs are changed, and what its outputs' margins are then."""

    told: str
    change: Change
    margins: list[Margin]
    dense: bool = True
    """Whether any element that is changed so is another one."""
    part: Part = "all"
    only: frozenset[int] | None = None
    """Of which inputs, by number: each that is there twice once. None: of all."""
    halved: bool = True
    """Whether half of it may be changed so, not one element in 64: beside as many that are 64 times
    as large who adds up one by one loses the rest."""
    usual: Sequence[float] = ()
    """As of ``Case``."""
    formed: bool = True
    """Whether inputs keep their form (``invariants.py``). Not where all of each is multiplied."""

    def of_some(self, tensors: Sequence[torch.Tensor]) -> Altered:
        """Of some inputs, if it was of all: where one has to do with another, as the end of an
        interval with its beginning, the reference may take that only."""
        count = len({id(t) for t in tensors})
        if self.only is not None or count < 2:
            return self
        chosen = 1 + secrets.randbelow((1 << count) - 2)  # neither none nor all
        return self._replace(only=frozenset(n for n in range(count) if chosen >> n & 1))
