"""Whether a candidate's parameters are the reference's, and what is done where they are not.

Both sides are constructed under one seed, so parameters are equal if ``__init__`` draws in the
same order. That is looked at when a trial has failed, and costs others nothing. Each side is
constructed once more for it, since calls may have changed what it holds. What the worker says
differs is a claim: all that it can gain is to be judged by the reference's own values.
What comes of another draw is a mistake of order. Values that are near the reference's, or partly
the same, were changed on purpose, and stay as they are.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Mapping
from typing import Any, TypeAlias

import msgspec
import torch

from gpu_sandbox.ipc.model_messages import Compared, CompareWeights, Unlike, WeightAt
from gpu_sandbox.tensors.parameters import held_by
from gpu_sandbox.verifier.worker_link.client import Peer

__all__ = ["Difference", "Unequal", "described", "differing"]

_PIECE_BYTES = 64 << 20  # in the arena at a time: a model may take gigabytes
_MOST_TOGETHER = 1000  # so many fit in a message
_NAMED = 3
_NEAR, _PARTLY = 0.1, 1 / 16
"""Relative difference, and share of elements that are the same: another draw has more of the one
and less of the other."""
_DRAWN = (
    "both are constructed under one seed, so ModelNew.__init__ must make the same random draws in"
    " the same order as Model.__init__"
)
_CHANGED = "ModelNew.__init__ has changed what it drew: folded, rounded or pruned it, say"


class Difference(msgspec.Struct, frozen=True):
    """Of one parameter or buffer of ``elements``: sums of squares of the difference, and of the
    reference's values; how many elements are the ``same``."""

    elements: int
    off: float = 0.0
    size: float = 0.0
    same: int = 0

    def plus(self, one: Unlike, part: torch.Tensor) -> Difference:
        """With a part that differs; until then all of that counts as the same."""
        same = self.same - part.numel() + one.same
        return Difference(self.elements, self.off + one.off, self.size + one.size, same)

    @property
    def relative(self) -> float:
        if not (0 <= self.off < math.inf and 0 < self.size < math.inf):
            return math.inf
        return math.sqrt(self.off / self.size)

    @property
    def is_drawn(self) -> bool:
        """Whether it comes from another draw, and is not the reference's own, pruned or rounded."""
        return self.relative > _NEAR and self.same <= _PARTLY * self.elements


Unequal: TypeAlias = Mapping[str, Difference]
"""By full name, what of a candidate's parameters and buffers is not the reference's."""


# --- the verifier's part


def differing(
    model: Any, peer: Peer, *, load: bool, only: Collection[str] | None = None
) -> Unequal:
    """What of the candidate's differs from the reference's ``model``, where names and shapes are
    the same. ``load``: the candidate takes these over; ``only``: of these names."""
    held = {name: t for name, t in held_by(model).items() if only is None or name in only}
    sums: dict[str, Difference] = {}
    for pieces in _together(held):
        names = [name for name, _, _ in pieces]
        spots = peer.lend([part for _, _, part in pieces])
        weights = [
            WeightAt(name=name, shape=tuple(held[name].shape), start=start, spot=spot)
            for (name, start, _), spot in zip(pieces, spots, strict=True)
        ]
        found = peer.ask(CompareWeights(weights=weights, load=load), Compared, "compare")
        for one in found.unlike:
            if 0 <= one.number < len(names):
                name, _, part = pieces[one.number]
                elements = held[name].numel()
                sums[name] = sums.get(name, Difference(elements, same=elements)).plus(one, part)
    return {name: sums[name] for name in held if name in sums}


def described(unlike: Unequal) -> str:
    """What differs, by how much, and the likely cause."""
    (first, difference), *_ = unlike.items()
    by = f"relative difference {difference.relative:.2e}"
    if math.isinf(difference.relative):
        by = "and the reference's are zeros"
    others = [f"`{name}`" for name in list(unlike)[1:_NAMED]]
    more = len(unlike) - 1 - len(others)
    also = [*others, *([f"{more} more"] if more else [])]
    too = f" (so do {', '.join(also)})" if also else ""
    cause = _DRAWN if difference.is_drawn else _CHANGED
    return f"parameter `{first}` differs from the reference's: values, {by}{too}; {cause}"


def _together(held: dict[str, torch.Tensor]) -> Iterator[list[tuple[str, int, torch.Tensor]]]:
    """Parts of tensors, with the names and where they begin, as many as go to the arena at once."""
    pieces: list[tuple[str, int, torch.Tensor]] = []
    room = _PIECE_BYTES
    for name, tensor in held.items():
        for start, part in _parts(tensor):
            if pieces and (part.nbytes > room or len(pieces) == _MOST_TOGETHER):
                yield pieces
                pieces, room = [], _PIECE_BYTES
            pieces.append((name, start, part))
            room -= part.nbytes
    if pieces:
        yield pieces


def _parts(tensor: torch.Tensor) -> Iterator[tuple[int, torch.Tensor]]:
    if tensor.dim() == 0 or tensor.nbytes <= _PIECE_BYTES:
        yield 0, tensor
        return
    rows = max(1, _PIECE_BYTES * tensor.shape[0] // tensor.nbytes)
    for start in range(0, tensor.shape[0], rows):
        yield start, tensor[start : start + rows]


# --- the worker's part
