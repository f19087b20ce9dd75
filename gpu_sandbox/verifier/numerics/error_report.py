"""Report where an output's wrong elements lie, and what they have in common.

These are hints for debugging, maybe coincidences; no verdict depends on them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

import torch

from events.figures import whole_percent
from gpu_sandbox.tensors.chunked import indices_of

_SAMPLE = 4096
_MIN_ELEMENTS = 4
_SHOWN = 4


class ErrorReport:
    """The wrong elements of ``got``, added piece by piece, in order."""

    def __init__(self, got: torch.Tensor) -> None:
        self._shape = tuple(got.shape)
        self._box = _Box(self._shape)
        self._first: list[str] = []
        self._worst = (-1.0, "")
        self._sample: list[tuple[torch.Tensor, torch.Tensor]] = []

    def add(self, native: torch.Tensor, got: torch.Tensor, bad: torch.Tensor, before: int) -> None:
        """A piece, ``before`` elements after the first, of which ``bad`` are wrong."""
        places = bad.reshape(-1).nonzero()[:, 0]
        expected, found = native.reshape(-1)[places], got.reshape(-1)[places]
        for number in range(min(_SHOWN - len(self._first), len(places))):
            self._first.append(self._line(before + int(places[number]), expected, found, number))
        error = (found.to(_wide(found)) - expected.to(_wide(found))).abs().nan_to_num(-0.5)
        number = int(error.argmax())
        if float(error[number]) > self._worst[0]:
            line = self._line(before + int(places[number]), expected, found, number)
            self._worst = float(error[number]), line
        room = _SAMPLE - sum(len(wrong) for wrong, _ in self._sample)
        if room > 0 and len(places):
            self._sample.append((expected[:room], found[:room]))
        if bad.dim() == 2 and self._shape and bad.shape[1] == self._shape[-1]:
            self._box.add(bad, before // bad.shape[1])

    def text(self) -> str:
        """Lines: where wrong elements lie, what they have in common, the first and the worst."""
        sample = [torch.cat(each) for each in zip(*self._sample, strict=True)]
        lines = [self._box.text(), _similarity(*sample) if sample else "", *self._first]
        if self._worst[1] not in self._first:
            lines.append(f"the worst {self._worst[1]}")
        return "\n".join(line for line in lines if line)

    def _line(self, place: int, expected: torch.Tensor, got: torch.Tensor, number: int) -> str:
        wanted, found = expected[number].item(), got[number].item()
        line = f"at {_index(place, self._shape)}: expected {_plain(wanted)}, got {_plain(found)}"
        error = abs(found - wanted)
        if isinstance(error, int) or not math.isfinite(error):
            return line
        scaled = f", relative {error / abs(wanted):.2g}" if wanted else ""
        return f"{line} (off by {error:.3g}{scaled})"


class _Box:
    """Collects, piece by piece of rows, which indices of each dimension hold wrong elements."""

    def __init__(self, shape: Sequence[int]) -> None:
        self._shape = tuple(shape) or (1,)
        self._wrong = [torch.zeros(size, dtype=torch.bool) for size in self._shape]
        self._count = 0

    def add(self, bad: torch.Tensor, first_row: int) -> None:
        """``bad`` are whole rows of the last dimension, from row ``first_row`` on."""
        self._count += int(bad.sum())
        self._wrong[-1] |= bad.any(dim=0).cpu()
        rows = bad.any(dim=1).nonzero()[:, 0] + first_row
        if len(self._shape) > 1:
            indices = indices_of(rows, self._shape[:-1])
            for wrong, index in zip(self._wrong[:-1], indices, strict=True):
                wrong[index.cpu()] = True

    def text(self) -> str:
        """One line on each dimension that is not wrong throughout; empty if none is."""
        lines, inside = [], 1
        for number, wrong in enumerate(self._wrong):
            indices = wrong.nonzero()[:, 0].tolist()
            inside *= len(indices)
            where = _along(indices, len(wrong))
            if where:
                lines.append(f"dim {number}: {where}")
        if not lines or self._count < _MIN_ELEMENTS:
            return ""
        share = self._count / max(inside, 1)
        of_them = "all" if self._count == inside else whole_percent(share)
        return f"all wrong elements lie at {'; '.join(lines)} ({of_them} of the elements there)"


def _along(indices: list[int], size: int) -> str:
    """Describe the wrong indices of one dimension; empty if they are all, or without a pattern."""
    if not indices or len(indices) == size:
        return ""
    low, high = indices[0], indices[-1]
    span = high - low + 1
    if len(indices) == 1:
        return f"index {low} only, of {size}"
    if len(indices) == span:
        side = "first" if low == 0 else "last" if high == size - 1 else ""
        kind = f"the {side} {span} of {size}" if side else f"{span} of {size}"
        return f"{low}..{high} ({kind})"
    step = math.gcd(*(b - a for a, b in pairwise(indices)))
    if step > 1 and len(indices) == (span - 1) // step + 1:
        return f"every {step}th index from {low} to {high}, of {size}"
    if span < 0.9 * size:
        return f"{low}..{high} of {size} ({len(indices)} indices)"
    return ""


def _similarity(truth: torch.Tensor, got: torch.Tensor) -> str:
    """Describe what wrong elements have in common; empty if nothing is found."""
    if got.numel() < _MIN_ELEMENTS or got.is_complex():
        return ""
    truth, got = truth.double().cpu(), got.double().cpu()
    if bool(torch.isnan(got).all()):
        return "every wrong element is NaN"
    if bool((got == got[0]).all()):
        return f"every wrong element is {got[0].item():.6g}"
    if bool((truth == truth[0]).all()):
        return f"every wrong element should be {truth[0].item():.6g}"
    finite = torch.isfinite(truth) & torch.isfinite(got)
    if int(finite.sum()) < _MIN_ELEMENTS:
        return ""
    truth, got = truth[finite], got[finite]
    for relation, value in (("expected times", got / truth), ("expected plus", got - truth)):
        middle = float(value.median())
        near = (value - middle).abs() <= 1e-3 * abs(middle)
        if middle and math.isfinite(middle) and float(near.double().mean()) > 0.95:
            return f"got is {relation} {middle:.4g} nearly everywhere"
    return ""


def _wide(tensor: torch.Tensor) -> torch.dtype:
    return torch.complex128 if tensor.is_complex() else torch.float64


def _plain(value: object) -> str:
    return f"{value:.6g}" if isinstance(value, float | complex) else str(value)


def _index(place: int, shape: Sequence[int]) -> tuple[int, ...]:
    index: list[int] = []
    for size in reversed(shape):
        index.append(place % size)
        place //= size
    return tuple(reversed(index))
