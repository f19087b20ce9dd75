"""Reading of outputs from a worker's memory, where the call left them.

A worker opens its own memory and page map (``page_map.py``) before it has a candidate, and passes
the descriptors on. The kernel checks rights at the opening only, so no right over other processes
is needed, and the candidate can neither close nor redirect them."""

from __future__ import annotations

import ctypes
import math
import os
from collections.abc import Iterable, Sequence

import torch

from gpu_sandbox.ipc.cpu_call_messages import NOWHERE, Where
from gpu_sandbox.ipc.values import Spot
from gpu_sandbox.tensors.memory_layout import MAX_SPREAD, overlap
from gpu_sandbox.tensors.shared_arena import extent_bytes
from gpu_sandbox.verifier.worker_link.page_map import Pages, Stretch, blocks_of


class Unreadable(Exception):
    """There is no such output."""


def _stretch(spot: Spot, where: Where) -> Stretch | None:
    """None for an output that overlaps itself, or can't be read as it lies."""
    if 0 in spot.shape or min(where.stride, default=0) < 0:
        return None
    dense = math.prod(spot.shape) * getattr(torch, spot.dtype).itemsize
    size = extent_bytes(Spot(0, spot.shape, where.stride, spot.dtype))
    if size == dense:
        return Stretch(where.address, size)
    if not dense <= size <= MAX_SPREAD * dense or overlap(spot.shape, where.stride):
        return None
    return Stretch(where.address, size, blocks_of(spot, where.stride))


class Memory:
    """Takes over the descriptors of ``open_own_memory``. ``pages``: None where there is no page
    map."""

    def __init__(self, descriptors: Sequence[int]) -> None:
        self._descriptor, *others = descriptors
        self.pages = Pages(others[0]) if others else None

    def close(self) -> None:
        os.close(self._descriptor)
        if self.pages is not None:
            self.pages.close()

    def mapped_bytes(self, outputs: Iterable[tuple[Spot, Where]]) -> int:
        """Bytes of these that were mapped into place, not written."""
        if self.pages is None:
            return 0
        found = [_stretch(spot, where) for spot, where in outputs]
        return self.pages.mapped_bytes([stretch for stretch in found if stretch is not None])

    def read(self, spot: Spot, where: Where) -> torch.Tensor:
        """A private copy, of the shape and dtype of ``spot``. Raises ``Unreadable``."""
        spot = Spot(0, spot.shape, where.stride, spot.dtype)
        dtype: torch.dtype = getattr(torch, spot.dtype)
        if 0 in spot.shape:  # by negative strides others reach over nothing, too
            return torch.empty(spot.shape, dtype=dtype)
        size = extent_bytes(spot)
        too_far = size > MAX_SPREAD * math.prod(spot.shape) * dtype.itemsize
        if where.address == NOWHERE or min(where.stride, default=0) < 0 or too_far:
            raise Unreadable
        flat = torch.empty(size, dtype=torch.uint8)
        self._fill(flat, where.address)
        flat = flat.ne(0) if dtype == torch.bool else flat.view(dtype)
        return flat.as_strided(spot.shape, spot.stride)

    def _fill(self, flat: torch.Tensor, address: int) -> None:
        room = memoryview((ctypes.c_char * flat.numel()).from_address(flat.data_ptr())).cast("B")
        done = 0
        while done < len(room):
            try:
                count = os.preadv(self._descriptor, [room[done:]], address + done)
            except (OSError, OverflowError):
                raise Unreadable from None
            if not count:
                raise Unreadable
            done += count
