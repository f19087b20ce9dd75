"""Inputs that can't be read any more: stretches of them overwritten, at random places with
random bytes. Drawn beforehand, for a worker may work on while it is done; and undone
afterwards, so that inputs can still be compared with what they were."""

from __future__ import annotations

import ctypes
import secrets
from collections.abc import Iterator
from typing import NamedTuple

from gpu_sandbox.child.arena import Arena, extent_bytes
from gpu_sandbox.messages import Spot

__all__ = ["Spoiling"]

_STRETCH = 4096
_STRETCHES = 8
"""Of all tensors together, but one of each at least; of small ones that is all there is."""
_ONE_BIT = bytes(value & 1 for value in range(256))


class _Stretch(NamedTuple):
    address: int
    size: int
    other: bytes
    before: ctypes.Array[ctypes.c_char]


class Spoiling:
    """Of the tensors at ``spots``. Random bytes, because a change that could be told from its
    result could be taken back."""

    def __init__(self, arena: Arena, spots: list[Spot]) -> None:
        each = max(1, _STRETCHES // max(len(spots), 1))
        self._stretches = [stretch for spot in spots for stretch in _chosen(arena, spot, each)]

    def spoil(self) -> None:
        for address, size, other, before in self._stretches:
            ctypes.memmove(before, address, size)
            ctypes.memmove(address, other, size)

    def undo(self) -> None:
        for address, size, _, before in self._stretches:
            ctypes.memmove(address, before, size)


def _chosen(arena: Arena, spot: Spot, most: int) -> Iterator[_Stretch]:
    size = extent_bytes(spot)
    starts = range(0, size, _STRETCH)
    for start in secrets.SystemRandom().sample(starts, min(most, len(starts))):
        length = min(_STRETCH, size - start)
        other = secrets.token_bytes(length)
        if spot.dtype == "bool":
            other = other.translate(_ONE_BIT)
        before = ctypes.create_string_buffer(length)
        yield _Stretch(arena.address + spot.offset + start, length, other, before)
