"""Usual sizes of small outputs and of plain numbers.

The dot product of two random vectors may come out a thousand times smaller than usual, and no sum
is exact in proportion. So errors are relative to the usual size, if that is larger. Outputs of many
elements have a usual one in every draw.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

import torch

from gpu_sandbox.ipc.values import Tree
from gpu_sandbox.tensors.chunked import row_rms
from gpu_sandbox.tensors.pytree import numbers

_SMALL = 64  # elements: with twice as many, a tenth less than usual is rare
_DRAWS = 8
_ENOUGH_S = 0.25

_T = TypeVar("_T")


class UsualRms:
    """Usual row RMS of a task's outputs, by kind of case; drawn once."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[torch.Tensor | None]] = {}

    def of(
        self,
        kind: str,
        outputs: Sequence[torch.Tensor],
        another: Callable[[int], Sequence[torch.Tensor]],
    ) -> list[torch.Tensor | None]:
        """Average ``outputs`` and those of more draws, which ``another`` gives by number; None for
        what is not a few floating point numbers."""
        if not any(map(_is_small, outputs)):
            return [None] * len(outputs)
        found = self._by_kind.get(kind)
        if found is None or not _fit(found, outputs):
            found = self._by_kind[kind] = _root_mean_square_rows(outputs, another)
        return found


class UsualNumbers:
    """The same of plain numbers among the outputs, each by its place."""

    def __init__(self) -> None:
        self._by_kind: dict[str, list[float]] = {}

    def of(self, kind: str, tree: Tree, another: Callable[[int], Tree]) -> list[float]:
        """``another`` gives the outputs of more draws by number. Empty if there is no number."""
        seen = numbers(tree)
        if not any(seen):
            return []
        if len(self._by_kind.get(kind, ())) != len(seen):
            more = [numbers(tree) for tree in _draws(another)]
            draws = [seen, *(each for each in more if len(each) == len(seen))]
            squares = (sum(v * v for v in each) for each in zip(*draws, strict=True))
            self._by_kind[kind] = [math.sqrt(square / len(draws)) for square in squares]
        return self._by_kind[kind]


def _draws(another: Callable[[int], _T]) -> Iterator[_T]:
    began = time.perf_counter()
    for number in range(_DRAWS):
        yield another(number)
        if time.perf_counter() - began > _ENOUGH_S:
            break


def _root_mean_square_rows(
    outputs: Sequence[torch.Tensor], another: Callable[[int], Sequence[torch.Tensor]]
) -> list[torch.Tensor | None]:
    squares = [None if rows is None else rows.square() for rows in map(_rows, outputs)]
    count = 1
    for more in _draws(another):
        if not _fit(squares, more):
            continue
        count += 1
        for square, rows in zip(squares, map(_rows, more), strict=True):
            if square is not None and rows is not None:
                square += rows.square()
    return [None if square is None else (square / count).sqrt() for square in squares]


def _is_small(output: torch.Tensor) -> bool:
    return output.is_floating_point() and 0 < output.numel() <= _SMALL


def _rows(output: torch.Tensor) -> torch.Tensor | None:
    if not _is_small(output):
        return None
    return row_rms(output.reshape(-1, output.shape[-1] if output.dim() else 1))


def _fit(known: Sequence[torch.Tensor | None], outputs: Sequence[torch.Tensor]) -> bool:
    shapes = [None if rows is None else rows.shape for rows in map(_rows, outputs)]
    return shapes == [None if rows is None else rows.shape for rows in known]
