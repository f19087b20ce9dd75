"""How large is an output of few elements, usually?

The dot product of two random vectors may come out a thousand times smaller than it mostly does,
and no sum is exact in proportion. What is held against its size is held against its usual size,
if that is larger; outputs of many elements have one in every draw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.tensors.chunked import row_rms
from gpu_sandbox.tensors.pytree import numbers

__all__ = ["Typical", "Usual"]

_FEW = 64
"""Elements: with twice as many, a tenth less than usual is rare."""
_DRAWS = 8
_ENOUGH_S = 0.25


class Typical:
    """Of a task's outputs, by how its inputs were changed; drawn once."""

    def __init__(self) -> None:
        self._known: dict[str, list[torch.Tensor | None]] = {}

    def of(
        self,
        changed: str,
        outputs: Sequence[torch.Tensor],
        another: Callable[[int], Sequence[torch.Tensor]],
    ) -> list[torch.Tensor | None]:
        """The RMS of each row in the mean of some draws, of which ``outputs`` are one and
        ``another`` gives more by number; None for what is not a few floating point numbers."""
        if not any(map(_few, outputs)):
            return [None] * len(outputs)
        known = self._known.get(changed)
        if known is None or not _fit(known, outputs):
            known = self._known[changed] = _mean(outputs, another)
        return known


class Usual:
    """The same of plain numbers among the outputs, each by its place."""

    def __init__(self) -> None:
        self._known: dict[str, list[float]] = {}

    def of(self, changed: str, tree: Tree, another: Callable[[int], Tree]) -> list[float]:
        """``another`` gives the outputs of more draws by number. Empty if there is no number."""
        seen = numbers(tree)
        if not any(seen):
            return []
        if len(self._known.get(changed, ())) != len(seen):
            self._known[changed] = _root_mean_square(seen, another)
        return self._known[changed]


def _root_mean_square(seen: list[float], another: Callable[[int], Tree]) -> list[float]:
    began, draws = time.perf_counter(), [seen]
    for number in range(_DRAWS):
        more = numbers(another(number))
        if len(more) == len(seen):
            draws.append(more)
        if time.perf_counter() - began > _ENOUGH_S:
            break
    return [math.sqrt(sum(v * v for v in each) / len(draws)) for each in zip(*draws, strict=True)]


def _few(output: torch.Tensor) -> bool:
    return output.is_floating_point() and 0 < output.numel() <= _FEW


def _rows(output: torch.Tensor) -> torch.Tensor | None:
    return row_rms(output.reshape(-1, output.shape[-1] if output.dim() else 1)) if _few(
        output) else None  # fmt: skip


def _fit(known: Sequence[torch.Tensor | None], outputs: Sequence[torch.Tensor]) -> bool:
    shapes = [None if rows is None else rows.shape for rows in map(_rows, outputs)]
    return shapes == [None if rows is None else rows.shape for rows in known]


def _mean(
    outputs: Sequence[torch.Tensor], another: Callable[[int], Sequence[torch.Tensor]]
) -> list[torch.Tensor | None]:
    squares = [None if rows is None else rows.square() for rows in map(_rows, outputs)]
    began, count = time.perf_counter(), 1
    for number in range(_DRAWS):
        more = another(number)
        if not _fit(squares, more):
            continue
        count += 1
        for square, rows in zip(squares, map(_rows, more), strict=True):
            if square is not None and rows is not None:
                square += rows.square()
        if time.perf_counter() - began > _ENOUGH_S:
            break
    return [None if square is None else (square / count).sqrt() for square in squares]
