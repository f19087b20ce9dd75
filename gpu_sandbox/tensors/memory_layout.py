"""Memory that tensors occupy: whether elements of one, or of two, share a place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

import torch

from gpu_sandbox.ipc.worker_messages import Leaf

_MAX_PAIRS = 1 << 16  # compared exactly; later ones count as sharing where byte ranges overlap


class Extent(NamedTuple):
    """``begin`` and ``item`` are in bytes, strides in elements; ``steps``: stride and size of each
    dimension in which there is a step."""

    begin: int
    item: int
    steps: tuple[tuple[int, int], ...]

    @property
    def end(self) -> int:
        return self.begin + self.item * (1 + sum(stride * (n - 1) for stride, n in self.steps))


def extent_of(tensor: torch.Tensor) -> Extent | None:
    """None for a tensor without elements, or with its dimensions in another order."""
    if tensor.layout != torch.strided:
        return None
    return extent_at(tensor.data_ptr(), tensor.shape, tensor.stride(), tensor.element_size())


def extent_at(begin: int, shape: Sequence[int], stride: Sequence[int], item: int) -> Extent | None:
    """The same of a tensor that begins at that address; None for address 0."""
    if not begin or 0 in shape or not in_order(shape, stride):
        return None
    return Extent(begin, item, tuple(_steps(shape, stride)))


def in_order(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements lie in the order of their indices, each in a place of its own, those of the
    last dimension adjacent. There may be gaps between rows."""
    if 0 in shape:
        return True
    if shape and shape[-1] > 1 and stride[-1] != 1:
        return False
    reach = 0
    for step, size in reversed([*_steps(shape, stride)]):
        if step <= reach:
            return False
        reach += step * (size - 1)
    return True


def dense(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """Whether elements fill a stretch of memory, each in a place of its own, in any order."""
    if 0 in shape:
        return False
    reach = 1
    for step, size in sorted(_steps(shape, stride)):
        if step != reach:
            return False
        reach *= size
    return True


def reach_bytes(tensor: torch.Tensor) -> int:
    """Bytes from its first element to its last."""
    if tensor.is_contiguous():
        return tensor.nbytes
    if tensor.numel() == 0:
        return 0
    last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
    return (last + 1) * tensor.element_size()


def overlapping(tensor: torch.Tensor) -> bool:
    """Whether elements share memory, as in an expanded or an unfolded tensor."""
    if tensor.layout != torch.strided or tensor.numel() == 0 or tensor.is_contiguous():
        return False
    return overlap(tensor.shape, tensor.stride())


def overlap(shape: Sequence[int], stride: Sequence[int]) -> bool:
    """The same of a shape with a stride: a step is not beyond all of the smaller ones."""
    reach = 0
    for step, size in sorted(_steps(shape, stride)):
        if step <= reach:
            return True
        reach += step * (size - 1)
    return False


def sharing(extents: Sequence[Extent | None]) -> list[bool]:
    """Which have bytes in common with others; None has none."""
    found = [False] * len(extents)
    there = [(e.begin, e.end, number, e) for number, e in enumerate(extents) if e is not None]
    open_ones: list[tuple[int, int, Extent]] = []
    pairs = 0
    for begin, end, number, extent in sorted(there, key=lambda each: each[:3]):
        open_ones = [each for each in open_ones if each[0] > begin]
        for _, other, before in open_ones:
            pairs += 1
            if pairs > _MAX_PAIRS or _meet(before, extent):
                found[number] = found[other] = True
        open_ones.append((end, number, extent))
    return found


def _meet(one: Extent, other: Extent) -> bool:
    """Whether two with overlapping byte ranges share elements. Exact for parts of one tensor with
    its strides; True otherwise."""
    distance, unaligned = divmod(other.begin - one.begin, one.item)
    if unaligned or one.item != other.item:
        return True
    sizes, others = dict(one.steps), dict(other.steps)
    strides = sorted({*sizes, *others})
    if not (_nested(strides, sizes) and _nested(strides, others)):
        return True
    left = {distance}
    for stride in reversed(strides):
        most, least = sizes.get(stride, 1), others.get(stride, 1)
        steps = ((d, k) for d in left for k in (d // stride, d // stride + 1))
        left = {d - k * stride for d, k in steps if -least < k < most}
    return 0 in left


def _nested(strides: Sequence[int], sizes: dict[int, int]) -> bool:
    """Whether all steps of the smaller strides stay below each larger one."""
    reach = 0
    for stride in strides:
        if reach >= stride:
            return False
        reach += stride * (sizes.get(stride, 1) - 1)
    return True


def _steps(shape: Sequence[int], stride: Sequence[int]) -> Iterator[tuple[int, int]]:
    return ((step, size) for step, size in zip(stride, shape, strict=True) if size > 1)


def is_among(tensor: torch.Tensor, others: list[torch.Tensor]) -> bool:
    """Whether it has the same storage as one of ``others``."""
    return bool(among([tensor], others)[0])


def among(tensors: Sequence[torch.Tensor], others: Iterable[torch.Tensor]) -> list[bool]:
    """The same of each of many."""
    return among_storages(tensors, storages(others))


def storages(tensors: Iterable[torch.Tensor]) -> set[int]:
    """Addresses at which the memory of these begins."""
    return {t.untyped_storage().data_ptr() for t in tensors if t.layout == torch.strided}


def among_storages(tensors: Sequence[torch.Tensor], there: set[int] | frozenset[int]) -> list[bool]:
    """Whether the memory of each begins at one of these addresses."""
    return [
        t.layout == torch.strided and t.numel() > 0 and t.untyped_storage().data_ptr() in there
        for t in tensors
    ]


MAX_SPREAD = 4  # times its own size that an output may reach over to be read as it lies


def is_spread(tensor: torch.Tensor) -> bool:
    """Whether it reaches too far to be read as it lies."""
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return reach > MAX_SPREAD * tensor.numel() > 0


def reported_stride(place: torch.Tensor, leaf: Leaf) -> Sequence[int]:
    """The stride that a worker reports for a stored output, if it lies within the place; else the
    place's own."""
    stride = leaf.stride
    return stride if len(stride) == place.dim() and may_lie_so(place, stride) else place.stride()


def may_lie_so(place: torch.Tensor, stride: Sequence[int]) -> bool:
    """Whether an output may be stored with this stride in a place that lies as the reference's."""
    shape = place.shape
    return dense(shape, stride) and (in_order(shape, stride) or not in_order(shape, place.stride()))
