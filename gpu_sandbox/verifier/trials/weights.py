"""Compare a candidate's parameters with the reference's, and load those that differ.

Both sides are constructed under one seed, so parameters are equal if ``__init__`` draws in the same
order. Each side is constructed once more, since calls may change what it holds. What the worker
says can only lead to the reference's own values. Another draw is a mistake of order; values near
the reference's, or partly the same, were changed on purpose, and stay.
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

_PIECE_BYTES = 64 << 20  # in the arena at a time: a model may take gigabytes
_MAX_TOGETHER = 1000  # so many fit in a message
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
    """A parameter or buffer that differs. ``off``, ``size``: sums of squares of the difference, and
    of the reference's values; ``same``: equal elements."""

    elements: int
    off: float = 0.0
    size: float = 0.0
    same: int = 0

    def plus(self, one: Unlike, part: torch.Tensor) -> Difference:
        """Add a part that differs; until then all of it counts as the same."""
        same = self.same - part.numel() + one.same
        return Difference(self.elements, self.off + one.off, self.size + one.size, same)

    @property
    def relative(self) -> float:
        if not (0 <= self.off < math.inf and 0 < self.size < math.inf):
            return math.inf
        return math.sqrt(self.off / self.size)

    @property
    def is_drawn(self) -> bool:
        """Whether it is another draw, not the reference's values pruned or rounded."""
        return self.relative > _NEAR and self.same <= _PARTLY * self.elements


Unequal: TypeAlias = Mapping[str, Difference]  # by full name


def differing(
    model: Any, peer: Peer, *, load: bool, only: Collection[str] | None = None
) -> Unequal:
    """Compare with the reference's ``model``, where names and shapes are the same. ``load``: the
    candidate gets the reference's values; ``only``: of these names."""
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
    """Say what differs, by how much, and the likely cause."""
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
    """Batches of parts of tensors that fit in the arena, with names and first rows."""
    pieces: list[tuple[str, int, torch.Tensor]] = []
    room = _PIECE_BYTES
    for name, tensor in held.items():
        for start, part in _parts(tensor):
            if pieces and (part.nbytes > room or len(pieces) == _MAX_TOGETHER):
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
