"""A worker's memory, as the verifier reads it: outputs are taken from where the call left them.

A worker opens its own memory before it has a candidate, and passes the descriptor on: the kernel
asks who may read when that is opened, and not again, so no right over other processes is needed,
and nothing that the candidate does later closes it. It reads this process' memory and no other's,
and nothing once that has ended or become another program.
"""

from __future__ import annotations

import ctypes
import math
import os

import torch

from gpu_sandbox.child.arena import extent_bytes
from gpu_sandbox.child.signals import NOWHERE, Where
from gpu_sandbox.confine.syscalls import prctl
from gpu_sandbox.messages import Spot

__all__ = ["Memory", "Unreadable", "open_own_memory", "spread"]

_OWN = "/proc/self/mem"
_PR_GET_DUMPABLE, _PR_SET_DUMPABLE = 3, 4
_OWNERS = 1
_SPREAD = 4
"""Times its own size that an output may reach over: of a view that reaches further, a copy is."""


class Unreadable(Exception):
    """There is no such output."""


def open_own_memory() -> int:
    """A descriptor for reading. In a process that has given up a user's rights, what is its own in
    ``/proc`` is root's; it is its own again for this moment."""
    before = prctl(_PR_GET_DUMPABLE)
    prctl(_PR_SET_DUMPABLE, _OWNERS)
    try:
        return os.open(_OWN, os.O_RDONLY | os.O_CLOEXEC)
    finally:
        prctl(_PR_SET_DUMPABLE, int(before == _OWNERS))  # what else there is can't be asked for


def spread(tensor: torch.Tensor) -> bool:
    """Whether it reaches too far to be read as it is."""
    reach = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True)) + 1
    return reach > _SPREAD * tensor.numel() > 0


class Memory:
    """Takes the descriptor over."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def close(self) -> None:
        os.close(self._descriptor)

    def read(self, spot: Spot, where: Where) -> torch.Tensor:
        """A private copy of what lies there, of the shape and dtype of ``spot``. Raises
        ``Unreadable``."""
        spot = Spot(0, spot.shape, where.stride, spot.dtype)
        dtype: torch.dtype = getattr(torch, spot.dtype)
        if 0 in spot.shape:  # by negative strides others reach over nothing, too
            return torch.empty(spot.shape, dtype=dtype)
        size = extent_bytes(spot)
        too_far = size > _SPREAD * math.prod(spot.shape) * dtype.itemsize
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
