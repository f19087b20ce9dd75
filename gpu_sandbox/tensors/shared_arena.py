"""The arena: memory that verifier and worker share, and in which tensors cross between them.

The verifier owns it and passes a descriptor: on the CPU of a sealed memfd, which the worker can
write but not shrink, on CUDA of an exported allocation (``accelerator/``). Both sides see tensors
as (offset, shape, stride, dtype).
"""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager

import torch

from gpu_sandbox.accelerator.accelerator import SharedMemory
from gpu_sandbox.accelerator.lookup import accelerator_of
from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.ipc.worker_messages import ArenaShared
from gpu_sandbox.tensors.memory_layout import overlapping

ALIGN = 512
_GROWTH = 1 << 20
_PAGE = 4096
_SPOILED = 16  # elements of each tensor: a half of it misses all of them once in 65,536 times


def dtype_of(spot: Spot) -> torch.dtype:
    """Raises ``ValueError`` for an unknown name."""
    found = getattr(torch, spot.dtype, None)
    if not isinstance(found, torch.dtype):
        raise ValueError(f"no dtype {spot.dtype!r}")
    return found


def _own_stride(tensor: torch.Tensor) -> tuple[int, ...]:
    """The tensor's stride if no two elements share memory, else a contiguous one."""
    steps = zip(tensor.stride(), tensor.shape, strict=True)
    reach = sum(stride * max(size - 1, 0) for stride, size in steps)
    if overlapping(tensor) or reach + 1 > 2 * max(tensor.numel(), 1):
        return torch.empty(tensor.shape, device="meta").stride()
    return tuple(tensor.stride())


def extent_bytes(spot: Spot) -> int:
    """Bytes from a spot's first element to its last."""
    if any(size == 0 for size in spot.shape):
        return 0
    last = sum((n - 1) * s for n, s in zip(spot.shape, spot.stride, strict=True))
    return (last + 1) * dtype_of(spot).itemsize


def place(tensors: list[torch.Tensor], start: int) -> tuple[list[Spot], int]:
    """Adjacent spots for ``tensors`` from ``start`` on, and their end."""
    spots = []
    for tensor in tensors:
        name = str(tensor.dtype).removeprefix("torch.")
        spot = Spot(start, tuple(tensor.shape), _own_stride(tensor), name)
        spots.append(spot)
        start += -(-extent_bytes(spot) // ALIGN) * ALIGN
    return spots, start


def reach_of(spots: list[Spot]) -> int:
    """The aligned end of the last of these."""
    ends = [spot.offset + -(-extent_bytes(spot) // ALIGN) * ALIGN for spot in spots]
    return max(ends, default=0)


class Layout:
    """Spots of several slots: ``inputs[k]`` and ``outputs[k]`` of slot ``k``."""

    def __init__(self, inputs: list[list[Spot]], outputs: list[list[Spot]], end: int) -> None:
        self.inputs = inputs
        self.outputs = outputs
        self.total_bytes = end


def lay_out(
    inputs: list[torch.Tensor], outputs: list[torch.Tensor], calls: int, spare: int = 0
) -> Layout:
    """Slots for ``calls`` calls with such inputs and outputs. ``spare`` more slots have inputs of
    their own and the outputs of the first, so that successive calls have inputs at different
    addresses."""
    end = 0
    all_inputs, all_outputs = [], []
    for _ in range(calls):
        spots, end = place(inputs, end)
        all_inputs.append(spots)
        spots, end = place(outputs, end)
        all_outputs.append(spots)
    for _ in range(spare):
        spots, end = place(inputs, end)
        all_inputs.append(spots)
        all_outputs.append(all_outputs[0])
    return Layout(all_inputs, all_outputs, end)


class Arena:
    """Memory as a byte tensor, and views into it. In shared memory each view has a storage of its
    own that begins with it, as a task's tensors have."""

    def __init__(
        self,
        memory: torch.Tensor,
        fd: int | None = None,
        owner: SharedMemory | None = None,
    ) -> None:
        self._memory = memory
        self._owner = owner
        self._fd = fd

    @classmethod
    def create(cls, total_bytes: int, device: torch.device) -> Arena:
        """The verifier's, which ``descriptor`` shares."""
        owner, fd = accelerator_of(device).share(total_bytes + _GROWTH)
        return cls(owner.tensor, fd, owner)

    @classmethod
    def open(cls, shared: ArenaShared, fd: int, device: torch.device) -> Arena:
        """The worker's. Takes the descriptor over."""
        try:
            owner = accelerator_of(device).open_shared(fd, shared.total_bytes)
            return cls(owner.tensor, owner=owner)
        finally:
            os.close(fd)

    @property
    def size(self) -> int:
        return self._memory.numel()

    @property
    def address(self) -> int:
        """Address of the first byte in this process."""
        return self._memory.data_ptr()

    def stretch(self, start: int, end: int) -> torch.Tensor:
        return self._memory[start:end]

    @property
    def descriptor(self) -> int:
        assert self._fd is not None
        return self._fd

    def view(self, spot: Spot) -> torch.Tensor:
        size = extent_bytes(spot)
        if size == 0:
            return self._memory[:0].view(dtype_of(spot)).reshape(spot.shape)
        flat = self._part(spot.offset, size).view(dtype_of(spot))
        return flat.as_strided(spot.shape, spot.stride, flat.storage_offset())

    def _part(self, offset: int, size: int) -> torch.Tensor:
        if self._owner is not None:
            return self._owner.part(offset, size)
        return self._memory[offset : offset + size]

    def views(self, spots: list[Spot]) -> list[torch.Tensor]:
        return [self.view(spot) for spot in spots]

    def scramble(self, spots: list[Spot]) -> None:
        """Overwrite with random bytes, so that an output that was not written can't look right. A
        repeated page of them: drawing gigabytes would take too long."""
        for spot in spots:
            stretch = self._memory[spot.offset : spot.offset + extent_bytes(spot)]
            page = torch.frombuffer(bytearray(os.urandom(_PAGE)), dtype=torch.uint8)
            page = page.to(stretch.device)
            whole = stretch.numel() // _PAGE * _PAGE
            pages, words = stretch[:whole].view(torch.int64), page.view(torch.int64)
            pages.view(-1, words.numel()).copy_(words.expand(whole // _PAGE, -1))
            stretch[whole:].copy_(page[: stretch.numel() - whole])

    @contextmanager
    def spoiled(self, spots: list[Spot]) -> Iterator[None]:
        """Change some random elements of each meanwhile, to NaN where there is one: whatever shares
        memory with them shows it, at whichever address."""
        kept = []
        for spot in spots:
            dtype = dtype_of(spot)
            number = extent_bytes(spot) // dtype.itemsize
            stretch = self._memory[spot.offset : spot.offset + number * dtype.itemsize]
            elements = stretch.view(number, dtype.itemsize)
            chosen = [secrets.randbelow(number) for _ in range(_SPOILED) if number]
            kept.append((elements, chosen, elements[chosen]))
            elements[chosen] = _others(elements[chosen], dtype)
        try:
            yield
        finally:
            for elements, chosen, former in kept:
                elements[chosen] = former

    def close(self) -> None:
        """Unmap the memory. No view of it may be used any more."""
        if self._fd is not None:
            os.close(self._fd)
        del self._memory
        if self._owner is not None:
            self._owner.close()


def _others(elements: torch.Tensor, dtype: torch.dtype) -> torch.Tensor:
    """Bytes of other elements: NaN, or zero for nonzero and the other way round."""
    if dtype.is_floating_point or dtype.is_complex:
        return torch.full_like(elements, 0xFF)
    zero = (elements == 0).all(dim=-1, keepdim=True)
    return zero.to(torch.uint8).expand_as(elements)
